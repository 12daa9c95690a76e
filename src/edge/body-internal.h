// SPDX-License-Identifier: Apache-2.0
// Between the files that read bodies.
#pragma once

#include <jansson.h>

#include "edge/body.h"

int body_read_user(const json_t *value, struct body_user *ret, struct err *err);
