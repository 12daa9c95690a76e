// SPDX-License-Identifier: Apache-2.0
#include "model/fetch.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/clock.h"
#include "model/web.h"

enum {
    CONNECT_MS = 30 * 1000,
    HEAD_MAX = 256 * 1024,
    BYTES_MAX = 64 * 1024 * 1024,
    TURN = 128 * 1024, // bytes, before others have theirs
};

// --- the head of the answer

static void head_reset(struct fetch_head *head)
{
    *head = (struct fetch_head){.should_retry = -1, .retry_after_ms = -1};
}

static void on_content_type(struct fetch_head *head, const char *value)
{
    head->is_event_stream = strncasecmp(value, "text/event-stream", 17) == 0;
}

static void on_should_retry(struct fetch_head *head, const char *value)
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

static void on_retry_after_ms(struct fetch_head *head, const char *value)
{
    int64_t ms = parse_wait(value, 1);
    if (ms >= 0)
        head->retry_after_ms = ms;
}

// Seconds, or a date. The one in milliseconds is the better one.
static void on_retry_after(struct fetch_head *head, const char *value)
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

static void on_request_id(struct fetch_head *head, const char *value)
{
    (void)snprintf(head->request_id, sizeof head->request_id, "%s", value);
}

static const struct {
    const char *name;
    void (*fn)(struct fetch_head *head, const char *value);
} fields[] = {
    {"content-type",   on_content_type  },
    {"x-should-retry", on_should_retry  },
    {"retry-after-ms", on_retry_after_ms},
    {"retry-after",    on_retry_after   },
    {"request-id",     on_request_id    },
};

static void take_field(struct fetch_head *head, char *line)
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
    struct fetch *fetch = data;
    char line[512];
    (void)size; // 1
    fetch->head_len += n;
    if (fetch->head_len > HEAD_MAX)
        return 0;
    fetch->head.heard_ns = clock_ns();
    if (fetch->has_body || n >= sizeof line) // trailers, and what nobody here asks for
        return n;
    memcpy(line, bytes, n);
    line[n] = '\0';
    if (strncmp(line, "HTTP/", 5) == 0) { // also of the final answer after an interim one
        const char *status = strchr(line, ' ');
        head_reset(&fetch->head);
        fetch->head.heard_ns = clock_ns();
        fetch->head.status = status != NULL ? (unsigned)strtoul(status, NULL, 10) : 0;
    } else if (line[0] == '\r' || line[0] == '\n') {
        fetch->head.is_whole = fetch->head.status >= 200;
    } else {
        take_field(&fetch->head, line);
    }
    return n;
}

static size_t on_body(char *bytes, size_t size, size_t n, void *data)
{
    struct fetch *fetch = data;
    struct web *web = fetch->web;
    (void)size; // 1
    fetch->has_body = true;
    fetch->head.heard_ns = clock_ns();
    // libcurl would go on as long as anything arrives, and nothing else would happen meanwhile.
    if (fetch->bytes.len >= TURN) {
        fetch->is_paused = true;
        return CURL_WRITEFUNC_PAUSE;
    }
    if (buf_append(&fetch->bytes, bytes, n) < 0)
        return 0;
    if (!fetch->is_ready && n > 0) {
        fetch->is_ready = true;
        fetch->next_ready = NULL;
        *web->ready_end = fetch;
        web->ready_end = &fetch->next_ready;
    }
    return n;
}

// The address here is the one that is connected to, after all resolving.
static curl_socket_t on_open_socket(void *data, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct fetch *fetch = data;
    const struct web_config *config = &fetch->web->config;
    if (purpose != CURLSOCKTYPE_IPCXN)
        return CURL_SOCKET_BAD;
    if (fetch->guarded && (config->may_connect == NULL ||
                           !config->may_connect(config->data, &address->addr, fetch->tls))) {
        fetch->refused = true;
        return CURL_SOCKET_BAD;
    }
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static CURLcode on_tls(CURL *easy, void *ctx, void *data)
{
    struct fetch *fetch = data;
    (void)easy;
    SSL_CTX_set1_cert_store(ctx, web_trusted(fetch->web));
    return CURLE_OK;
}

// --- starting

static void add_headers(struct fetch *fetch, const char *const *lines)
{
    // libcurl would ask before it sends a large body, and wait for the answer.
    fetch->headers = curl_slist_append(NULL, "Expect:");
    for (; *lines != NULL && fetch->headers != NULL; lines++) {
        struct curl_slist *more = curl_slist_append(fetch->headers, *lines);
        if (more == NULL)
            abort();
        fetch->headers = more;
    }
    if (fetch->headers == NULL)
        abort();
}

#define SET(fetch, option, value)                                                                  \
    do {                                                                                           \
        if (curl_easy_setopt((fetch)->easy, option, value) != CURLE_OK)                            \
            abort();                                                                               \
    } while (0)

// An address that is checked must be the one that is spoken to: nothing that leads elsewhere.
static void set_where(struct fetch *fetch, const struct fetch_request *request)
{
    SET(fetch, CURLOPT_URL, request->url);
    SET(fetch, CURLOPT_PROTOCOLS_STR, "http,https");
    SET(fetch, CURLOPT_FOLLOWLOCATION, 0L);
    if (request->guarded)
        SET(fetch, CURLOPT_PROXY, "");
    SET(fetch, CURLOPT_OPENSOCKETFUNCTION, on_open_socket);
    SET(fetch, CURLOPT_OPENSOCKETDATA, fetch);
    SET(fetch, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    SET(fetch, CURLOPT_TIMEOUT_MS, (long)request->timeout_ms);
    SET(fetch, CURLOPT_TCP_NODELAY, 1L);
    SET(fetch, CURLOPT_TCP_KEEPALIVE, 1L);
    SET(fetch, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    SET(fetch, CURLOPT_CAINFO, NULL); // all that is trusted comes from on_tls
    SET(fetch, CURLOPT_CAPATH, NULL);
    SET(fetch, CURLOPT_SSL_CTX_FUNCTION, on_tls);
    SET(fetch, CURLOPT_SSL_CTX_DATA, fetch);
}

static void set_what(struct fetch *fetch, const struct fetch_request *request)
{
    SET(fetch, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
    SET(fetch, CURLOPT_POST, 1L);
    SET(fetch, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body_len);
    SET(fetch, CURLOPT_POSTFIELDS, request->body);
    SET(fetch, CURLOPT_HTTPHEADER, fetch->headers);
    SET(fetch, CURLOPT_USERAGENT, "cay/" CAY_VERSION);
}

static void set_callbacks(struct fetch *fetch)
{
    SET(fetch, CURLOPT_PRIVATE, fetch);
    SET(fetch, CURLOPT_NOSIGNAL, 1L);
    // Else whoever gives up while a name is looked up waits for the answer, and all others with
    // him.
    SET(fetch, CURLOPT_QUICK_EXIT, 1L);
    SET(fetch, CURLOPT_ERRORBUFFER, fetch->error);
    SET(fetch, CURLOPT_HEADERFUNCTION, on_header);
    SET(fetch, CURLOPT_HEADERDATA, fetch);
    SET(fetch, CURLOPT_WRITEFUNCTION, on_body);
    SET(fetch, CURLOPT_WRITEDATA, fetch);
}

static void link_to(struct fetch *fetch, struct web *web)
{
    fetch->web = web;
    fetch->next = web->all;
    fetch->at = &web->all;
    if (web->all != NULL)
        web->all->at = &fetch->next;
    web->all = fetch;
}

struct fetch *fetch_start(struct web *web, const struct fetch_request *request,
                          const struct fetch_ops *ops, void *data)
{
    struct fetch *fetch = calloc(1, sizeof *fetch);
    if (fetch == NULL || (fetch->easy = curl_easy_init()) == NULL)
        abort();
    link_to(fetch, web);
    fetch->ops = *ops;
    fetch->data = data;
    fetch->guarded = request->guarded;
    fetch->tls = strncmp(request->url, "https:", 6) == 0;
    head_reset(&fetch->head);
    buf_init(&fetch->bytes, BYTES_MAX);
    if (fetch->tls)
        web_load_trusted(web);
    add_headers(fetch, request->headers);
    set_where(fetch, request);
    set_what(fetch, request);
    set_callbacks(fetch);
    fetch->multi = web->lanes[request->guarded ? LANE_GUARDED : LANE_OPEN].multi;
    if (curl_multi_add_handle(fetch->multi, fetch->easy) != CURLM_OK)
        abort();
    return fetch;
}

const struct fetch_head *fetch_head(const struct fetch *fetch)
{
    return &fetch->head;
}

void fetch_resume(struct fetch *fetch)
{
    if (!fetch->is_paused)
        return;
    fetch->is_paused = false;
    (void)curl_easy_pause(fetch->easy, CURLPAUSE_CONT);
}

// --- ending

// Out of everything; it is told and freed, but does nothing any more.
static void unlink_from(struct fetch *fetch)
{
    struct web *web = fetch->web;
    if (fetch->multi != NULL)
        (void)curl_multi_remove_handle(fetch->multi, fetch->easy);
    fetch->multi = NULL;
    if (fetch->at != NULL) {
        *fetch->at = fetch->next;
        if (fetch->next != NULL)
            fetch->next->at = fetch->at;
    }
    fetch->at = NULL;
    if (!fetch->is_ready)
        return;
    struct fetch **at = &web->ready;
    while (*at != fetch)
        at = &(*at)->next_ready;
    *at = fetch->next_ready;
    if (*at == NULL)
        web->ready_end = at;
    fetch->is_ready = false;
}

void fetch_free(struct fetch *fetch)
{
    if (fetch == NULL)
        return;
    unlink_from(fetch);
    curl_easy_cleanup(fetch->easy);
    // One of them is the credential.
    for (struct curl_slist *line = fetch->headers; line != NULL; line = line->next)
        sodium_memzero(line->data, strlen(line->data));
    curl_slist_free_all(fetch->headers);
    buf_done(&fetch->bytes);
    free(fetch);
}

static bool is_pointless(CURLcode code)
{
    return code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL ||
           code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_OUT_OF_MEMORY ||
           code == CURLE_ABORTED_BY_CALLBACK;
}

// The server ended the connection just when it was used again. libcurl notices by itself if it
// finds that out when it reads, not when it writes.
static bool is_stale(const struct fetch *fetch, CURLcode code)
{
    long connects = 1;
    (void)curl_easy_getinfo(fetch->easy, CURLINFO_NUM_CONNECTS, &connects);
    return connects == 0 && fetch->head.heard_ns == 0 &&
           (code == CURLE_SEND_ERROR || code == CURLE_RECV_ERROR || code == CURLE_GOT_NOTHING);
}

void fetch_has_ended(struct fetch *fetch, CURLcode code)
{
    bool refused = fetch->refused && code == CURLE_COULDNT_CONNECT;
    // To libcurl an end in the midst of the head is as good as any.
    if (code == CURLE_OK && !fetch->head.is_whole)
        code = CURLE_RECV_ERROR;
    const struct fetch_end end = {
        .is_whole = code == CURLE_OK,
        .is_pointless = refused || is_pointless(code),
        .is_stale = is_stale(fetch, code),
        .why = code == CURLE_OK        ? ""
               : refused               ? "its address is private, not one that may be connected to "
                                         "(egress-private is the server's setting for that)"
               : *fetch->error != '\0' ? fetch->error
                                       : curl_easy_strerror(code),
    };
    unlink_from(fetch);
    fetch->ops.end(fetch->data, &end);
}
