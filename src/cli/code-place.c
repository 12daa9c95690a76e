// SPDX-License-Identifier: Apache-2.0
// Where cells run: a sandbox that was named, or one that is made for them and goes with us.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/code.h"

// Where nobody comes back to a sandbox that was left behind, its box does not stay for long.
#define SLEEP_AFTER  "10m"
#define LINGER_AFTER "2h"

int code_place_name(struct code_place *place, const char *id, struct err *err)
{
    if (id[0] == '\0' || strlen(id) >= sizeof place->sandbox)
        return err_set(err, ERR_INVALID, "'%.60s' is not the id of a sandbox", id);
    (void)snprintf(place->sandbox, sizeof place->sandbox, "%s", id);
    return 0;
}

static void write_settings(const struct code_place *place, struct buf *body)
{
    struct json j;
    json_init(&j, body);
    json_open_object(&j);
    if (place->image != NULL) {
        json_key(&j, "image");
        json_put_str(&j, place->image);
    }
    if (place->language != NULL) { // a box is taken in which it waits already
        json_key(&j, "languages");
        json_open_array(&j);
        json_put_str(&j, place->language);
        json_close_array(&j);
    }
    json_key(&j, "sleepAfter");
    json_put_str(&j, place->linger ? LINGER_AFTER : SLEEP_AFTER);
    json_close_object(&j);
    (void)json_finish(&j); // remote_do looks at the buffer
}

int code_place_open(struct code_place *place, struct err *err)
{
    auto_answer answer;
    auto_buf target, body;
    if (place->sandbox[0] != '\0')
        return 0;
    answer_init(&answer);
    buf_init(&target, REMOTE_TARGET_MAX);
    buf_init(&body, REMOTE_TARGET_MAX);
    write_settings(place, &body);
    remote_target(&target, "sandbox");
    if (remote_do(place->remote, "POST", &target, &body, &answer, err) < 0)
        return -1;
    const char *id = json_text(json_get(answer_root(&answer), "sandboxId"));
    if (id == NULL || id[0] == '\0' || strlen(id) >= sizeof place->sandbox)
        return err_set(err, ERR_INTERNAL, "the server has not told the sandbox's id");
    (void)snprintf(place->sandbox, sizeof place->sandbox, "%s", id);
    place->is_ours = true;
    return 0;
}

void code_place_close(struct code_place *place)
{
    struct err err;
    auto_answer answer;
    auto_buf target;
    if (!place->is_ours || place->keep)
        return;
    answer_init(&answer);
    buf_init(&target, REMOTE_TARGET_MAX);
    remote_target(&target, "sandbox", place->sandbox);
    if (remote_do(place->remote, "DELETE", &target, NULL, &answer, &err) < 0)
        (void)remote_fail(place->remote, &err);
    place->is_ours = false;
}

static int read_all(int fd, struct buf *ret, struct err *err)
{
    char *at;
    size_t room;
    for (;;) {
        if (buf_reserve(ret, 64 * 1024, &at, &room) < 0)
            return 0; // the caller sees that it is too much
        ssize_t n = read(fd, at, room);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(err, errno, "read the code");
        if (n == 0)
            return 0;
        buf_commit(ret, (size_t)n);
    }
}

int code_read(const char *path, struct buf *ret, struct err *err)
{
    bool is_input = strcmp(path, "-") == 0;
    auto_fd file = is_input ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (!is_input && file < 0)
        return err_sys(err, errno, "open '%s'", path);
    buf_init(ret, CODE_MAX + 1);
    if (read_all(is_input ? STDIN_FILENO : file, ret, err) < 0)
        return -1;
    if (ret->len > CODE_MAX)
        return err_set(err, ERR_INVALID, "more than %d MiB of code", CODE_MAX >> 20);
    if (!utf8_valid(buf_str(ret), ret->len) || memchr(buf_str(ret), '\0', ret->len) != NULL)
        return err_set(err, ERR_INVALID, "'%s' is not text (UTF-8)", path);
    return 0;
}
