// SPDX-License-Identifier: Apache-2.0
// The parts of a flow that are in flow.c and duct.c.
#pragma once

#include "move/flow.h"

// duct.c
bool flow_lend_duct(struct flow *flow, struct works *works); // false: there is none to be had
void flow_return_duct(struct flow *flow, struct works *works);
size_t flow_fill_duct(struct flow *flow, size_t max);
void flow_drain_duct(struct flow *flow);

// flow.c
void flow_wrote(struct flow *flow, size_t len);
void flow_write_failed(struct flow *flow, int sys_errno);
void flow_read_failed(struct flow *flow, int sys_errno);
