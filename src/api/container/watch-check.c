// SPDX-License-Identifier: Apache-2.0
// POST /api/watch/check: has anything changed since a version? A version is a digest of the tree:
// of each file its name, kind, mode, inode, size and times, of each directory its name and mode. So
// nothing is kept between two checks, and no version ever expires, not by sleep or a restart
// either.
//
// The kernel counts a file's times in ticks. One that was written a moment ago could be written
// again in the same tick and look the same; so a tree that has such a file is looked at again when
// the tick is over. Should that never be, its version is one that no later one equals: "changed" is
// then the truth. (What a program writes through a memory map is seen when the kernel says so.)
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/container/files.h"
#include "api/container/watch.h"
#include "api/show.h"
#include "base/clock.h"

enum {
    TICK_MS = 20, // longer than any kernel's
    TRIES = 10,
    DIGEST = 16,
    VERSION_MAX = 2 + 2 * DIGEST + 1 + 2 * DIGEST + 1, // "v1" ABOUT ':' TREE
    SINCE_MAX = 256,
};

static const struct field check_fields[] = {
    CONTAINER_WATCH_FIELDS,
    FIELD("since", FIELD_STRING, offsetof(struct container_watch_body, since), .max = SINCE_MAX,
          .help = "A version that an earlier check has told"),
};
static const struct schema check_schema =
    SCHEMA("ContainerWatchCheck", struct container_watch_body, check_fields, .lenient = true);

struct check_call {
    struct file_call file; // first
    struct filter filter;
    bool recursive;
    char about[2 * DIGEST + 1]; // what is looked at
    crypto_generichash_state tree;
    bool is_fresh;    // something was written in this tick
    bool is_told_all; // its hand is an older one, which leaves nothing out
    unsigned tries;
};

// -- versions

static void add(crypto_generichash_state *state, const void *data, size_t len)
{
    (void)crypto_generichash_update(state, data, len);
}

static void add_text(crypto_generichash_state *state, const char *text)
{
    add(state, text, strlen(text) + 1);
}

static void finish(crypto_generichash_state *state, char ret[2 * DIGEST + 1])
{
    unsigned char digest[DIGEST];
    (void)crypto_generichash_final(state, digest, sizeof digest);
    (void)sodium_bin2hex(ret, 2 * DIGEST + 1, digest, sizeof digest);
}

static void add_list(crypto_generichash_state *state, const char *name, const char *const *list)
{
    add_text(state, name);
    for (; list != NULL && *list != NULL; list++)
        add_text(state, *list);
}

static void name_about(struct check_call *c)
{
    crypto_generichash_state state;
    (void)crypto_generichash_init(&state, NULL, 0, DIGEST);
    add_text(&state, c->file.path);
    add_text(&state, c->recursive ? "all" : "one");
    add_list(&state, "include", c->filter.include);
    add_list(&state, "exclude", c->filter.exclude);
    finish(&state, c->about);
}

static bool is_version(const char *text)
{
    static const char hex[] = "0123456789abcdef";
    return strncmp(text, "v1", 2) == 0 && strspn(text + 2, hex) == (size_t)2 * DIGEST &&
           text[2 + 2 * DIGEST] == ':' &&
           strspn(text + 3 + 2 * DIGEST, hex) == (size_t)2 * DIGEST &&
           text[VERSION_MAX - 1] == '\0';
}

// -- the tree

static void see(struct check_call *c, const char *path, const struct hand_stat *st)
{
    add_text(&c->tree, path);
    add(&c->tree, &st->kind, sizeof st->kind);
    add(&c->tree, &st->mode, sizeof st->mode);
    if (st->kind == HAND_DIR) // its size and times change with what is left out, too
        return;
    add(&c->tree, st->etag, strnlen(st->etag, sizeof st->etag) + 1);
    int64_t age = db_now_ms() - st->mtime_ns / NS_PER_MS;
    c->is_fresh |= age < TICK_MS && age > -TICK_MS;
}

static void reply(struct call *call)
{
    struct check_call *c = call->state;
    const struct container_watch_body *b = call->body.values;
    struct container_answer answer;
    char tree[2 * DIGEST + 1], version[VERSION_MAX];
    finish(&c->tree, tree);
    (void)snprintf(version, sizeof version, "v1%s:%s", c->about, tree);
    bool same = b->since != NULL && strcmp(b->since, version) == 0;
    bool other = b->since != NULL && strncmp(b->since + 2, c->about, 2 * DIGEST) != 0;
    container_begin(&answer, true);
    show_str(&answer.json, "status",
             b->since == NULL || same ? "unchanged"
             : other                  ? "resync"
                                      : "changed");
    if (other) // a version of another path, or of other patterns
        show_str(&answer.json, "reason", "restarted");
    show_str(&answer.json, "version", version);
    container_end(call, &answer);
}

static void look(struct call *call);

static void on_closed(uv_handle_t *handle)
{
    free(handle);
}

static void on_timer(uv_timer_t *timer)
{
    struct call *call = timer->data;
    uv_close((uv_handle_t *)timer, on_closed);
    if (call->req != NULL)
        look(call);
    call_unref(call);
}

static void look_later(struct call *call)
{
    uv_timer_t *timer = calloc(1, sizeof *timer);
    if (timer == NULL)
        abort();
    (void)uv_timer_init(call->api->loop, timer);
    timer->data = call_ref(call);
    uv_update_time(call->api->loop);
    (void)uv_timer_start(timer, on_timer, TICK_MS, 0);
}

static void on_record(void *data, const struct hand_record *rec)
{
    const struct call *call = data;
    struct check_call *c = call->state;
    const struct hand_entry *entry = (const struct hand_entry *)rec;
    const char *path = (const char *)(entry + 1);
    auto_buf whole;
    if (rec->type != HAND_REC_ENTRY)
        return;
    buf_init(&whole, 2 * HAND_PATH_MAX);
    file_path_join(&whole, c->file.path, path);
    if (filter_takes(&c->filter, buf_str(&whole)))
        see(c, path, &entry->st);
}

static void on_seen(struct call *call)
{
    struct check_call *c = call->state;
    unsigned char never[DIGEST];
    if (c->is_fresh && ++c->tries < TRIES) {
        look_later(call);
        return;
    }
    if (c->is_fresh) {
        randombytes_buf(never, sizeof never);
        add(&c->tree, never, sizeof never);
    }
    reply(call);
}

static void on_stat(struct call *call, struct hand_answer *found, const struct err *err)
{
    if (found == NULL) {
        container_file_fail(call, err);
    } else {
        see(call->state, "", &found->done.st);
        on_seen(call);
    }
}

// Of a file that is not a directory there is itself alone.
static void look_at_file(struct call *call)
{
    const struct file_call *f = call->state;
    const struct hand_ask ask = {.type = HAND_STAT, .path = f->path};
    files_ask(call, &ask, on_stat);
}

static void on_done(void *data, const struct hand_ended *ended, const struct err *err)
{
    struct call *call = call_ref(data);
    struct check_call *c = call->state;
    struct err failed = {0};
    if (err == NULL && files_ended(ended, c->file.path, &failed) < 0)
        err = &failed;
    files_work_over(call);
    if (err != NULL && err->sys_errno == ENOTDIR) {
        look_at_file(call);
    } else if (err != NULL && err->sys_errno == EINVAL && !c->is_told_all) {
        c->is_told_all = true;
        look(call);
    } else if (err != NULL) {
        container_file_fail(call, err);
    } else {
        on_seen(call);
    }
    call_unref(call);
}

static void look(struct call *call)
{
    static const struct hand_long_ops ops = {.record = on_record, .done = on_done};
    struct check_call *c = call->state;
    const struct hand_list head = {0};
    auto_buf data;
    buf_init(&data, HAND_DATA_MAX);
    (void)buf_append(&data, &head, sizeof head);
    (void)buf_append_char(&data, '\0');
    if (!c->is_told_all) { // what is left out need not come here
        filter_names(&c->filter, &data);
        (void)buf_append_char(&data, '\0');
    }
    const struct hand_ask ask = {
        .type = HAND_LIST,
        .path = c->file.path,
        .flags = HAND_HIDDEN | (c->recursive ? HAND_RECURSIVE : 0u),
        .data = data.data,
        .data_len = data.len,
    };
    c->is_fresh = false;
    (void)crypto_generichash_init(&c->tree, NULL, 0, DIGEST);
    files_work(call, &ask, &ops);
}

static void handle_check(struct call *call)
{
    const struct container_watch_body *b = call->body.values;
    struct check_call *c = aligned_alloc(_Alignof(struct check_call), sizeof *c);
    if (c == NULL)
        abort();
    memset(c, 0, sizeof *c);
    call->state = c;
    c->recursive = !b->recursive.given || b->recursive.value;
    if (container_watch_read(call, &c->file, &c->filter) < 0)
        return;
    name_about(c);
    if (b->since != NULL && !is_version(b->since))
        container_invalid(call, "since", "since: must be a version that checkChanges() has told");
    else
        files_wake(call, look);
}

const struct route container_watch_check[] = {
    CONTAINER_ROUTE(HTTP_POST, "/api/watch/check", SUBJECT_WATCH, handle_check,
                    .body = &check_schema),
};
const size_t n_container_watch_check = sizeof container_watch_check / sizeof *container_watch_check;
