// SPDX-License-Identifier: Apache-2.0
// Hosts and addresses: their one canonical form, and which addresses nobody may be let at.
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "egress/host-internal.h"

// --- canonical names

static bool is_label_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

static bool label_is_fine(const char *label, size_t len)
{
    enum { LABEL_MAX = 63 };
    if (len == 0 || len > LABEL_MAX || label[0] == '-' || label[len - 1] == '-')
        return false;
    for (size_t i = 0; i < len; i++) {
        if (!is_label_char(label[i]))
            return false;
    }
    return true;
}

// What some resolver reads as a number: then the whole would be an address in an old form.
static bool label_is_number(const char *label, size_t len)
{
    size_t i = 0;
    bool hex = len >= 2 && label[0] == '0' && label[1] == 'x';
    if (hex)
        i = 2;
    for (; i < len; i++) {
        if (!(hex ? isxdigit((unsigned char)label[i]) : isdigit((unsigned char)label[i])))
            return false;
    }
    return true;
}

static bool name_is_fine(const char *name)
{
    const char *last = name;
    for (const char *at = name;; at++) {
        size_t len = strcspn(at, ".");
        if (!label_is_fine(at, len))
            return false;
        last = at;
        at += len;
        if (*at == '\0')
            break;
    }
    return !label_is_number(last, strlen(last));
}

static int canonical_v6(const char *text, char *ret)
{
    struct in6_addr address;
    char back[INET6_ADDRSTRLEN];
    if (inet_pton(AF_INET6, text, &address) != 1 ||
        inet_ntop(AF_INET6, &address, back, sizeof back) == NULL || strcmp(text, back) != 0)
        return -EINVAL;
    (void)memcpy(ret, back, strlen(back) + 1);
    return 0;
}

static bool is_v4(const char *text)
{
    struct in_addr address;
    char back[INET_ADDRSTRLEN];
    return inet_pton(AF_INET, text, &address) == 1 &&
           inet_ntop(AF_INET, &address, back, sizeof back) != NULL && strcmp(text, back) == 0;
}

static int refuse_host(struct err *err, const char *text, size_t len)
{
    char shown[64];
    size_t n = 0;
    for (size_t i = 0; i < len && n < sizeof shown - 1; i++)
        shown[n++] = text[i] > ' ' && text[i] < 0x7f ? text[i] : '?';
    shown[n] = '\0';
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)text[i] >= 0x80)
            return err_set(err, ERR_INVALID,
                           "'%s' is not a host: write international names in their xn-- form",
                           shown);
    }
    return err_set(err, ERR_INVALID,
                   "'%s' is not a host: a name in ASCII, an IPv4 address in its dotted decimal or "
                   "an IPv6 address in its shortest form is one",
                   shown);
}

int policy_host(const char *text, size_t len, char ret[POLICY_HOST_MAX], struct err *err)
{
    char host[POLICY_HOST_MAX + 1];
    const char *at = text;
    size_t n = len;
    bool bracketed = n >= 2 && at[0] == '[' && at[n - 1] == ']';
    if (bracketed) {
        at++;
        n -= 2;
    }
    if (n == 0 || n > POLICY_HOST_MAX || memchr(at, '\0', n) != NULL)
        return refuse_host(err, text, len);
    for (size_t i = 0; i < n; i++)
        host[i] = at[i] >= 'A' && at[i] <= 'Z' ? (char)(at[i] - 'A' + 'a') : at[i];
    host[n] = '\0';
    if (bracketed || strchr(host, ':') != NULL)
        return canonical_v6(host, ret) == 0 ? 0 : refuse_host(err, text, len);
    bool address = is_v4(host);
    if (!address && n > 1 && host[n - 1] == '.')
        host[--n] = '\0';
    if (n >= POLICY_HOST_MAX || (!address && !name_is_fine(host)))
        return refuse_host(err, text, len);
    (void)memcpy(ret, host, n + 1);
    return 0;
}

int policy_address(const char *host, struct sockaddr_storage *ret)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    if (inet_pton(AF_INET, host, &v4.sin_addr) == 1) {
        *ret = (struct sockaddr_storage){0};
        (void)memcpy(ret, &v4, sizeof v4);
        return 1;
    }
    if (inet_pton(AF_INET6, host, &v6.sin6_addr) == 1) {
        *ret = (struct sockaddr_storage){0};
        (void)memcpy(ret, &v6, sizeof v6);
        return 1;
    }
    return 0;
}

// --- networks

static bool bits_equal(const uint8_t *a, const uint8_t *b, unsigned bits)
{
    unsigned whole = bits / 8, rest = bits % 8;
    if (memcmp(a, b, whole) != 0)
        return false;
    return rest == 0 || ((a[whole] ^ b[whole]) & (uint8_t)(0xff00u >> rest)) == 0;
}

bool network_has(const struct network *network, int family, const uint8_t *address)
{
    return network->family == family && bits_equal(network->address, address, network->bits);
}

static bool host_bits_are_zero(const struct network *network)
{
    unsigned size = network->family == AF_INET ? 4 : 16;
    for (unsigned bit = network->bits; bit < size * 8; bit++) {
        if (network->address[bit / 8] & (0x80u >> bit % 8))
            return false;
    }
    return true;
}

// The digits behind the slash, without a leading zero.
static int parse_bits(const char *text, unsigned most, unsigned *ret)
{
    unsigned value = 0;
    size_t len = strlen(text);
    if (len == 0 || len > 3 || (len > 1 && text[0] == '0'))
        return -EINVAL;
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9')
            return -EINVAL;
        value = value * 10 + (unsigned)(*text - '0');
    }
    if (value > most)
        return -EINVAL;
    *ret = value;
    return 0;
}

int network_parse(const char *text, struct network *ret)
{
    char address[POLICY_HOST_MAX];
    struct sockaddr_storage parsed;
    struct network network = {0};
    const char *slash = strchr(text, '/');
    size_t len = slash != NULL ? (size_t)(slash - text) : strlen(text);
    struct err err = {0};
    if (policy_host(text, len, address, &err) < 0 || policy_address(address, &parsed) == 0)
        return -EINVAL;
    network.family = parsed.ss_family;
    network.bits = parsed.ss_family == AF_INET ? 32 : 128;
    sockaddr_bytes((const struct sockaddr *)&parsed, network.address);
    if (slash != NULL && parse_bits(slash + 1, network.bits, &network.bits) < 0)
        return -EINVAL;
    if (!host_bits_are_zero(&network))
        return -EINVAL;
    *ret = network;
    return 0;
}

void sockaddr_bytes(const struct sockaddr *address, uint8_t ret[16])
{
    if (address->sa_family == AF_INET) {
        struct sockaddr_in v4;
        (void)memcpy(&v4, address, sizeof v4);
        (void)memcpy(ret, &v4.sin_addr, 4);
        return;
    }
    struct sockaddr_in6 v6;
    (void)memcpy(&v6, address, sizeof v6);
    (void)memcpy(ret, &v6.sin6_addr, 16);
}

struct networks {
    size_t n;
    struct network list[];
};

int networks_parse(const char *text, struct networks **ret, struct err *err)
{
    enum { NETWORKS_MAX = 256 };
    size_t most = 1;
    for (const char *p = text; *p != '\0'; p++)
        most += *p == ',';
    if (most > NETWORKS_MAX)
        return err_set(err, ERR_INVALID, "more than %d networks", NETWORKS_MAX);
    struct networks *networks = calloc(1, sizeof *networks + most * sizeof *networks->list);
    if (networks == NULL)
        return err_sys(err, ENOMEM, "networks");
    for (const char *at = text; *at != '\0';) {
        char one[64];
        size_t len = strcspn(at, ",");
        const char *next = at + len + (at[len] == ',');
        while (len > 0 && *at == ' ')
            at++, len--;
        while (len > 0 && at[len - 1] == ' ')
            len--;
        (void)snprintf(one, sizeof one, "%.*s", (int)len, at);
        if (len >= sizeof one || network_parse(one, &networks->list[networks->n]) < 0) {
            free(networks);
            return err_set(err, ERR_INVALID,
                           "'%.63s' is not a network: 10.0.0.0/8 or fd00::/8 is one", one);
        }
        networks->n++;
        at = next;
    }
    *ret = networks;
    return 0;
}

void networks_free(struct networks *networks)
{
    free(networks);
}

// --- what is never reached

struct range {
    uint8_t address[16];
    uint8_t bits;
    const char *why;
};

// RFC 6890 and what came after it (the registries of special-purpose addresses of IANA).
static const struct range closed_v4[] = {
    {{0},            8,  "an address of this very machine"               },
    {{10},           8,  "a private address"                             },
    {{100, 64},      10, "an address of a carrier's own network"         },
    {{127},          8,  "a loopback address"                            },
    {{169, 254},     16, "a link-local address, as metadata services use"},
    {{172, 16},      12, "a private address"                             },
    {{192, 0, 0},    24, "a reserved address"                            },
    {{192, 0, 2},    24, "an address for documentation"                  },
    {{192, 31, 196}, 24, "a reserved address"                            },
    {{192, 52, 193}, 24, "a reserved address"                            },
    {{192, 88, 99},  24, "a reserved address"                            },
    {{192, 168},     16, "a private address"                             },
    {{192, 175, 48}, 24, "a reserved address"                            },
    {{198, 18},      15, "an address for benchmarks"                     },
    {{198, 51, 100}, 24, "an address for documentation"                  },
    {{203, 0, 113},  24, "an address for documentation"                  },
    {{224},          4,  "a multicast address"                           },
    {{240},          4,  "a reserved address"                            },
};

// Inside 2000::/3, outside of which nothing is open.
static const struct range closed_v6[] = {
    {{0x20, 0x01, 0x00},          23, "a reserved address"          },
    {{0x20, 0x01, 0x0d, 0xb8},    32, "an address for documentation"},
    {{0x26, 0x20, 0, 0x4f, 0x80}, 48, "a reserved address"          },
    {{0x3f, 0xff},                20, "an address for documentation"},
};

static bool in_list(const struct networks *networks, int family, const uint8_t *address)
{
    for (size_t i = 0; networks != NULL && i < networks->n; i++) {
        if (network_has(&networks->list[i], family, address))
            return true;
    }
    return false;
}

static bool in_ranges(const struct range *ranges, size_t n, const uint8_t *address,
                      const char **ret_why)
{
    for (size_t i = 0; i < n; i++) {
        if (bits_equal(ranges[i].address, address, ranges[i].bits)) {
            *ret_why = ranges[i].why;
            return true;
        }
    }
    return false;
}

static bool v4_is_open(const struct networks *opened, const uint8_t *address, const char **ret_why)
{
    bool closed = in_ranges(closed_v4, sizeof closed_v4 / sizeof *closed_v4, address, ret_why);
    // "This machine", groups and broadcast cannot be opened: they are no one's address.
    if (closed && (address[0] == 0 || address[0] >= 224))
        return false;
    return !closed || in_list(opened, AF_INET, address);
}

// Where an IPv4 address stands in an IPv6 one that some gateway or kernel translates; NULL:
// nowhere.
static const uint8_t *embedded_v4(const uint8_t *address)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    static const uint8_t nat64[12] = {0x00, 0x64, 0xff, 0x9b};
    static const uint8_t six_to_four[2] = {0x20, 0x02};
    if (memcmp(address, mapped, sizeof mapped) == 0 || memcmp(address, nat64, sizeof nat64) == 0)
        return address + 12;
    if (memcmp(address, six_to_four, sizeof six_to_four) == 0)
        return address + 2;
    return NULL;
}

bool networks_have(const struct networks *networks, const struct sockaddr *address)
{
    uint8_t bytes[16] = {0};
    sockaddr_bytes(address, bytes);
    const uint8_t *v4 = address->sa_family == AF_INET6 ? embedded_v4(bytes) : NULL;
    return v4 != NULL ? in_list(networks, AF_INET, v4)
                      : in_list(networks, address->sa_family, bytes);
}

static bool v6_is_open(const struct networks *opened, const uint8_t *address, const char **ret_why)
{
    static const uint8_t any[16] = {0};
    *ret_why = "a private, local or reserved address";
    if (memcmp(address, any, sizeof any) == 0 || address[0] == 0xff)
        return false;
    const uint8_t *v4 = embedded_v4(address);
    if (v4 != NULL)
        return v4_is_open(opened, v4, ret_why);
    if (in_list(opened, AF_INET6, address))
        return true;
    if ((address[0] & 0xe0) != 0x20)
        return false;
    return !in_ranges(closed_v6, sizeof closed_v6 / sizeof *closed_v6, address, ret_why);
}

bool policy_address_is_open(const struct networks *opened, const struct sockaddr *address,
                            const char **ret_why)
{
    uint8_t bytes[16] = {0};
    *ret_why = "not an internet address";
    if (address->sa_family != AF_INET && address->sa_family != AF_INET6)
        return false;
    sockaddr_bytes(address, bytes);
    return address->sa_family == AF_INET ? v4_is_open(opened, bytes, ret_why)
                                         : v6_is_open(opened, bytes, ret_why);
}
