// SPDX-License-Identifier: Apache-2.0
// What is on the screen, and what keys do about it. On the program's first thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "monitor/fetch.h"

enum ui_page { PAGE_ALL, PAGE_DETAIL, PAGE_HELP };
enum ui_sort { SORT_ID, SORT_CPU, SORT_MEMORY, SORT_DISK, SORT_AGE, SORT_MAX };

struct ui {
    struct fetch *fetch;
    const char *server; // for people
    struct report *now; // the last that was connected; NULL: there was none yet
    char trouble[240];  // of the newest; "": none
    enum ui_page page, page_before_help;
    enum ui_sort sort;
    bool paused;
    // The sandboxes in the order in which they are shown, as places in the report's list.
    size_t order[GATHER_SANDBOXES];
    size_t n_order;
    char chosen[132]; // the id; "": none
    size_t place;     // its place in the order
    size_t top;       // the first that is shown
    char looked[132]; // the id of the detail
    char note[240];
    // What is typed to confirm that a sandbox is to be destroyed.
    bool confirming;
    char doomed[132], typed[132];
    size_t n_typed;
    bool quit;
};

void ui_report(struct ui *ui, struct report *report); // takes it
void ui_key(struct ui *ui, int key);
const char *ui_sort_name(enum ui_sort sort);

// draw.c
void ui_draw(struct ui *ui);
// draw-detail.c: from this row to the last but one
void ui_draw_detail(const struct ui *ui, int row, int last);
