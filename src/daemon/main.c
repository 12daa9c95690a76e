// SPDX-License-Identifier: Apache-2.0
// cayd: the daemon. Started by the keeper (`cay serve`), which hands it: 3 the keeper's socket, 4
// its settings, 5 and 6 the listening sockets (TCP, unix). It may be killed at any moment; the
// keeper starts another one, which takes over what runs.
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "agents/agent-file.h"
#include "agents/agents.h"
#include "agents/task.h"
#include "api/api.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "conf/conf.h"
#include "daemon/confine.h"
#include "daemon/expire.h"
#include "daemon/model-token.h"
#include "db/db.h"
#include "edge/http.h"
#include "egress/egress.h"
#include "model/keys.h"
#include "move/move.h"
#include "sandbox/sandbox.h"
#include "saved/saved.h"
#include "store/store.h"

enum { FD_KEEPER = 3, FD_CONF, FD_TCP, FD_UNIX };
// Threads. One that waits for a disk holds up what it has beside that, so that conversations have
// some of their own.
enum { FILE_MOVERS = 4, RELAY_MOVERS = 2 };
enum { CONF_MAX = 64 * 1024, CHECKPOINT_MS = 5000, DRAIN_LOOK_MS = 20 };
enum { TELL_MS = 3000 }; // for what was cancelled at the end to be stored, and told

struct daemon {
    struct conf conf;
    uv_loop_t loop;
    struct db *db;
    char *db_path;
    int logs_fd;
    int dir_fd; // DATA/daemon
    struct agent_files *agent_files;
    int components_fd; // -1: there is none
    struct mover *files, *relays;
    struct secrets *secrets;
    struct model *model;
    struct model_keys *keys;
    struct egress *egress;
    struct agents *agents;
    struct fleet *fleet;
    int store_fd; // its directory, of store = local; -1
    struct store *store;
    struct saved *saved;
    struct api *api;
    struct http_server *http;
    uv_signal_t term, interrupt;
    uv_timer_t checkpoint, drain;
    uv_work_t checkpoint_work;
    bool checkpointing, draining, cancelling, stopped;
    int64_t drain_until_ns;
    int64_t run;
    int exit_code;
};

static int fail(const struct err *err)
{
    log_line(LOG_ERROR, "the daemon cannot start", "error", err->msg, NULL);
    return 1;
}

// --- the log of the database moves into it now and then, on a thread: that one waits for the disk

static void checkpoint_work(uv_work_t *work)
{
    struct daemon *d = work->data;
    struct err err = {0};
    if (db_checkpoint(d->db_path, &err) < 0)
        log_line(LOG_WARN, "cannot write the database's log back", "error", err.msg, NULL);
}

static void checkpoint_done(uv_work_t *work, int status)
{
    struct daemon *d = work->data;
    (void)status;
    d->checkpointing = false;
}

static void on_checkpoint(uv_timer_t *timer)
{
    enum { DAY_MS = 24 * 3600 * 1000 };
    struct daemon *d = timer->data;
    struct err err = {0};
    if (db_idem_expire(d->db, db_now_ms() - DAY_MS, &err) < 0)
        log_line(LOG_WARN, "cannot expire idempotency keys", "error", err.msg, NULL);
    expire_rows(d->db, d->conf.keep_results_ms);
    if (d->checkpointing)
        return;
    d->checkpoint_work.data = d;
    d->checkpointing =
        uv_queue_work(&d->loop, &d->checkpoint_work, checkpoint_work, checkpoint_done) == 0;
}

// --- ending

static void on_stopped(void *data)
{
    struct daemon *d = data;
    d->stopped = true;
    log_line(LOG_INFO, "stopped", NULL);
    uv_stop(&d->loop);
}

// What is asked of a model counts also when nobody waits for it.
static unsigned count_runs(const struct daemon *d)
{
    struct agents_stats stats = {0};
    if (d->agents != NULL)
        agents_stats(d->agents, &stats);
    return stats.open;
}

static void cancel_runs(struct daemon *d)
{
    d->cancelling = true;
    d->drain_until_ns = clock_ns() + TELL_MS * NS_PER_MS;
    agents_stop(d->agents);
}

static void on_drain(uv_timer_t *timer)
{
    struct daemon *d = timer->data;
    unsigned active = d->http != NULL ? http_active(d->http) : 0;
    unsigned runs = count_runs(d);
    if (active + runs > 0 && clock_ns() < d->drain_until_ns)
        return;
    if (runs > 0 && !d->cancelling) {
        cancel_runs(d);
        return;
    }
    (void)uv_timer_stop(timer);
    if (d->fleet != NULL)
        fleet_stop(d->fleet, on_stopped, d);
    else
        on_stopped(d);
}

static void on_signal(uv_signal_t *handle, int signum)
{
    struct daemon *d = handle->data;
    (void)signum;
    if (d->draining)
        return;
    d->draining = true;
    d->drain_until_ns = clock_ns() + d->conf.drain_ms * NS_PER_MS;
    log_line(LOG_INFO, "draining", NULL);
    if (d->api != NULL)
        api_drain(d->api);
    if (d->http != NULL)
        http_drain(d->http);
    (void)uv_timer_start(&d->drain, on_drain, 0, DRAIN_LOOK_MS);
}

static void on_lost(void *data)
{
    struct daemon *d = data;
    d->exit_code = 1;
    uv_stop(&d->loop);
}

// --- starting

static int read_conf(struct daemon *d, struct err *err)
{
    static char text[CONF_MAX];
    ssize_t n = fd_read_all(FD_CONF, text, sizeof text - 1);
    fd_close(FD_CONF);
    if (n < 0)
        return err_set(err, ERR_INVALID, "no settings: cayd is started by 'cay serve'");
    text[n] = '\0';
    int r = conf_parse_text(&d->conf, text, err);
    sodium_memzero(text, sizeof text);
    return r;
}

// A folder that a setting names: that of the default need not be there. -1: none.
static int open_folder(const char *name, const char *path, const char *fallback, int *ret,
                       struct err *err)
{
    *ret = *path != '\0' ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (*path == '\0' || *ret >= 0)
        return 0;
    if (strcmp(path, fallback) != 0)
        return err_sys(err, errno, "%s: open '%.200s', as the user that the server runs as", name,
                       path);
    if (errno != ENOENT)
        log_line(LOG_WARN, "a folder cannot be read, ignoring", "path", path, "errno",
                 LOG_U64((uint64_t)errno), NULL);
    return 0;
}

static int open_folders(struct daemon *d, struct err *err)
{
    int agents_fd;
    const struct conf *conf = &d->conf;
    if (open_folder("components", conf->components, CONF_COMPONENTS, &d->components_fd, err) < 0 ||
        open_folder("agents", conf->agents, CONF_AGENTS, &agents_fd, err) < 0)
        return -1;
    int r = agent_files_open(agents_fd >= 0 ? conf->agents : NULL, &d->agent_files, err);
    fd_close(agents_fd);
    return r < 0 ? err_wrap(err, "agents") : 0;
}

static int open_files(struct daemon *d, struct err *err)
{
    char path[4096];
    (void)umask(0077);
    (void)snprintf(path, sizeof path, "%s/daemon", d->conf.data);
    d->dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (d->dir_fd < 0)
        return err_sys(err, errno, "open the daemon's directory");
    (void)snprintf(path, sizeof path, "%s/daemon/logs", d->conf.data);
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return err_sys(err, errno, "make the directory of logs");
    d->logs_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (d->logs_fd < 0)
        return err_sys(err, errno, "open the directory of logs");
    if (asprintf(&d->db_path, "%s/daemon/cay.db", d->conf.data) < 0)
        abort();
    if (db_open(d->db_path, &d->db, err) < 0)
        return -1;
    db_result_limit(d->db, d->conf.max_results, (int64_t)d->conf.max_results_bytes);
    return 0;
}

// Settings may say "any that is free".
static uint16_t listen_port(void)
{
    struct sockaddr_storage at = {0};
    socklen_t len = sizeof at;
    if (getsockname(FD_TCP, (struct sockaddr *)&at, &len) < 0)
        return 0;
    // The port is at the same place in both families.
    return ntohs(((struct sockaddr_in *)&at)->sin_port);
}

static int serve(struct daemon *d, struct err *err)
{
    const struct api_config api = {
        .loop = &d->loop,
        .db = d->db,
        .fleet = d->fleet,
        .mover = d->files,
        .secrets = d->secrets,
        .egress = d->egress,
        .agents = d->agents,
        .saved = d->saved,
        .preview_domain = d->conf.preview_domain,
        .port = listen_port(),
        .behind_proxy = d->conf.behind_proxy,
        .cors = d->conf.cors,
        .token = d->conf.token,
        .open = strcmp(d->conf.auth, "none") == 0,
        .rate = d->conf.rate,
        .run = d->run,
    };
    if (api_open(&api, &d->api, err) < 0)
        return -1;
    const struct http_listener listeners[] = {
        {.fd = FD_TCP,  .local = false},
        {.fd = FD_UNIX, .local = true },
    };
    const struct http_config http = {
        .loop = &d->loop,
        .listeners = listeners,
        .n_listeners = 2,
        .handler = api_handle,
        .is_raw = api_is_raw,
        .is_known = api_is_known,
        .refusal = api_refusal,
        .data = d->api,
    };
    return http_start(&http, &d->http, err);
}

// Rows, boxes and disks agree: requests, which have waited in the listening sockets, are taken now.
static void on_ready(void *data)
{
    struct daemon *d = data;
    struct err err = {0};
    if (d->draining)
        return;
    tasks_resume(d->agents); // before somebody asks for one
    saved_start(d->saved);
    if (serve(d, &err) < 0) {
        (void)fail(&err);
        on_lost(d);
        return;
    }
    egress_serve(d->egress);
    fleet_serving(d->fleet);
    log_line(LOG_INFO, "serving", "version", CAY_VERSION, NULL);
}

static bool may_connect(void *data, const struct sockaddr *address, bool tls)
{
    struct daemon *d = data;
    return d->egress != NULL && egress_may_connect(d->egress, address, tls);
}

static void save_token(void *data, const char *state)
{
    struct daemon *d = data;
    model_token_save(d->dir_fd, state);
}

static int open_keys(struct daemon *d, struct err *err)
{
    char *state = model_token_load(d->dir_fd);
    const struct model_keys_config config = {
        .model = d->model,
        .base_url = d->conf.base_url,
        .api_key = d->conf.api_key,
        .auth_token = d->conf.auth_token,
        .refresh_token = d->conf.refresh_token,
        .token_url = d->conf.token_url,
        .client_id = d->conf.client_id,
        .save = save_token,
        .state = state,
        .data = d,
    };
    int r = model_keys_open(&config, &d->keys, err);
    if (state != NULL)
        sodium_memzero(state, strlen(state));
    free(state);
    return r;
}

static int open_model(struct daemon *d, struct err *err)
{
    const struct model_config config = {
        .loop = &d->loop,
        .ca_file = d->conf.egress_ca,
        .may_connect = may_connect,
        .data = d,
    };
    return model_open(&config, &d->model, err) < 0 ? -1 : open_keys(d, err);
}

static int open_agents(struct daemon *d, struct err *err)
{
    const struct agents_config config = {
        .loop = &d->loop,
        .db = d->db,
        .fleet = d->fleet,
        .secrets = d->secrets,
        .model = d->model,
        .keys = d->keys,
        .default_model = d->conf.model,
        .run = d->run,
        .agent_files = d->agent_files,
        .components_fd = d->components_fd,
        .task_timeout_ms = d->conf.max_execution_ms,
    };
    return agents_open(&config, &d->agents, err);
}

static int open_egress(struct daemon *d, struct err *err)
{
    const struct egress_config config = {
        .loop = &d->loop,
        .fleet = d->fleet,
        .mover = d->relays,
        .secrets = d->secrets,
        .keys = d->keys,
        .opened = d->conf.egress_private,
        .ca_file = d->conf.egress_ca,
        .listen_fd = FD_TCP,
    };
    return egress_open(&config, &d->egress, err);
}

static int open_fleet(struct daemon *d, struct err *err)
{
    const struct fleet_config config = {
        .loop = &d->loop,
        .db = d->db,
        .keeper = FD_KEEPER,
        .logs_fd = d->logs_fd,
        .process_log = d->conf.process_log,
        .image = d->conf.image,
        .memory_spare = d->conf.memory_spare,
        .sleep_after_ms = d->conf.sleep_after_ms,
        .tenant_sandboxes = d->conf.tenant_sandboxes,
        .tenant_running = d->conf.tenant_running,
        .tenant_memory = (int64_t)d->conf.tenant_memory,
        .tenant_disk = (int64_t)d->conf.tenant_disk,
    };
    if (fleet_open(&config, on_ready, on_lost, d, &d->fleet, err) < 0)
        return -1;
    // the keeper has not been heard yet
    if (open_egress(d, err) < 0 || open_agents(d, err) < 0)
        return -1;
    const struct saved_config saved = {
        .loop = &d->loop,
        .db = d->db,
        .fleet = d->fleet,
        .store = d->store,
        .run = d->run,
    };
    return saved_open(&saved, &d->saved, err);
}

// One that cannot be reached now is no reason not to start: /health says so.
static int open_store(struct daemon *d, struct err *err)
{
    const struct conf *conf = &d->conf;
    const struct store_s3 s3 = {
        .endpoint = conf->s3_endpoint,
        .bucket = conf->s3_bucket,
        .region = conf->s3_region,
        .prefix = conf->s3_prefix,
        .access_key = conf->s3_access_key,
        .secret_key = conf->s3_secret_key,
        .host_style = strcmp(conf->s3_style, "host") == 0,
        .ca_file = conf->s3_ca,
    };
    char path[4096];
    bool is_s3 = strcmp(conf->store, "s3") == 0, named = conf->store_dir[0] != '\0';
    (void)snprintf(path, sizeof path, "%s%s", named ? conf->store_dir : conf->data,
                   named ? "" : "/store");
    if (!is_s3)
        d->store_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (!is_s3 && d->store_fd < 0)
        return err_sys(err, errno, "store-dir: open '%.200s'", path);
    // Twice what boxes leave: they go on when the store takes no more.
    const struct store_config config = {
        .dir = d->store_fd, .spare = 2 * conf->disk_spare, .s3 = is_s3 ? &s3 : NULL};
    return store_open(&config, &d->store, err) < 0 ? err_wrap(err, "store") : 0;
}

static void start_handles(struct daemon *d)
{
    (void)uv_signal_init(&d->loop, &d->term);
    (void)uv_signal_init(&d->loop, &d->interrupt);
    d->term.data = d->interrupt.data = d;
    (void)uv_signal_start(&d->term, on_signal, SIGTERM);
    (void)uv_signal_start(&d->interrupt, on_signal, SIGINT);
    (void)uv_timer_init(&d->loop, &d->checkpoint);
    (void)uv_timer_init(&d->loop, &d->drain);
    d->checkpoint.data = d->drain.data = d;
    (void)uv_timer_start(&d->checkpoint, on_checkpoint, CHECKPOINT_MS, CHECKPOINT_MS);
}

static int start(struct daemon *d, struct err *err)
{
    enum log_level level;
    if (conf_init(&d->conf, err) < 0 || read_conf(d, err) < 0)
        return -1;
    if (log_parse_level(d->conf.log_level, &level) == 0)
        log_set_level(level);
    if (sodium_init() < 0)
        return err_set(err, ERR_INTERNAL, "libsodium does not start");
    randombytes_buf(&d->run, sizeof d->run);
    d->run &= INT64_MAX;
    (void)signal(SIGPIPE, SIG_IGN);
    d->store_fd = -1;
    if (open_files(d, err) < 0 || open_folders(d, err) < 0 || open_store(d, err) < 0 ||
        uv_loop_init(&d->loop) < 0)
        return err->code != ERR_NONE ? -1 : err_set(err, ERR_INTERNAL, "no event loop");
    if (confine(err) < 0 || mover_open(&d->loop, FILE_MOVERS, &d->files, err) < 0 ||
        mover_open(&d->loop, RELAY_MOVERS, &d->relays, err) < 0 ||
        secrets_open(d->db, d->dir_fd, &d->secrets, err) < 0 || open_model(d, err) < 0)
        return -1;
    start_handles(d);
    return open_fleet(d, err);
}

static void close_all(uv_handle_t *handle, void *arg)
{
    (void)arg;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

// In order, so that the sanitizers' builds see what is left over.
static void finish(struct daemon *d)
{
    if (d->http != NULL)
        http_stop(d->http);
    agents_close(d->agents);
    if (d->egress != NULL)
        egress_close(d->egress);
    if (d->files != NULL) // before those whose descriptors its threads have
        mover_close(d->files);
    if (d->relays != NULL)
        mover_close(d->relays);
    saved_close(d->saved);
    api_free(d->api);
    fleet_free(d->fleet);
    model_keys_close(d->keys);
    model_close(d->model);
    uv_walk(&d->loop, close_all, NULL);
    (void)uv_run(&d->loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&d->loop);
    if (d->secrets != NULL)
        secrets_close(d->secrets);
    db_close(d->db);
    free(d->db_path);
    fd_close(d->logs_fd);
    fd_close(d->dir_fd);
    fd_close(d->components_fd);
    store_close(d->store);
    fd_close(d->store_fd);
    agent_files_free(d->agent_files);
    conf_done(&d->conf);
}

int main(int argc, char **argv)
{
    static struct daemon d;
    struct err err = {0};
    if (argc > 1 && strcmp(argv[1], "--version") == 0) {
        (void)puts("cayd " CAY_VERSION);
        return 0;
    }
    (void)prctl(PR_SET_NAME, "cayd", 0, 0,
                0); // the keeper may have executed a descriptor, not a name
    if (start(&d, &err) < 0)
        return fail(&err);
    (void)uv_run(&d.loop, UV_RUN_DEFAULT);
    finish(&d);
    return d.exit_code;
}
