// SPDX-License-Identifier: Apache-2.0
// Whatever an agent writes: what is made of it does not depend on where it was split, and stays
// within its bounds.
//
// An input is: one byte for the size of the pieces, one for the agent, then what it writes.
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agents/agent-read.h"
#include "base/json-in.h"
#include "base/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char own[] = "program x\n"
                          "input {task}\n"
                          "output lines\n"
                          "on /a=1 : end failed=/b text=/c|/d/0 error=/e cost+=/f turn model=/g\n"
                          "on /a=2 : end failed cost=/f turns=/f session=/g\n"
                          "on /a=null : code=NOTHING\n"
                          "log /a=1 /c/* /a=true : {/b} and {/c|/d}: {/e}\n"
                          "log /a=3 : {/b}\n"
                          "warn /b=x /d/* : {/a/b/c}\n";

static const struct agent_file *agent(unsigned n)
{
    static struct agent_files *files;
    static const struct agent_file *all[4];
    struct err err;
    if (files == NULL) {
        struct agent_file *text, *rules;
        static const char plain[] = "program x\ninput {task}\noutput text";
        if (agent_files_open(NULL, &files, &err) < 0 ||
            agent_file_parse("own", own, strlen(own), &rules, &err) < 0 ||
            agent_file_parse("plain", plain, strlen(plain), &text, &err) < 0)
            abort();
        all[0] = agent_files_at(files, 0);
        all[1] = agent_files_at(files, 1);
        all[2] = rules;
        all[3] = text;
    }
    return all[n % 4];
}

static void on_message(void *data, const char *json, size_t len)
{
    struct json_doc *doc;
    struct err err;
    (*(unsigned *)data)++;
    assert(json_read(json, len, &doc, &err) == 0 && memchr(json, '\n', len) == NULL);
    assert(json_is(json_root(doc), JSON_NODE_OBJECT));
    json_doc_free(doc);
}

static struct agent_reader *feed(const struct agent_file *file, const char *text, size_t len,
                                 size_t piece, unsigned *messages)
{
    static const struct agent_reader_fns fns = {.message = on_message};
    struct agent_reader *r = agent_reader_new(file, &fns, messages);
    for (size_t at = 0; at < len; at += piece)
        agent_reader_stdout(r, text + at, len - at < piece ? len - at : piece);
    agent_reader_end(r);
    return r;
}

static void check_same(const char *a, const char *b)
{
    assert((a == NULL) == (b == NULL) && (a == NULL || strcmp(a, b) == 0));
}

static void check_bounds(const struct agent_report *a)
{
    assert(a->turns >= -1 && a->cost_nano >= -1 && a->n_warnings <= AGENT_WARNINGS_MAX);
    assert(a->failed || (a->error == NULL && a->error_code == NULL));
    assert(a->error == NULL || strlen(a->error) <= AGENT_ERROR_MAX);
    assert(a->model == NULL || (a->model[0] != '\0' && a->model[0] != '-'));
    assert(a->session == NULL || utf8_valid(a->session, strlen(a->session)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 3)
        return 0;
    unsigned messages = 0, again = 0;
    struct agent_report a, b;
    const char *text = (const char *)data + 2;
    const struct agent_file *file = agent(data[1]);
    struct agent_reader *whole = feed(file, text, size - 2, size - 2, &messages);
    struct agent_reader *pieces = feed(file, text, size - 2, 1u + data[0], &again);
    agent_reader_report(whole, &a);
    agent_reader_report(pieces, &b);
    check_bounds(&a);
    assert(messages == again && a.has_result == b.has_result && a.failed == b.failed);
    assert(a.turns == b.turns && a.cost_nano == b.cost_nano && a.n_warnings == b.n_warnings);
    assert(a.logs_len == b.logs_len && memcmp(a.logs, b.logs, a.logs_len) == 0);
    check_same(a.text, b.text);
    check_same(a.error, b.error);
    check_same(a.model, b.model);
    check_same(a.session, b.session);
    for (unsigned i = 0; i < a.n_warnings; i++)
        check_same(a.warnings[i], b.warnings[i]);
    agent_reader_free(whole);
    agent_reader_free(pieces);
    return 0;
}
