// SPDX-License-Identifier: Apache-2.0
// What outlives a session's shell, and what outlives the daemon: directory and exported variables
// before a sandbox falls asleep, and shells that are taken over after a restart.
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "sandbox/session-internal.h"

enum {
    SAVE_MS = 500,            // for shells to tell
    EXPORTS_MAX = 256 * 1024, // bytes stored of one session
};

int session_set_text(char **text, const char *value)
{
    if (*text != NULL && value != NULL && strcmp(*text, value) == 0)
        return 0;
    free(*text);
    *text = value != NULL ? strdup(value) : NULL;
    if (value != NULL && *text == NULL)
        abort();
    return 1;
}

// --- exported variables

// Not the shell's own, and nothing that a row of text cannot hold.
static bool is_worth(const char *setting, char *const *base)
{
    static const char *const own[] = {"PWD=", "OLDPWD=", "SHLVL=", "_=", "BASH_FUNC_", "__cay_"};
    const char *equal = strchr(setting, '=');
    if (equal == NULL || equal == setting || !utf8_valid(setting, strlen(setting)))
        return false;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        if (strncmp(setting, own[i], strlen(own[i])) == 0)
            return false;
    }
    for (size_t i = 0; base != NULL && base[i] != NULL; i++) {
        if (strcmp(base[i], setting) == 0) // as every program of the sandbox has it
            return false;
    }
    return true;
}

static void put(json_t *object, const char *setting)
{
    char *name = strdup(setting);
    if (name == NULL)
        abort();
    name[strcspn(name, "=")] = '\0';
    (void)json_object_set_new(object, name, json_string(strchr(setting, '=') + 1));
    free(name);
}

static void take_exports(struct session *session)
{
    const struct buf *texts = shell_exports(session->shell);
    struct err ignored;
    json_t *object = json_object();
    char **base = exec_env(session->s, NULL, 0, &ignored);
    for (size_t at = 0; at < texts->len && object != NULL; at += strlen(texts->data + at) + 1) {
        if (is_worth(texts->data + at, base))
            put(object, texts->data + at);
    }
    char *dump = object != NULL ? json_dumps(object, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    if (texts->len > 0 && dump != NULL && strlen(dump) <= EXPORTS_MAX &&
        session_set_text(&session->row.env, dump))
        session_store(session);
    free(dump);
    json_decref(object);
    exec_env_free(base);
}

void session_ask_exports(struct session *session)
{
    struct err ignored;
    session->exports_seq = ++session->seq;
    if (script_exports(shell_outgoing(session->shell), session->seq, &ignored) < 0)
        session->exports_seq = 0;
    else
        shell_flush(session->shell);
}

// --- whoever wants to know them

struct asking {
    session_ask_fn fn;
    void *data;
    struct asking *next;
};

void session_answer(struct session *session)
{
    struct asking *a = session->asking;
    session->asking = NULL;
    session->refs++;
    while (a != NULL) {
        struct asking *next = a->next;
        a->fn(a->data, &session->row, NULL);
        free(a);
        a = next;
    }
    session_unref(session);
}

void session_ask(struct sandbox *s, const char *id, session_ask_fn fn, void *data)
{
    struct err err = {0};
    struct session *session = session_find(s, id, &err);
    if (session == NULL) {
        fn(data, NULL, &err);
        return;
    }
    bool can_tell = session->shell != NULL && shell_ready(session->shell) &&
                    session->commands == NULL && session->known_seq != session->seq &&
                    s->sessions->saving == NULL; // which counts who has told
    if (can_tell && session->exports_seq == 0)
        session_ask_exports(session);
    if (!can_tell || session->exports_seq == 0) {
        fn(data, &session->row, NULL);
        return;
    }
    struct asking *a = calloc(1, sizeof *a);
    if (a == NULL)
        abort();
    *a = (struct asking){.fn = fn, .data = data, .next = session->asking};
    session->asking = a;
}

// --- before sleep

struct saving_wait {
    void (*done)(void *data);
    void *data;
    struct saving_wait *next;
};

struct saving {
    struct sandbox *s;
    unsigned waiting;
    struct saving_wait *first; // who is told, the last one first
    uv_timer_t timer;
};

static void saving_tell(struct saving *saving, void (*done)(void *data), void *data)
{
    struct saving_wait *w = calloc(1, sizeof *w);
    if (w == NULL)
        abort();
    *w = (struct saving_wait){.done = done, .data = data, .next = saving->first};
    saving->first = w;
}

static void saving_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void saving_end(struct saving *saving)
{
    if (saving->s->sessions != NULL && saving->s->sessions->saving == saving)
        saving->s->sessions->saving = NULL;
    struct saving_wait *w = saving->first;
    uv_close((uv_handle_t *)&saving->timer, saving_closed);
    while (w != NULL) {
        struct saving_wait *next = w->next;
        w->done(w->data);
        free(w);
        w = next;
    }
}

static void on_saving_late(uv_timer_t *timer)
{
    saving_end(timer->data);
}

void saving_saw(struct session *session)
{
    struct saving *saving = session->s->sessions->saving;
    session->known_seq = session->exports_seq;
    session->exports_seq = 0;
    if (session->shell != NULL && !session->dead)
        take_exports(session);
    session_answer(session);
    if (saving != NULL && --saving->waiting == 0)
        saving_end(saving);
}

// How many shells were asked.
static unsigned ask_shells(struct sandbox *s)
{
    unsigned n = 0;
    for (struct session *i = s->sessions != NULL ? s->sessions->first : NULL; i != NULL;
         i = i->next) {
        if (i->shell == NULL || !shell_ready(i->shell) || i->commands != NULL)
            continue;
        if (i->exports_seq == 0)
            session_ask_exports(i);
        n += i->exports_seq != 0;
    }
    return n;
}

void sessions_save(struct sandbox *s, void (*done)(void *data), void *data)
{
    if (s->sessions != NULL && s->sessions->saving != NULL) {
        saving_tell(s->sessions->saving, done, data);
        return;
    }
    unsigned waiting = ask_shells(s);
    if (waiting == 0) {
        done(data);
        return;
    }
    struct saving *saving = calloc(1, sizeof *saving);
    if (saving == NULL)
        abort();
    saving->s = s;
    saving->waiting = waiting;
    saving_tell(saving, done, data);
    saving->timer.data = saving;
    s->sessions->saving = saving;
    uv_update_time(s->fleet->config.loop);
    (void)uv_timer_init(s->fleet->config.loop, &saving->timer);
    (void)uv_timer_start(&saving->timer, on_saving_late, SAVE_MS, 0);
}

// --- after a restart

static int adopt_one(void *data, const struct session_row *row)
{
    struct sandbox *s = data;
    if (row->box == 0)
        return 0;
    struct session *session = session_load(s, row);
    const struct job *job =
        row->box == (int64_t)sandbox_box(s) ? box_link_find(s->box, (uint32_t)row->exec) : NULL;
    // Numbers begin anew with a new keeper: only a job with control pipes can be a shell.
    if (job != NULL && job->streams.control_in >= 0 && shell_adopt(session, (uint32_t)row->exec)) {
        // Above all that the daemon before us has used.
        session->seq = (uint32_t)db_now_ms() & 0x7fffffff;
        session_ask_exports(session);
    } else {
        session->row.box = session->row.exec = 0;
    }
    return 0;
}

void sessions_adopt(struct sandbox *s)
{
    struct err ignored;
    (void)db_session_each(fleet_db(s->fleet), s->row.number, adopt_one, s, &ignored);
}

// --- boxes that are gone

static int forget_shell(void *data, const struct session_row *row)
{
    struct fleet *fleet = data;
    struct session_row asleep = *row;
    struct err err = {0};
    if (row->box == 0)
        return 0;
    asleep.box = asleep.exec = 0;
    if (db_session_put(fleet_db(fleet), &asleep, &err) < 0)
        log_line(LOG_ERROR, "cannot store a session", "session", row->id, "error", err.msg, NULL);
    return 0;
}

void sessions_lost(struct fleet *fleet, int64_t sandbox)
{
    struct err err = {0};
    if (db_session_each(fleet_db(fleet), sandbox, forget_shell, fleet, &err) < 0)
        log_line(LOG_ERROR, "cannot read sessions", "error", err.msg, NULL);
}
