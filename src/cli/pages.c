// SPDX-License-Identifier: Apache-2.0
// Lists that come page by page, printed as one.
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/remote.h"
#include "cli/table.h"

enum { PAGES_MAX = 100 * 1000 };

struct pages {
    struct remote *remote;
    const struct remote_list *list;
    struct table table;
    struct buf next; // the page that follows; "": none
    bool any;
};

// With --json the entries of all pages make one array.
static void take_one(struct pages *p, const struct json_node *entry)
{
    if (p->remote->json) {
        (void)fputs(p->any ? ",\n " : "[", stdout);
        remote_print_node(entry);
    } else if (p->list->quiet) {
        auto_buf id;
        buf_init(&id, REMOTE_TARGET_MAX);
        (void)puts(remote_text(&id, entry, "id"));
    } else {
        p->list->add_row(&p->table, entry);
    }
    p->any = true;
}

static int take_page(struct pages *p, const struct buf *target, const char *name, struct err *err)
{
    auto_answer answer;
    auto_buf page;
    answer_init(&answer);
    buf_init(&page, REMOTE_TARGET_MAX);
    (void)buf_append(&page, buf_str(target), target->len);
    remote_query(&page, "limit", "1000");
    if (p->next.len > 0)
        remote_query(&page, name, buf_str(&p->next));
    if (remote_do(p->remote, "GET", &page, NULL, &answer, err) < 0)
        return -1;
    const struct json_node *root = answer_root(&answer), *entries = json_get(root, p->list->key);
    for (const struct json_node *n = json_first(entries); n != NULL; n = json_next(n))
        take_one(p, n);
    const char *next = json_text(json_get(root, "next"));
    if (next != NULL && strcmp(next, buf_str(&p->next)) == 0)
        return err_set(err, ERR_INTERNAL, "the server's list does not come to an end");
    buf_reset(&p->next);
    (void)buf_append_str(&p->next, next != NULL ? next : "");
    return p->next.len > 0 ? 1 : 0;
}

int remote_print_pages(struct remote *remote, const struct buf *target, const char *name,
                       const struct remote_list *list)
{
    struct err err = {0};
    struct pages p = {.remote = remote, .list = list};
    int r = 1;
    buf_init(&p.next, REMOTE_TARGET_MAX);
    cli_table_init(&p.table, list->columns, list->n_columns);
    for (unsigned i = 0; r > 0; i++)
        r = i < PAGES_MAX ? take_page(&p, target, name, &err)
                          : err_set(&err, ERR_INTERNAL, "the server's list does not end");
    if (r == 0 && remote->json)
        (void)puts(p.any ? "]" : "[]");
    else if (r == 0 && !list->quiet)
        (void)cli_table_print(&p.table, stdout, text_colour(stdout));
    cli_table_done(&p.table);
    buf_done(&p.next);
    return r < 0 ? remote_fail(remote, &err) : remote_flush(remote);
}
