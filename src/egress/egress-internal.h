// SPDX-License-Identifier: Apache-2.0
// For the files of this room that hold state: egress.c (all of it), outlet.c (one sandbox), conn.c
// (one connection of a box), proxy.c (HTTP on it), borrow.c (with a secret), gate.c (to a model),
// bill.c (what that costs), model-socket.c (by a unix socket), tunnel.c (bytes), stub.c (DNS),
// note.c (events). All on the loop's thread.
#pragma once

#include "base/map.h"
#include "egress/carrier.h"
#include "egress/egress.h"
#include "egress/hop.h"
#include "egress/model-key.h"
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
    bool serving;
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

// What requests to a model have used that are not over yet.
struct running {
    unsigned n;
    int64_t cost, tokens;
};

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
    // The model
    struct running running;
    bool told_exceeded; // of a budget of this much:
    int64_t told_cost, told_tokens;
    bool wants_socket; // asked for, or there
    bool socket_accepting;
    int socket;
    uv_poll_t *socket_poll;
};

struct outlet *outlet_open(struct egress *egress, struct sandbox *s);
void outlet_changed(struct outlet *outlet); // its settings: reads them again
void outlet_close(struct outlet *outlet);
void outlet_tick(struct outlet *outlet); // once a second
void outlet_unref(struct outlet *outlet);
void outlet_conn_ended(struct outlet *outlet);                        // there is room for another
bool outlet_is_limited(const struct outlet *outlet);                  // maxBytes or bytesPerSecond
bool outlet_is_used_up(const struct outlet *outlet);                  // maxBytes
bool outlet_may_use(const struct outlet *outlet, const char *secret); // is in its list, or lent
void outlet_drop_poll(uv_poll_t **poll);
uv_poll_t *outlet_make_poll(struct outlet *outlet, int fd); // NULL: it cannot be watched
// Accepts what waits on a listener, as far as there is room; 0, or -errno: not for a while.
int outlet_accept(struct outlet *outlet, int listener, void (*fn)(struct outlet *outlet, int fd));
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
    CONN_MODEL,  // HTTP on the unix socket: each request is for the model
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
    bool hop_tls, hop_trusted;
    // to a model
    bool model;          // the request at hand: refusals have the API's own shape
    struct borrow *wait; // for the credential
    struct bill *bill;   // of the request that is on its way
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

void conn_accept(struct outlet *outlet, int fd);       // takes it
void conn_accept_model(struct outlet *outlet, int fd); // one of the unix socket
void conn_end(struct conn *conn);                      // at once, whatever it is at
void conn_free(struct conn *conn);                     // nobody holds anything of it any more
void conn_recheck(struct conn *conn); // ends it if its policy does not allow it any more
void conn_set_target(struct conn *conn, const char *host, uint16_t port);
// Whether the policy lets it go there. A no is noted here, a yes when the address is known.
bool conn_decide(struct conn *conn, const char *host, uint16_t port, const char **ret_why);
// Which addresses are good enough.
enum conn_trust {
    TRUST_POLICY,  // what the policy and the installation leave open
    TRUST_OPENED,  // of these, what the installation has opened: nothing secret goes elsewhere
    TRUST_UPSTREAM // whatever the installation's own upstream has
};
void conn_hop(struct conn *conn, const char *host, uint16_t port, enum conn_trust trust, hop_fn fn);
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
void borrow_forget(struct conn *conn); // the credential is not waited for any more

// --- gate.c: which requests go to a model, and refusals as its API would write them

// `access`: the installation's, or NULL for the tenant's own. False: it was refused. Otherwise it
// has a bill from now on.
bool gate_admit(struct conn *conn, const struct model_access *access, struct h1_text path);
// Appends a whole answer.
void gate_write_error(const struct conn *conn, unsigned status, const char *text, struct buf *ret);
// What was used and is being used is above the budget; says so once.
bool gate_is_over(struct outlet *outlet);

// --- bill.c: what a request to a model uses

// Takes nothing. `counts`: it asks for a message, so that it costs something also where no usage is
// told.
void bill_open(struct conn *conn, const struct model_access *access, bool counts);
bool bill_is_ours(const struct conn *conn); // by the installation's key
void bill_sent(struct conn *conn);          // it has gone on: it may cost something from now on
// The answer's head has come: appends fields of ours.
void bill_answer(struct conn *conn, const struct h1_head *head, struct buf *ret);
int bill_payload(void *data, enum exchange_way way, const void *bytes, size_t len);
void bill_drop(struct conn *conn);   // it has cost nothing; there may be none
void bill_failed(struct conn *conn); // the upstream broke: only what it has told
void bill_end(struct conn *conn);    // writes down what it has cost; there may be none

// --- model-socket.c: /run/cay/anthropic.sock

void model_socket_update(struct outlet *outlet);            // there or not, as its secrets say
void model_socket_accept(struct outlet *outlet, bool room); // for more connections
void model_socket_close(struct outlet *outlet);

// --- tunnel.c

void tunnel_start(struct conn *conn); // client and up are connected
void tunnel_stop(struct conn *conn);  // calls conn_free, perhaps later

// --- stub.c

void stub_readable(struct outlet *outlet);
