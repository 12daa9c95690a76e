// SPDX-License-Identifier: Apache-2.0
// The OpenAPI description, written from the table of routes.
#pragma once

#include "base/buf.h"

void openapi_write(struct buf *ret); // inits the buffer
