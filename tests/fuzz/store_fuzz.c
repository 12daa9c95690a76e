// SPDX-License-Identifier: Apache-2.0
// What a store answers, and keys. The first byte says what the rest is: a list, any XML, a key.
// Whatever it is, texts are ended and not longer than they may be, and a key that is fine has none
// of the parts that none may have.
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "store/s3-list.h"
#include "store/s3-xml.h"
#include "store/store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int look(void *data, const char *path, const char *text)
{
    (void)data;
    assert(strlen(path) > 0 && strlen(path) < XML_PATH_MAX && strlen(text) < 32 * 1024);
    return 0;
}

static void read_page(const char *text, size_t len)
{
    struct s3_page page = {0};
    int r = s3_page_read(&page, text, len);
    for (unsigned i = 0; i < page.n; i++)
        assert(page.items[i].key != NULL);
    assert(page.n <= 1000 && (r < 0 || !page.has_more || page.token != NULL));
    s3_page_done(&page);
}

static void check_key(const char *key)
{
    if (!store_key_valid(key))
        return;
    assert(strlen(key) <= STORE_KEY_MAX && key[0] != '/' && key[strlen(key) - 1] != '/');
    assert(strstr(key, "//") == NULL && strstr(key, "/../") == NULL && strstr(key, "/./") == NULL);
    assert(strncmp(key, "../", 3) != 0 && strncmp(key, ".tmp/", 5) != 0 &&
           strpbrk(key, "\n\r") == NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    char *text = strndup((const char *)data + 1, size - 1); // a key ends with its NUL
    char *bytes = malloc(size);                             // exactly as long as it is
    memcpy(bytes, data + 1, size - 1);
    if (data[0] % 3 == 0)
        read_page(bytes, size - 1);
    else if (data[0] % 3 == 1)
        (void)xml_read(bytes, size - 1, look, NULL);
    else
        check_key(text);
    free(bytes);
    free(text);
    return 0;
}
