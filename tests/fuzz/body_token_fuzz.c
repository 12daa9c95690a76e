// SPDX-License-Identifier: Apache-2.0
// A token in a body: whoever is let in by it must have it where the parser of bodies reads it.
#include <assert.h>
#include <jansson.h>
#include <stdint.h>
#include <string.h>

#include "api/body-token.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void compare(const uint8_t *data, size_t size, int r, const char *token)
{
    json_auto_t *tree =
        json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    const json_t *value = json_object_get(tree, BODY_TOKEN_NAME);
    if (r > 0 && tree != NULL)
        assert(json_is_string(value) && strcmp(json_string_value(value), token) == 0);
    if (r < 0 && tree != NULL)
        assert(value != NULL);
    if (r == 0 && memchr(data, '\\', size) == NULL) // a name with escapes is not found
        assert(value == NULL || json_is_null(value));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char token[BODY_TOKEN_MAX] = "";
    if (size == 0)
        return 0;
    int r = body_token_find((const char *)data, size, token);
    assert(r >= -1 && r <= 1 && (r > 0) == (token[0] != '\0'));
    compare(data, size, r, token);
    return 0;
}
