// SPDX-License-Identifier: Apache-2.0
#include "egress/hello.h"

#include <string.h>

enum {
    RECORD_FIRST = 20, // types of records
    RECORD_HANDSHAKE = 22,
    RECORD_LAST = 24,
    RECORD_HEAD = 5,
    RECORD_MAX = 16384,
    MESSAGE_HEAD = 4,
    MESSAGE_HELLO = 1,
    EXTENSION_NAME = 0,
    EXTENSION_ECH = 0xfe0d,
};

// A run of bytes that is read from its front; what is taken beyond its end makes it bad for good.
struct view {
    const uint8_t *at;
    size_t left;
    bool bad;
};

static struct view take(struct view *view, size_t len)
{
    struct view part = {.at = view->at, .left = len};
    if (view->bad || len > view->left) {
        view->bad = true;
        view->left = 0;
        return (struct view){.bad = true};
    }
    view->at += len;
    view->left -= len;
    return part;
}

static size_t number(struct view *view, size_t bytes)
{
    struct view part = take(view, bytes);
    size_t value = 0;
    for (size_t i = 0; i < part.left; i++)
        value = value << 8 | part.at[i];
    return value;
}

// One whose length stands before it.
static struct view vector(struct view *view, size_t length_bytes)
{
    size_t len = number(view, length_bytes);
    return take(view, len);
}

// server_name (RFC 6066, 3): exactly one name, of the one type there is.
static bool read_name(struct view body, struct hello *ret)
{
    struct view list = vector(&body, 2);
    size_t type = number(&list, 1);
    struct view name = vector(&list, 2);
    if (list.bad || name.bad || body.left > 0 || list.left > 0 || type != 0 || ret->has_name ||
        name.left == 0 || name.left >= sizeof ret->name || memchr(name.at, '\0', name.left) != NULL)
        return false;
    (void)memcpy(ret->name, name.at, name.left);
    ret->name[name.left] = '\0';
    ret->has_name = true;
    return true;
}

static bool read_extensions(struct view list, struct hello *ret)
{
    while (list.left > 0) {
        size_t type = number(&list, 2);
        struct view body = vector(&list, 2);
        if (list.bad || body.bad)
            return false;
        if (type == EXTENSION_NAME && !read_name(body, ret))
            return false;
        if (type == EXTENSION_ECH)
            ret->encrypted = true;
    }
    return !list.bad;
}

static bool read_message(struct view message, struct hello *ret)
{
    (void)number(&message, 2); // version
    (void)take(&message, 32);  // random
    (void)vector(&message, 1); // session
    (void)vector(&message, 2); // ciphers
    (void)vector(&message, 1); // compressions
    if (message.bad)
        return false;
    if (message.left == 0)
        return true; // before there were extensions
    struct view extensions = vector(&message, 2);
    return !message.bad && message.left == 0 && read_extensions(extensions, ret);
}

// Servers skip some records before a hello, such as alerts that only warn. No client sends them.
static enum hello_verdict look_at_first(const uint8_t *data, size_t len)
{
    if (data[0] < RECORD_FIRST || data[0] > RECORD_LAST || (len > 1 && data[1] != 3))
        return HELLO_NOT_TLS;
    return len > 1 ? HELLO_BAD : HELLO_MORE;
}

// Puts the handshake's bytes together. HELLO_WHOLE: all records there are were whole.
static enum hello_verdict join(const uint8_t *data, size_t len, uint8_t *joined, size_t *ret_len)
{
    size_t n = 0;
    for (size_t at = 0; at < len;) {
        size_t left = len - at;
        if (data[at] != RECORD_HANDSHAKE || (left > 1 && data[at + 1] != 3))
            return at == 0 ? look_at_first(data, len) : HELLO_BAD;
        if (left < RECORD_HEAD)
            break;
        size_t size = (size_t)data[at + 3] << 8 | data[at + 4];
        if (size == 0 || size > RECORD_MAX)
            return HELLO_BAD;
        size_t here = left - RECORD_HEAD < size ? left - RECORD_HEAD : size;
        (void)memcpy(joined + n, data + at + RECORD_HEAD, here);
        n += here;
        at += RECORD_HEAD + here;
        if (n >= MESSAGE_HEAD) { // the records behind the message are none of ours
            size_t want = (size_t)joined[1] << 16 | (size_t)joined[2] << 8 | joined[3];
            if (n >= MESSAGE_HEAD + want)
                break;
        }
    }
    *ret_len = n;
    return HELLO_WHOLE;
}

enum hello_verdict hello_parse(const uint8_t *data, size_t len, struct hello *ret)
{
    uint8_t joined[HELLO_MAX];
    size_t n = 0;
    struct hello hello = {0};
    if (len > HELLO_MAX)
        return HELLO_BAD;
    enum hello_verdict verdict = join(data, len, joined, &n);
    if (verdict != HELLO_WHOLE)
        return verdict;
    if (n > 0 && joined[0] != MESSAGE_HELLO)
        return HELLO_BAD;
    size_t want = 0;
    if (n >= MESSAGE_HEAD)
        want = (size_t)joined[1] << 16 | (size_t)joined[2] << 8 | joined[3];
    if (want > HELLO_MAX)
        return HELLO_BAD;
    if (n < MESSAGE_HEAD || n < MESSAGE_HEAD + want)
        return len < HELLO_MAX ? HELLO_MORE : HELLO_BAD;
    if (!read_message((struct view){.at = joined + MESSAGE_HEAD, .left = want}, &hello))
        return HELLO_BAD;
    *ret = hello;
    return HELLO_WHOLE;
}
