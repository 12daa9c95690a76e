// SPDX-License-Identifier: Apache-2.0
#include "egress/egress.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "egress/egress-internal.h"
#include "sandbox/reach.h"

enum { TICK_MS = 1000 };

static struct outlet *find(const struct egress *egress, const struct sandbox *s)
{
    char key[24];
    (void)snprintf(key, sizeof key, "%lld", (long long)sandbox_row(s)->number);
    return map_get(&egress->outlets, key);
}

// --- sandboxes come and go

static void on_bound(void *data, struct sandbox *s)
{
    struct egress *egress = data;
    struct outlet *outlet = find(egress, s);
    if (outlet != NULL) {
        (void)map_del(&egress->outlets, outlet->key);
        outlet_close(outlet);
    }
    outlet = outlet_open(egress, s);
    map_put(&egress->outlets, outlet->key, outlet);
}

static void on_unbound(void *data, struct sandbox *s)
{
    struct egress *egress = data;
    struct outlet *outlet = find(egress, s);
    if (outlet == NULL)
        return;
    (void)map_del(&egress->outlets, outlet->key);
    outlet_close(outlet);
}

static void on_changed(void *data, struct sandbox *s)
{
    struct egress *egress = data;
    struct outlet *outlet = find(egress, s);
    if (outlet != NULL)
        outlet_changed(outlet);
}

static const struct reach_events reach_events = {
    .bound = on_bound,
    .unbound = on_unbound,
    .changed = on_changed,
};

static void tick(struct egress *egress)
{
    size_t at = 0;
    for (struct outlet *o; (o = map_next(&egress->outlets, &at)) != NULL;)
        outlet_tick(o);
}

static void on_tick(uv_timer_t *timer)
{
    tick(timer->data);
}

void egress_serve(struct egress *egress)
{
    egress->serving = true;
    tick(egress);
}

// --- beginning and end

// The machine's search list is not for names of boxes, and a name server that is down shall not
// hold threads for long.
static void set_up_resolver(void)
{
    (void)setenv("LOCALDOMAIN", "", 1);
    (void)setenv("RES_OPTIONS", "timeout:3 attempts:2", 0);
}

static int open_parts(struct egress *egress, const struct egress_config *config, struct err *err)
{
    socklen_t len = sizeof egress->rules.own;
    if (networks_parse(config->opened, &egress->opened, err) < 0)
        return err_wrap(err, "egress-private");
    egress->rules.opened = egress->opened;
    if (config->listen_fd >= 0 &&
        getsockname(config->listen_fd, (struct sockaddr *)&egress->rules.own, &len) < 0)
        return err_sys(err, errno, "where the daemon listens");
    if (tls_client_open(config->ca_file, &egress->tls, err) < 0)
        return -1;
    set_up_resolver();
    return resolver_open(config->loop, &egress->resolver, err);
}

static void free_egress(struct egress *egress)
{
    map_done(&egress->outlets);
    tls_client_close(egress->tls);
    networks_free(egress->opened);
    free(egress);
}

void egress_unref(struct egress *egress)
{
    if (--egress->refs == 0)
        free_egress(egress);
}

int egress_open(const struct egress_config *config, struct egress **ret, struct err *err)
{
    struct egress *egress = calloc(1, sizeof *egress);
    if (egress == NULL)
        abort();
    egress->refs = 1;
    egress->config = *config;
    egress->config.opened = egress->config.ca_file = NULL; // the caller's, not kept
    if (open_parts(egress, config, err) < 0) {
        free_egress(egress);
        return -1;
    }
    egress->tick = calloc(1, sizeof *egress->tick);
    if (egress->tick == NULL)
        abort();
    (void)uv_timer_init(config->loop, egress->tick);
    egress->tick->data = egress;
    (void)uv_timer_start(egress->tick, on_tick, TICK_MS, TICK_MS);
    uv_unref((uv_handle_t *)egress->tick);
    fleet_on_reach(config->fleet, &reach_events, egress);
    *ret = egress;
    return 0;
}

static void free_tick(uv_handle_t *handle)
{
    free(handle);
}

void egress_close(struct egress *egress)
{
    size_t at = 0;
    if (egress == NULL)
        return;
    fleet_on_reach(egress->config.fleet, NULL, NULL);
    for (struct outlet *o; (o = map_next(&egress->outlets, &at)) != NULL;) {
        (void)map_del(&egress->outlets, o->key);
        outlet_close(o);
    }
    resolver_close(egress->resolver);
    uv_close((uv_handle_t *)egress->tick, free_tick);
    egress_unref(egress);
}

// --- asked by others

bool egress_may_connect(struct egress *egress, const struct sockaddr *address, bool tls)
{
    struct hop_rules rules = egress->rules;
    struct addresses list = {.n = 1};
    const char *why;
    bool v6 = address->sa_family == AF_INET6;
    if (!v6 && address->sa_family != AF_INET)
        return false;
    (void)memcpy(&list.list[0], address,
                 v6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in));
    uint16_t port = ntohs(v6 ? ((const struct sockaddr_in6 *)(const void *)address)->sin6_port
                             : ((const struct sockaddr_in *)(const void *)address)->sin_port);
    rules.only_opened = !tls;
    return hop_filter(&list, &rules, port, &why) == 1;
}

int egress_has_model(struct egress *egress, int64_t tenant, struct err *err)
{
    return model_key_is_there(egress->config.secrets, egress->config.keys, tenant, err);
}

void egress_secret_changed(struct egress *egress, int64_t tenant, const char *name)
{
    size_t at = 0;
    for (struct outlet *o; (o = map_next(&egress->outlets, &at)) != NULL;) {
        if (sandbox_row(o->s)->tenant != tenant)
            continue;
        for (struct conn *conn = o->conns, *next; conn != NULL; conn = next) {
            next = conn->next;
            if (strcmp(conn->secret, name) == 0)
                conn_end(conn);
        }
    }
}

void egress_stats(const struct egress *egress, struct egress_stats *ret)
{
    *ret = egress->stats;
}

void egress_usage(const struct egress *egress, const struct sandbox *s, uint64_t *ret_bytes,
                  unsigned *ret_open)
{
    const struct outlet *outlet = find(egress, s);
    *ret_bytes = outlet != NULL ? outlet->share.counted : 0;
    *ret_open = outlet != NULL ? outlet->n_conns : 0;
}
