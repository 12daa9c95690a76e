// SPDX-License-Identifier: Apache-2.0
// Events: a row each, and whoever follows hears of it. A follower may go, or bring others, while it
// is told.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "sandbox/sandbox-internal.h"

struct follower {
    struct sandbox *s; // NULL: it was destroyed
    struct follower *next;
    follow_fn fn; // NULL: it has gone while others were being told
    void *data;
};

static unsigned telling; // depth of tell(): nobody is taken out of a list meanwhile

static void sweep(struct sandbox *s)
{
    for (struct follower **p = &s->followers; *p != NULL;) {
        struct follower *f = *p;
        if (f->fn == NULL) {
            *p = f->next;
            free(f);
        } else {
            p = &f->next;
        }
    }
}

static void tell(struct sandbox *s, const struct event_row *row)
{
    telling++;
    for (struct follower *f = s->followers; f != NULL; f = f->next) {
        if (f->fn != NULL)
            f->fn(f->data, row);
    }
    if (--telling == 0)
        sweep(s);
}

void sandbox_event(struct sandbox *s, const char *type, const char *data)
{
    char kind[32], text[1024];
    struct err err = {0};
    (void)snprintf(kind, sizeof kind, "%s", type);
    (void)snprintf(text, sizeof text, "%s", data != NULL ? data : "{}");
    struct event_row row = {
        .sandbox = s->row.number, .time_ms = db_now_ms(), .type = kind, .data = text};
    if (db_event_add(s->fleet->config.db, &row, &err) < 0) {
        log_line(LOG_ERROR, "cannot store an event", "sandbox", s->row.id, "type", type, "error",
                 err.msg, NULL);
        return;
    }
    log_line(LOG_DEBUG, "event", "sandbox", s->row.id, "type", type, "data", text, NULL);
    if (s->followers != NULL)
        tell(s, &row);
}

struct follower *sandbox_follow(struct sandbox *s, follow_fn fn, void *data)
{
    struct follower *f = calloc(1, sizeof *f);
    if (f == NULL)
        abort();
    *f = (struct follower){.s = s, .next = s->followers, .fn = fn, .data = data};
    s->followers = f;
    sandbox_ref(s);
    return f;
}

void follower_free(struct follower *f)
{
    if (f == NULL)
        return;
    struct sandbox *s = f->s;
    f->fn = NULL;
    if (s == NULL) {
        free(f);
        return;
    }
    f->s = NULL;
    if (telling == 0)
        sweep(s);
    sandbox_unref(s);
}

void followers_end(struct sandbox *s)
{
    struct follower *f = s->followers;
    s->followers = NULL;
    while (f != NULL) {
        struct follower *next = f->next;
        f->s = NULL;
        if (f->fn != NULL) {
            f->fn(f->data, NULL);
            sandbox_unref(s);
        } else {
            free(f);
        }
        f = next;
    }
}

char *event_data(const char *fmt, ...)
{
    va_list ap;
    char *text = NULL;
    va_start(ap, fmt);
    int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    if (n < 0)
        abort();
    return text;
}
