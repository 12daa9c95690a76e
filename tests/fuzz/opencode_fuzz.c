// SPDX-License-Identifier: Apache-2.0
// Whatever a caller gives as OpenCode's configuration, what is made of it has no credential that
// the same look would find; and whatever a program in a box answers is bounded and never a crash.
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agents/opencode-config.h"
#include "agents/opencode-internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_config(const char *text)
{
    struct opencode_config first = {0}, again = {0};
    struct err err = {0};
    if (opencode_config_read(text, &first, &err) < 0) {
        assert(err.code == ERR_INVALID && first.text == NULL);
        return;
    }
    assert(first.n <= OPENCODE_SECRETS_MAX);
    assert(opencode_config_read(first.text, &again, &err) == 0);
    assert(again.n == 0 && strcmp(first.text, again.text) == 0);
    char *whole = opencode_config_whole(first.text, "sonnet");
    assert(whole != NULL);
    free(whole);
    char *names = opencode_secret_names(NULL, &first);
    assert((names != NULL) == (first.n > 0));
    free(names);
    opencode_config_done(&first);
    opencode_config_done(&again);
}

static void try_answer(const char *text, size_t len)
{
    struct opencode_read read = {0};
    struct failure failure = {0};
    char id[16];
    if (opencode_read_answer(text, len, &read, &failure) == 0)
        opencode_read_done(&read);
    else
        assert(failure.status >= 400 && failure.message[0] != '\0');
    opencode_read_failure(500, text, len, &failure);
    assert(failure.status >= 400 && failure.message[0] != '\0');
    (void)opencode_read_id(text, len, id, sizeof id);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    if (text == NULL)
        abort();
    if (size > 0)
        (void)memcpy(text, data, size);
    text[size] = '\0';
    try_config(text);
    try_answer(text, size);
    free(text);
    return 0;
}
