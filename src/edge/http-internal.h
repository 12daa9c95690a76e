// SPDX-License-Identifier: Apache-2.0
// What the files of the HTTP server share. A server has one libmicrohttpd daemon per listener; a
// connection is theirs, with a `struct conn` of ours beside it; a request is one message on it.
//
//   http.c          the daemons on the loop: start, drain, stop, when they run
//   http-frame.c    is a message framed in one way only?
//   http-recv.c     where its bytes are looked at
//   http-conn.c     connections: idle, gone, slow, lingering
//   http-request.c  a message becomes a request, and its answer
//   http-stream.c   answers of unknown length
//   http-take.c     connections that leave the library
#pragma once

#include <microhttpd.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <uv.h>

#include "edge/http-frame.h"
#include "edge/http.h"

enum {
    // The library's memory for one connection: the head (EDGE_HEADER_BYTES_MAX), 64 bytes for each
    // header and parameter, and the head of the answer. It clears all of it after every request: at
    // 32 KiB that was a sixth of the time of a short one.
    HTTP_POOL = 16 * 1024,
    HTTP_FDS_MAX = 64 * 1024, // connections have descriptors below this
};

struct listener {
    struct http_server *server;
    struct MHD_Daemon *daemon;
    uv_poll_t poll; // on the daemon's epoll
    bool local;
    bool is_dirty; // something changed that the library must look at
};

// What the server's own epoll tells of.
struct watched {
    bool is_linger;
};

struct conn {
    struct watched watched; // first
    TAILQ_ENTRY(conn) all;
    TAILQ_ENTRY(conn) idle; // while is_idle
    struct listener *listener;
    struct http_request *req;
    struct frame frame;
    const char *ending;  // not yet handed to the library
    uint64_t since;      // ms: when the message that is coming in began
    unsigned n_requests; // that the library has begun
    int fd;
    bool is_idle;
    bool is_watched;
    bool is_asked;    // whether its client has ended it, since bytes came
    bool is_taken;    // what the library has is not its socket any more
    bool is_unread;   // the body of a request that was refused may still come
    struct buf early; // of a raw request: what was read behind its head
    char held[16];
    char peer[64]; // "" until asked for
};

// A refused client that may still be sending. Closing at once would reset the connection, and the
// answer that says why would be lost on its way.
struct leaver {
    struct watched watched; // first
    TAILQ_ENTRY(leaver) all;
    uint64_t until; // ms
    int fd;
};

enum phase {
    PHASE_HEAD,   // the library has its target, not yet all of its head
    PHASE_BODY,   // is being collected
    PHASE_WORK,   // somebody holds it, nothing is answered
    PHASE_STREAM, // somebody holds it and writes the answer
    PHASE_REPLY,  // all of the answer is there; nobody holds it
    PHASE_MAX,
};

struct http_request {
    struct http_server *server;
    struct conn *conn; // NULL when it is gone and the request waits for its holder to let go
    struct MHD_Connection *mhd;
    enum phase phase;
    enum http_method method;
    const char *method_name;
    unsigned number;   // on its connection, from 1
    bool is_suspended; // the library does not touch it until it is resumed
    bool is_cut;       // the connection is to be closed
    bool is_young;     // its client is not watched yet
    bool is_drained;   // its holder is to be told
    bool is_active;    // counted
    bool must_close;   // the connection, after the answer
    bool is_raw;       // its body was not read
    bool is_old;       // HTTP/1.0
    uint64_t born;     // tick
    uint64_t room;     // of the server's `bodies`
    uint64_t owner;    // who has sent it; 0: nobody known
    struct buf target;
    struct buf body;
    struct buf headers; // name NUL value NUL ...
    struct buf queue;   // of a stream, from queue_at on
    size_t queue_at;
    const char *probe; // what a stream may send at any time
    http_close_fn on_close;
    void *close_data;
    http_close_fn on_drain;
    void *drain_data;
    void *context;
    http_close_fn context_free;
    TAILQ_ENTRY(http_request) all; // or the free list
    TAILQ_ENTRY(http_request) young;
    TAILQ_ENTRY(http_request) drained;
};

TAILQ_HEAD(conn_list, conn);
TAILQ_HEAD(request_list, http_request);
TAILQ_HEAD(leaver_list, leaver);

struct http_server {
    uv_loop_t *loop;
    http_handler_fn handler;
    http_raw_fn is_raw;
    http_known_fn is_known;
    http_refusal_fn refusal;
    void *data;
    unsigned idle_seconds;
    struct listener *listeners;
    unsigned n_listeners;

    uv_prepare_t prepare;
    uv_check_t check;
    uv_idle_t spin;   // keeps the loop from sleeping while a listener is dirty
    uv_timer_t sweep; // each second while there are connections
    uv_timer_t tick;  // while there are young requests or lingering clients
    uv_poll_t poll;   // on watch_fd
    int watch_fd;     // an epoll of clients that may leave
    unsigned n_handles;
    uint64_t ticks;

    bool is_draining;
    bool is_stopping;
    unsigned conns_max;
    unsigned n_conns, n_active, n_lingering, n_spare;
    unsigned n_taken;
    uint64_t bodies; // bytes of the large ones that are kept
    struct conn_list conns, idle;
    struct request_list requests, young, drained, spare;
    struct leaver_list lingering;
};

void listener_mark(struct listener *listener); // dirty: the library runs before the loop sleeps
void server_tick(struct http_server *server);  // the tick timer runs
void server_sweep(struct http_server *server, bool on);

// http-recv.c
bool recv_is_ours(void);

// http-conn.c
void conn_notify(void *cls, struct MHD_Connection *mhd, void **socket_context,
                 enum MHD_ConnectionNotificationCode code);
struct conn *conn_of_fd(int fd);
void conn_set_busy(struct conn *conn, struct http_request *req);
void conn_set_idle(struct conn *conn);
void conn_close_idle(struct http_server *server);
void conn_watch(struct conn *conn, bool only_reset);
void conn_watch_event(uv_poll_t *poll, int status, int events);
void conn_sweep(struct http_server *server, uint64_t now);
// Reads and forgets what comes on a copy of the descriptor, for a while.
void linger_start(struct http_server *server, int fd);
void linger_sweep(struct http_server *server, uint64_t now); // UINT64_MAX: all

// http-request.c
void *request_begin(void *cls, const char *uri, struct MHD_Connection *mhd);
enum MHD_Result request_step(void *cls, struct MHD_Connection *mhd, const char *url,
                             const char *method, const char *version, const char *upload,
                             size_t *upload_len, void **con_cls);
void request_done(void *cls, struct MHD_Connection *mhd, void **con_cls,
                  enum MHD_RequestTerminationCode code);
void request_free(struct http_request *req);
void request_free_spare(struct http_server *server);
void request_resume(struct http_request *req);
void request_suspend(struct http_request *req);
// Has the library close the connection. The holder hears of it by http_on_close, a little later.
void request_cut(struct http_request *req);
// Queues the answer with the headers that were added, and lets go of it.
void request_send(struct http_request *req, unsigned status, const char *type,
                  struct MHD_Response *response);
