// SPDX-License-Identifier: Apache-2.0
// Where the paths of a family begin, in a raw target. Each answers what is behind that, from the
// slash, the question mark or the end on; NULL when it is none of its. What is escaped there is not
// what it stands for: "/%76" is no "/v". No state, any thread.
#pragma once

const char *path_of_container(const char *target);  // "/sandbox/ID/container"
const char *path_of_capability(const char *target); // "/container/CAPABILITY", any text for it
const char *path_of_bridge(const char *target);     // "/v1"
