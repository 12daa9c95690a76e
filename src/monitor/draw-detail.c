// SPDX-License-Identifier: Apache-2.0
// One sandbox.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/table.h"
#include "monitor/columns.h"
#include "monitor/screen.h"
#include "monitor/ui.h"

enum { LABEL = 11, BAR = 22, SHARE = 3 };

static void line(int row, const char *label, const char *text)
{
    screen_put(row, 1, LABEL, STYLE_BOLD, label);
    screen_put(row, LABEL + 1, screen_cols() - LABEL - 1, STYLE_PLAIN, text);
}

static const char *or_dash(const char *text)
{
    return text[0] != '\0' ? text : "-";
}

static const char *size_or_dash(char *ret, size_t size, int64_t bytes)
{
    if (bytes >= 0)
        return text_size(ret, size, (uint64_t)bytes);
    (void)snprintf(ret, size, "-");
    return ret;
}

static int draw_settings(const struct detail *d, int row)
{
    char text[1024], memory[24], disk[24], age[24], active[24];
    const struct view_sandbox *s = &d->sandbox;
    (void)snprintf(text, sizeof text, "%s, made %s ago, used %s ago, boxes so far: %" PRId64,
                   s->status, text_ago(age, sizeof age, s->age_s),
                   text_ago(active, sizeof active, d->active_s), d->boxes);
    line(row, "Status", text);
    (void)snprintf(text, sizeof text, "%s; %s memory, %s disk, %" PRId64 " processes, %g cpus",
                   d->image, size_or_dash(memory, sizeof memory, s->memory_max),
                   size_or_dash(disk, sizeof disk, s->disk_max), d->pids_max, d->cpus);
    line(row + 1, "Image", text);
    (void)snprintf(text, sizeof text, "network %s; secrets %s; languages %s", or_dash(d->network),
                   or_dash(d->secrets), or_dash(d->languages));
    line(row + 2, "Reach", text);
    (void)snprintf(text, sizeof text, "after %" PRId64 " s%s%s; labels %s", d->sleep_after_s,
                   d->keep_alive ? ", but never (keepAlive)" : "",
                   d->ephemeral ? ", and then loses its disk" : "", or_dash(s->label));
    line(row + 3, "Sleeps", text);
    return row + 4;
}

static void bar_line(int row, const char *label, int64_t used, int64_t max, const char *text)
{
    int at = LABEL + 1 + BAR + 1;
    screen_put(row, 1, LABEL, STYLE_BOLD, label);
    screen_bar(row, LABEL + 1, BAR, used >= 0 && max > 0 ? (double)used / (double)max : -1);
    screen_put(row, at, screen_cols() - at, STYLE_PLAIN, text);
}

static int draw_usage(const struct detail *d, int row)
{
    char text[256], used[24], peak[24], max[24];
    const struct view_sandbox *s = &d->sandbox;
    if (!s->has_usage) {
        line(row, "Usage", "it does not run");
        return row + 1;
    }
    (void)snprintf(text, sizeof text, "%.2f s so far", s->cpu_ms / 1000);
    if (s->cpu_percent >= 0)
        (void)snprintf(text, sizeof text, "%.0f%% of a cpu; %.2f s so far", s->cpu_percent,
                       s->cpu_ms / 1000);
    bar_line(row, "CPU", (int64_t)s->cpu_percent, (int64_t)(d->cpus * 100), text);
    (void)snprintf(text, sizeof text, "%s of %s, at most %s; killed for want of it: %" PRId64,
                   size_or_dash(used, sizeof used, s->memory),
                   size_or_dash(max, sizeof max, s->memory_max),
                   size_or_dash(peak, sizeof peak, d->peak_memory), d->oom_kills);
    bar_line(row + 1, "Memory", s->memory, s->memory_max, text);
    (void)snprintf(text, sizeof text, "%s of %s", size_or_dash(used, sizeof used, s->disk),
                   size_or_dash(max, sizeof max, s->disk_max));
    bar_line(row + 2, "Disk", s->disk, s->disk_max, text);
    (void)snprintf(text, sizeof text,
                   "%" PRId64 " of %" PRId64 "; network: %s, %" PRId64 " connections", s->pids,
                   d->pids_max, size_or_dash(used, sizeof used, d->network_bytes), d->connections);
    bar_line(row + 3, "Processes", s->pids, d->pids_max, text);
    return row + 4;
}

static int draw_processes(const struct detail *d, int row, int rows)
{
    static const struct column columns[] = {
        {"PROCESS", 0,  false},
        {"PID",     7,  true },
        {"STATUS",  8,  false},
        {"AGE",     6,  true },
        {"ID",      14, false},
    };
    columns_head(row, columns, sizeof columns / sizeof *columns);
    int n = 0;
    for (; n + 1 < rows && (size_t)n < d->n_processes; n++) {
        const struct detail_process *p = &d->processes[n];
        char pid[24], age[24] = "-";
        (void)snprintf(pid, sizeof pid, "%" PRId64, p->pid);
        if (p->age_s >= 0)
            (void)text_ago(age, sizeof age, p->age_s);
        const char *cells[] = {p->command, pid, p->status, age, p->id};
        bool runs = strcmp(p->status, "running") == 0;
        columns_row(row + 1 + n, columns, sizeof columns / sizeof *columns,
                    runs ? STYLE_PLAIN : STYLE_DIM, cells);
    }
    if (n == 0)
        screen_put(row + 1, 1, screen_cols() - 1, STYLE_DIM, "none");
    return row + 1 + (n > 0 ? n : 1);
}

static int draw_contexts(const struct detail *d, int row, int rows)
{
    static const struct column columns[] = {
        {"CONTEXT",  0,  false},
        {"LANGUAGE", 12, false},
        {"STATUS",   10, false},
        {"CELLS",    7,  true },
    };
    if (d->n_contexts == 0 || rows < 2)
        return row;
    columns_head(row, columns, sizeof columns / sizeof *columns);
    int n = 0;
    for (; n + 1 < rows && (size_t)n < d->n_contexts; n++) {
        const struct detail_context *c = &d->contexts[n];
        char cells_run[24];
        (void)snprintf(cells_run, sizeof cells_run, "%" PRId64, c->executions);
        const char *cells[] = {c->id, c->language, c->status, cells_run};
        columns_row(row + 1 + n, columns, sizeof columns / sizeof *columns, STYLE_PLAIN, cells);
    }
    return row + 1 + n;
}

// The last ones, as many as there is room for.
static void draw_events(const struct detail *d, int row, int rows)
{
    size_t room = rows > 1 ? (size_t)rows - 1 : 0;
    size_t from = d->n_events > room ? d->n_events - room : 0;
    if (room == 0)
        return;
    screen_put(row, 1, screen_cols() - 1, STYLE_HEAD, "EVENTS");
    for (size_t i = from; i < d->n_events; i++) {
        const struct detail_event *e = &d->events[i];
        screen_putf(row + 1 + (int)(i - from), 1, screen_cols() - 1, STYLE_PLAIN, "%s  %-16s  %s",
                    e->when, e->type, e->data);
    }
}

void ui_draw_detail(const struct ui *ui, int row, int last)
{
    const struct detail *d = ui->now != NULL && ui->now->has_detail ? &ui->now->detail : NULL;
    screen_putf(row - 1, 1, screen_cols() - 1, STYLE_HEAD, "SANDBOX %s", ui->looked);
    if (d == NULL || (!d->gone && strcmp(d->sandbox.id, ui->looked) != 0)) {
        screen_put(row, 1, screen_cols() - 1, STYLE_DIM, "asking...");
        return;
    }
    if (d->gone) {
        screen_put(row, 1, screen_cols() - 1, STYLE_WARN, "it is not there any more");
        return;
    }
    row = draw_settings(d, row);
    row = draw_usage(d, row) + 1;
    int rows = last - row + 1;
    row = draw_processes(d, row, rows / SHARE + 1) + 1;
    row = draw_contexts(d, row, (last - row + 1) / SHARE + 1) + (d->n_contexts > 0 ? 1 : 0);
    draw_events(d, row, last - row + 1);
}
