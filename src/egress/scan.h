// SPDX-License-Identifier: Apache-2.0
// Looks for a credential in the answers of an upstream, on their way to a box: an echo service, or
// an error page that quotes the request, would hand it in. Bytes go in as they come from the
// connection and come out when they can be no part of it; chunks of a body are looked at as the one
// text they are. What looks like the beginning of the credential is held back until it is clear.
// One thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct scan;

// Fewer bytes than this cannot be told from chance, and are not looked for.
enum { SCAN_LEAST = 8 };

// Copies the credential; scan_free wipes it.
struct scan *scan_new(void);
void scan_free(struct scan *scan); // takes NULL
// Whatever is added is looked for, up to 3 of them. Shorter ones than SCAN_LEAST are ignored.
void scan_add(struct scan *scan, const void *text, size_t len);
// The next answer is one to a HEAD request: it has no body.
void scan_request(struct scan *scan, bool is_head);
// Takes bytes from the connection. 0, -EPERM: the credential is in them, and nothing more comes
// out; -EBADMSG: no HTTP that could be looked through; -E2BIG.
int scan_put(struct scan *scan, const void *data, size_t len);
void scan_end(struct scan *scan); // the connection has ended: what was held back is let go
size_t scan_take(struct scan *scan, void *ret, size_t size); // bytes that may go on
bool scan_is_empty(const struct scan *scan);                 // nothing to take now
