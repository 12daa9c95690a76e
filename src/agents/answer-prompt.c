// SPDX-License-Identifier: Apache-2.0
// What the model is told. The part that is always the same stands first and is marked, so that the
// API need not read it anew each time.
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "agents/answer-internal.h"
#include "base/mem.h"
#include "base/show.h"

enum {
    HISTORY_MAX = 4,         // questions before this one
    HISTORY_LOOKED_AT = 100, // of the tenant's last, to find them
    HISTORY_BODY_MAX = 256 * 1024,
    OUTPUT_TOLD = 4000, // bytes of what code printed
    ERROR_TOLD = 8000,
};

static const char system_python[] =
    "You write one Python 3 program that answers the user's question or does what the user asks. "
    "It runs at once in an isolated Linux sandbox, as a cell of an interactive interpreter: what "
    "it prints is the answer, and the value of a last expression is shown too.\n"
    "Rules:\n"
    "- Reply with the code alone: no explanation, no Markdown fences.\n"
    "- Print the result, with enough words that it can be read by itself.\n"
    "- There is no network and nobody to type: no input(), no downloads, no installing of packages.\n"
    "- The standard library is there, and usually numpy, pandas and matplotlib.\n"
    "- Files that the user shall get are written below the working directory, /workspace. Figures "
    "of matplotlib are shown to the user by themselves; save one only if a file was asked for.\n"
    "- If names, files or results of earlier steps are mentioned, they are still there.";

static const char system_javascript[] =
    "You write one JavaScript program for Node.js that answers the user's question or does what "
    "the user asks. It runs at once in an isolated Linux sandbox, as a cell of an interactive "
    "interpreter with top-level await: what it writes with console.log is the answer, and the "
    "value of a last expression is shown too.\n"
    "Rules:\n"
    "- Reply with the code alone: no explanation, no Markdown fences.\n"
    "- Print the result, with enough words that it can be read by itself.\n"
    "- There is no network and nobody to type: no downloads, no installing of packages.\n"
    "- Only the modules of Node.js itself are there.\n"
    "- Files that the user shall get are written below the working directory, /workspace.\n"
    "- If names, files or results of earlier steps are mentioned, they are still there.";

// --- messages

static void add_message(struct answer *a, const char *role, const char *text, size_t len)
{
    struct json j;
    if (a->messages.len > 0)
        (void)buf_append_char(&a->messages, ',');
    json_init(&j, &a->messages);
    json_open_object(&j);
    show_str(&j, "role", role);
    json_key(&j, "content");
    json_put_strn(&j, text, len);
    json_close_object(&j);
}

static void append_cut(struct buf *ret, const char *text, size_t max)
{
    size_t len = strlen(text);
    if (len <= max) {
        (void)buf_append(ret, text, len);
        return;
    }
    (void)buf_append(ret, text, max / 2);
    (void)buf_append_str(ret, "\n[...]\n");
    (void)buf_append(ret, text + len - max / 2, max / 2);
}

// --- what was asked in this sandbox before

struct past {
    const char *sandbox;
    int64_t since_ms;       // another one may have had its name before
    char *ids[HISTORY_MAX]; // newest first
    unsigned n;
};

static int on_result(void *data, const struct result_row *row)
{
    struct past *past = data;
    if (row->state == RESULT_DONE && row->success && row->sandbox != NULL &&
        row->ended_ms >= past->since_ms && strcmp(row->sandbox, past->sandbox) == 0 &&
        strcmp(row->kind, "question") == 0)
        past->ids[past->n++] = mem_copy_text(row->id);
    return past->n == HISTORY_MAX;
}

static const char *member(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

// 1; 0 when it is gone, or too long to be told.
static int get_past(struct answer *a, const char *id, struct result_row *ret)
{
    struct err err;
    struct db *db = a->agents->config.db;
    struct result_row head = {0};
    int r = db_result_head(db, run_tenant(a->run), id, &head, &err);
    bool is_long = head.body_len > HISTORY_BODY_MAX;
    result_row_done(&head);
    return r > 0 && !is_long ? db_result_get(db, run_tenant(a->run), id, ret, &err) : 0;
}

// Its question and code; what it printed stands before the next question, in `printed`.
static void add_past(struct answer *a, const char *id, struct buf *printed)
{
    struct result_row row = {0};
    json_t *body = NULL;
    if (get_past(a, id, &row) > 0 && row.body != NULL)
        body = json_loadb(row.body, row.body_len, 0, NULL);
    if (body != NULL && member(body, "question")[0] != '\0' && member(body, "code")[0] != '\0') {
        (void)buf_append_str(printed, member(body, "question"));
        add_message(a, "user", buf_str(printed), printed->len);
        add_message(a, "assistant", member(body, "code"), strlen(member(body, "code")));
        buf_reset(printed);
        (void)buf_append_str(printed, "[That code was run. It printed:]\n");
        append_cut(printed, member(body, "output"), OUTPUT_TOLD);
        (void)buf_append_str(printed, "\n\n");
    }
    json_decref(body);
    result_row_done(&row);
}

void prompt_begin(struct answer *a)
{
    struct err err;
    struct past past = {.sandbox = a->sandbox_id};
    const struct result_query query = {
        .tenant = run_tenant(a->run), .kind = "question", .max = HISTORY_LOOKED_AT};
    auto_buf text;
    buf_init(&text, ANSWER_QUESTION_MAX + 2 * OUTPUT_TOLD + 1024);
    if (a->s != NULL)
        past.since_ms = sandbox_row(a->s)->created_ms;
    if (a->sandbox_id != NULL)
        (void)db_result_each(a->agents->config.db, &query, on_result, &past, &err);
    for (unsigned i = past.n; i > 0; i--) {
        add_past(a, past.ids[i - 1], &text);
        free(past.ids[i - 1]);
    }
    (void)buf_append_str(&text, a->question);
    add_message(a, "user", buf_str(&text), text.len);
}

void prompt_repair(struct answer *a, const char *code, const char *error)
{
    auto_buf text;
    buf_init(&text, 2 * ERROR_TOLD + 1024);
    add_message(a, "assistant", code, strlen(code));
    (void)buf_append_str(&text, "That code was run and failed:\n");
    append_cut(&text, error, ERROR_TOLD);
    (void)buf_append_str(&text, "\nReply with the whole program again, repaired: code alone.");
    add_message(a, "user", buf_str(&text), text.len);
}

// --- the request

void prompt_write(const struct answer *a, struct buf *ret)
{
    struct json j;
    bool python = strcmp(a->language->name, "python") == 0;
    json_init(&j, ret);
    json_open_object(&j);
    show_str(&j, "model", a->model);
    show_int(&j, "max_tokens", a->max_tokens);
    show_bool(&j, "stream", true);
    json_key(&j, "system");
    json_open_array(&j);
    json_open_object(&j);
    show_str(&j, "type", "text");
    show_str(&j, "text", python ? system_python : system_javascript);
    show_raw(&j, "cache_control", "{\"type\":\"ephemeral\"}");
    json_close_object(&j);
    json_close_array(&j);
    json_key(&j, "messages");
    json_open_array(&j);
    json_put_raw(&j, a->messages.data, a->messages.len);
    json_close_array(&j);
    json_close_object(&j);
    (void)json_finish(&j);
}

void prompt_key(struct answer *a, const struct buf *request)
{
    int64_t tenant = run_tenant(a->run);
    crypto_generichash_state state;
    (void)crypto_generichash_init(&state, NULL, 0, sizeof a->key);
    (void)crypto_generichash_update(&state, (const unsigned char *)&tenant, sizeof tenant);
    (void)crypto_generichash_update(&state, (const unsigned char *)request->data, request->len);
    (void)crypto_generichash_final(&state, a->key, sizeof a->key);
}
