// SPDX-License-Identifier: Apache-2.0
#include "model/transfer.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/clock.h"
#include "model/net.h"

enum { CONNECT_MS = 30 * 1000, HEAD_MAX = 256 * 1024, BYTES_MAX = 64 * 1024 * 1024 };

// --- the head of the answer

static void head_reset(struct transfer_head *head)
{
    *head = (struct transfer_head){.should_retry = -1, .retry_after_ms = -1};
}

static void on_content_type(struct transfer_head *head, const char *value)
{
    head->is_event_stream = strncasecmp(value, "text/event-stream", 17) == 0;
}

static void on_should_retry(struct transfer_head *head, const char *value)
{
    if (strcmp(value, "true") == 0 || strcmp(value, "false") == 0)
        head->should_retry = value[0] == 't';
}

// A number of `unit` milliseconds, as far as it is one.
static int64_t parse_wait(const char *value, double unit)
{
    char *end = NULL;
    double n = strtod(value, &end);
    if (end == value || *end != '\0' || !(n >= 0) || n * unit > 1e12)
        return -1;
    return (int64_t)(n * unit);
}

static void on_retry_after_ms(struct transfer_head *head, const char *value)
{
    int64_t ms = parse_wait(value, 1);
    if (ms >= 0)
        head->retry_after_ms = ms;
}

// Seconds, or a date. The one in milliseconds is the better one.
static void on_retry_after(struct transfer_head *head, const char *value)
{
    int64_t ms = parse_wait(value, 1000);
    if (head->retry_after_ms >= 0)
        return;
    if (ms < 0) {
        time_t at = curl_getdate(value, NULL);
        if (at == -1)
            return;
        ms = ((int64_t)at - (int64_t)time(NULL)) * 1000;
    }
    head->retry_after_ms = ms > 0 ? ms : 0;
}

static void on_request_id(struct transfer_head *head, const char *value)
{
    (void)snprintf(head->request_id, sizeof head->request_id, "%s", value);
}

static const struct {
    const char *name;
    void (*fn)(struct transfer_head *head, const char *value);
} fields[] = {
    {"content-type",   on_content_type  },
    {"x-should-retry", on_should_retry  },
    {"retry-after-ms", on_retry_after_ms},
    {"retry-after",    on_retry_after   },
    {"request-id",     on_request_id    },
};

static void take_field(struct transfer_head *head, char *line)
{
    char *value = strchr(line, ':');
    if (value == NULL)
        return;
    *value++ = '\0';
    value += strspn(value, " \t");
    value[strcspn(value, "\r\n")] = '\0';
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (strcasecmp(line, fields[i].name) == 0)
            fields[i].fn(head, value);
}

// --- called by libcurl: nothing is told from here

static size_t on_header(char *bytes, size_t size, size_t n, void *data)
{
    struct transfer *transfer = data;
    char line[512];
    (void)size; // 1
    transfer->head_len += n;
    if (transfer->head_len > HEAD_MAX)
        return 0;
    transfer->head.heard_ns = clock_ns();
    if (transfer->has_body || n >= sizeof line) // trailers, and what nobody here asks for
        return n;
    memcpy(line, bytes, n);
    line[n] = '\0';
    if (strncmp(line, "HTTP/", 5) == 0) { // also of the final answer after an interim one
        const char *status = strchr(line, ' ');
        head_reset(&transfer->head);
        transfer->head.heard_ns = clock_ns();
        transfer->head.status = status != NULL ? (unsigned)strtoul(status, NULL, 10) : 0;
    } else {
        take_field(&transfer->head, line);
    }
    return n;
}

static size_t on_body(char *bytes, size_t size, size_t n, void *data)
{
    struct transfer *transfer = data;
    struct net *net = transfer->net;
    (void)size; // 1
    transfer->has_body = true;
    transfer->head.heard_ns = clock_ns();
    if (buf_append(&transfer->bytes, bytes, n) < 0)
        return 0;
    if (!transfer->is_ready && n > 0) {
        transfer->is_ready = true;
        transfer->next_ready = NULL;
        *net->ready_end = transfer;
        net->ready_end = &transfer->next_ready;
    }
    return n;
}

// The address here is the one that is connected to, after all resolving.
static curl_socket_t on_open_socket(void *data, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct transfer *transfer = data;
    const struct net_config *config = &transfer->net->config;
    if (purpose != CURLSOCKTYPE_IPCXN)
        return CURL_SOCKET_BAD;
    if (transfer->guarded && (config->may_connect == NULL ||
                              !config->may_connect(config->data, &address->addr, transfer->tls))) {
        transfer->refused = true;
        return CURL_SOCKET_BAD;
    }
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static CURLcode on_tls(CURL *easy, void *ctx, void *data)
{
    struct transfer *transfer = data;
    (void)easy;
    SSL_CTX_set1_cert_store(ctx, transfer->net->trusted);
    return CURLE_OK;
}

// --- starting

static void add_headers(struct transfer *transfer, const char *const *lines)
{
    // libcurl would ask before it sends a large body, and wait for the answer.
    transfer->headers = curl_slist_append(NULL, "Expect:");
    for (; *lines != NULL && transfer->headers != NULL; lines++) {
        struct curl_slist *more = curl_slist_append(transfer->headers, *lines);
        if (more == NULL)
            abort();
        transfer->headers = more;
    }
    if (transfer->headers == NULL)
        abort();
}

#define SET(transfer, option, value)                                                               \
    do {                                                                                           \
        if (curl_easy_setopt((transfer)->easy, option, value) != CURLE_OK)                         \
            abort();                                                                               \
    } while (0)

// An address that is checked must be the one that is spoken to: nothing that leads elsewhere.
static void set_where(struct transfer *transfer, const struct transfer_request *request)
{
    SET(transfer, CURLOPT_URL, request->url);
    SET(transfer, CURLOPT_PROTOCOLS_STR, "http,https");
    SET(transfer, CURLOPT_FOLLOWLOCATION, 0L);
    if (request->guarded)
        SET(transfer, CURLOPT_PROXY, "");
    SET(transfer, CURLOPT_OPENSOCKETFUNCTION, on_open_socket);
    SET(transfer, CURLOPT_OPENSOCKETDATA, transfer);
    SET(transfer, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    SET(transfer, CURLOPT_TIMEOUT_MS, (long)request->timeout_ms);
    SET(transfer, CURLOPT_TCP_NODELAY, 1L);
    SET(transfer, CURLOPT_TCP_KEEPALIVE, 1L);
    SET(transfer, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    SET(transfer, CURLOPT_CAINFO, NULL); // all that is trusted comes from on_tls
    SET(transfer, CURLOPT_CAPATH, NULL);
    SET(transfer, CURLOPT_SSL_CTX_FUNCTION, on_tls);
    SET(transfer, CURLOPT_SSL_CTX_DATA, transfer);
}

static void set_what(struct transfer *transfer, const struct transfer_request *request)
{
    SET(transfer, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
    SET(transfer, CURLOPT_POST, 1L);
    SET(transfer, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body_len);
    SET(transfer, CURLOPT_POSTFIELDS, request->body);
    SET(transfer, CURLOPT_HTTPHEADER, transfer->headers);
    SET(transfer, CURLOPT_USERAGENT, "cay/" CAY_VERSION);
}

static void set_callbacks(struct transfer *transfer)
{
    SET(transfer, CURLOPT_PRIVATE, transfer);
    SET(transfer, CURLOPT_NOSIGNAL, 1L);
    SET(transfer, CURLOPT_ERRORBUFFER, transfer->error);
    SET(transfer, CURLOPT_HEADERFUNCTION, on_header);
    SET(transfer, CURLOPT_HEADERDATA, transfer);
    SET(transfer, CURLOPT_WRITEFUNCTION, on_body);
    SET(transfer, CURLOPT_WRITEDATA, transfer);
}

static void link_to(struct transfer *transfer, struct net *net)
{
    transfer->net = net;
    transfer->next = net->all;
    transfer->at = &net->all;
    if (net->all != NULL)
        net->all->at = &transfer->next;
    net->all = transfer;
}

struct transfer *transfer_start(struct net *net, const struct transfer_request *request,
                                const struct transfer_ops *ops, void *data)
{
    struct transfer *transfer = calloc(1, sizeof *transfer);
    if (transfer == NULL || (transfer->easy = curl_easy_init()) == NULL)
        abort();
    link_to(transfer, net);
    transfer->ops = *ops;
    transfer->data = data;
    transfer->guarded = request->guarded;
    transfer->tls = strncmp(request->url, "https:", 6) == 0;
    head_reset(&transfer->head);
    buf_init(&transfer->bytes, BYTES_MAX);
    add_headers(transfer, request->headers);
    set_where(transfer, request);
    set_what(transfer, request);
    set_callbacks(transfer);
    transfer->multi = net->lanes[request->guarded ? LANE_GUARDED : LANE_OPEN].multi;
    if (curl_multi_add_handle(transfer->multi, transfer->easy) != CURLM_OK)
        abort();
    return transfer;
}

const struct transfer_head *transfer_head(const struct transfer *transfer)
{
    return &transfer->head;
}

// --- ending

// Out of everything; it is told and freed, but does nothing any more.
static void unlink_from(struct transfer *transfer)
{
    struct net *net = transfer->net;
    if (transfer->multi != NULL)
        (void)curl_multi_remove_handle(transfer->multi, transfer->easy);
    transfer->multi = NULL;
    if (transfer->at != NULL) {
        *transfer->at = transfer->next;
        if (transfer->next != NULL)
            transfer->next->at = transfer->at;
    }
    transfer->at = NULL;
    if (!transfer->is_ready)
        return;
    struct transfer **at = &net->ready;
    while (*at != transfer)
        at = &(*at)->next_ready;
    *at = transfer->next_ready;
    if (*at == NULL)
        net->ready_end = at;
    transfer->is_ready = false;
}

void transfer_free(struct transfer *transfer)
{
    if (transfer == NULL)
        return;
    unlink_from(transfer);
    curl_easy_cleanup(transfer->easy);
    // One of them is the credential.
    for (struct curl_slist *line = transfer->headers; line != NULL; line = line->next)
        sodium_memzero(line->data, strlen(line->data));
    curl_slist_free_all(transfer->headers);
    buf_done(&transfer->bytes);
    free(transfer);
}

static bool is_pointless(CURLcode code)
{
    return code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL ||
           code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_OUT_OF_MEMORY ||
           code == CURLE_ABORTED_BY_CALLBACK;
}

void transfer_has_ended(struct transfer *transfer, CURLcode code)
{
    bool refused = transfer->refused && code == CURLE_COULDNT_CONNECT;
    const struct transfer_end end = {
        .is_whole = code == CURLE_OK,
        .is_pointless = refused || is_pointless(code),
        .why = code == CURLE_OK           ? ""
               : refused                  ? "its address is not one that may be connected to"
               : *transfer->error != '\0' ? transfer->error
                                          : curl_easy_strerror(code),
    };
    unlink_from(transfer);
    transfer->ops.end(transfer->data, &end);
}
