// SPDX-License-Identifier: Apache-2.0
// Where a renewed token of the model's API is kept between two runs of the daemon: a file beside
// the database that nobody else reads.
#pragma once

char *model_token_load(int dir_fd); // NULL: none; free(3) it after wiping
void model_token_save(int dir_fd, const char *state);
