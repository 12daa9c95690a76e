// SPDX-License-Identifier: Apache-2.0
// What may be asked of git. All answer 0, or -1 and err, whose message goes behind the name of the
// field. No state, any thread.
#pragma once

#include "base/err.h"
#include "egress/url.h"
#include "git/clone.h"

// http(s) alone, without credentials, in canonical form.
int git_check_url(const char *text, char ret[GIT_URL_MAX], struct url *ret_parts, struct err *err);
int git_check_ref(const char *name, struct err *err); // by git's own rules, and not an option
int git_check_dir(const char *dir, struct err *err);  // absolute, without . and ..
// /workspace/NAME of a checked URL.
int git_default_dir(const char *url, char ret[GIT_PATH_MAX], struct err *err);
