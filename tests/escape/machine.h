// SPDX-License-Identifier: Apache-2.0
// What the machine has, asked on the host without harm. A canary can only succeed where the kernel
// offers the thing at all; test_escape.py excuses a canary for exactly the features missing here.
#pragma once

// One JSON object {"name":true,...} on standard output. 0.
int features_print(void);
