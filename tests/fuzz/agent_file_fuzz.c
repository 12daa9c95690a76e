// SPDX-License-Identifier: Apache-2.0
// Files about agents: what is taken can be started, and a value stays within its word.
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agents/agent-file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_start(const struct agent_file *file, const struct agent_values *values)
{
    struct agent_start start;
    struct err err = {0};
    if (agent_file_start(file, values, &start, &err) < 0) {
        assert(err.code == ERR_INVALID && err.msg[0] != '\0');
        return;
    }
    bool has_task = start.input != NULL && strstr(start.input, values->task) != NULL;
    assert(strcmp(start.argv[0], agent_file_program(file)) == 0);
    for (char **p = start.argv; *p != NULL; p++) {
        assert(p - start.argv <= AGENT_ARGS_MAX && strlen(*p) <= AGENT_WORD_MAX);
        has_task = has_task || strstr(*p, values->task) != NULL;
    }
    for (char **p = start.env; *p != NULL; p++) {
        assert(p - start.env < AGENT_ENV_MAX && (*p)[0] != '=' && strchr(*p, '=') != NULL);
        has_task = has_task || strstr(*p, values->task) != NULL;
    }
    // It may stand on a line that is left out for another value; with all of them it is there.
    assert(has_task || values->session == NULL);
    assert((start.input == NULL) == (start.input_len == 0));
    agent_start_done(&start);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct agent_file *file;
    struct err err = {0};
    if (agent_file_parse("fuzz", (const char *)data, size, &file, &err) < 0) {
        assert((err.code == ERR_INVALID || err.code == ERR_EXHAUSTED) && err.msg[0] != '\0');
        return 0;
    }
    const struct agent_values few = {.task = "-t \n{model} $(x)"};
    const struct agent_values all = {"-t \n{model} $(x)", "--s {task}", "p", "m", "1", "s"};
    assert(agent_file_takes(file, "task") && agent_file_about(file)[0] != '\0');
    (void)agent_file_check(file, &all, &err);
    check_start(file, &few);
    check_start(file, &all);
    agent_file_free(file);
    return 0;
}
