// SPDX-License-Identifier: Apache-2.0
// Browsers, which send requests for whatever page is open in them. Where a token is asked for they
// get nowhere, for they have none. Where none is (`--auth none`) it is looked at whom a request is
// meant for and which page sends it: a page of the web that has its name point to this machine
// (DNS rebinding) says that name as Host; one that sends to us directly says where it is from, as
// Origin or as Sec-Fetch-Site. No state, any thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "edge/http.h"

// Whether a Host header names this machine by a name that only it has: localhost or an address of
// the loopback, with the port that is listened on. NULL is fine and is none.
bool web_host_is_ours(const char *host, uint16_t port);
// Whether an origin is among these, separated by commas; `*` is all.
bool web_origin_is_listed(const char *list, const char *origin);
// Whether these headers are of a page of ours, or of one that is listed, or of no page at all. Any
// may be NULL. `host` is ours.
bool web_page_is_ours(const char *origin, const char *site, const char *host, const char *cors);

// Both of the above, for a request.
bool web_is_for_us(const struct http_request *req, uint16_t port);
bool web_is_from_us(const struct http_request *req, const char *cors);
// The request's Origin if it is one of these, else NULL.
const char *web_listed_origin(const struct http_request *req, const char *list);
