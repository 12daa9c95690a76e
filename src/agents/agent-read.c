// SPDX-License-Identifier: Apache-2.0
// Bytes become lines; a line that is a JSON object is held against the rules, in the order of the
// file, and everything else is text for people. A line with the word `end` says how it ended: it
// takes the place of an earlier end, so the last one counts.
#include "agents/agent-read.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "agents/agent-file-internal.h"
#include "agents/agent-read-internal.h"
#include "base/mem.h"
#include "base/text.h"

// -- making

struct agent_reader *agent_reader_new(const struct agent_file *file,
                                      const struct agent_reader_fns *fns, void *data)
{
    struct agent_reader *r = calloc(1, sizeof *r);
    if (r == NULL)
        abort();
    r->file = file;
    r->fns = fns != NULL ? *fns : (struct agent_reader_fns){0};
    r->data = data;
    r->turns = -1;
    r->cost_nano = -1;
    buf_init(&r->out.line, file->output_is_lines ? AGENT_LINE_MAX : PIECE_MAX);
    buf_init(&r->err.line, PIECE_MAX);
    kept_init(&r->log, AGENT_LOG_MAX);
    kept_init(&r->said, AGENT_RESULT_MAX);
    buf_init(&r->logs, AGENT_LOG_MAX + KEPT_LINE_MAX);
    buf_init(&r->all_said, AGENT_RESULT_MAX + KEPT_LINE_MAX);
    return r;
}

void agent_reader_free(struct agent_reader *r)
{
    if (r == NULL)
        return;
    buf_done(&r->out.line);
    buf_done(&r->err.line);
    kept_done(&r->log);
    kept_done(&r->said);
    buf_done(&r->logs);
    buf_done(&r->all_said);
    free(r->text);
    free(r->error);
    free(r->model);
    free(r->session);
    for (unsigned i = 0; i < r->n_warnings; i++)
        free(r->warnings[i]);
    free(r);
}

void agent_log(struct agent_reader *r, const char *text, size_t len)
{
    if (len == 0)
        return;
    kept_add(&r->log, text, len);
    if (r->fns.log != NULL)
        r->fns.log(r->data, text, len);
}

// -- a line

// A first look, so that a line of a few megabytes is no tree of a few hundred.
static bool has_few_values(const char *p, size_t len)
{
    size_t n = 0;
    bool in_text = false;
    for (size_t i = 0; i < len; i++) {
        if (in_text && p[i] == '\\')
            i++;
        else if (p[i] == '"')
            in_text = !in_text;
        else if (!in_text && (p[i] == ',' || p[i] == '[' || p[i] == '{'))
            n++;
    }
    return n <= AGENT_VALUES_MAX;
}

static bool is_surrogate(const char *p, size_t len, char low, char high)
{
    static const char hex[] = "0123456789abcdefABCDEF";
    char third = len >= 6 ? (char)(p[3] | 0x20) : '\0';
    return len >= 6 && p[0] == '\\' && p[1] == 'u' && (p[2] | 0x20) == 'd' && third >= low &&
           third <= high && memchr(hex, p[4], sizeof hex - 1) != NULL &&
           memchr(hex, p[5], sizeof hex - 1) != NULL;
}

// JavaScript writes half a surrogate pair where a text was cut inside of one; JSON has none. Each
// becomes U+FFFD, in as many bytes.
static void mend(char *p, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (p[i] != '\\')
            continue;
        if (is_surrogate(p + i, len - i, '8', 'b') &&
            is_surrogate(p + i + 6, len - i - 6, 'c', 'f'))
            i += 11;
        else if (is_surrogate(p + i, len - i, '8', 'f'))
            memcpy(p + i + 2, "fffd", 4);
        else
            i++;
    }
}

static struct json_doc *read_object(char *line, size_t len)
{
    struct json_doc *doc = NULL;
    struct err ignored;
    if (line[0] != '{' || !has_few_values(line, len))
        return NULL;
    if (json_read(line, len, &doc, &ignored) < 0) {
        mend(line, len);
        if (json_read(line, len, &doc, &ignored) < 0)
            return NULL;
    }
    return doc;
}

static void take_line(struct agent_reader *r, char *line, size_t len)
{
    while (len > 0 && (line[0] == ' ' || line[0] == '\t')) {
        line++;
        len--;
    }
    while (len > 0 && (line[len - 1] == ' ' || line[len - 1] == '\r'))
        len--;
    if (len == 0)
        return;
    auto_json_doc *doc = read_object(line, len);
    if (doc == NULL) {
        line[len] = '\n'; // where it ended, or the NUL that follows every buffer
        agent_log(r, line, len + 1);
        return;
    }
    if (r->fns.message != NULL)
        r->fns.message(r->data, line, len);
    for (unsigned i = 0; i < r->file->n_rules; i++)
        agent_rule_apply(r, &r->file->rules[i], json_root(doc));
}

static void take_text(struct agent_reader *r, const char *text, size_t len)
{
    kept_add(&r->said, text, len);
    agent_log(r, text, len);
}

// -- bytes

// How many of a piece may go on without the rest: no half of a character.
static size_t whole_characters(const char *p, size_t len)
{
    size_t back = 0;
    while (back < 3 && back < len && ((unsigned char)p[len - 1 - back] & 0xc0) == 0x80)
        back++;
    if (back == len || ((unsigned char)p[len - 1 - back] & 0xc0) != 0xc0)
        return len;
    return utf8_step(p + len - 1 - back, back + 1) == 0 ? len - 1 - back : len;
}

static void pass_on(struct agent_reader *r, struct gathered *g, size_t len)
{
    if (g == &r->out)
        take_text(r, g->line.data, len);
    else
        agent_log(r, g->line.data, len);
    buf_consume(&g->line, len);
}

// Text, in pieces of whole lines, or of whole characters where a line is long.
static void gather_text(struct agent_reader *r, struct gathered *g, const char *p, size_t n)
{
    while (n > 0) {
        size_t before = g->line.len, room = PIECE_MAX - before, some = n < room ? n : room;
        const char *newline = memrchr(p, '\n', some);
        (void)buf_append(&g->line, p, some);
        if (newline != NULL)
            pass_on(r, g, before + (size_t)(newline - p) + 1);
        else if (g->line.len == PIECE_MAX)
            pass_on(r, g, whole_characters(g->line.data, g->line.len));
        p += some;
        n -= some;
    }
}

static void end_line(struct agent_reader *r)
{
    struct gathered *g = &r->out;
    if (g->is_long)
        agent_log(r, "\n", 1);
    else if (g->line.len > 0)
        take_line(r, g->line.data, g->line.len);
    g->is_long = false;
    buf_reset(&g->line);
}

static void add_to_line(struct agent_reader *r, const char *p, size_t n)
{
    struct gathered *g = &r->out;
    if (!g->is_long && n <= AGENT_LINE_MAX - g->line.len && buf_append(&g->line, p, n) == 0)
        return;
    if (!g->is_long)
        agent_log(r, buf_str(&g->line), g->line.len);
    g->is_long = true;
    buf_done(&g->line);
    agent_log(r, p, n);
}

static void gather_lines(struct agent_reader *r, const char *p, size_t n)
{
    while (n > 0) {
        const char *newline = memchr(p, '\n', n);
        size_t some = newline != NULL ? (size_t)(newline - p) : n;
        if (some > 0)
            add_to_line(r, p, some);
        if (newline != NULL)
            end_line(r);
        some += newline != NULL;
        p += some;
        n -= some;
    }
}

void agent_reader_stdout(struct agent_reader *r, const char *p, size_t n)
{
    if (r->file->output_is_lines)
        gather_lines(r, p, n);
    else
        gather_text(r, &r->out, p, n);
}

void agent_reader_stderr(struct agent_reader *r, const char *p, size_t n)
{
    gather_text(r, &r->err, p, n);
}

void agent_reader_end(struct agent_reader *r)
{
    if (r->file->output_is_lines)
        end_line(r);
    else if (r->out.line.len > 0)
        pass_on(r, &r->out, r->out.line.len);
    if (r->err.line.len > 0)
        pass_on(r, &r->err, r->err.line.len);
}

// -- what came of it

static bool tells_its_end(const struct agent_file *file)
{
    for (unsigned i = 0; i < file->n_rules; i++) {
        for (unsigned k = 0; k < file->rules[i].n_sets; k++) {
            if (file->rules[i].sets[k].what == WHAT_END)
                return true;
        }
    }
    return false;
}

void agent_reader_report(struct agent_reader *r, struct agent_report *ret)
{
    buf_reset(&r->logs);
    kept_text(&r->log, &r->logs);
    if (!r->file->output_is_lines) {
        buf_reset(&r->all_said);
        kept_text(&r->said, &r->all_said);
    }
    *ret = (struct agent_report){
        .wants_result = tells_its_end(r->file),
        .has_result = r->has_end,
        .failed = r->failed,
        .text = r->all_said.len > 0 ? buf_str(&r->all_said) : r->text,
        .error_code = r->failed ? r->code : NULL,
        .error = r->failed ? r->error : NULL,
        .model = r->model,
        .session = r->session,
        .turns = r->turns,
        .cost_nano = r->cost_nano,
        .logs = buf_str(&r->logs),
        .logs_len = r->logs.len,
        .logs_truncated = kept_is_cut(&r->log),
        .warnings = (const char *const *)r->warnings,
        .n_warnings = r->n_warnings,
    };
}
