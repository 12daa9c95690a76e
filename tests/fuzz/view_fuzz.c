// SPDX-License-Identifier: Apache-2.0
// Whatever a server answers to `cay monitor`: what is shown of it is UTF-8 without anything that a
// terminal would obey, and as much as there is room for.
//
// An input is one JSON document, which stands for every answer.
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/text.h"
#include "cli/view.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const char *text, size_t size)
{
    size_t len = strnlen(text, size);
    assert(len < size && utf8_valid(text, len));
    for (size_t i = 0; i < len; i++)
        assert((unsigned char)text[i] >= ' ' && text[i] != 0x7f);
}

static void check_view(const struct view *v)
{
    check(v->status, sizeof v->status);
    check(v->version, sizeof v->version);
    assert(v->n_sandboxes <= GATHER_SANDBOXES && v->n_requests <= GATHER_REQUESTS);
    for (size_t i = 0; i < v->n_sandboxes; i++) {
        check(v->sandboxes[i].id, sizeof v->sandboxes[i].id);
        check(v->sandboxes[i].status, sizeof v->sandboxes[i].status);
        check(v->sandboxes[i].label, sizeof v->sandboxes[i].label);
    }
    for (size_t i = 0; i < v->n_requests; i++) {
        check(v->requests[i].question, sizeof v->requests[i].question);
        check(v->requests[i].error, sizeof v->requests[i].error);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct gathered g;
    struct answer *const answers[] = {&g.health, &g.stats, &g.sandboxes, &g.requests, &g.usage[0]};
    struct view first, second;
    struct err err;
    gather_init(&g);
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++)
        (void)json_read((const char *)data, size, &answers[i]->doc, &err);
    g.has_stats = g.has_requests = true;
    g.n_usage = 1;
    view_make(&first, &g, NULL);
    check_view(&first);
    g.taken_ns += 1000000;
    view_make(&second, &g, &first);
    check_view(&second);
    view_done(&first);
    view_done(&second);
    gather_done(&g);
    return 0;
}
