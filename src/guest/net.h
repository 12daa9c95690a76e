// SPDX-License-Identifier: Apache-2.0
// The network of a box: loopback, and nothing else.
#pragma once

// Brings up the loopback of the network namespace that the caller is in, and lets any port be bound
// there: it is the box's alone. 0 or -errno.
int net_raise_loopback(void);
