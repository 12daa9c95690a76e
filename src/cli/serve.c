// SPDX-License-Identifier: Apache-2.0
// `cay serve`: looks at the settings, takes the data directory and the sockets, and becomes the
// keeper. With --resume, which only the keeper itself says, another program was that before in this
// very process.
#include "cli/serve.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/opt.h"
#include "base/text.h"
#include "box/data.h"
#include "box/image.h"
#include "cli/cli.h"
#include "cli/host-tools.h"
#include "keeper/keeper.h"

struct server {
    struct conf conf;
    struct keeper_serving serving;
    char self[PATH_MAX];
    char daemon[PATH_MAX + 8];
    char pack[PATH_MAX + 16];
    char url[96];
    bool token_is_set; // by whoever started us
    bool token_is_new;
    bool has_key; // for a model
};

// --- what is printed once it serves ---

// A log that is kept should not hold it, but for the one time that nobody could know it else.
static bool shows_token(const struct server *s)
{
    return !s->token_is_set && (s->token_is_new || isatty(STDOUT_FILENO));
}

static bool asks_token(const struct server *s)
{
    return strcmp(s->conf.auth, "none") != 0;
}

// Loud, for it is easily forgotten.
static void print_open(const struct server *s)
{
    (void)printf("  auth    NONE: whoever can open a connection on this machine, every user and "
                 "every program,\n"
                 "          makes and uses sandboxes here, reads what is in them, and spends what "
                 "the model's key\n"
                 "          pays for. Pages of the web are kept out%s%s. To ask for tokens again: "
                 "without --auth none\n",
                 s->conf.cors[0] != '\0' ? ", but for those of " : "", s->conf.cors);
}

static void print_token(const struct server *s)
{
    char where[PATH_MAX + 32];
    (void)snprintf(where, sizeof where, "   (in %s/admin.token)\n", s->conf.data);
    if (s->token_is_set)
        (void)printf("  token   the one that you have set\n");
    else if (shows_token(s))
        setup_print_token(&s->conf, "  token   ", where);
    else
        (void)printf("  token   in %s/admin.token\n", s->conf.data);
}

static void print_call(const struct server *s, const char *body, const char *path)
{
    static const char header[] = "  curl -H \"Authorization: Bearer ";
    char rest[256];
    (void)snprintf(rest, sizeof rest, "\" -d '%s' %s%s\n", body, s->url, path);
    if (!asks_token(s))
        (void)printf("  curl -d '%s' %s%s\n", body, s->url, path);
    else if (s->token_is_set)
        (void)printf("%s$CAY_TOKEN%s", header, rest);
    else if (shows_token(s))
        setup_print_token(&s->conf, header, rest);
    else
        (void)printf("%s$(cat %s/admin.token)%s", header, s->conf.data, rest);
}

// What code will miss in sandboxes that are made of this machine's own programs.
static void print_lacks(const struct server *s)
{
    struct host_tools tools = host_tools_find("");
    if (strcmp(s->conf.image, IMAGE_HOST) != 0 || host_tools_complete(tools))
        return;
    auto_buf names, command;
    buf_init(&names, 256);
    buf_init(&command, 256);
    host_tools_missing(tools, &names);
    host_tools_command(tools, "", &command);
    (void)printf(
        "  lacks   %s, for code in sandboxes: %s%scay image build data, and --image data\n",
        buf_str(&names), buf_str(&command), command.len > 0 ? "; or " : "");
}

static void print_model(const struct server *s)
{
    if (s->has_key)
        (void)printf("  model   %s at %s\n", s->conf.model, s->conf.base_url);
    else
        (void)printf("  model   no key: questions need ANTHROPIC_API_KEY, or a secret named "
                     "anthropic\n");
}

static void on_serving(void *arg)
{
    const struct server *s = arg;
    (void)printf("cay %s serves on %s\n", CAY_VERSION, s->url);
    if (!asks_token(s))
        print_open(s);
    print_token(s);
    (void)printf("  socket  %s   (no token needed)\n", s->conf.socket);
    print_model(s);
    print_lacks(s);
    (void)printf("\nTry:\n");
    (void)printf("  curl %s/health\n", s->url);
    print_call(s, "{\"id\":\"demo\"}", "/sandbox");
    print_call(s, "{\"command\":\"echo hello\"}", "/sandbox/demo/exec");
    (void)fflush(stdout);
}

// --- the steps ---

// Our own file, and beside it the daemon's and the one that works on disks.
static int find_programs(struct server *s, struct err *err)
{
    ssize_t n = readlink("/proc/self/exe", s->self, sizeof s->self - 1);
    if (n < 0)
        return err_sys(err, errno, "find our own program");
    s->self[n] = '\0';
    const char *slash = strrchr(s->self, '/');
    int dir = slash != NULL ? (int)(slash - s->self) : 0;
    (void)snprintf(s->daemon, sizeof s->daemon, "%.*s/cayd", dir, s->self);
    if (access(s->daemon, X_OK) < 0)
        return err_sys(err, errno, "the server's program '%.150s' should lie beside cay",
                       s->daemon);
    (void)snprintf(s->pack, sizeof s->pack, "%.*s/cay-pack", dir, s->self);
    s->serving.self = s->self;
    s->serving.daemon = s->daemon;
    return 0;
}

static int open_data(struct server *s, struct err *err)
{
    auto_fd fd = data_open(s->conf.data, err);
    if (fd < 0)
        return -1;
    char *path = realpath(s->conf.data, NULL);
    if (path == NULL)
        return err_sys(err, errno, "the data directory '%.100s'", s->conf.data);
    free(s->conf.data);
    s->conf.data = path;
    return TAKE_FD(fd);
}

static int name_socket(struct server *s, bool *ret_ours, struct err *err)
{
    *ret_ours = s->conf.socket[0] == '\0';
    if (!*ret_ours)
        return s->conf.socket[0] == '/'
                   ? 0
                   : err_set(err, ERR_INVALID, "socket: '%.80s' must begin with /", s->conf.socket);
    char *path = NULL;
    if (asprintf(&path, "%s/cay.sock", s->conf.data) < 0)
        return err_sys(err, ENOMEM, "socket");
    free(s->conf.socket);
    s->conf.socket = path;
    return 0;
}

static int bind_sockets(struct server *s, const struct serve_ids *ids, struct err *err)
{
    struct keeper_serving *k = &s->serving;
    char name[64];
    bool ours;
    k->listeners[0] = listen_tcp(s->conf.listen, s->conf.behind_proxy, err);
    if (k->listeners[0] < 0)
        return -1;
    listen_name(k->listeners[0], name, sizeof name);
    (void)snprintf(s->url, sizeof s->url, "http://%s", name);
    k->listeners[1] = name_socket(s, &ours, err) < 0
                          ? -1
                          : listen_unix(s->conf.socket, ids->socket_gid, ours, err);
    k->n_listeners = 2;
    return k->listeners[1] < 0 ? -1 : 0;
}

// Addresses that others can reach are refused where they are bound.
static int check_auth(const struct conf *conf, struct err *err)
{
    if (strcmp(conf->auth, "none") != 0)
        return 0;
    if (conf->behind_proxy)
        return err_set(err, ERR_DENIED,
                       "auth: none is for this machine alone: with --behind-proxy everybody whom "
                       "the proxy lets in could do everything");
    if (strchr(conf->cors, '*') != NULL)
        return err_set(err, ERR_DENIED,
                       "auth: none with cors * would let every page in a browser on this machine "
                       "do everything: name the origins that may");
    return 0;
}

static int prepare(struct server *s, struct err *err)
{
    struct keeper_serving *k = &s->serving;
    struct serve_ids ids;
    if (check_auth(&s->conf, err) < 0)
        return -1;
    auto_fd data = open_data(s, err);
    if (data < 0)
        return -1;
    k->status = setup_pid_file(data, s->conf.data, err);
    if (k->status < 0 || setup_image(data, &s->conf, err) < 0 ||
        setup_daemon(data, &s->conf, &ids, err) < 0 || setup_store(&s->conf, &ids, err) < 0)
        return -1;
    k->uid = ids.uid;
    k->gid = ids.gid;
    s->token_is_set = s->conf.token[0] != '\0';
    s->has_key = s->conf.api_key[0] != '\0' || s->conf.auth_token[0] != '\0' ||
                 s->conf.refresh_token[0] != '\0';
    if (bind_sockets(s, &ids, err) < 0 || setup_token(data, &s->conf, &s->token_is_new, err) < 0)
        return -1;
    k->resume = -1;
    k->on_serving = on_serving;
    k->arg = s;
    k->conf = setup_conf_fd(&s->conf, err);
    return k->conf < 0 ? -1 : 0;
}

static int resume(struct server *s, const char *number, struct err *err)
{
    struct keeper_serving *k = &s->serving;
    uint64_t fd;
    if (parse_u64(number, 3, INT_MAX, &fd, err) < 0 || keeper_resume((int)fd, k, err) < 0 ||
        setup_read_conf_fd(k->conf, &s->conf, err) < 0)
        return -1;
    // The version before may not have known of a store.
    const struct serve_ids ids = {.uid = k->uid, .gid = k->gid};
    if (setup_store(&s->conf, &ids, err) < 0)
        return -1;
    fd_close(k->conf);
    k->conf = setup_conf_fd(&s->conf, err); // in this version's words
    return k->conf < 0 ? -1 : 0;
}

static int serve(struct server *s, struct err *err)
{
    enum log_level level = LOG_INFO;
    conf_forget_secrets(&s->conf);
    (void)log_parse_level(s->conf.log_level, &level);
    log_set_level(level);
    s->serving.drain_ms = s->conf.drain_ms;
    s->serving.boxes = (struct keeper_config){
        .data = s->conf.data,
        .boxes = s->conf.boxes,
        .image = s->conf.image,
        .pool_ready = s->conf.pool,
        .pool_blank = s->conf.pool_blank,
        .preload = strcmp(s->conf.preload, "off") == 0 ? NULL : s->conf.preload,
        .zygote_renew_ms = s->conf.zygote_renew_ms,
        .pack = s->pack,
        .volume_bytes = s->conf.volume,
        .disk_spare = s->conf.disk_spare,
    };
    int r = keeper_serve(&s->serving, err);
    (void)unlink(s->conf.socket);
    (void)ftruncate(s->serving.status, 0);
    return r;
}

static int check_root(struct err *err)
{
    return geteuid() == 0
               ? 0
               : err_set(err, ERR_DENIED,
                         "boxes are made by root, so the server is started by root: sudo cay serve "
                         "(what is open to the network runs as an unprivileged user)");
}

int cmd_serve(int argc, char **argv)
{
    static struct server s;
    struct err err = {0};
    bool resumes = argc == 3 && strcmp(argv[1], "--resume") == 0;
    if (conf_init(&s.conf, &err) < 0)
        return cli_fail(&err);
    int which = resumes ? OPT_END : conf_read(&s.conf, argc, argv, &err);
    if (which == OPT_FAILED)
        return cli_usage("serve", &err);
    if (which == OPT_HELP)
        return CLI_OK;
    int r = check_root(&err);
    if (r == 0)
        r = find_programs(&s, &err);
    if (r == 0)
        r = resumes ? resume(&s, argv[2], &err) : prepare(&s, &err);
    if (r == 0)
        r = serve(&s, &err);
    conf_done(&s.conf);
    return r < 0 ? cli_fail(&err) : CLI_OK;
}
