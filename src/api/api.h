// SPDX-License-Identifier: Apache-2.0
// What the daemon answers over HTTP: one table of routes (routes.c), from which the router, the
// OpenAPI description and the checks of request bodies are made.
#pragma once

#include "db/db.h"
#include "edge/http.h"
#include "sandbox/sandbox.h"

struct agents;
struct api;
struct egress;
struct mover;
struct saved;
struct secrets;

struct api_config {
    uv_loop_t *loop;
    struct db *db;
    struct fleet *fleet;
    struct mover *mover;
    struct secrets *secrets;
    struct egress *egress;
    struct agents *agents;
    struct saved *saved;
    const char *preview_domain; // "localhost", "HOST:PORT"
    uint16_t port;              // that is listened on
    bool behind_proxy;          // which does TLS
    const char *cors;           // origins, by commas; "" none
    const char *token;          // the admin token: its hash is made the admin's
    bool open;                  // no token is asked for; the address is of the loopback (web.h)
    int64_t rate;               // requests a minute and token; 0: no limit
    int64_t run;                // a random number: this run of the daemon
};

int api_open(const struct api_config *config, struct api **ret, struct err *err);
void api_free(struct api *api);                            // after the mover was closed
void api_handle(struct http_request *req, void *data);     // http_handler_fn; data is the api
bool api_is_raw(void *data, const struct http_peek *peek); // http_raw_fn
bool api_is_known(void *data, struct http_request *req);   // http_known_fn
unsigned api_refusal(void *data, const char *target, enum error_kind kind, const char *message,
                     const char *request_id, struct buf *ret); // http_refusal_fn
void api_drain(struct api *api); // from now on /health says so; new work is refused with 503
