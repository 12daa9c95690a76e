// SPDX-License-Identifier: Apache-2.0
// The store's directory, which belongs to the daemon; of an S3, that all is there which it needs.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "cli/serve.h"

static int check_s3(const struct conf *conf, struct err *err)
{
    const struct {
        const char *name, *value, *beside; // where else it was looked for
    } needed[] = {
        {"s3-endpoint",   conf->s3_endpoint,   ""                                    },
        {"s3-bucket",     conf->s3_bucket,     ""                                    },
        {"s3-region",     conf->s3_region,     ""                                    },
        {"s3-access-key", conf->s3_access_key, ", nor the variable CAY_S3_ACCESS_KEY"},
        {"s3-secret-key", conf->s3_secret_key, ", nor the variable CAY_S3_SECRET_KEY"},
    };
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        if (needed[i].value[0] == '\0')
            return err_set(err, ERR_INVALID, "%s: is not set, but store is s3%s", needed[i].name,
                           needed[i].beside);
    }
    return 0;
}

static int check_owner(const char *path, const struct stat *st, const struct serve_ids *ids,
                       struct err *err)
{
    if (!S_ISDIR(st->st_mode))
        return err_set(err, ERR_CONFLICT, "store-dir: '%.100s' is no directory", path);
    if (st->st_uid != ids->uid)
        return err_set(err, ERR_CONFLICT,
                       "store-dir: '%.80s' belongs to id %u, but the server runs as %u: chown -R "
                       "%u:%u it",
                       path, st->st_uid, ids->uid, ids->uid, ids->gid);
    return 0;
}

// Made under another name: a crash in between leaves none that belongs to root.
static int make_dir(int parent, const char *name, const char *path, const struct serve_ids *ids,
                    struct err *err)
{
    char fresh[NAME_MAX + 1];
    (void)snprintf(fresh, sizeof fresh, "%.240s.new", name);
    (void)unlinkat(parent, fresh, AT_REMOVEDIR);
    if (mkdirat(parent, fresh, 0700) < 0 ||
        fchownat(parent, fresh, ids->uid, ids->gid, AT_SYMLINK_NOFOLLOW) < 0 ||
        renameat(parent, fresh, parent, name) < 0)
        return err_sys(err, errno, "store-dir: make '%.100s'", path);
    return 0;
}

static int find_or_make(const char *path, const struct serve_ids *ids, struct err *err)
{
    char above[PATH_MAX];
    struct stat st;
    const char *slash = strrchr(path, '/');
    (void)snprintf(above, sizeof above, "%.*s", (int)(slash - path), path);
    auto_fd parent = open(*above != '\0' ? above : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (parent < 0)
        return err_sys(err, errno, "store-dir: open '%.100s'", above);
    if (fstatat(parent, slash + 1, &st, 0) == 0)
        return check_owner(path, &st, ids, err);
    return errno == ENOENT ? make_dir(parent, slash + 1, path, ids, err)
                           : err_sys(err, errno, "store-dir: look at '%.100s'", path);
}

int setup_store(const struct conf *conf, const struct serve_ids *ids, struct err *err)
{
    char path[PATH_MAX];
    if (strcmp(conf->store, "s3") == 0)
        return check_s3(conf, err);
    bool named = conf->store_dir[0] != '\0';
    int n = snprintf(path, sizeof path, "%s%s", named ? conf->store_dir : conf->data,
                     named ? "" : "/store");
    while (n > 1 && n < PATH_MAX && path[n - 1] == '/')
        path[--n] = '\0';
    if (n <= 1 || n >= PATH_MAX || path[0] != '/')
        return err_set(err, ERR_INVALID, "store-dir: '%.100s' must begin with / and name one",
                       path);
    if (find_or_make(path, ids, err) < 0)
        return -1;
    return setup_check_way("store-dir", path, ids, err);
}
