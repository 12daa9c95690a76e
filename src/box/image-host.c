// SPDX-License-Identifier: Apache-2.0
// An image that stands on this machine's own /usr, as `host` does. Nothing is installed: of the
// packages that its recipe names, those that are missing here are said.
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "box/image-internal.h"
#include "box/image-steps.h"
#include "box/tool.h"
#include "box/watch.h"

enum { PACKAGES_MAX = 512, ANSWER_SIZE = 128 * 1024, SHOWN_SIZE = 160 };

// Cuts ",python3,git=1:2" into names, without versions and architectures. How many.
static unsigned cut_names(char *list, const char *names[], unsigned max)
{
    unsigned n = 0;
    for (char *name; n < max && (name = strsep(&list, ",")) != NULL;) {
        name[strcspn(name, "=:")] = '\0';
        if (name[0] != '\0')
            names[n++] = name;
    }
    return n;
}

static bool is_installed(const char *answer, const char *name)
{
    size_t len = strlen(name);
    for (const char *at = answer; (at = strstr(at, name)) != NULL; at += len) {
        if (at - answer >= 3 && strncmp(at - 3, "ii ", 3) == 0 && at[len] == '\n')
            return true;
    }
    return false;
}

static int check_packages(struct image_work *work, struct err *err)
{
    static const char format[] = "${db:Status-Abbrev}${Package}\n";
    const char *argv[PACKAGES_MAX + 5] = {"dpkg-query", "-W", "-f", format};
    auto_buf list, answer, missing;
    buf_init(&list, IMAGE_PACKAGES_MAX + 1);
    buf_init(&answer, ANSWER_SIZE);
    buf_init(&missing, SHOWN_SIZE);
    if (buf_append_str(&list, buf_str(&work->recipe->packages)) < 0)
        return err_sys(err, ENOMEM, "list the packages");
    unsigned n = list.len > 0 ? cut_names(list.data, argv + 4, PACKAGES_MAX) : 0;
    if (n == 0)
        return 0;
    // It ends with 1 when one of them is unknown to it.
    work->lacks = tool_ask(argv, &answer) < 0 || answer.len == 0;
    if (work->lacks) {
        watch_say(work->watch, "the packages of the recipe are not looked for: no dpkg-query here");
        return 0;
    }
    for (unsigned i = 0; i < n; i++) {
        if (is_installed(buf_str(&answer), argv[4 + i]))
            continue;
        work->lacks = true;
        (void)buf_printf(&missing, "%s%s", missing.len > 0 ? " " : "", argv[4 + i]);
    }
    if (work->lacks)
        watch_say(work->watch, "not installed here: %s%s", buf_str(&missing),
                  missing.failed < 0 ? " ..." : "");
    return 0;
}

int image_take_host(struct image_work *work, struct err *err)
{
    auto_fd source = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (source < 0)
        return err_sys(err, errno, "open /");
    watch_say(work->watch, "standing on this machine's own /usr: packages are not installed");
    if (check_packages(work, err) < 0)
        return -1;
    if (host_root_fill(source, work->root_fd, err) < 0)
        return -1;
    return host_binds_open(source, &work->host, err);
}
