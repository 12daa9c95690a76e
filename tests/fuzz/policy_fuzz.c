// SPDX-License-Identifier: Apache-2.0
// Network settings and hosts from strangers: what is taken has one form, which means the same; and
// a credential is found in answers however they are cut (the first byte says how).
#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "egress/policy.h"
#include "egress/scan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_policy(const char *text)
{
    struct err err = {0};
    struct policy *policy = NULL, *again = NULL;
    if (policy_parse(text, &policy, &err) < 0) {
        assert(err.code == ERR_INVALID && *err.msg != '\0');
        return;
    }
    char *canonical = policy_text(policy);
    assert(canonical != NULL && policy_parse(canonical, &again, &err) == 0);
    char *same = policy_text(again);
    assert(strcmp(canonical, same) == 0);
    free(canonical);
    free(same);
    policy_free(policy);
    policy_free(again);
}

static void check_host(const char *text, size_t len)
{
    char host[POLICY_HOST_MAX], again[POLICY_HOST_MAX];
    struct err err = {0};
    if (policy_host(text, len, host, &err) < 0)
        return;
    assert(policy_host(host, strlen(host), again, &err) == 0 && strcmp(host, again) == 0);
    for (const char *p = host; *p != '\0'; p++)
        assert(strchr("abcdefghijklmnopqrstuvwxyz0123456789-_.:", *p) != NULL);
}

static void check_scan(const uint8_t *data, size_t size)
{
    static const char secret[] = "sk-secret";
    size_t step = size > 0 ? data[0] % 64 + 1u : 1;
    char *out = malloc(size + 1);
    size_t n = 0;
    struct scan *scan = scan_new();
    scan_add(scan, secret, sizeof secret - 1);
    int r = 0;
    for (size_t at = 1; at < size && r == 0; at += step) {
        r = scan_put(scan, data + at, size - at < step ? size - at : step);
        n += scan_take(scan, out + n, size + 1 - n);
    }
    assert(r == 0 || r == -EPERM || r == -EBADMSG || r == -E2BIG);
    assert(n == 0 || memcmp(out, data + 1, n) == 0);
    // Chunks may have bytes between; without them it must not be there.
    assert(memmem(out, n, secret, sizeof secret - 1) == NULL ||
           memmem(out, n, "chunked", 7) != NULL);
    scan_free(scan);
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = strndup((const char *)data, size);
    check_policy(text);
    check_host((const char *)data, size);
    check_scan(data, size);
    free(text);
    return 0;
}
