// SPDX-License-Identifier: Apache-2.0
// The hand: does file work in a box, on paths that user code controls, with the box's own root and
// rights, so that nobody outside ever resolves such a path. A process of its own, forked by the
// guest, single-threaded, without any library: it allocates nothing but what it maps itself.
#pragma once

// Serves the socket until its other end is closed, then ends with all it has started.
_Noreturn void hand_main(int sock);
