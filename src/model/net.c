// SPDX-License-Identifier: Apache-2.0
// libcurl says which sockets it waits for and when it wants to be called (lane_on_socket,
// lane_on_timer); the loop watches them and calls it (lane_act). What libcurl calls back with is
// only noted, and told to others once it has returned: from inside of it nothing may be removed.
#include "model/net.h"

#include <stdlib.h>
#include <string.h>

enum { CONNECTIONS_KEPT = 64, SPARE_MAX = 256 * 1024, BYTES_MAX = 64 * 1024 * 1024 };

struct watch {
    uv_poll_t poll;
    struct lane *lane;
    curl_socket_t fd;
};

static void maybe_free(struct net *net)
{
    if (!net->is_closing || net->handles > 0)
        return;
    X509_STORE_free(net->trusted);
    buf_done(&net->spare);
    free(net);
    curl_global_cleanup();
}

// --- telling

void net_tell_bytes(struct net *net)
{
    while (net->ready != NULL) {
        struct transfer *transfer = net->ready;
        struct buf bytes = transfer->bytes;
        net->ready = transfer->next_ready;
        if (net->ready == NULL)
            net->ready_end = &net->ready;
        transfer->is_ready = false;
        transfer->bytes = net->spare;
        buf_init(&net->spare, BYTES_MAX);
        transfer->ops.bytes(transfer->data, bytes.data, bytes.len);
        // The transfer may be gone now.
        buf_reset(&bytes);
        if (net->spare.data != NULL || bytes.cap > SPARE_MAX)
            buf_done(&bytes);
        else
            net->spare = bytes;
    }
}

static void tell_ends(struct lane *lane)
{
    CURLMsg *msg = NULL;
    int left = 0;
    while (lane->multi != NULL && (msg = curl_multi_info_read(lane->multi, &left)) != NULL) {
        struct transfer *transfer = NULL;
        CURLcode code = msg->data.result;
        if (msg->msg != CURLMSG_DONE)
            continue;
        (void)curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, &transfer);
        transfer_has_ended(transfer, code);
    }
}

static void lane_act(struct lane *lane, curl_socket_t fd, int what)
{
    int running = 0;
    if (lane->multi == NULL)
        return;
    (void)curl_multi_socket_action(lane->multi, fd, what, &running);
    net_tell_bytes(lane->net);
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
    struct net *net = watch->lane->net;
    free(watch);
    net->handles--;
    maybe_free(net);
}

static struct watch *watch_new(struct lane *lane, curl_socket_t fd)
{
    struct watch *watch = calloc(1, sizeof *watch);
    if (watch == NULL)
        abort();
    watch->lane = lane;
    watch->fd = fd;
    watch->poll.data = watch;
    if (uv_poll_init_socket(lane->net->config.loop, &watch->poll, fd) < 0) {
        free(watch);
        return NULL;
    }
    lane->net->handles++;
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
    if (lane->net->is_closing)
        return 0;
    if (ms < 0)
        return uv_timer_stop(&lane->timer);
    return uv_timer_start(&lane->timer, on_timer, (uint64_t)ms, 0);
}

// --- opening and closing

static int lane_open(struct lane *lane, struct net *net, struct err *err)
{
    lane->net = net;
    lane->multi = curl_multi_init();
    if (lane->multi == NULL)
        return err_set(err, ERR_INTERNAL, "libcurl does not start");
    (void)curl_multi_setopt(lane->multi, CURLMOPT_SOCKETFUNCTION, lane_on_socket);
    (void)curl_multi_setopt(lane->multi, CURLMOPT_SOCKETDATA, lane);
    (void)curl_multi_setopt(lane->multi, CURLMOPT_TIMERFUNCTION, lane_on_timer);
    (void)curl_multi_setopt(lane->multi, CURLMOPT_TIMERDATA, lane);
    (void)curl_multi_setopt(lane->multi, CURLMOPT_MAXCONNECTS, (long)CONNECTIONS_KEPT);
    lane->timer.data = lane;
    net->handles++;
    return uv_timer_init(net->config.loop, &lane->timer);
}

// The machine's certificates, looked up by name when they are needed, and those of a file. One
// store for all connections: libcurl would read the files anew for each.
static int load_trusted(struct net *net, struct err *err)
{
    const char *ca_file = net->config.ca_file;
    net->trusted = X509_STORE_new();
    if (net->trusted == NULL || X509_STORE_set_default_paths(net->trusted) != 1)
        return err_set(err, ERR_INTERNAL, "TLS: the machine's certificates");
    if (ca_file != NULL && *ca_file != '\0' && X509_STORE_load_file(net->trusted, ca_file) != 1)
        return err_set(err, ERR_INVALID, "'%s' is not a file of certificates that can be read",
                       ca_file);
    return 0;
}

static int check_curl(struct err *err)
{
    const curl_version_info_data *info = curl_version_info(CURLVERSION_NOW);
    if (info->ssl_version == NULL || strstr(info->ssl_version, "OpenSSL") == NULL)
        return err_set(err, ERR_UNSUPPORTED, "libcurl is not built with OpenSSL");
    return 0;
}

int net_open(const struct net_config *config, struct net **ret, struct err *err)
{
    struct net *net = NULL;
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return err_set(err, ERR_INTERNAL, "libcurl does not start");
    net = calloc(1, sizeof *net);
    if (net == NULL)
        abort();
    net->config = *config;
    net->ready_end = &net->ready;
    buf_init(&net->spare, BYTES_MAX);
    int r = check_curl(err);
    if (r == 0)
        r = load_trusted(net, err);
    for (unsigned i = 0; r == 0 && i < LANE_MAX; i++)
        r = lane_open(&net->lanes[i], net, err);
    if (r < 0) {
        net_close(net);
        return -1;
    }
    net->config.ca_file = NULL; // the caller's
    *ret = net;
    return 0;
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct lane *lane = handle->data;
    lane->net->handles--;
    maybe_free(lane->net);
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

void net_close(struct net *net)
{
    if (net == NULL)
        return;
    while (net->all != NULL)
        transfer_has_ended(net->all, CURLE_ABORTED_BY_CALLBACK);
    net->is_closing = true;
    for (unsigned i = 0; i < LANE_MAX; i++)
        lane_close(&net->lanes[i]);
    maybe_free(net);
}
