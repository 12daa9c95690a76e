// SPDX-License-Identifier: Apache-2.0
// Signals that ask us to end, told through a pipe, so that whoever waits for something else hears
// of them (http_call.wake_fd). One that was ignored when we started stays so, as under nohup. One
// for the whole program.
#pragma once

#include "base/err.h"

enum {
    SIGNALS_MAX = 3, // then we end, whatever we are at
};

int signals_catch(struct err *err);
int signals_fd(void);       // readable when one has come
int signals_take(void);     // the last that has come since, or 0
void signals_forgive(void); // those that have come so far do not count
