// SPDX-License-Identifier: Apache-2.0
#include "egress/spend.h"

#include "base/log.h"

void spend_write(struct fleet *fleet, struct spend_row *row, const struct model_usage *usage)
{
    struct err err = {0};
    row->input = usage->input;
    row->output = usage->output;
    row->cache_write = usage->cache_write;
    row->cache_write_1h = usage->cache_write_1h;
    row->cache_read = usage->cache_read;
    row->searches = usage->searches;
    row->fetches = usage->fetches;
    row->cost = model_cost(row->model, usage, NULL);
    row->time_ms = db_now_ms();
    if (fleet_spend(fleet, row, &err) < 0)
        log_line(LOG_ERROR, "what was spent cannot be written down", "error", err.msg, NULL);
}
