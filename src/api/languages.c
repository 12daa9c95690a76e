// SPDX-License-Identifier: Apache-2.0
// Which languages a sandbox can run. Asks in its box, so it wakes it.
#include <string.h>

#include "api/call.h"
#include "api/handlers.h"
#include "api/show.h"
#include "sandbox/language.h"

static void show_aliases(struct json *j, const struct language *language)
{
    json_key(j, "aliases");
    json_open_array(j);
    for (size_t i = 0; language->aliases[i] != NULL; i++)
        json_put_str(j, language->aliases[i]);
    json_close_array(j);
}

// "numpy=1.24.2 pandas=1.5.3 " as an object.
static void show_libraries(struct json *j, const char *text)
{
    json_key(j, "libraries");
    json_open_object(j);
    while (*text != '\0') {
        char name[64];
        size_t name_len = strcspn(text, "=");
        size_t len = strcspn(text, " ");
        if (name_len < len && name_len < sizeof name) {
            memcpy(name, text, name_len);
            name[name_len] = '\0';
            json_key(j, name);
            json_put_strn(j, text + name_len + 1, len - name_len - 1);
        }
        text += len + (text[len] == ' ');
    }
    json_close_object(j);
}

static void show_language(struct json *j, const struct language_state *state)
{
    const struct language *language = state->language;
    json_open_object(j);
    show_str(j, "name", language->name);
    show_aliases(j, language);
    show_bool(j, "available", state->available);
    show_bool(j, "stateful", language->kernel != KERNEL_ONCE);
    if (state->available)
        show_str(j, "version", state->version[0] != '\0' ? state->version : NULL);
    else
        show_str(j, "package", language->package);
    if (state->available && language->kernel == KERNEL_PYTHON)
        show_libraries(j, state->libraries);
    json_close_object(j);
}

static void on_known(void *data, const struct language_state *states, unsigned n,
                     const struct err *err)
{
    struct call *call = data;
    struct call_list list;
    if (err != NULL) {
        call_fail(call, err);
    } else {
        call_list_begin(&list, "languages");
        for (unsigned i = 0; i < n; i++)
            show_language(&list.json, &states[i]);
        call_list_end(call, &list, 0, NULL);
    }
    call_unref(call);
}

static void on_awake(void *data, struct sandbox *s, bool created, const struct err *err)
{
    struct call *call = data;
    (void)created;
    if (err != NULL && err->code != ERR_NONE)
        call_fail(call, err);
    else if (call->req != NULL)
        languages_probe(s, on_known, call_ref(call));
    call_unref(call);
}

void handle_language_list(struct call *call)
{
    sandbox_wake(call->sandbox, on_awake, call_ref(call));
}
