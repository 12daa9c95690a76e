// SPDX-License-Identifier: Apache-2.0
#include "cli/remote.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/fd.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/table.h"

// -- the command line

static int take_remote_flag(struct remote *remote, enum remote_flag flag, const char *value)
{
    switch (flag) {
    case REMOTE_JSON:
        remote->json = true;
        return 0;
    case REMOTE_DATA:
        remote->data = value;
        return 0;
    case REMOTE_URL:
        remote->url = value;
        return 0;
    case REMOTE_TOKEN_FILE:
        remote->token_file = value;
        return 0;
    case REMOTE_VERBOSE:
        remote->verbose = true;
        return 0;
    case REMOTE_FLAGS:
        break;
    }
    return -1;
}

static int take(struct remote *remote, const struct command_line *line, int which,
                const char *value, struct err *err)
{
    size_t own = line->spec->n_opts - REMOTE_FLAGS;
    if (which == OPT_WORD) {
        if (value[0] == '\0')
            return err_set(err, ERR_INVALID, "an empty name");
        remote->word[remote->n_words++] = value;
        return 0;
    }
    if ((size_t)which >= own)
        return take_remote_flag(remote, (enum remote_flag)((size_t)which - own), value);
    if (line->flag(line->data, (unsigned)which, value, err) < 0)
        return err_wrap(err, "--%s", line->spec->opts[which].name);
    return 0;
}

static int read_line(struct remote *remote, const struct command_line *line, int argc, char **argv,
                     struct err *err)
{
    struct opt_reader reader;
    const char *value;
    int which;
    opt_start(&reader, line->spec, argc, argv);
    for (;;) {
        which = opt_next(&reader, &value, err);
        // Where flags end at a word, they may still follow the first: the command's own subject.
        if (which == OPT_END && line->spec->stop_at_word && remote->n_words == 0 &&
            reader.next < argc) {
            value = argv[reader.next++];
            which = OPT_WORD;
        }
        if (which < 0)
            break;
        if (take(remote, line, which, value, err) < 0)
            return OPT_FAILED;
    }
    remote->rest = argv + reader.next;
    if (which == OPT_END &&
        (remote->n_words < line->words_min || remote->n_words > line->words_max)) {
        (void)err_set(err, ERR_INVALID, "it takes %s", line->words);
        return OPT_FAILED;
    }
    return which;
}

// -- which server

static int read_token_file(struct remote *remote, struct err *err)
{
    ssize_t n = fd_read_file(AT_FDCWD, remote->token_file, remote->token, sizeof remote->token);
    if (n < 0)
        return err_sys(err, (int)-n, "read the token from '%s'", remote->token_file);
    remote->token[strcspn(remote->token, "\r\n")] = '\0';
    if (remote->token[0] == '\0')
        return err_set(err, ERR_INVALID, "there is no token in '%s'", remote->token_file);
    return 0;
}

// A socket asks for no token, so one that lies in the environment for another server stays here.
static int find_token(struct remote *remote, struct err *err)
{
    const char *token = getenv("CAY_TOKEN");
    if (remote->token_file != NULL)
        return read_token_file(remote, err);
    if (token == NULL || remote->place.socket[0] != '\0')
        return 0;
    if (strlen(token) >= sizeof remote->token)
        return err_set(err, ERR_INVALID, "the token in CAY_TOKEN is too long");
    (void)snprintf(remote->token, sizeof remote->token, "%s", token);
    return 0;
}

// What was said on the command line counts before what the environment says.
static int find_place(struct remote *remote, struct err *err)
{
    char path[4096];
    const char *url = remote->url;
    if (url == NULL && remote->data == NULL)
        url = getenv("CAY_URL");
    if (url != NULL && url[0] != '\0')
        return http_place_url(&remote->place, url, err);
    (void)snprintf(path, sizeof path, "%s/cay.sock", data_path(remote->data));
    return http_place_socket(&remote->place, path, err);
}

int remote_start(struct remote *remote, const struct command_line *line, int argc, char **argv,
                 int *ret_code)
{
    struct err err = {0};
    *remote = (struct remote){.command = line->command};
    remote->word = calloc((size_t)argc + 1, sizeof *remote->word);
    if (remote->word == NULL)
        abort();
    int which = read_line(remote, line, argc, argv, &err);
    if (which == OPT_HELP) {
        opt_print_help(stdout, line->spec);
        *ret_code = remote_flush(remote);
        return -1;
    }
    if (which == OPT_FAILED || find_place(remote, &err) < 0) {
        *ret_code = cli_usage(line->command, &err);
        return -1;
    }
    if (find_token(remote, &err) < 0) {
        *ret_code = cli_fail(&err);
        return -1;
    }
    return 0;
}

void remote_done(struct remote *remote)
{
    free(remote->word);
    explicit_bzero(remote->token, sizeof remote->token);
}

// -- asking

void answer_init(struct answer *answer)
{
    *answer = (struct answer){.status = 0};
    buf_init(&answer->body, REMOTE_ANSWER_MAX);
}

void answer_done(struct answer *answer)
{
    json_doc_free(answer->doc);
    answer->doc = NULL;
    buf_done(&answer->body);
}

const struct json_node *answer_root(const struct answer *answer)
{
    return json_root(answer->doc);
}

void remote_target_parts(struct buf *buf, const char *const *parts)
{
    buf_reset(buf);
    for (; *parts != NULL; parts++) {
        (void)buf_append_char(buf, '/');
        (void)http_encode(buf, *parts);
    }
}

void remote_query(struct buf *target, const char *name, const char *value)
{
    bool first = strchr(buf_str(target), '?') == NULL;
    (void)buf_printf(target, "%c%s=", first ? '?' : '&', name);
    (void)http_encode(target, value);
}

// What a call's body goes through: to the caller when it is what was asked for, else it is kept to
// find the server's words in it.
struct sorter {
    struct reply reply;
    reply_body_fn fn;
    void *data;
    int64_t *length;
    bool begun;
    struct buf error;
};

static int sort_body(void *data, const void *bytes, size_t len, struct err *err)
{
    struct sorter *sorter = data;
    const char *length = reply_header(&sorter->reply, "content-length");
    struct err ignored;
    uint64_t n;
    if (!sorter->begun)
        *sorter->length =
            length != NULL && parse_u64(length, 0, INT64_MAX, &n, &ignored) == 0 ? (int64_t)n : -1;
    sorter->begun = true;
    if (sorter->reply.status < 300)
        return sorter->fn(sorter->data, bytes, len, err);
    (void)buf_append(&sorter->error, bytes, len); // cut at its limit: then it is no JSON, and shown
    return 0;
}

static void note_text(char *ret, size_t size, const char *text)
{
    auto_buf plain;
    buf_init(&plain, size - 1);
    if (text != NULL)
        (void)text_plain(&plain, text, strlen(text));
    (void)snprintf(ret, size, "%s", buf_str(&plain));
}

static enum err_code code_of_status(unsigned status)
{
    switch (status) {
    case 404:
    case 410:
        return ERR_NOT_FOUND;
    case 409:
        return ERR_CONFLICT;
    case 401:
    case 403:
        return ERR_DENIED;
    case 429:
    case 503:
        return ERR_UNAVAILABLE;
    default:
        return status < 500 ? ERR_INVALID : ERR_INTERNAL;
    }
}

// {"error": "...", "error_code": "...", "request_id": "..."}
static int server_error(struct remote *remote, const struct sorter *sorter, struct err *err)
{
    struct err ignored;
    auto_json_doc *doc = NULL;
    auto_buf words;
    buf_init(&words, sizeof err->msg - 1);
    (void)json_read(buf_str(&sorter->error), sorter->error.len, &doc, &ignored);
    const struct json_node *root = json_root(doc);
    const char *text = json_text(json_get(root, "error"));
    const char *id = json_text(json_get(root, "request_id"));
    remote->status = sorter->reply.status;
    note_text(remote->error_code, sizeof remote->error_code,
              json_text(json_get(root, "error_code")));
    note_text(remote->request_id, sizeof remote->request_id,
              id != NULL ? id : reply_header(&sorter->reply, "x-request-id"));
    if (text == NULL)
        return err_set(err, code_of_status(remote->status),
                       "the server at %s answered with status %u", remote->place.text,
                       remote->status);
    (void)text_plain(&words, text, strlen(text));
    return err_set(err, code_of_status(remote->status), "%s", buf_str(&words));
}

int remote_stream(struct remote *remote, const struct http_call *call, reply_body_fn fn, void *data,
                  enum http_broken *ret_broken, struct err *err)
{
    struct sorter sorter = {.fn = fn, .data = data, .length = &remote->length};
    struct http_call with_token = *call;
    with_token.token = remote->token[0] != '\0' ? remote->token : NULL;
    remote->status = 0;
    remote->length = -1;
    remote->error_code[0] = remote->request_id[0] = '\0';
    buf_init(&sorter.error, REMOTE_ERROR_MAX);
    reply_init(&sorter.reply, sort_body, &sorter);
    sorter.reply.may_switch = call->ws_key != NULL;
    int r = http_call(&remote->place, &with_token, &sorter.reply, ret_broken, err);
    if (r == 0) {
        remote->status = sorter.reply.status;
        r = remote->status >= 300 ? server_error(remote, &sorter, err) : 0;
    }
    reply_done(&sorter.reply);
    buf_done(&sorter.error);
    return r;
}

static int keep(void *data, const void *bytes, size_t len, struct err *err)
{
    struct answer *answer = data;
    if (buf_append(&answer->body, bytes, len) < 0)
        return err_set(err, ERR_EXHAUSTED, "the server's answer is too large");
    return 0;
}

int remote_ask(struct remote *remote, const struct http_call *call, struct answer *ret,
               struct err *err)
{
    enum http_broken broken;
    struct err ignored;
    json_doc_free(ret->doc);
    ret->doc = NULL;
    buf_reset(&ret->body);
    if (remote_stream(remote, call, keep, ret, &broken, err) < 0)
        return -1;
    ret->status = remote->status;
    if (ret->body.len > 0)
        (void)json_read(ret->body.data, ret->body.len, &ret->doc, &ignored);
    return 0;
}

int remote_do(struct remote *remote, const char *method, const struct buf *target,
              const struct buf *body, struct answer *ret, struct err *err)
{
    const struct http_call call = {
        .method = method,
        .target = buf_str(target),
        .body = body != NULL ? buf_str(body) : NULL,
        .body_len = body != NULL ? body->len : 0,
    };
    if (target->failed != 0 || (body != NULL && body->failed != 0))
        return err_set(err, ERR_INVALID, "that is more than a request may hold");
    return remote_ask(remote, &call, ret, err);
}

int remote_delete_words(struct remote *remote, size_t first, remote_target_fn target_of)
{
    int code = CLI_OK;
    for (size_t i = first; i < remote->n_words; i++) {
        struct err err;
        auto_answer answer;
        auto_buf target;
        answer_init(&answer);
        buf_init(&target, REMOTE_TARGET_MAX);
        target_of(remote, remote->word[i], &target);
        if (remote_do(remote, "DELETE", &target, NULL, &answer, &err) < 0)
            code = remote_fail(remote, &err);
        else if (remote->json)
            (void)remote_print(remote, &answer);
    }
    return code;
}

static int print_ids(struct remote *remote, const struct json_node *entries)
{
    for (const struct json_node *n = json_first(entries); n != NULL; n = json_next(n)) {
        auto_buf id;
        buf_init(&id, REMOTE_TARGET_MAX);
        (void)puts(remote_text(&id, n, "id"));
    }
    return remote_flush(remote);
}

int remote_print_list(struct remote *remote, const struct buf *target,
                      const struct remote_list *list)
{
    struct err err;
    struct table table;
    auto_answer answer;
    answer_init(&answer);
    if (remote_do(remote, "GET", target, NULL, &answer, &err) < 0)
        return remote_fail(remote, &err);
    if (remote->json)
        return remote_print(remote, &answer);
    const struct json_node *entries = json_get(answer_root(&answer), list->key);
    if (list->quiet)
        return print_ids(remote, entries);
    cli_table_init(&table, list->columns, list->n_columns);
    for (const struct json_node *n = json_first(entries); n != NULL; n = json_next(n))
        list->add_row(&table, n);
    (void)cli_table_print(&table, stdout, text_colour(stdout));
    cli_table_done(&table);
    return remote_flush(remote);
}

void remote_key(char ret[40])
{
    unsigned char bytes[16];
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        abort();
    int n = snprintf(ret, 40, "cay-");
    for (size_t i = 0; i < sizeof bytes; i++)
        n += snprintf(ret + n, 40 - (size_t)n, "%02x", bytes[i]);
}

// -- telling

// What somebody at a keyboard can do about it, where the server's own words cannot know.
static const char *hint(const struct remote *remote)
{
    if (strcmp(remote->error_code, "AUTH_ERROR") == 0) // the model's, not ours
        return "'cay secret set anthropic' stores another, or set ANTHROPIC_API_KEY for 'cay serve'";
    if (remote->status == 401)
        return remote->token[0] == '\0' ? "set CAY_TOKEN or --token-file"
                                        : "the token is not one of this server";
    return NULL;
}

// The server speaks of requests; at a keyboard there are commands.
static void write_message(struct buf *ret, const char *msg)
{
    static const char *const rows[][2] = {
        {"; PUT /sandbox/{id} makes one", "; 'cay create' makes one"                    },
        {"; add ?list to list it",        ": 'cay find' lists it, 'cay cp -r' copies it"},
    };
    size_t len = strlen(msg);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t n = strlen(rows[i][0]);
        if (len < n || strcmp(msg + len - n, rows[i][0]) != 0)
            continue;
        (void)text_plain(ret, msg, len - n);
        (void)buf_append_str(ret, rows[i][1]);
        return;
    }
    (void)text_plain(ret, msg, len);
}

int remote_fail(const struct remote *remote, const struct err *err)
{
    const char *advice = hint(remote);
    auto_buf text;
    buf_init(&text, 8 * sizeof err->msg);
    write_message(&text, err->msg);
    (void)fflush(stdout);
    (void)fprintf(stderr, advice != NULL ? "cay: %s (%s)\n" : "cay: %s\n", buf_str(&text), advice);
    if (remote->verbose && remote->status != 0)
        (void)fprintf(stderr, "cay: status %u, error_code %s, request_id %s, server %s\n",
                      remote->status, remote->error_code[0] != '\0' ? remote->error_code : "-",
                      remote->request_id[0] != '\0' ? remote->request_id : "-", remote->place.text);
    return CLI_FAILED;
}

int remote_usage(const struct remote *remote, const char *text)
{
    struct err err;
    (void)err_set(&err, ERR_INVALID, "%s", text);
    return cli_usage(remote->command, &err);
}

int remote_flush(const struct remote *remote)
{
    struct err err;
    (void)remote;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return CLI_OK;
    (void)err_sys(&err, errno, "print the result");
    return cli_fail(&err);
}

int remote_print(const struct remote *remote, const struct answer *answer)
{
    struct err err;
    auto_buf text;
    buf_init(&text, SIZE_MAX / 2);
    if (answer->body.len > 0 && answer->doc == NULL) {
        (void)err_set(&err, ERR_INTERNAL, "the server at %s did not answer with JSON",
                      remote->place.text);
        return cli_fail(&err);
    }
    (void)text_plain_json(&text, buf_str(&answer->body), answer->body.len);
    while (text.len > 0 && text.data[text.len - 1] == '\n')
        text.len--;
    if (text.len > 0)
        (void)fwrite(text.data, 1, text.len, stdout);
    (void)fputc('\n', stdout);
    return remote_flush(remote);
}
