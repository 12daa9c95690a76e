// SPDX-License-Identifier: Apache-2.0
// The whole screen: a line about the server, what the page shows, a line about keys.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/table.h"
#include "monitor/columns.h"
#include "monitor/screen.h"
#include "monitor/ui.h"

enum {
    ROWS_MIN = 10,
    COLS_MIN = 50,
    ROWS_FOR_LATENCY = 20,
    ROWS_FOR_REQUESTS = 16,
    LABEL = 11, // columns of a line's first word
    BAR = 22,
    LATENCY_COL = 9,
};

// -- the top and bottom lines

static void draw_title(const struct ui *ui)
{
    char up[24] = "-";
    const struct view *v = ui->now != NULL ? &ui->now->view : NULL;
    if (ui->trouble[0] != '\0') {
        screen_putf(0, 0, screen_cols(), STYLE_ALARM, " cay  %s; trying again", ui->trouble);
        return;
    }
    if (v == NULL) {
        screen_putf(0, 0, screen_cols(), STYLE_TITLE, " cay  %s  asking...", ui->server);
        return;
    }
    if (v->uptime_ms >= 0)
        (void)text_ago(up, sizeof up, v->uptime_ms / 1000);
    screen_putf(0, 0, screen_cols(), STYLE_TITLE, " cay  %s  %s  %.1f ms  version %s  up %s%s%s",
                ui->server, v->status, v->health_ms, v->version, up,
                v->all ? "" : "  (a tenant's view)", ui->paused ? "  PAUSED" : "");
}

static void draw_bottom(const struct ui *ui)
{
    int row = screen_rows() - 1, cols = screen_cols();
    char line[512];
    if (ui->confirming) {
        (void)snprintf(line, sizeof line, " type '%s' and enter to destroy it, esc not to: %s",
                       ui->doomed, ui->typed);
        screen_put(row, 0, cols, STYLE_BAD, line);
        screen_cursor(row, screen_width(line) < cols ? screen_width(line) : cols - 1);
        return;
    }
    if (ui->note[0] != '\0') {
        screen_putf(row, 0, cols, STYLE_WARN, " %s", ui->note);
        return;
    }
    if (ui->page == PAGE_ALL)
        (void)snprintf(line, sizeof line,
                       " enter look  s sort (by %s)  p pause  r refresh  d destroy  ? help  q quit",
                       ui_sort_name(ui->sort));
    else
        (void)snprintf(line, sizeof line, " esc back  p pause  d destroy  ? help  q quit");
    screen_put(row, 0, cols, STYLE_DIM, line);
}

// -- the panels

static void draw_label(int row, const char *label)
{
    screen_put(row, 1, LABEL, STYLE_BOLD, label);
}

static double share(int64_t part, int64_t whole)
{
    return part >= 0 && whole > 0 ? (double)part / (double)whole : -1;
}

static void draw_boxes(int row, const struct view *v)
{
    int at = LABEL + 1 + BAR + 1;
    draw_label(row, "Boxes");
    if (v->boxes_max < 0) {
        screen_put(row, LABEL + 1, screen_cols(), STYLE_DIM, "not told");
        return;
    }
    screen_bar(row, LABEL + 1, BAR, share(v->boxes_running, v->boxes_max));
    screen_putf(row, at, screen_cols() - at, STYLE_PLAIN,
                "%" PRId64 " of %" PRId64 " run, %" PRId64 " wait, %" PRId64
                " ready (python %" PRId64 ", js %" PRId64 ")",
                v->boxes_running, v->boxes_max, v->waiting, v->ready, v->parked_python,
                v->parked_javascript);
}

static void draw_cpu(int row, const struct view *v)
{
    int at = LABEL + 1 + BAR + 1;
    char percent[16] = "-";
    if (v->cpus < 0)
        return;
    if (v->cpu_percent >= 0)
        (void)snprintf(percent, sizeof percent, "%.0f%%", v->cpu_percent);
    draw_label(row, "CPU");
    screen_bar(row, LABEL + 1, BAR, v->cpu_percent / 100);
    screen_putf(row, at, screen_cols() - at, STYLE_PLAIN,
                "%s of %" PRId64 " cpus, load %.2f %.2f %.2f", percent, v->cpus, v->load[0],
                v->load[1], v->load[2]);
}

static void draw_memory(int row, const struct view *v)
{
    int at = LABEL + 1 + BAR + 1;
    char used[24], total[24];
    int64_t in_use = v->memory_total - v->memory_available;
    if (v->memory_total < 0)
        return;
    draw_label(row, "Memory");
    screen_bar(row, LABEL + 1, BAR, share(in_use, v->memory_total));
    screen_putf(row, at, screen_cols() - at, STYLE_PLAIN, "%s of %s",
                text_size(used, sizeof used, in_use > 0 ? (uint64_t)in_use : 0),
                text_size(total, sizeof total, (uint64_t)v->memory_total));
}

static void draw_counts(int row, const struct view *v)
{
    char line[512], bytes[24];
    int n = 0;
    draw_label(row, "Sandboxes");
    n = snprintf(line, sizeof line, "%" PRId64 " run, %" PRId64 " sleep", v->running, v->sleeping);
    if (v->egress_allowed >= 0)
        (void)snprintf(line + n, sizeof line - (size_t)n,
                       "; egress: %" PRId64 " allowed, %" PRId64 " denied, %s, %" PRId64 " open",
                       v->egress_allowed, v->egress_denied,
                       text_size(bytes, sizeof bytes, (uint64_t)v->egress_bytes), v->egress_open);
    screen_put(row, LABEL + 1, screen_cols() - LABEL - 1, STYLE_PLAIN, line);
}

static void draw_models(int row, const struct view *v)
{
    if (v->model_requests < 0)
        return;
    draw_label(row, "Models");
    screen_putf(row, LABEL + 1, screen_cols() - LABEL - 1, STYLE_PLAIN,
                "%" PRId64 " requests, %" PRId64 " failed, %" PRId64 " open, %" PRId64
                " tokens, $%.4f",
                v->model_requests, v->model_errors > 0 ? v->model_errors : 0,
                v->model_open > 0 ? v->model_open : 0, v->model_tokens, v->model_cost);
}

static void draw_latency_row(int row, const char *name, const struct view *v, int which)
{
    draw_label(row, name);
    for (int i = 0; i < VIEW_LATENCIES; i++) {
        const struct view_latency_row *l = &v->latency[i];
        const double ms[] = {l->p50, l->p90, l->p99};
        char text[24] = "-";
        int col = LABEL + i * LATENCY_COL;
        if (col + LATENCY_COL > screen_cols())
            return;
        if (which == 3 && l->count >= 0)
            (void)snprintf(text, sizeof text, "%" PRId64, l->count);
        else if (which < 3 && ms[which] >= 0)
            (void)columns_ms(text, sizeof text, ms[which]);
        screen_right(row, col, LATENCY_COL, STYLE_PLAIN, text);
    }
}

static void draw_latency(int row, const struct view *v)
{
    static const char *const heads[VIEW_LATENCIES] = {
        "requests", "create", "wake", "exec", "cell", "model", "box",
    };
    screen_put(row, 1, LABEL, STYLE_HEAD, "LAST 5 MIN");
    for (int i = 0; i < VIEW_LATENCIES && LABEL + (i + 1) * LATENCY_COL <= screen_cols(); i++)
        screen_right(row, LABEL + i * LATENCY_COL, LATENCY_COL, STYLE_HEAD, heads[i]);
    draw_latency_row(row + 1, "p50 ms", v, 0);
    draw_latency_row(row + 2, "p90 ms", v, 1);
    draw_latency_row(row + 3, "p99 ms", v, 2);
    draw_latency_row(row + 4, "count", v, 3);
}

// -- the tables

static const struct column sandbox_columns[] = {
    {"SANDBOX", 0,  false},
    {"STATUS",  10, false},
    {"CPU",     7,  true },
    {"MEMORY",  9,  true },
    {"DISK",    9,  true },
    {"PIDS",    6,  true },
    {"AGE",     6,  true },
    {"LABELS",  24, false},
};

static void draw_sandbox(int row, const struct view_sandbox *s, bool chosen)
{
    char cpu[16] = "-", memory[24] = "-", disk[24] = "-", pids[24] = "-", age[24] = "-";
    if (s->has_usage && s->cpu_percent >= 0)
        (void)snprintf(cpu, sizeof cpu, "%.0f%%", s->cpu_percent);
    if (s->memory >= 0)
        (void)text_size(memory, sizeof memory, (uint64_t)s->memory);
    if (s->disk >= 0)
        (void)text_size(disk, sizeof disk, (uint64_t)s->disk);
    if (s->pids >= 0)
        (void)snprintf(pids, sizeof pids, "%" PRId64, s->pids);
    if (s->age_s >= 0)
        (void)text_ago(age, sizeof age, s->age_s);
    const char *cells[] = {s->id, s->status, cpu, memory, disk, pids, age, s->label};
    enum screen_style style = STYLE_DIM;
    if (chosen)
        style = STYLE_CHOSEN;
    else if (strcmp(s->status, "running") == 0)
        style = STYLE_PLAIN;
    columns_row(row, sandbox_columns, sizeof sandbox_columns / sizeof *sandbox_columns, style,
                cells);
}

static void draw_sandboxes(struct ui *ui, int row, int rows)
{
    const struct view *v = &ui->now->view;
    size_t room = rows > 1 ? (size_t)rows - 1 : 0;
    columns_head(row, sandbox_columns, sizeof sandbox_columns / sizeof *sandbox_columns);
    if (ui->n_order == 0 && room > 0)
        screen_put(row + 1, 1, screen_cols() - 1, STYLE_DIM, "none: 'cay create' makes one");
    // The chosen one is always among those that are shown.
    if (ui->place < ui->top)
        ui->top = ui->place;
    if (room > 0 && ui->place >= ui->top + room)
        ui->top = ui->place - room + 1;
    if (ui->top + room > ui->n_order)
        ui->top = ui->n_order > room ? ui->n_order - room : 0;
    for (size_t i = 0; i < room && ui->top + i < ui->n_order; i++)
        draw_sandbox(row + 1 + (int)i, &v->sandboxes[ui->order[ui->top + i]],
                     ui->top + i == ui->place);
}

static const struct column request_columns[] = {
    {"LAST REQUESTS", 0,  false},
    {"RESULT",        14, false},
    {"MODEL MS",      10, true },
    {"BOX MS",        10, true },
    {"TOTAL MS",      10, true },
    {"TOKENS",        8,  true },
    {"COST",          10, true },
};

static void put_number(char *ret, size_t size, int64_t n)
{
    (void)snprintf(ret, size, n >= 0 ? "%" PRId64 : "-", n);
}

static void draw_request(int row, const struct view_request *r)
{
    char generation[24], box[24], total[24], tokens[24], cost[24] = "-";
    bool running = strcmp(r->state, "running") == 0;
    const char *failed = r->error[0] != '\0' ? r->error : "failed";
    put_number(generation, sizeof generation, r->generation_ms);
    put_number(box, sizeof box, r->sandbox_ms);
    put_number(total, sizeof total, r->total_ms);
    put_number(tokens, sizeof tokens, r->tokens);
    if (r->cost >= 0)
        (void)snprintf(cost, sizeof cost, "$%.4f", r->cost);
    const char *result = running ? "running" : r->success ? "ok" : failed;
    const char *cells[] = {r->question, result, generation, box, total, tokens, cost};
    columns_row(row, request_columns, sizeof request_columns / sizeof *request_columns,
                running      ? STYLE_BOLD
                : r->success ? STYLE_PLAIN
                             : STYLE_WARN,
                cells);
}

static void draw_requests(const struct view *v, int row, int rows)
{
    columns_head(row, request_columns, sizeof request_columns / sizeof *request_columns);
    if (v->n_requests == 0)
        screen_put(row + 1, 1, screen_cols() - 1, STYLE_DIM, "none yet");
    for (int i = 0; i + 1 < rows && (size_t)i < v->n_requests; i++)
        draw_request(row + 1 + i, &v->requests[i]);
}

// -- pages

static void draw_all(struct ui *ui)
{
    const struct view *v = &ui->now->view;
    int row = 2, last = screen_rows() - 2; // the last row of the page
    draw_boxes(row++, v);
    draw_counts(row++, v);
    if (v->cpus >= 0) {
        draw_cpu(row++, v);
        draw_memory(row++, v);
    }
    if (v->model_requests >= 0)
        draw_models(row++, v);
    if (screen_rows() >= ROWS_FOR_LATENCY) {
        draw_latency(row + 1, v);
        row += 6;
    }
    row++;
    int rows = last - row + 1, for_requests = 0;
    if (screen_rows() >= ROWS_FOR_REQUESTS && rows >= 6)
        for_requests = rows / 3 > 12 ? 12 : rows / 3;
    if (for_requests > 1)
        draw_requests(v, last - for_requests + 1, for_requests);
    draw_sandboxes(ui, row, rows - for_requests - (for_requests > 0 ? 1 : 0));
}

static void draw_help(void)
{
    static const char *const lines[] = {
        "up, k / down, j       choose a sandbox (page keys, home and end too)",
        "enter                 look into it: usage, processes, contexts, events",
        "esc                   back",
        "s                     sort by id, cpu, memory, disk, age",
        "p, space              pause and go on",
        "r                     ask the server now",
        "d                     destroy it, once its id was typed",
        "?                     this",
        "q                     quit",
        "",
        "Latencies are of the last 5 minutes: what 50, 90 and 99 in a hundred stayed",
        "below. 'model' and 'box' are of questions: writing code, and running it.",
        "CPU is in percent of one processor, since it was looked at last.",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        screen_put(2 + (int)i, 2, screen_cols() - 2, STYLE_PLAIN, lines[i]);
}

void ui_draw(struct ui *ui)
{
    screen_begin();
    if (screen_rows() < ROWS_MIN || screen_cols() < COLS_MIN) {
        screen_put(0, 0, screen_cols(), STYLE_PLAIN, "too small");
        screen_putf(1, 0, screen_cols(), STYLE_PLAIN, "needs %dx%d", COLS_MIN, ROWS_MIN);
        screen_end();
        return;
    }
    draw_title(ui);
    if (ui->page == PAGE_HELP)
        draw_help();
    else if (ui->page == PAGE_DETAIL)
        ui_draw_detail(ui, 2, screen_rows() - 2);
    else if (ui->now != NULL)
        draw_all(ui);
    draw_bottom(ui);
    screen_end();
}
