// SPDX-License-Identifier: Apache-2.0
// For the files of this room that hold state: egress.c (all of it), outlet.c (one sandbox), conn.c
// (one connection of a box), proxy.c (HTTP on it), borrow.c (with a secret), tunnel.c (bytes),
// stub.c (DNS), note.c (events). All on the loop's thread.
#pragma once

#include "base/map.h"
#include "egress/carrier.h"
#include "egress/egress.h"
#include "egress/hop.h"
#include "egress/names.h"
#include "egress/policy.h"
#include "h1/exchange.h"
#include "move/move.h"

enum {
    CONNS_MAX = 256,            // of one sandbox
    CONNS_MAX_ALL = 4096,       // of all
    IDLE_MS = 10 * 60 * 1000,   // a connection on which nothing moves
    EARLY_MAX = 256 * 1024,     // more than an exchange reads ahead
    HEAD_MAX = 2 * H1_HEAD_MAX, // a request's head as it goes on
};

struct egress {
    unsigned refs; // its own while it is open, and one of each outlet
    struct egress_config config;
    struct networks *opened;
    struct tls_client *tls;
    struct resolver *resolver;
    struct hop_rules rules;
    struct map outlets; // by key
    uv_timer_t *tick;   // of the notes
    struct egress_stats stats;
};

void egress_unref(struct egress *egress);

// --- note.c: what is told as events, and how often

enum { NOTES_MAX = 64 };

struct note {
    char key[POLICY_HOST_MAX + 24];
    char data[640];
    uint64_t since_ms;
    unsigned again; // how often it came since it was told
};

struct notes {
    struct note list[NOTES_MAX];
    uint64_t window_ms;
    unsigned told, suppressed;
};

// --- outlet.c

struct outlet {
    struct egress *egress;
    struct sandbox *s; // a reference, while it is bound
    char key[24];
    unsigned refs; // its own while the sandbox is bound, and one of each connection
    bool bound;
    struct policy *policy;
    struct relay_share share; // what it has moved, and its limits
    struct names *names;
    struct resolve_line *line;
    struct notes *notes;
    struct conn *conns;
    unsigned n_conns;
    struct pace *paces;
    int tcp, udp;
    uv_poll_t *tcp_poll, *udp_poll; // free themselves
    bool accepting;
    uint64_t dns_window_ms;
    unsigned dns_asked;
};

struct outlet *outlet_open(struct egress *egress, struct sandbox *s);
void outlet_changed(struct outlet *outlet); // its settings: reads them again
void outlet_close(struct outlet *outlet);
void outlet_tick(struct outlet *outlet); // once a second
void outlet_unref(struct outlet *outlet);
void outlet_conn_ended(struct outlet *outlet);                        // there is room for another
bool outlet_is_limited(const struct outlet *outlet);                  // maxBytes or bytesPerSecond
bool outlet_is_used_up(const struct outlet *outlet);                  // maxBytes
bool outlet_may_use(const struct outlet *outlet, const char *secret); // is in its list
const char *outlet_id(const struct outlet *outlet);

// --- note.c

enum via { VIA_CONNECT, VIA_HTTP, VIA_TRANSPARENT, VIA_DNS, VIA_SECRET };
void note_decision(struct outlet *outlet, const char *host, uint16_t port, bool allowed,
                   const char *why, enum via via);
void note_end(struct outlet *outlet, const char *host, uint16_t port, uint64_t bytes,
              const char *why);
void notes_tick(struct outlet *outlet);
void notes_flush(struct outlet *outlet);

// --- conn.c

enum conn_kind {
    CONN_PROXY,  // speaks to the proxy: each request says where it wants to go
    CONN_FIXED,  // HTTP to where it was connected to
    CONN_DENIED, // HTTP, and each request is told why not
    CONN_TUNNEL, // bytes
};

struct conn {
    struct outlet *outlet; // a reference
    struct conn *prev, *next;
    enum conn_kind kind;
    enum via via;
    bool ending;
    // Where it goes: what was decided last.
    bool has_target;
    bool by_name;                 // and allowed as a name by a list: the hello must say the same
    char secret[SECRET_NAME_MAX]; // "": none
    char host[POLICY_HOST_MAX];
    uint16_t port;
    const char *why;     // of CONN_DENIED
    struct in_addr held; // the made-up address; 0: none
    // HTTP
    struct exchange *x;
    const struct h1_head *head;    // of the request that waits for `hop`
    bool forwarded;                // the last request went on, and was not answered here
    bool paced;                    // its upstream is behind a relay that keeps the rate
    char up_host[POLICY_HOST_MAX]; // that the exchange has open
    uint16_t up_port;
    struct carrier *carrier;         // of the upstream of a secret
    char up_secret[SECRET_NAME_MAX]; // and of that: whose it is,
    char up_prefix[256];             // its path
    bool up_tls;
    char hop_host[POLICY_HOST_MAX]; // where `hop` is on its way to for a secret
    uint16_t hop_port;
    // all
    struct hop *hop;
    int client, up; // while nobody else has them
    // bytes
    struct buf early;
    uv_poll_t *client_poll, *up_poll;
    uv_timer_t *timer;
    struct relay *relay;
    uint64_t bytes;
};

void conn_accept(struct outlet *outlet, int fd); // takes it
void conn_end(struct conn *conn);                // at once, whatever it is at
void conn_free(struct conn *conn);               // nobody holds anything of it any more
void conn_recheck(struct conn *conn);            // ends it if its policy does not allow it any more
void conn_set_target(struct conn *conn, const char *host, uint16_t port);
// Whether the policy lets it go there. A no is noted here, a yes when the address is known.
bool conn_decide(struct conn *conn, const char *host, uint16_t port, const char **ret_why);
void conn_hop(struct conn *conn, const char *host, uint16_t port, bool only_opened, hop_fn fn);
void conn_note_hop(struct conn *conn, const struct err *err); // how that went
// Counts what HTTP has moved. Not 0: it is enough.
int conn_moved(void *data, uint64_t to_upstream, uint64_t to_client);

// --- proxy.c

void proxy_start(struct conn *conn, const void *early, size_t early_len); // takes conn->client
// Goes on with the request at hand: `up` NULL: the upstream that is open.
void proxy_forward(struct conn *conn, const struct buf *head, struct upstream *up);
void proxy_refuse(struct conn *conn, unsigned status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void proxy_refuse_denied(struct conn *conn, const char *host, uint16_t port, const char *why);
// All that may go on, but for those in `without` (up to a NULL; may be NULL itself).
void proxy_append_fields(const struct h1_head *head, const char *const *without, struct buf *ret);
void proxy_refuse_hop(struct conn *conn, const struct err *err);

// --- pace.c

// Where the sandbox has limits: puts a relay that keeps them between the upstream and the exchange,
// and answers with the exchange's end. Takes the descriptor. -1: it cannot be.
int pace_wrap(struct conn *conn, int fd);
void paces_end(struct outlet *outlet);

// --- borrow.c: http://NAME.cay/

bool borrow_is_name(const char *host, char ret_name[SECRET_NAME_MAX]);
void borrow_request(struct conn *conn, const char *name, struct h1_text path);
void borrow_answer(struct conn *conn, const struct h1_head *head, struct buf *ret);
// Where the upstream sends a client, as the box can follow it.
void borrow_location(const struct conn *conn, struct h1_text value, struct buf *ret);

// --- tunnel.c

void tunnel_start(struct conn *conn); // client and up are connected
void tunnel_stop(struct conn *conn);  // calls conn_free, perhaps later

// --- stub.c

void stub_readable(struct outlet *outlet);
