// SPDX-License-Identifier: Apache-2.0
#include "monitor/ui.h"

#include <ncurses.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_ESC = 27, KEY_DELETE = 127, PAGE_STEP = 10 };

const char *ui_sort_name(enum ui_sort sort)
{
    static const char *const names[SORT_MAX] = {"id", "cpu", "memory", "disk", "age"};
    return names[sort];
}

// -- the order of the list

struct sorting {
    const struct view_sandbox *list;
    enum ui_sort sort;
};

static double weight(const struct view_sandbox *s, enum ui_sort sort)
{
    switch (sort) {
    case SORT_CPU:
        return s->cpu_percent;
    case SORT_MEMORY:
        return (double)s->memory;
    case SORT_DISK:
        return (double)s->disk;
    case SORT_AGE:
        return -(double)s->age_s; // the youngest first
    case SORT_ID:
    case SORT_MAX:
        break;
    }
    return 0;
}

static int compare(const void *a, const void *b, void *data)
{
    const struct sorting *sorting = data;
    size_t left = *(const size_t *)a, right = *(const size_t *)b;
    double l = weight(&sorting->list[left], sorting->sort);
    double r = weight(&sorting->list[right], sorting->sort);
    if (l != r)
        return l > r ? -1 : 1;
    return left < right ? -1 : left > right; // the server's order is that of ids
}

// The one that was chosen stays so wherever it went; one that is gone leaves its place to the next.
static void find_chosen(struct ui *ui)
{
    const struct view *view = &ui->now->view;
    for (size_t i = 0; i < ui->n_order; i++) {
        if (strcmp(view->sandboxes[ui->order[i]].id, ui->chosen) == 0) {
            ui->place = i;
            return;
        }
    }
    if (ui->place >= ui->n_order)
        ui->place = ui->n_order > 0 ? ui->n_order - 1 : 0;
    (void)snprintf(ui->chosen, sizeof ui->chosen, "%s",
                   ui->n_order > 0 ? view->sandboxes[ui->order[ui->place]].id : "");
}

static void sort_list(struct ui *ui)
{
    if (ui->now == NULL)
        return;
    struct sorting sorting = {ui->now->view.sandboxes, ui->sort};
    ui->n_order = ui->now->view.n_sandboxes;
    for (size_t i = 0; i < ui->n_order; i++)
        ui->order[i] = i;
    qsort_r(ui->order, ui->n_order, sizeof *ui->order, compare, &sorting);
    find_chosen(ui);
}

static void choose(struct ui *ui, int by)
{
    long place = (long)ui->place + by, last = (long)ui->n_order - 1;
    if (ui->n_order == 0)
        return;
    place = place < 0 ? 0 : place > last ? last : place;
    ui->place = (size_t)place;
    (void)snprintf(ui->chosen, sizeof ui->chosen, "%s",
                   ui->now->view.sandboxes[ui->order[ui->place]].id);
}

// -- reports

// In trouble, what was seen last stays, and is marked as old.
void ui_report(struct ui *ui, struct report *report)
{
    (void)snprintf(ui->trouble, sizeof ui->trouble, "%s", report->trouble);
    if (report->note[0] != '\0')
        (void)snprintf(ui->note, sizeof ui->note, "%s", report->note);
    if (!report->connected) {
        report_free(report);
        return;
    }
    report_free(ui->now);
    ui->now = report;
    sort_list(ui);
}

// -- keys

static void look(struct ui *ui, const char *id)
{
    (void)snprintf(ui->looked, sizeof ui->looked, "%s", id);
    fetch_look(ui->fetch, id);
}

static void leave(struct ui *ui)
{
    if (ui->page == PAGE_HELP) {
        ui->page = ui->page_before_help;
        return;
    }
    if (ui->page == PAGE_DETAIL)
        look(ui, "");
    ui->page = PAGE_ALL;
}

static void enter(struct ui *ui)
{
    if (ui->page == PAGE_ALL && ui->chosen[0] != '\0') {
        look(ui, ui->chosen);
        ui->page = PAGE_DETAIL;
    }
}

static void ask_to_destroy(struct ui *ui)
{
    const char *id = ui->page == PAGE_DETAIL ? ui->looked : ui->chosen;
    if (ui->page == PAGE_HELP || id[0] == '\0')
        return;
    (void)snprintf(ui->doomed, sizeof ui->doomed, "%s", id);
    ui->n_typed = 0;
    ui->typed[0] = '\0';
    ui->confirming = true;
}

static void end_confirming(struct ui *ui)
{
    ui->confirming = false;
    if (strcmp(ui->typed, ui->doomed) == 0) {
        (void)snprintf(ui->note, sizeof ui->note, "destroying '%s'...", ui->doomed);
        fetch_destroy(ui->fetch, ui->doomed);
    } else {
        (void)snprintf(ui->note, sizeof ui->note, "that is not its id: nothing was destroyed");
    }
}

static void confirm_key(struct ui *ui, int key)
{
    switch (key) {
    case KEY_ESC:
        ui->confirming = false;
        (void)snprintf(ui->note, sizeof ui->note, "nothing was destroyed");
        return;
    case '\r':
    case '\n':
    case KEY_ENTER:
        end_confirming(ui);
        return;
    case KEY_BACKSPACE:
    case KEY_DELETE:
    case '\b':
        if (ui->n_typed > 0)
            ui->typed[--ui->n_typed] = '\0';
        return;
    default:
        if (key > ' ' && key < KEY_DELETE && ui->n_typed + 1 < sizeof ui->typed) {
            ui->typed[ui->n_typed++] = (char)key;
            ui->typed[ui->n_typed] = '\0';
        }
    }
}

static void toggle_pause(struct ui *ui)
{
    ui->paused = !ui->paused;
    fetch_pause(ui->fetch, ui->paused);
}

static void next_sort(struct ui *ui)
{
    ui->sort = (enum ui_sort)((ui->sort + 1) % SORT_MAX);
    sort_list(ui);
}

static void show_help(struct ui *ui)
{
    if (ui->page == PAGE_HELP)
        return;
    ui->page_before_help = ui->page;
    ui->page = PAGE_HELP;
}

static bool move_key(struct ui *ui, int key)
{
    static const struct {
        int key, by;
    } rows[] = {
        {KEY_UP,    -1               },
        {'k',       -1               },
        {KEY_DOWN,  1                },
        {'j',       1                },
        {KEY_PPAGE, -PAGE_STEP       },
        {KEY_NPAGE, PAGE_STEP        },
        {KEY_HOME,  -GATHER_SANDBOXES},
        {'g',       -GATHER_SANDBOXES},
        {KEY_END,   GATHER_SANDBOXES },
        {'G',       GATHER_SANDBOXES },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].key == key) {
            if (ui->page == PAGE_ALL)
                choose(ui, rows[i].by);
            return true;
        }
    }
    return false;
}

void ui_key(struct ui *ui, int key)
{
    if (ui->confirming) {
        confirm_key(ui, key);
        return;
    }
    ui->note[0] = '\0';
    if (move_key(ui, key))
        return;
    switch (key) {
    case 'q':
    case 'Q':
        ui->quit = true;
        break;
    case KEY_ESC:
    case KEY_LEFT:
    case KEY_BACKSPACE:
    case KEY_DELETE:
        leave(ui);
        break;
    case '\r':
    case '\n':
    case KEY_ENTER:
    case KEY_RIGHT:
        enter(ui);
        break;
    case 's':
        next_sort(ui);
        break;
    case 'p':
    case ' ':
        toggle_pause(ui);
        break;
    case 'r':
        fetch_now(ui->fetch);
        break;
    case 'd':
        ask_to_destroy(ui);
        break;
    case '?':
    case 'h':
        show_help(ui);
        break;
    default:
        break;
    }
}
