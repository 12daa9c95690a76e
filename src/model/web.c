// SPDX-License-Identifier: Apache-2.0
// libcurl says which sockets it waits for and when it wants to be called (lane_on_socket,
// lane_on_timer); the loop watches them and calls it (lane_act). What libcurl calls back with is
// only noted, and told to others once it has returned: from inside of it nothing may be removed.
#include "model/web.h"

#include <stdlib.h>
#include <string.h>

enum { CONNECTIONS_KEPT = 64, SPARE_MAX = 256 * 1024, BYTES_MAX = 64 * 1024 * 1024 };

struct watch {
    uv_poll_t poll;
    struct lane *lane;
    curl_socket_t fd;
};

static void maybe_free(struct web *web)
{
    if (!web->is_closing || web->handles > 0)
        return;
    X509_STORE_free(web_trusted(web));
    buf_done(&web->spare);
    free(web);
    curl_global_cleanup();
}

// --- telling

void web_tell_bytes(struct web *web)
{
    while (web->ready != NULL) {
        struct fetch *fetch = web->ready;
        struct buf bytes = fetch->bytes;
        web->ready = fetch->next_ready;
        if (web->ready == NULL)
            web->ready_end = &web->ready;
        fetch->is_ready = false;
        fetch->bytes = web->spare;
        buf_init(&web->spare, BYTES_MAX);
        fetch_resume(fetch);
        fetch->ops.bytes(fetch->data, bytes.data, bytes.len);
        // The fetch may be gone now.
        buf_reset(&bytes);
        if (web->spare.data != NULL || bytes.cap > SPARE_MAX)
            buf_done(&bytes);
        else
            web->spare = bytes;
    }
}

static void tell_ends(struct lane *lane)
{
    CURLMsg *msg = NULL;
    int left = 0;
    while (lane->multi != NULL && (msg = curl_multi_info_read(lane->multi, &left)) != NULL) {
        struct fetch *fetch = NULL;
        CURLcode code = msg->data.result;
        if (msg->msg != CURLMSG_DONE)
            continue;
        (void)curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, &fetch);
        fetch_has_ended(fetch, code);
    }
}

static void lane_act(struct lane *lane, curl_socket_t fd, int what)
{
    int running = 0;
    if (lane->multi == NULL)
        return;
    lane->is_acting = true;
    (void)curl_multi_socket_action(lane->multi, fd, what, &running);
    web_tell_bytes(lane->web);
    lane->is_acting = false;
    tell_ends(lane);
}

// --- what libcurl waits for

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct watch *watch = poll->data;
    int what = (events & UV_READABLE ? CURL_CSELECT_IN : 0) |
               (events & UV_WRITABLE ? CURL_CSELECT_OUT : 0);
    lane_act(watch->lane, watch->fd, status < 0 ? CURL_CSELECT_ERR : what);
}

static void on_watch_closed(uv_handle_t *handle)
{
    struct watch *watch = handle->data;
    struct web *web = watch->lane->web;
    free(watch);
    web->handles--;
    maybe_free(web);
}

static struct watch *watch_new(struct lane *lane, curl_socket_t fd)
{
    struct watch *watch = calloc(1, sizeof *watch);
    if (watch == NULL)
        abort();
    watch->lane = lane;
    watch->fd = fd;
    watch->poll.data = watch;
    if (uv_poll_init_socket(lane->web->config.loop, &watch->poll, fd) < 0) {
        free(watch);
        return NULL;
    }
    lane->web->handles++;
    return watch;
}

static int lane_on_socket(CURL *easy, curl_socket_t fd, int what, void *data, void *socket_data)
{
    struct lane *lane = data;
    struct watch *watch = socket_data;
    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        if (watch != NULL)
            uv_close((uv_handle_t *)&watch->poll, on_watch_closed);
        (void)curl_multi_assign(lane->multi, fd, NULL);
        return 0;
    }
    if (watch == NULL && (watch = watch_new(lane, fd)) == NULL)
        return -1;
    (void)curl_multi_assign(lane->multi, fd, watch);
    int events = (what & CURL_POLL_IN ? UV_READABLE : 0) | (what & CURL_POLL_OUT ? UV_WRITABLE : 0);
    return uv_poll_start(&watch->poll, events, on_poll) < 0 ? -1 : 0;
}

static void on_timer(uv_timer_t *timer)
{
    struct lane *lane = timer->data;
    lane_act(lane, CURL_SOCKET_TIMEOUT, 0);
}

static int lane_on_timer(CURLM *multi, long ms, void *data)
{
    struct lane *lane = data;
    (void)multi;
    if (lane->web->is_closing)
        return 0;
    if (ms < 0)
        return uv_timer_stop(&lane->timer);
    // The loop would run a timer that is due at once again and again, before anything else.
    return uv_timer_start(&lane->timer, on_timer, ms > 0 || !lane->is_acting ? (uint64_t)ms : 1, 0);
}

static int lane_open(struct lane *lane, struct web *web, struct err *err)
{
    lane->web = web;
    lane->multi = curl_multi_init();
    if (lane->multi == NULL)
        return err_set(err, ERR_INTERNAL, "libcurl does not start");
    (void)curl_multi_setopt(lane->multi, CURLMOPT_SOCKETFUNCTION, lane_on_socket);
    (void)curl_multi_setopt(lane->multi, CURLMOPT_SOCKETDATA, lane);
    (void)curl_multi_setopt(lane->multi, CURLMOPT_TIMERFUNCTION, lane_on_timer);
    (void)curl_multi_setopt(lane->multi, CURLMOPT_TIMERDATA, lane);
    (void)curl_multi_setopt(lane->multi, CURLMOPT_MAXCONNECTS, (long)CONNECTIONS_KEPT);
    lane->timer.data = lane;
    web->handles++;
    return uv_timer_init(web->config.loop, &lane->timer);
}

// --- certificates: the machine's, and those of a file. One store for all connections: libcurl
// would read the files anew for each. The machine's are many and take tens of milliseconds, so they
// are loaded when the first connection that needs them begins, on a thread, while that one is made.

static int load_file(struct web *web, struct err *err)
{
    const char *ca_file = web->config.ca_file;
    web->trusted = X509_STORE_new();
    if (web->trusted == NULL)
        abort();
    if (ca_file != NULL && *ca_file != '\0' && X509_STORE_load_file(web->trusted, ca_file) != 1)
        return err_set(err, ERR_INVALID, "'%s' is not a file of certificates that can be read",
                       ca_file);
    return 0;
}

// Without them nobody is trusted, which whoever connects will be told.
static void load_machine(void *data)
{
    (void)X509_STORE_set_default_paths(data);
}

void web_load_trusted(struct web *web)
{
    if (web->has_loader || web->has_loaded)
        return;
    web->has_loader = uv_thread_create(&web->loader, load_machine, web->trusted) == 0;
    if (web->has_loader)
        return;
    load_machine(web->trusted);
    web->has_loaded = true;
}

X509_STORE *web_trusted(struct web *web)
{
    if (web->has_loader && !web->has_loaded) {
        (void)uv_thread_join(&web->loader);
        web->has_loaded = true;
    }
    return web->trusted;
}

// --- opening and closing

static int check_curl(struct err *err)
{
    const curl_version_info_data *info = curl_version_info(CURLVERSION_NOW);
    if (info->ssl_version == NULL || strstr(info->ssl_version, "OpenSSL") == NULL)
        return err_set(err, ERR_UNSUPPORTED, "libcurl is not built with OpenSSL");
    return 0;
}

int web_open(const struct web_config *config, struct web **ret, struct err *err)
{
    struct web *web = NULL;
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return err_set(err, ERR_INTERNAL, "libcurl does not start");
    web = calloc(1, sizeof *web);
    if (web == NULL)
        abort();
    web->config = *config;
    web->ready_end = &web->ready;
    buf_init(&web->spare, BYTES_MAX);
    int r = check_curl(err);
    if (r == 0)
        r = load_file(web, err);
    for (unsigned i = 0; r == 0 && i < LANE_MAX; i++)
        r = lane_open(&web->lanes[i], web, err);
    if (r < 0) {
        web_close(web);
        return -1;
    }
    web->config.ca_file = NULL; // the caller's
    *ret = web;
    return 0;
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct lane *lane = handle->data;
    lane->web->handles--;
    maybe_free(lane->web);
}

static void lane_close(struct lane *lane)
{
    CURLM *multi = lane->multi;
    if (multi == NULL)
        return;
    uv_close((uv_handle_t *)&lane->timer, on_timer_closed);
    (void)curl_multi_cleanup(multi);
    lane->multi = NULL;
}

void web_close(struct web *web)
{
    if (web == NULL)
        return;
    while (web->all != NULL)
        fetch_has_ended(web->all, CURLE_ABORTED_BY_CALLBACK);
    web->is_closing = true;
    for (unsigned i = 0; i < LANE_MAX; i++)
        lane_close(&web->lanes[i]);
    maybe_free(web);
}
