// SPDX-License-Identifier: Apache-2.0
// One request, signed, and its answer.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "store/s3-internal.h"
#include "store/s3-sign.h"
#include "store/sha256.h"

enum { URL_MAX = 16 * 1024, CONNECT_MS = 10000, BACKOFF_MS = 100, BACKOFF_MOST_MS = 5000 };

void s3_call_init(struct s3_call *call, const char *method, const char *key)
{
    *call = (struct s3_call){.method = method, .key = key, .length = -1};
    buf_init(&call->answer, S3_ANSWER_MAX);
}

void s3_call_done(struct s3_call *call)
{
    buf_done(&call->answer);
}

static void add(struct s3_param *params, const char *name, const char *value)
{
    unsigned n = 0;
    while (params[n].name != NULL)
        n++;
    if (n == S3_PARAMS_MAX)
        abort();
    params[n] = (struct s3_param){.name = name, .value = value};
}

void s3_call_param(struct s3_call *call, const char *name, const char *value)
{
    add(call->params, name, value);
}

void s3_call_header(struct s3_call *call, const char *name, const char *value)
{
    add(call->headers, name, value);
}

// --- handles ---

static CURL *take_handle(struct s3 *s3)
{
    (void)pthread_mutex_lock(&s3->lock);
    CURL *curl = s3->n_idle > 0 ? s3->idle[--s3->n_idle] : NULL;
    (void)pthread_mutex_unlock(&s3->lock);
    if (curl != NULL)
        curl_easy_reset(curl); // connections stay
    return curl != NULL ? curl : curl_easy_init();
}

static void give_handle(struct s3 *s3, CURL *curl)
{
    (void)pthread_mutex_lock(&s3->lock);
    bool kept = s3->n_idle < sizeof s3->idle / sizeof *s3->idle;
    if (kept)
        s3->idle[s3->n_idle++] = curl;
    (void)pthread_mutex_unlock(&s3->lock);
    if (!kept)
        curl_easy_cleanup(curl);
}

// --- request ---

struct request {
    struct s3 *s3;
    struct s3_call *call;
    CURL *curl;
    struct buf path, query;
    struct curl_slist *headers;
    char said[CURL_ERROR_SIZE];
    int64_t moved_ns; // when a byte last moved
    curl_off_t moved;
    bool stalled, stopped, refused; // why it was broken off; refused: by who takes the answer
    bool has_head;                  // all of the answer's
    struct err *err;
};

static void make_path(struct request *r)
{
    (void)buf_append_str(&r->path, r->s3->base);
    (void)buf_append_char(&r->path, '/');
    if (r->call->key != NULL) {
        s3_encode(&r->path, r->s3->prefix, true);
        s3_encode(&r->path, r->call->key, true);
    }
    for (const struct s3_param *p = r->call->params; p->name != NULL; p++) {
        (void)buf_printf(&r->query, "%s%s=", r->query.len > 0 ? "&" : "", p->name);
        s3_encode(&r->query, p->value, false);
    }
}

static int add_header(struct request *r, const char *name, const char *value)
{
    auto_buf line;
    buf_init(&line, URL_MAX);
    int failed = buf_printf(&line, "%s: %s", name, value);
    struct curl_slist *more = failed == 0 ? curl_slist_append(r->headers, line.data) : NULL;
    if (line.data != NULL)
        explicit_bzero(line.data, line.len);
    if (more == NULL)
        return -ENOMEM;
    r->headers = more;
    return 0;
}

static bool is_signed(const char *name)
{
    return strncmp(name, "x-amz-", 6) == 0 || strcmp(name, "content-md5") == 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct s3_field *)a)->name, ((const struct s3_field *)b)->name);
}

static int sign(struct request *r)
{
    const struct s3 *s3 = r->s3;
    const struct s3_call *call = r->call;
    struct s3_field fields[S3_PARAMS_MAX + 3];
    unsigned n = 0;
    uint8_t sha[32];
    char payload[65], when[20];
    time_t now = time(NULL);
    struct tm tm;
    (void)strftime(when, sizeof when, "%Y%m%dT%H%M%SZ", gmtime_r(&now, &tm));
    sha256_of(call->body != NULL ? call->body : "", call->body_len, sha);
    sha256_hex(sha, payload);
    fields[n++] = (struct s3_field){"host", s3->host};
    fields[n++] = (struct s3_field){"x-amz-content-sha256", payload};
    fields[n++] = (struct s3_field){"x-amz-date", when};
    for (const struct s3_param *h = call->headers; h->name != NULL; h++) {
        if (is_signed(h->name))
            fields[n++] = (struct s3_field){h->name, h->value};
    }
    qsort(fields, n, sizeof *fields, by_name);
    const struct s3_signed request = {
        .method = call->method,
        .path = buf_str(&r->path),
        .query = buf_str(&r->query),
        .fields = fields,
        .n_fields = n,
        .payload = payload,
        .region = s3->region,
        .access_key = s3->access_key,
        .secret_key = s3->secret_key,
        .when = when,
    };
    auto_buf authorization;
    buf_init(&authorization, URL_MAX);
    s3_sign(&request, &authorization);
    int failed = authorization.failed;
    if (failed == 0)
        failed = add_header(r, "Authorization", buf_str(&authorization));
    for (unsigned i = 0; failed == 0 && i < n; i++)
        failed = add_header(r, fields[i].name, fields[i].value);
    for (const struct s3_param *h = call->headers; failed == 0 && h->name != NULL; h++)
        failed = is_signed(h->name) ? 0 : add_header(r, h->name, h->value);
    return failed;
}

// --- answer ---

// Of a header's line, "Name: value\r\n": the value, where it is of that name.
static bool value_of(const char *line, size_t len, const char *name, char *ret, size_t size)
{
    size_t n = strlen(name);
    if (len <= n || strncasecmp(line, name, n) != 0 || line[n] != ':')
        return false;
    const char *at = line + n + 1, *end = line + len;
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    while (end > at && (unsigned char)end[-1] <= ' ')
        end--;
    if ((size_t)(end - at) >= size)
        return false;
    memcpy(ret, at, (size_t)(end - at));
    ret[end - at] = '\0';
    for (const char *p = ret; *p != '\0'; p++) {
        // It may be sent back, in a header or in XML.
        if ((unsigned char)*p < ' ' || (unsigned char)*p >= 0x7f || strchr("<>&", *p) != NULL)
            *ret = '\0';
    }
    return true;
}

static void forget_answer(struct s3_call *call)
{
    call->status = 0;
    buf_reset(&call->answer);
    call->code[0] = call->etag[0] = call->range[0] = call->sha256[0] = call->mark[0] = '\0';
    call->length = -1;
    call->modified_ms = 0;
}

static size_t on_header(char *line, size_t one, size_t len, void *data)
{
    struct request *r = data;
    struct s3_call *call = r->call;
    char text[64];
    (void)one;
    if (len >= 5 && memcmp(line, "HTTP/", 5) == 0)
        forget_answer(call); // of "100 Continue"
    r->has_head = len == 2 && memcmp(line, "\r\n", 2) == 0;
    (void)value_of(line, len, "etag", call->etag, sizeof call->etag);
    (void)value_of(line, len, "content-range", call->range, sizeof call->range);
    (void)value_of(line, len, "x-amz-meta-sha256", call->sha256, sizeof call->sha256);
    (void)value_of(line, len, "x-amz-meta-cay-upload", call->mark, sizeof call->mark);
    if (value_of(line, len, "content-length", text, sizeof text)) {
        uint64_t n;
        struct err ignored;
        call->length = parse_u64(text, 0, INT64_MAX, &n, &ignored) == 0 ? (int64_t)n : -1;
    }
    if (value_of(line, len, "last-modified", text, sizeof text)) {
        time_t t = curl_getdate(text, NULL);
        call->modified_ms = t > 0 ? (int64_t)t * 1000 : 0;
    }
    return len;
}

static size_t on_body(char *bytes, size_t one, size_t len, void *data)
{
    struct request *r = data;
    struct s3_call *call = r->call;
    (void)one;
    (void)curl_easy_getinfo(r->curl, CURLINFO_RESPONSE_CODE, &call->status);
    bool is_good = call->status >= 200 && call->status < 300;
    if (!is_good || call->sink == NULL)
        return buf_append(&call->answer, bytes, len) == 0 ? len : 0;
    r->s3->tally->bytes_out += len;
    r->refused = call->sink(call->sink_data, bytes, len, r->err) < 0;
    r->moved_ns = clock_ns(); // it may have waited
    return r->refused ? 0 : len;
}

static int on_progress(void *data, curl_off_t down_all, curl_off_t down, curl_off_t up_all,
                       curl_off_t up)
{
    struct request *r = data;
    (void)down_all, (void)up_all;
    int64_t now = clock_ns();
    if (down + up != r->moved)
        r->moved_ns = now;
    r->moved = down + up;
    r->stalled = now - r->moved_ns > (int64_t)r->s3->patience_ms * NS_PER_MS;
    r->stopped = store_stopped(r->call->stop);
    return r->stalled || r->stopped;
}

// --- both ---

static void set_transport(struct request *r)
{
    const struct s3 *s3 = r->s3;
    long connect_ms = s3->patience_ms < CONNECT_MS ? (long)s3->patience_ms : CONNECT_MS;
    (void)curl_easy_setopt(r->curl, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(r->curl, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(r->curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    (void)curl_easy_setopt(r->curl, CURLOPT_PROXY, "");
    (void)curl_easy_setopt(r->curl, CURLOPT_PATH_AS_IS, 1L);
    (void)curl_easy_setopt(r->curl, CURLOPT_CONNECTTIMEOUT_MS, connect_ms);
    (void)curl_easy_setopt(r->curl, CURLOPT_TCP_KEEPALIVE, 1L);
    (void)curl_easy_setopt(r->curl, CURLOPT_BUFFERSIZE, 256L * 1024);
    (void)curl_easy_setopt(r->curl, CURLOPT_USERAGENT, "cay/" CAY_VERSION);
    (void)curl_easy_setopt(r->curl, CURLOPT_ERRORBUFFER, r->said);
    if (s3->ca_file[0] != '\0')
        (void)curl_easy_setopt(r->curl, CURLOPT_CAINFO, s3->ca_file);
}

static void set_takers(struct request *r)
{
    (void)curl_easy_setopt(r->curl, CURLOPT_HEADERFUNCTION, on_header);
    (void)curl_easy_setopt(r->curl, CURLOPT_HEADERDATA, r);
    (void)curl_easy_setopt(r->curl, CURLOPT_WRITEFUNCTION, on_body);
    (void)curl_easy_setopt(r->curl, CURLOPT_WRITEDATA, r);
    (void)curl_easy_setopt(r->curl, CURLOPT_NOPROGRESS, 0L);
    (void)curl_easy_setopt(r->curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    (void)curl_easy_setopt(r->curl, CURLOPT_XFERINFODATA, r);
}

static void set_body(struct request *r)
{
    const struct s3_call *call = r->call;
    if (strcmp(call->method, "HEAD") == 0) {
        (void)curl_easy_setopt(r->curl, CURLOPT_NOBODY, 1L);
    } else if (call->body != NULL) {
        (void)curl_easy_setopt(r->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)call->body_len);
        (void)curl_easy_setopt(r->curl, CURLOPT_POSTFIELDS, call->body);
    }
    (void)curl_easy_setopt(r->curl, CURLOPT_CUSTOMREQUEST, call->method);
}

static int set_request(struct request *r)
{
    auto_buf url;
    make_path(r);
    buf_init(&url, URL_MAX);
    (void)buf_printf(&url, "%s%s%s%s", r->s3->origin, buf_str(&r->path),
                     r->query.len > 0 ? "?" : "", buf_str(&r->query));
    if (url.failed < 0 || r->path.failed < 0 || r->query.failed < 0)
        return -E2BIG;
    int failed = sign(r);
    if (failed == 0 && r->call->body != NULL)
        failed = add_header(r, "content-type", "application/octet-stream");
    if (failed == 0) // no waiting for "100 Continue"
        failed = (r->headers = curl_slist_append(r->headers, "Expect:")) != NULL ? 0 : -ENOMEM;
    if (failed < 0)
        return failed;
    set_transport(r);
    set_takers(r);
    set_body(r);
    (void)curl_easy_setopt(r->curl, CURLOPT_HTTPHEADER, r->headers);
    return curl_easy_setopt(r->curl, CURLOPT_URL, buf_str(&url)) == CURLE_OK ? 0 : -ENOMEM;
}

// --- how it ended ---

static enum s3_end say_broken(const struct request *r, CURLcode code)
{
    const char *said = r->said[0] != '\0' ? r->said : curl_easy_strerror(code);
    switch ((int)code) {
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
        (void)err_set(r->err, ERR_DENIED, "s3-endpoint: its certificate is not trusted (s3-ca): %s",
                      said);
        return S3_BAD;
    case CURLE_URL_MALFORMAT:
        (void)err_set(r->err, ERR_INVALID, "s3-endpoint: '%.80s' is no address", r->s3->origin);
        return S3_BAD;
    case CURLE_OUT_OF_MEMORY:
        (void)err_sys(r->err, ENOMEM, "ask the store");
        return S3_BAD;
    default:
        (void)err_set(r->err, ERR_UNAVAILABLE, "the store at %.80s does not answer: %.120s",
                      r->s3->origin, said);
        return S3_AGAIN;
    }
}

static enum s3_end read_end(const struct request *r, CURLcode code)
{
    struct s3_call *call = r->call;
    (void)curl_easy_getinfo(r->curl, CURLINFO_RESPONSE_CODE, &call->status);
    if (r->refused) // err is said
        return S3_BAD;
    if (r->stopped) {
        (void)store_say_stopped(r->err);
        return S3_BAD;
    }
    if (r->stalled) {
        (void)err_set(r->err, ERR_UNAVAILABLE, "the store at %.80s is too slow: nothing for %u ms",
                      r->s3->origin, r->s3->patience_ms);
        return S3_AGAIN;
    }
    if (call->answer.failed < 0) {
        (void)err_set(r->err, ERR_UNAVAILABLE, "the store's answer is too long");
        return S3_BAD;
    }
    if (code != CURLE_OK)
        return say_broken(r, code);
    if (!r->has_head) // libcurl takes what ends in the middle of its head for an answer
        return say_broken(r, CURLE_GOT_NOTHING);
    if (call->status >= 200 && call->status < 300) {
        r->s3->bucket_seen_ns = clock_ns();
        return S3_GOOD;
    }
    return s3_read_error(r->s3, call, r->err);
}

static void request_done(struct request *r)
{
    for (struct curl_slist *h = r->headers; h != NULL; h = h->next)
        explicit_bzero(h->data, strlen(h->data));
    curl_slist_free_all(r->headers);
    buf_done(&r->path);
    buf_done(&r->query);
}

enum s3_end s3_try(struct s3 *s3, struct s3_call *call, struct err *err)
{
    enum s3_end end = S3_BAD;
    struct request r = {.s3 = s3, .call = call, .err = err, .moved_ns = clock_ns()};
    buf_init(&r.path, URL_MAX);
    buf_init(&r.query, URL_MAX);
    forget_answer(call);
    r.curl = take_handle(s3);
    int failed = r.curl != NULL ? set_request(&r) : -ENOMEM;
    if (failed < 0) {
        (void)err_sys(err, -failed, "ask the store");
    } else if (store_stopped(call->stop)) {
        (void)store_say_stopped(err);
    } else {
        end = read_end(&r, curl_easy_perform(r.curl));
        if (end == S3_GOOD && call->body != NULL)
            s3->tally->bytes_in += call->body_len;
    }
    if (r.curl != NULL) {
        curl_easy_reset(r.curl); // the headers it was lent are secret, and go
        give_handle(s3, r.curl);
    }
    request_done(&r);
    return end;
}

// --- again ---

bool s3_wait(struct s3 *s3, unsigned n, const atomic_bool *stop)
{
    int64_t ms = (int64_t)BACKOFF_MS << (n < 8 ? n : 8);
    struct timespec now;
    s3->tally->retried++;
    ms = ms < BACKOFF_MOST_MS ? ms : BACKOFF_MOST_MS;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    ms = ms / 2 + now.tv_nsec / 1000 % (ms / 2 + 1); // not all at once
    for (int64_t end = clock_ns() + ms * NS_PER_MS; clock_ns() < end;) {
        if (store_stopped(stop))
            return false;
        (void)usleep(20000);
    }
    return true;
}

int s3_perform(struct s3 *s3, struct s3_call *call, struct err *err)
{
    unsigned tries = call->tries > 0 ? call->tries : s3->tries;
    for (unsigned n = 1;; n++) {
        enum s3_end end = s3_try(s3, call, err);
        if (end == S3_GOOD)
            return 0;
        if (end == S3_BAD || n >= tries)
            return -1;
        if (!s3_wait(s3, n, call->stop))
            return store_say_stopped(err);
    }
}
