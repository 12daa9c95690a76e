// SPDX-License-Identifier: Apache-2.0
// The token that a client without headers has put into its body, {"auth_token": "..."}. It is
// looked for before anybody knows who asks: one walk over the text, nothing is built of it, and
// whoever has no good token has cost no more than that. What is found is then read, with all the
// rest, by the parser of bodies; names that are written with escapes are not found. No state, any
// thread.
#pragma once

#include <stddef.h>

#define BODY_TOKEN_NAME "auth_token"
enum { BODY_TOKEN_MAX = 512 };

// 1; 0 when there is none; -1 when there is something that cannot be a token.
int body_token_find(const char *body, size_t len, char ret[BODY_TOKEN_MAX]);
