// SPDX-License-Identifier: Apache-2.0
// Which requests of a box go on to a model. With the installation's own key only those that ask it
// something: the same key opens files, batches and the administration of an organisation. And none
// beyond the sandbox's budget. What is refused is refused in the API's own shape, so that whatever
// program asked can show why.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "egress/egress-internal.h"

enum {
    AT_ONCE_MAX = 8, // requests of a sandbox with a budget, which may all be too much
    ERROR_MAX = 8 * 1024,
    NANO = 1000 * 1000 * 1000,
};

// --- the API's errors

static const char *type_of(unsigned status)
{
    static const struct {
        unsigned status;
        const char *type;
    } types[] = {
        {401, "authentication_error"},
        {402, "billing_error"       },
        {403, "permission_error"    },
        {404, "not_found_error"     },
        {429, "rate_limit_error"    },
        {502, "api_error"           },
        {503, "api_error"           },
        {504, "timeout_error"       },
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (types[i].status == status)
            return types[i].type;
    }
    return "invalid_request_error";
}

// Clients ask again by themselves where there is hope: not where a person has to change something.
static const char *fields_of(unsigned status)
{
    if (status == 429)
        return "Retry-After: 1\r\n";
    return status < 500 ? "x-should-retry: false\r\n" : "";
}

// Without the line's end that refusals of text have.
static size_t text_len(const char *text)
{
    size_t len = strlen(text);
    return len > 0 && text[len - 1] == '\n' ? len - 1 : len;
}

void gate_write_error(const struct conn *conn, unsigned status, const char *text, struct buf *ret)
{
    auto_buf buf;
    struct json j;
    buf_init(&buf, ERROR_MAX);
    json_init(&j, &buf);
    json_open_object(&j);
    json_key(&j, "type");
    json_put_str(&j, "error");
    json_key(&j, "error");
    json_open_object(&j);
    json_key(&j, "type");
    json_put_str(&j, type_of(status));
    json_key(&j, "message");
    json_put_strn(&j, text, text_len(text));
    json_close_object(&j);
    json_close_object(&j);
    const char *body = json_finish(&j) == 0 ? buf_str(&buf) : "{}";
    exchange_write_answer_with(conn->x, ret, status, "application/json", fields_of(status), body);
}

// --- the budget

// Of what is above 0 and cannot run over.
static int64_t sum(int64_t a, int64_t b)
{
    return a > INT64_MAX - b ? INT64_MAX : a + b;
}

struct account {
    int64_t cost, tokens; // spent, and being spent
    int64_t max_cost, max_tokens;
};

static struct account account_of(const struct outlet *outlet)
{
    const struct sandbox_row *row = sandbox_row(outlet->s);
    return (struct account){
        .cost = sum(row->spent_cost, outlet->running.cost),
        .tokens = sum(row->spent_tokens, outlet->running.tokens),
        .max_cost = row->budget_cost,
        .max_tokens = row->budget_tokens,
    };
}

static bool has_budget(const struct account *a)
{
    return a->max_cost >= 0 || a->max_tokens >= 0;
}

static bool is_used_up(const struct account *a)
{
    return (a->max_cost >= 0 && a->cost >= a->max_cost) ||
           (a->max_tokens >= 0 && a->tokens >= a->max_tokens);
}

static bool is_passed(const struct account *a)
{
    return (a->max_cost >= 0 && a->cost > a->max_cost) ||
           (a->max_tokens >= 0 && a->tokens > a->max_tokens);
}

static void write_pair(char *ret, size_t size, int64_t cost, int64_t tokens)
{
    int n = 0;
    *ret = '\0';
    if (cost >= 0)
        n = snprintf(ret, size, "\"usd\":%" PRId64 ".%09" PRId64, cost / NANO, cost % NANO);
    if (tokens >= 0)
        (void)snprintf(ret + n, size - (size_t)n, "%s\"tokens\":%" PRId64, n > 0 ? "," : "",
                       tokens);
}

// Once for each budget that was set.
static void tell_exceeded(struct outlet *outlet, const struct account *a)
{
    char budget[96], spent[96], data[256];
    if (outlet->told_exceeded && outlet->told_cost == a->max_cost &&
        outlet->told_tokens == a->max_tokens)
        return;
    outlet->told_exceeded = true;
    outlet->told_cost = a->max_cost;
    outlet->told_tokens = a->max_tokens;
    write_pair(budget, sizeof budget, a->max_cost, a->max_tokens);
    write_pair(spent, sizeof spent, a->cost, a->tokens);
    (void)snprintf(data, sizeof data, "{\"budget\":{%s},\"spent\":{%s}}", budget, spent);
    sandbox_event(outlet->s, "budget_exceeded", data);
}

bool gate_is_over(struct outlet *outlet)
{
    struct account a = account_of(outlet);
    if (is_used_up(&a))
        tell_exceeded(outlet, &a);
    return is_passed(&a);
}

static bool refuse_used_up(struct conn *conn, const struct account *a)
{
    char budget[96], spent[96];
    write_pair(budget, sizeof budget, a->max_cost, a->max_tokens);
    write_pair(spent, sizeof spent, a->cost, a->tokens);
    tell_exceeded(conn->outlet, a);
    proxy_refuse(conn, 402,
                 "cay: this sandbox's budget is used up: {%s} spent of {%s}. To raise it: PATCH "
                 "/sandbox/%s {\"budget\": {...}}",
                 spent, budget, outlet_id(conn->outlet));
    return false;
}

// --- the paths

enum { ASKS = 1, READS = 2 };

static const struct path {
    const char *path;
    bool has_more; // one further part
    int methods;
} paths[] = {
    {"/v1/messages",              false, ASKS },
    {"/v1/messages/count_tokens", false, ASKS },
    {"/v1/models",                false, READS},
    {"/v1/models/",               true,  READS},
};

static struct h1_text without_query(struct h1_text path)
{
    const char *query = memchr(path.at, '?', path.len);
    return (struct h1_text){path.at, query != NULL ? (size_t)(query - path.at) : path.len};
}

// Nothing that anybody could read as more than a name.
static bool is_name(const char *at, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        bool plain = (at[i] >= 'a' && at[i] <= 'z') || (at[i] >= 'A' && at[i] <= 'Z') ||
                     (at[i] >= '0' && at[i] <= '9') || (at[i] == '.' && i > 0) || at[i] == '-' ||
                     at[i] == '_' || at[i] == ':' || at[i] == '@';
        if (!plain)
            return false;
    }
    return len > 0;
}

static bool is_path(struct h1_text path, const struct path *known)
{
    size_t len = strlen(known->path);
    if (!known->has_more)
        return h1_same(path, known->path);
    return path.len > len && memcmp(path.at, known->path, len) == 0 &&
           is_name(path.at + len, path.len - len);
}

static bool is_of_the_api(struct h1_text method, struct h1_text path)
{
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        const struct path *p = &paths[i];
        bool asks = h1_same(method, "POST");
        bool reads = h1_same(method, "GET") || h1_same(method, "HEAD");
        if (is_path(path, p) && ((asks && p->methods == ASKS) || (reads && p->methods == READS)))
            return true;
    }
    return false;
}

bool gate_admit(struct conn *conn, const struct model_access *access, struct h1_text target)
{
    struct account a = account_of(conn->outlet);
    struct h1_text path = without_query(target), method = conn->head->method;
    // What cannot be counted would be a way around a budget.
    bool strict = access != NULL || has_budget(&a);
    if (strict && (conn->head->upgrade || !is_of_the_api(method, path))) {
        note_decision(conn->outlet, MODEL_SECRET ".cay", 80, false,
                      "not a request for an answer of the model", VIA_SECRET);
        proxy_refuse(conn, 403,
                     "cay: %s this goes to /v1/messages, /v1/messages/count_tokens and /v1/models "
                     "only",
                     access != NULL ? "with the key of the installation"
                                    : "in a sandbox with a budget");
        return false;
    }
    if (is_used_up(&a))
        return refuse_used_up(conn, &a);
    if (has_budget(&a) && conn->outlet->running.n >= AT_ONCE_MAX) {
        proxy_refuse(conn, 429, "cay: a sandbox with a budget has %d requests at once",
                     AT_ONCE_MAX);
        return false;
    }
    bill_open(conn, access, h1_same(method, "POST") && h1_same(path, "/v1/messages"));
    return true;
}
