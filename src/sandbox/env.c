// SPDX-License-Identifier: Apache-2.0
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox/exec.h"
#include "sandbox/reach.h"
#include "sandbox/sandbox-internal.h"

enum { VARIABLES_MAX = 2048 };

struct list {
    char **items;
    size_t n;
};

static size_t name_len(const char *setting)
{
    return strcspn(setting, "=");
}

// Takes the text; one of the same name goes.
static void put(struct list *list, char *setting)
{
    size_t len = name_len(setting);
    if (setting == NULL)
        abort();
    for (size_t i = 0; i < list->n; i++) {
        if (strncmp(list->items[i], setting, len + 1) == 0) {
            free(list->items[i]);
            list->items[i] = setting;
            return;
        }
    }
    list->items = realloc(list->items, (list->n + 2) * sizeof *list->items);
    if (list->items == NULL)
        abort();
    list->items[list->n++] = setting;
    list->items[list->n] = NULL;
}

static void put_copy(struct list *list, const char *setting)
{
    char *copy = strdup(setting);
    if (copy == NULL)
        abort();
    put(list, copy);
}

static int put_json(struct list *list, const char *text, struct err *err)
{
    const char *key;
    json_t *value;
    json_t *object = json_loads(text, 0, NULL);
    int r = json_is_object(object) ? 0 : -1;
    json_object_foreach(object, key, value)
    {
        char *setting = NULL;
        if (!json_is_string(value) || key[0] == '\0' || strchr(key, '=') != NULL ||
            list->n >= VARIABLES_MAX) {
            r = -1;
            break;
        }
        if (asprintf(&setting, "%s=%s", key, json_string_value(value)) < 0)
            abort();
        put(list, setting);
    }
    json_decref(object);
    return r == 0 ? 0
                  : err_set(err, ERR_INVALID, "env is an object of texts: {\"NAME\": \"value\"}");
}

static char **finish(struct list *list)
{
    if (list->items == NULL)
        list->items = calloc(1, sizeof *list->items);
    if (list->items == NULL)
        abort();
    return list->items;
}

char **env_parse(const char *json, struct err *err)
{
    struct list list = {0};
    if (json != NULL && put_json(&list, json, err) < 0) {
        exec_env_free(finish(&list));
        return NULL;
    }
    return finish(&list);
}

// Most programs that speak HTTP look here; the others are brought to the same listener by the
// kernel.
static void put_proxy(struct list *list)
{
    static const char *const names[] = {"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char setting[64];
        (void)snprintf(setting, sizeof setting, "%s=http://127.0.0.1:%d", names[i],
                       REACH_PROXY_PORT);
        put_copy(list, setting);
    }
    put_copy(list, "NO_PROXY=localhost,127.0.0.1,::1");
    put_copy(list, "no_proxy=localhost,127.0.0.1,::1");
}

char **exec_env(const struct sandbox *s, const char *extra, uint32_t uid, struct err *err)
{
    static const char *const common[] = {
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/cay/bin",
        "LANG=C.UTF-8",
        "HOSTNAME=cay",
    };
    struct list list = {0};
    for (size_t i = 0; i < sizeof common / sizeof *common; i++)
        put_copy(&list, common[i]);
    put_copy(&list, uid == 0 ? "HOME=/root" : "HOME=/home/user");
    put_copy(&list, uid == 0 ? "USER=root" : "USER=user");
    if (s->row.network != NULL || s->row.secrets != NULL)
        put_proxy(&list);
    for (size_t i = 0; s->env[i] != NULL; i++)
        put_copy(&list, s->env[i]);
    if (extra != NULL && put_json(&list, extra, err) < 0) {
        exec_env_free(finish(&list));
        return NULL;
    }
    return finish(&list);
}

void exec_env_free(char **env)
{
    for (size_t i = 0; env != NULL && env[i] != NULL; i++)
        free(env[i]);
    free(env);
}
