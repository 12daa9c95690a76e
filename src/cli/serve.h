// SPDX-License-Identifier: Apache-2.0
// What `cay serve` is put together from: serve-listen.c (sockets), serve-setup.c (whom the daemon
// runs as, its directory, the token, the pid file), serve-store.c (where objects are kept), serve.c
// (the command).
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"
#include "conf/conf.h"

// --- sockets; non-blocking, close-on-exec, the caller's ---

// Binds "ADDRESS:PORT". Refuses an address that is not this machine's own unless `anywhere`.
int listen_tcp(const char *text, bool anywhere, struct err *err);
// What a socket of the above is bound to: "127.0.0.1:8787".
void listen_name(int fd, char *ret, size_t size);
// `ours`: nobody else can be serving there, so what is in the way is a dead one's.
int listen_unix(const char *path, gid_t gid, bool ours, struct err *err);

// --- setup ---

struct serve_ids {
    uid_t uid;
    gid_t gid;
    gid_t socket_gid;
};

// A lock, and the text of keeper_status. ERR_CONFLICT when another one serves this directory.
int setup_pid_file(int data_fd, const char *data, struct err *err);
// Whether there is the image that sandboxes get which name none.
int setup_image(int data_fd, const struct conf *conf, struct err *err);
// Finds whom the daemon runs as, and makes its directory.
int setup_daemon(int data_fd, const struct conf *conf, struct serve_ids *ret, struct err *err);
// That the daemon may pass through all directories of a path; `setting` is which one names it.
int setup_check_way(const char *setting, const char *to, const struct serve_ids *ids,
                    struct err *err);
// Makes the store's directory (serve-store.c), or looks whether the settings of an S3 are all
// there.
int setup_store(const struct conf *conf, const struct serve_ids *ids, struct err *err);
// Fills conf->token where nobody has set one; `ret_made` when it was made just now.
int setup_token(int data_fd, struct conf *conf, bool *ret_made, struct err *err);
// Prints it, from its file, between these two texts.
void setup_print_token(const struct conf *conf, const char *before, const char *after);
// The settings as the daemon gets them, sealed.
int setup_conf_fd(const struct conf *conf, struct err *err);
// Puts the conf of a descriptor into `conf`, written by whatever version of this program.
int setup_read_conf_fd(int fd, struct conf *conf, struct err *err);
