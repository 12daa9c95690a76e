// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "edge/ws.h"

void ws_begin_with(struct ws *ws, const struct buf *head); // raw bytes, before the first frame
