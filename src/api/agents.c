// SPDX-License-Identifier: Apache-2.0
// GET /agents: who may be asked to do a task.
#include "agents/agents.h"

#include "agents/agent-file.h"
#include "api/call.h"
#include "api/handlers.h"
#include "api/show.h"

// What the file has a use for, of what a request may say.
static void show_options(struct json *j, const struct agent_file *file)
{
    static const char *const names[] = {"permission_mode", "system_prompt", "model", "max_turns"};
    json_key(j, "options");
    json_open_array(j);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (agent_file_takes(file, names[i]))
            json_put_str(j, names[i]);
    }
    if (agent_file_has_components(file))
        json_put_str(j, "components");
    json_close_array(j);
}

static void show_agent(struct json *j, const struct agent_file *file)
{
    json_open_object(j);
    show_str(j, "name", agent_file_name(file));
    show_str(j, "about", agent_file_about(file));
    show_str(j, "program", agent_file_program(file));
    show_str(j, "image", agent_file_image(file));
    if (agent_file_memory(file) > 0)
        show_int(j, "memory", (int64_t)agent_file_memory(file));
    show_bool(j, "needsModel", agent_file_needs_model(file));
    show_options(j, file);
    json_close_object(j);
}

void handle_agent_list(struct call *call)
{
    struct call_list list;
    const struct agent_files *files = agents_config(call->api->agents)->agent_files;
    const struct agent_file *file;
    call_list_begin(&list, "agents");
    for (unsigned n = 0; (file = agent_files_at(files, n)) != NULL; n++)
        show_agent(&list.json, file);
    call_list_end(call, &list, 0, NULL);
}
