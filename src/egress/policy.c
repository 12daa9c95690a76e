// SPDX-License-Identifier: Apache-2.0
// The `network` setting: read, written in its one form, asked.
#include "egress/policy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "egress/host-internal.h"

enum { ENTRIES_MAX = 256, ENTRY_TEXT_MAX = 320 };

enum { PORTS_WEB = 0, PORTS_ANY = -1 }; // beside a number: 80 and 443, all

struct entry {
    bool is_network;
    bool below; // "*.": names below `name`
    int port;
    struct network network;
    char name[POLICY_HOST_MAX];
};

struct policy {
    enum policy_mode mode;
    uint64_t max_bytes, rate;
    size_t n;
    struct entry *entries;
};

// --- reading

// ":443" or ":*" at the end, cut off. An address of IPv6 has one only behind its bracket.
static int cut_port(char *text, int *ret)
{
    char *colon = strrchr(text, ':');
    const char *bracket = strrchr(text, ']');
    *ret = PORTS_WEB;
    if (colon == NULL || (bracket != NULL && colon < bracket))
        return 0;
    if (bracket == NULL && strchr(text, ':') != colon)
        return 0; // an IPv6 address without brackets
    if (bracket != NULL && colon != bracket + 1)
        return -EINVAL;
    *colon = '\0';
    const char *digits = colon + 1;
    if (strcmp(digits, "*") == 0) {
        *ret = PORTS_ANY;
        return 0;
    }
    size_t len = strlen(digits);
    if (len == 0 || len > 5 || digits[0] == '0' || strspn(digits, "0123456789") != len)
        return -EINVAL;
    long port = strtol(digits, NULL, 10);
    if (port > UINT16_MAX)
        return -EINVAL;
    *ret = (int)port;
    return 0;
}

static void cut_brackets(char *text)
{
    size_t len = strlen(text);
    if (len >= 2 && text[0] == '[' && text[len - 1] == ']') {
        (void)memmove(text, text + 1, len - 2);
        text[len - 2] = '\0';
    }
}

static bool ends_in(const char *name, const char *suffix)
{
    size_t a = strlen(name), b = strlen(suffix);
    return a >= b && memcmp(name + a - b, suffix, b) == 0;
}

static int parse_name(struct entry *entry, const char *text, struct err *err)
{
    struct sockaddr_storage address;
    const char *name = text;
    if (strcmp(text, "*") == 0)
        return err_set(err, ERR_INVALID, "'*' is every host: \"network\": \"internet\" says that");
    if (strncmp(text, "*.", 2) == 0) {
        entry->below = true;
        name = text + 2;
    }
    if (strchr(name, '*') != NULL)
        return err_set(err, ERR_INVALID,
                       "'%.80s': a star stands only in front, as in *.example.com", text);
    if (policy_host(name, strlen(name), entry->name, err) < 0)
        return -1;
    if (policy_address(entry->name, &address) == 1)
        return err_set(err, ERR_INVALID, "'%.80s': addresses take no star", text);
    if (ends_in(entry->name, ".cay") || strcmp(entry->name, "cay") == 0)
        return err_set(err, ERR_INVALID,
                       "'%.80s': names in .cay are those of secrets (\"secrets\": [\"NAME\"])",
                       text);
    return 0;
}

static int parse_entry(struct entry *entry, const char *given, size_t len, struct err *err)
{
    char text[ENTRY_TEXT_MAX];
    if (len == 0 || len >= sizeof text || strlen(given) != len)
        return err_set(err, ERR_INVALID, "allow: '%.80s' is not a host", given);
    (void)memcpy(text, given, len + 1);
    if (strstr(text, "://") != NULL)
        return err_set(err, ERR_INVALID,
                       "allow: '%.80s' is a URL: a host is wanted, as example.com or "
                       "example.com:8443",
                       given);
    if (cut_port(text, &entry->port) < 0)
        return err_set(err, ERR_INVALID,
                       "allow: '%.80s': a port is a number from 1 to 65535, or * for all", given);
    char bare[ENTRY_TEXT_MAX];
    (void)memcpy(bare, text, sizeof bare);
    cut_brackets(bare);
    if (network_parse(bare, &entry->network) == 0) {
        static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
        if (entry->network.family == AF_INET6 &&
            memcmp(entry->network.address, mapped, sizeof mapped) == 0)
            return err_set(err, ERR_INVALID, "allow: '%.80s': write it as an IPv4 address", given);
        entry->is_network = true;
        return 0;
    }
    if (strchr(text, '/') != NULL)
        return err_set(err, ERR_INVALID,
                       "allow: '%.80s' is neither a host nor a network, as 10.1.0.0/16 is", given);
    return parse_name(entry, text, err) < 0 ? err_wrap(err, "allow") : 0;
}

static int parse_allow(struct policy *policy, const json_t *list, struct err *err)
{
    if (!json_is_array(list))
        return err_set(err, ERR_INVALID, "allow is a list of hosts");
    size_t n = json_array_size(list);
    if (n > ENTRIES_MAX)
        return err_set(err, ERR_INVALID, "allow: more than %d hosts", ENTRIES_MAX);
    policy->mode = POLICY_ALLOW;
    policy->entries = calloc(n + 1, sizeof *policy->entries);
    if (policy->entries == NULL)
        return err_sys(err, ENOMEM, "network");
    for (; policy->n < n; policy->n++) {
        const json_t *item = json_array_get(list, policy->n);
        if (!json_is_string(item))
            return err_set(err, ERR_INVALID, "allow is a list of hosts, each a string");
        if (parse_entry(&policy->entries[policy->n], json_string_value(item),
                        json_string_length(item), err) < 0)
            return -1;
    }
    return 0;
}

static int parse_mode(struct policy *policy, const json_t *value, struct err *err)
{
    static const char *const names[] = {
        [POLICY_NONE] = "none", [POLICY_ALLOW] = "allow", [POLICY_INTERNET] = "internet"};
    const char *text = json_string_value(value);
    for (unsigned i = 0; text != NULL && i < sizeof names / sizeof *names; i++) {
        if (strcmp(text, names[i]) == 0) {
            policy->mode = (enum policy_mode)i;
            return 0;
        }
    }
    return err_set(err, ERR_INVALID,
                   "must be \"none\", \"internet\" or {\"allow\": [\"api.example.com\"]}");
}

static int parse_count(uint64_t *at, const char *name, const json_t *value, struct err *err)
{
    if (!json_is_integer(value) || json_integer_value(value) < 1)
        return err_set(err, ERR_INVALID, "%s is a number of bytes, 1 or more", name);
    *at = (uint64_t)json_integer_value(value);
    return 0;
}

static int parse_member(struct policy *policy, const char *key, const json_t *value,
                        struct err *err)
{
    if (strcmp(key, "mode") == 0)
        return 0;
    if (strcmp(key, "allow") == 0)
        return parse_allow(policy, value, err);
    if (strcmp(key, "maxBytes") == 0)
        return parse_count(&policy->max_bytes, key, value, err);
    if (strcmp(key, "bytesPerSecond") == 0)
        return parse_count(&policy->rate, key, value, err);
    return err_set(err, ERR_INVALID,
                   "it has no '%.40s': it has mode, allow, maxBytes and bytesPerSecond", key);
}

static int parse_object(struct policy *policy, json_t *object, struct err *err)
{
    const json_t *mode = json_object_get(object, "mode");
    const json_t *allow = json_object_get(object, "allow");
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        if (parse_member(policy, key, value, err) < 0)
            return -1;
    }
    if (mode == NULL && allow == NULL)
        return err_set(err, ERR_INVALID, "it says neither \"allow\" nor \"mode\": \"internet\"");
    if (mode != NULL && parse_mode(policy, mode, err) < 0)
        return -1;
    if (mode != NULL && (policy->mode == POLICY_ALLOW) != (allow != NULL))
        return err_set(err, ERR_INVALID,
                       "\"allow\" goes with the mode \"allow\" and with no other");
    return 0;
}

static int parse_value(struct policy *policy, json_t *value, struct err *err)
{
    if (json_is_object(value))
        return parse_object(policy, value, err);
    if (parse_mode(policy, value, err) < 0)
        return -1;
    if (policy->mode == POLICY_ALLOW)
        return err_set(err, ERR_INVALID, "what is allowed? {\"allow\": [\"api.example.com\"]}");
    return 0;
}

int policy_parse(const char *json, struct policy **ret, struct err *err)
{
    json_error_t error;
    struct policy *policy = calloc(1, sizeof *policy);
    if (policy == NULL)
        return err_sys(err, ENOMEM, "network");
    if (json == NULL) {
        *ret = policy;
        return 0;
    }
    json_auto_t *value = json_loads(json, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &error);
    int r = value != NULL ? parse_value(policy, value, err)
                          : err_set(err, ERR_INVALID, "%.100s", error.text);
    if (r < 0) {
        policy_free(policy);
        return -1;
    }
    *ret = policy;
    return 0;
}

void policy_free(struct policy *policy)
{
    if (policy == NULL)
        return;
    free(policy->entries);
    free(policy);
}

// --- writing

static void write_entry(struct json *json, const struct entry *entry)
{
    char host[ENTRY_TEXT_MAX], text[ENTRY_TEXT_MAX + 16];
    if (entry->is_network) {
        char address[INET6_ADDRSTRLEN] = "";
        bool v6 = entry->network.family == AF_INET6;
        unsigned whole = v6 ? 128 : 32;
        const char *open = v6 && entry->port != PORTS_WEB ? "[" : "";
        (void)inet_ntop(entry->network.family, entry->network.address, address, sizeof address);
        if (entry->network.bits == whole)
            (void)snprintf(host, sizeof host, "%s%s%s", open, address, *open ? "]" : "");
        else
            (void)snprintf(host, sizeof host, "%s%s/%u%s", open, address, entry->network.bits,
                           *open ? "]" : "");
    } else {
        (void)snprintf(host, sizeof host, "%s%s", entry->below ? "*." : "", entry->name);
    }
    if (entry->port == PORTS_WEB)
        (void)snprintf(text, sizeof text, "%s", host);
    else if (entry->port == PORTS_ANY)
        (void)snprintf(text, sizeof text, "%s:*", host);
    else
        (void)snprintf(text, sizeof text, "%s:%d", host, entry->port);
    json_put_str(json, text);
}

static void write_object(struct json *json, const struct policy *policy)
{
    json_open_object(json);
    if (policy->mode == POLICY_ALLOW) {
        json_key(json, "allow");
        json_open_array(json);
        for (size_t i = 0; i < policy->n; i++)
            write_entry(json, &policy->entries[i]);
        json_close_array(json);
    } else {
        json_key(json, "mode");
        json_put_str(json, policy->mode == POLICY_NONE ? "none" : "internet");
    }
    if (policy->max_bytes > 0) {
        json_key(json, "maxBytes");
        json_put_uint(json, policy->max_bytes);
    }
    if (policy->rate > 0) {
        json_key(json, "bytesPerSecond");
        json_put_uint(json, policy->rate);
    }
    json_close_object(json);
}

char *policy_text(const struct policy *policy)
{
    auto_buf buf;
    struct json json;
    buf_init(&buf, ENTRIES_MAX * (ENTRY_TEXT_MAX + 16) + 256);
    json_init(&json, &buf);
    if (policy->mode == POLICY_ALLOW || policy->max_bytes > 0 || policy->rate > 0)
        write_object(&json, policy);
    else
        json_put_str(&json, policy->mode == POLICY_NONE ? "none" : "internet");
    if (json_finish(&json) < 0)
        return NULL;
    return strdup(buf_str(&buf));
}

// --- asking

enum policy_mode policy_mode(const struct policy *policy)
{
    return policy->mode;
}

uint64_t policy_max_bytes(const struct policy *policy)
{
    return policy->max_bytes;
}

uint64_t policy_rate(const struct policy *policy)
{
    return policy->rate;
}

static bool port_fits(const struct entry *entry, uint16_t port)
{
    if (entry->port == PORTS_WEB)
        return port == 80 || port == 443;
    return entry->port == PORTS_ANY || entry->port == port;
}

static bool entry_has(const struct entry *entry, const char *host,
                      const struct sockaddr_storage *address)
{
    if (address != NULL) {
        uint8_t bytes[16] = {0};
        sockaddr_bytes((const struct sockaddr *)address, bytes);
        return entry->is_network && network_has(&entry->network, address->ss_family, bytes);
    }
    if (entry->is_network)
        return false;
    if (!entry->below)
        return strcmp(host, entry->name) == 0;
    // The dot before the suffix belongs to it: "evilexample.com" is not below "example.com".
    size_t a = strlen(host), b = strlen(entry->name);
    return a > b + 1 && host[a - b - 1] == '.' && strcmp(host + a - b, entry->name) == 0;
}

// `port` 0: any.
static bool is_allowed(const struct policy *policy, const char *host, uint16_t port,
                       const char **ret_why)
{
    struct sockaddr_storage address;
    bool is_address = policy_address(host, &address) == 1;
    *ret_why = "not in the allow list";
    for (size_t i = 0; i < policy->n; i++) {
        const struct entry *entry = &policy->entries[i];
        if (!entry_has(entry, host, is_address ? &address : NULL))
            continue;
        if (port == 0 || port_fits(entry, port)) {
            *ret_why = "in the allow list";
            return true;
        }
        *ret_why = "its port is not in the allow list";
    }
    return false;
}

static bool allows(const struct policy *policy, const char *host, uint16_t port,
                   const char **ret_why)
{
    *ret_why = "no secret of that name";
    if (ends_in(host, ".cay"))
        return false;
    switch (policy->mode) {
    case POLICY_NONE:
        *ret_why = "network is none";
        return false;
    case POLICY_ALLOW:
        return is_allowed(policy, host, port, ret_why);
    case POLICY_INTERNET:
        *ret_why = "network is internet";
        return true;
    }
    return false;
}

bool policy_allows_host(const struct policy *policy, const char *host, uint16_t port,
                        const char **ret_why)
{
    *ret_why = "there is no port 0";
    return port != 0 && allows(policy, host, port, ret_why);
}

bool policy_allows_name(const struct policy *policy, const char *host, const char **ret_why)
{
    return allows(policy, host, 0, ret_why);
}
