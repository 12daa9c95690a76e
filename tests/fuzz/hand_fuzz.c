// SPDX-License-Identifier: Apache-2.0
// The hand's check of requests: whatever it lets through must be what those who do the work rely
// on. And its globs, against a plain matcher that tries everything.
//
// An input is the type (a byte), the id (a byte), and the rest of the message as it is. With type 0
// it is a pattern, a NUL, and a name.
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "hand/glob.c"
#include "hand/request.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// --- globs

// Every star tries every length; memory keeps it from doing so twice.
static bool slow_glob(const char *pattern, const char *name, signed char *seen, size_t width)
{
    const char *rest;
    if (*pattern == '\0')
        return *name == '\0';
    if (*pattern == '*') {
        signed char *memo = seen + strlen(pattern) * width + strlen(name);
        if (*memo == 0)
            *memo = slow_glob(pattern + 1, name, seen, width) ||
                            (*name != '\0' && slow_glob(pattern, name + 1, seen, width))
                        ? 1
                        : -1;
        return *memo > 0;
    }
    return *name != '\0' && takes(pattern, *name, &rest) && slow_glob(rest, name + 1, seen, width);
}

static void try_glob(const char *text, size_t size)
{
    const char *nul = memchr(text, '\0', size);
    if (nul == NULL || size > 300)
        return;
    char *pattern = strdup(text), *name = strndup(nul + 1, size - (size_t)(nul - text) - 1);
    assert(pattern != NULL && name != NULL);
    size_t width = strlen(name) + 1;
    signed char *seen = calloc(strlen(pattern) + 1, width);
    assert(seen != NULL);
    assert(hand_glob(pattern, name) == slow_glob(pattern, name, seen, width));
    free(seen);
    free(pattern);
    free(name);
}

// --- requests

static void check_canonical(const char *path, bool absolute)
{
    if (absolute) {
        assert(path[0] == '/');
        path++;
        if (*path == '\0')
            return;
    }
    for (bool last = false; !last;) {
        size_t len = strcspn(path, "/");
        assert(len > 0 && len <= NAME_MAX);
        assert(strncmp(path, ".", len) != 0 && strncmp(path, "..", len) != 0);
        last = path[len] == '\0';
        path += len + 1;
    }
}

static void check_data_texts(const struct hand_request *req, const struct hand_texts *t)
{
    const char *at = t->data, *end = t->data + t->data_len;
    if (req->head.type == HAND_LIST && t->data_len > 0) {
        struct hand_list list;
        memcpy(&list, at, sizeof list);
        assert(strlen(at + sizeof list) == list.after_len);
        assert(at + sizeof list + list.after_len + 1 == end);
        if (list.after_len > 0)
            check_canonical(at + sizeof list, /*absolute=*/false);
    } else if (req->head.type == HAND_SEARCH || req->head.type == HAND_REPLACE) {
        struct hand_search s;
        memcpy(&s, at, sizeof s);
        at += sizeof s;
        assert(strlen(at) == s.text_len);
        at += s.text_len + 1;
        assert(strlen(at) == s.name_len && s.name_len <= HAND_GLOB_MAX);
        at += s.name_len + 1;
        assert(strlen(at) == s.with_len);
        assert(at + s.with_len + 1 == end);
    }
}

static void check_accepted(const struct hand_request *req, size_t len, const struct hand_texts *t)
{
    const char *begin = (const char *)(req + 1), *end = (const char *)req + len;
    assert(req->head.id != 0 && req->mode <= 0777);
    assert(strnlen(req->etag, sizeof req->etag) < sizeof req->etag);
    assert(t->path == begin && strlen(t->path) == req->path_len);
    assert(t->path2 == t->path + req->path_len + 1 && strlen(t->path2) == req->path2_len);
    assert(t->data == t->path2 + req->path2_len + 1 && t->data + t->data_len == end);
    assert(req->path_len < HAND_PATH_MAX && req->path2_len < HAND_PATH_MAX);
    if (req->path_len > 0 && req->head.type != HAND_LINK)
        check_canonical(t->path, /*absolute=*/true);
    if (req->path2_len > 0)
        check_canonical(t->path2, /*absolute=*/true);
    check_data_texts(req, t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hand_texts texts;
    if (size < 2 || size > WIRE_MSG_MAX)
        return 0;
    if (data[0] == 0) {
        try_glob((const char *)data + 1, size - 1);
        return 0;
    }
    size_t len = sizeof(struct wire_head) + size - 2;
    struct hand_request *req = malloc(len); // no byte longer, so that a reader beyond it is seen
    if (req == NULL)
        return 0;
    struct wire_head head = {.version = WIRE_VERSION, .type = data[0], .id = data[1]};
    memcpy(req, &head, sizeof head);
    memcpy((char *)req + sizeof head, data + 2, size - 2);
    if (hand_check(req, len, &texts) == 0)
        check_accepted(req, len, &texts);
    free(req);
    return 0;
}
