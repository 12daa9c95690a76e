// SPDX-License-Identifier: Apache-2.0
// What the commands that talk to a server share: the flags that say which, reading a command line,
// asking, and telling what went wrong. A remote owns its words and its copy of the token
// (remote_done). One thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json-in.h"
#include "base/json.h"
#include "base/opt.h"
#include "box/data.h"
#include "cli/http.h"
#include "cli/table.h"

enum {
    REMOTE_TOKEN_MAX = 256,
    REMOTE_BODY_MAX = 32 * 1024 * 1024,    // of a request, as the server has it
    REMOTE_ANSWER_MAX = 256 * 1024 * 1024, // the largest: both streams of an exec, all escaped
    REMOTE_ERROR_MAX = 64 * 1024,
    REMOTE_TARGET_MAX = 8 * 1024,
    REMOTE_CODE_MAX = 64,
};

// The last rows of every such command's table of flags.
// clang-format off
#define REMOTE_OPTS                                                                                \
    {"json", 'j', NULL, "print JSON, as the server has it", NULL},                                 \
    {"data", 0, "DIR", "the data directory of a server on this machine", DATA_DEFAULT},            \
    {"url", 0, "URL", "the server, as http://host:port; else CAY_URL, else the socket in --data", NULL}, \
    {"token-file", 0, "FILE", "holds the token; else the variable CAY_TOKEN", NULL},               \
    {"verbose", 'v', NULL, "say more about errors", NULL}
// clang-format on
enum remote_flag {
    REMOTE_JSON,
    REMOTE_DATA,
    REMOTE_URL,
    REMOTE_TOKEN_FILE,
    REMOTE_VERBOSE,
    REMOTE_FLAGS
};

struct remote {
    const char *command; // "ls", for messages
    // flags
    const char *data, *url, *token_file;
    bool json, verbose;
    // the words of the command line; the rest of it where spec->stop_at_word is set
    const char **word;
    size_t n_words;
    char **rest;
    // the server
    struct http_place place;
    char token[REMOTE_TOKEN_MAX];
    int64_t length; // of the body that is coming; -1: it is not known
    // of the last answer that was an error
    unsigned status;
    char error_code[REMOTE_CODE_MAX];
    char request_id[132];
};

struct command_line {
    const char *command;
    const struct opt_spec *spec; // the command's own flags, then REMOTE_OPTS
    // One of its own flags. May be NULL where there is none.
    int (*flag)(void *data, unsigned flag, const char *value, struct err *err);
    void *data;
    size_t words_min, words_max; // stop_at_word: 1, then the rest
    const char *words;           // "one ID", for the message
};

// 0 when the command may go on; else -1, and *ret_code is the exit code: all was said.
int remote_start(struct remote *remote, const struct command_line *line, int argc, char **argv,
                 int *ret_code);
void remote_done(struct remote *remote);
#define auto_remote __attribute__((cleanup(remote_done))) struct remote

// --- asking

struct answer {
    unsigned status;
    struct buf body;
    struct json_doc *doc; // NULL when the body is not JSON
};
void answer_init(struct answer *answer);
void answer_done(struct answer *answer);
#define auto_answer __attribute__((cleanup(answer_done))) struct answer
const struct json_node *answer_root(const struct answer *answer);

// "/sandbox/a%20b/exec": the parts, encoded, up to the last or NULL.
#define remote_target(buf, ...) remote_target_parts((buf), (const char *const[]){__VA_ARGS__, NULL})
void remote_target_parts(struct buf *buf, const char *const *parts);
// "?name=value" or "&name=value" behind it.
void remote_query(struct buf *target, const char *name, const char *value);

// -1 when the server could not be asked, or says no: then err has its words.
int remote_ask(struct remote *remote, const struct http_call *call, struct answer *ret,
               struct err *err);
// As above, without keeping the body: it goes to fn when the status is good.
int remote_stream(struct remote *remote, const struct http_call *call, reply_body_fn fn, void *data,
                  enum http_broken *ret_broken, struct err *err);
// A call with a method, a target and perhaps a JSON body.
int remote_do(struct remote *remote, const char *method, const struct buf *target,
              const struct buf *body, struct answer *ret, struct err *err);
// DELETEs one thing for each word from `first` on. The exit code: all was said.
typedef void (*remote_target_fn)(const struct remote *remote, const char *word, struct buf *ret);
int remote_delete_words(struct remote *remote, size_t first, remote_target_fn target_of);
// GETs a list and prints it: the entries of the answer's `key`, a row each. The exit code.
struct remote_list {
    const char *key;
    const struct table_column *columns;
    unsigned n_columns;
    void (*add_row)(struct table *table, const struct json_node *entry);
    bool quiet; // their ids alone, a line each
};
int remote_print_list(struct remote *remote, const struct buf *target,
                      const struct remote_list *list);
// The same of a list that comes in pages: `name` is what the query calls the next one ("after").
// With --json one array.
int remote_print_pages(struct remote *remote, const struct buf *target, const char *name,
                       const struct remote_list *list);
// A name nobody else uses, for Idempotency-Key: "cay-" and 32 hex digits.
void remote_key(char ret[40]);

// --- telling

// "cay: ..." and what to do about it; with --verbose the code and the request's id. CLI_FAILED.
int remote_fail(const struct remote *remote, const struct err *err);
int remote_usage(const struct remote *remote, const char *text); // CLI_USAGE
// The answer's JSON as one line, or what it says where it is none. An exit code.
int remote_print(const struct remote *remote, const struct answer *answer);
// A part of an answer as JSON, on standard output, without a line's end.
void remote_print_node(const struct json_node *node);
// A node that is neither array nor object, as JSON.
void remote_scalar(struct buf *buf, const struct json_node *node);
// Flushes standard output and says if that failed. An exit code.
int remote_flush(const struct remote *remote);

// All sandboxes that fit, page after page; label ("k=v" or "k") and status may be NULL. `fn` may
// remove what it is shown. Not 0 from it: stop, with err set.
typedef int (*sandbox_node_fn)(void *data, const struct json_node *sandbox, struct err *err);
int remote_list(struct remote *remote, const char *label, const char *status, sandbox_node_fn fn,
                void *data, struct err *err);
// A whole command: one request for each of its words, /sandbox/WORD/ACTION (action NULL: none), on
// with the others when one fails. An exit code.
int remote_each(const struct command_line *line, const char *method, const char *action, int argc,
                char **argv);
// One request of that kind; prints the answer with --json.
int remote_one(struct remote *remote, const char *method, const char *id, const char *action);

// --- small things that several commands want

// The server's word for a member, made plain, for printing. Lives in `buf`.
const char *remote_text(struct buf *buf, const struct json_node *node, const char *key);
// Seconds since a time such as "2026-01-02T03:04:05.678Z", or -1.
int64_t remote_age(const struct json_node *node);
// Cells: "3m ago" of a time, "1.5 GiB" of a number of bytes; "-" where there is none.
void remote_cell_ago(struct table *table, const struct json_node *when);
void remote_cell_size(struct table *table, const struct json_node *bytes);
// A flag that may be repeated: K=V settings, of which the later of one name wins.
enum { PAIRS_MAX = 512, PAIR_NAME_MAX = 1024 };
struct pairs {
    const char *setting[PAIRS_MAX];
    size_t n;
};
// `from_env`: a name alone takes the variable of ours, and nothing when there is none.
int pairs_add(struct pairs *pairs, const char *setting, bool from_env, struct err *err);
// "key": {...}; nothing when there are none.
void pairs_put(struct json *json, const char *key, const struct pairs *pairs);
