// SPDX-License-Identifier: Apache-2.0
#include "api/network.h"

#include <stdlib.h>
#include <string.h>

#include "egress/egress.h"
#include "egress/model-key.h"
#include "egress/policy.h"
#include "egress/secret.h"

void network_done(struct network *network)
{
    free(network->network);
    free(network->secrets);
    *network = (struct network){0};
}

static int read_policy(struct call *call, const char *json, char **ret)
{
    struct err err = {0};
    struct policy *policy;
    if (policy_parse(json, &policy, &err) < 0) {
        (void)err_wrap(&err, "network");
        call_fail(call, &err);
        return -1;
    }
    if (policy_mode(policy) != POLICY_NONE) {
        *ret = policy_text(policy);
        if (*ret == NULL)
            abort();
    }
    policy_free(policy);
    return 0;
}

// A tenant's own; or the installation's, of which there is one.
static int is_there(struct call *call, const char *name, struct err *err)
{
    struct secret_row row = {0};
    int r = db_secret_get(call->api->db, call->tenant, name, &row, err);
    secret_row_done(&row);
    if (r == 0 && call->sandbox != NULL) // its own, that came with a configuration
        r = secrets_have_own(call->api->secrets, call->tenant, sandbox_row(call->sandbox)->number,
                             name, err);
    if (r == 0 && strcmp(name, MODEL_SECRET) == 0 && call->api->egress != NULL)
        r = egress_has_model(call->api->egress, call->tenant, err);
    return r;
}

static int check_secret(struct call *call, const char *name)
{
    struct err err = {0};
    if (!secret_name_valid(name)) {
        call_error(call, ERROR_INVALID_REQUEST, NULL,
                   "secrets: '%.80s' cannot be a secret's name: a letter, then letters, digits and "
                   "'-', all lower case, %d at most",
                   name, SECRET_NAME_MAX - 1);
        return -1;
    }
    int r = is_there(call, name, &err);
    if (r < 0)
        call_fail(call, &err);
    else if (r == 0)
        call_error(call, ERROR_INVALID_REQUEST, NULL,
                   "secrets: there is no secret '%s': PUT /secrets/%s makes it", name, name);
    return r > 0 ? 0 : -1;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// In order and each once, so that equal settings are equal texts.
static char *names_text(const struct body_strings *names)
{
    struct buf buf;
    struct json j;
    qsort(names->items, names->n, sizeof *names->items, by_text);
    buf_init(&buf, NETWORK_SECRETS_MAX * (SECRET_NAME_MAX + 4));
    json_init(&j, &buf);
    json_open_array(&j);
    for (size_t i = 0; i < names->n; i++) {
        if (i == 0 || strcmp(names->items[i], names->items[i - 1]) != 0)
            json_put_str(&j, names->items[i]);
    }
    json_close_array(&j);
    char *text = strdup(buf_str(&buf));
    buf_done(&buf);
    if (text == NULL)
        abort();
    return text;
}

int network_read(struct call *call, const char *network, const struct body_strings *secrets,
                 struct network *ret)
{
    auto_network made = {0};
    if (network != NULL && read_policy(call, network, &made.network) < 0)
        return -1;
    for (size_t i = 0; i < secrets->n; i++) {
        if (check_secret(call, secrets->items[i]) < 0)
            return -1;
    }
    if (secrets->n > 0)
        made.secrets = names_text(secrets);
    *ret = made;
    made = (struct network){0};
    return 0;
}
