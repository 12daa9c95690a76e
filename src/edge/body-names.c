// SPDX-License-Identifier: Apache-2.0
// Fields that are names of things: users and signals.
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "edge/body-internal.h"

enum {
    USER_ID_MAX = 65534, // the ids that a box has
    USER_ID = 1000,      // of "user"
};

static int parse_id(const char *text, size_t len, uint32_t *ret, struct err *err)
{
    char number[16];
    uint64_t id;
    (void)snprintf(number, sizeof number, "%.*s", (int)len, text);
    if (len >= sizeof number || parse_u64(number, 0, USER_ID_MAX, &id, err) < 0)
        return err_set(err, ERR_INVALID,
                       "'%.40s' is not \"root\", \"user\", a user id from 0 to %d, or \"uid:gid\"",
                       text, USER_ID_MAX);
    *ret = (uint32_t)id;
    return 0;
}

static int read_ids(const char *text, struct body_user *ret, struct err *err)
{
    const char *colon = strchr(text, ':');
    size_t len = colon != NULL ? (size_t)(colon - text) : strlen(text);
    if (parse_id(text, len, &ret->uid, err) < 0)
        return -1;
    ret->gid = ret->uid;
    return colon != NULL ? parse_id(colon + 1, strlen(colon + 1), &ret->gid, err) : 0;
}

int body_user(const char *text, struct body_user *ret, struct err *err)
{
    struct body_user user = {.given = true};
    if (strcmp(text, "user") == 0)
        user.uid = user.gid = USER_ID;
    else if (strcmp(text, "root") != 0 && read_ids(text, &user, err) < 0)
        return -1;
    *ret = user;
    return 0;
}

int body_read_user(const json_t *value, struct body_user *ret, struct err *err)
{
    const char *text = json_string_value(value);
    char number[24];
    if (json_is_integer(value)) {
        (void)snprintf(number, sizeof number, "%lld", (long long)json_integer_value(value));
        text = number;
    }
    if (text == NULL || (text != number && strlen(text) != json_string_length(value)))
        return err_set(err, ERR_INVALID,
                       "must be \"root\", \"user\", a user id, or a text \"uid:gid\"");
    return body_user(text, ret, err);
}

static const struct {
    int number;
    const char *name;
} signals[] = {
    {SIGHUP,    "SIGHUP"   },
    {SIGINT,    "SIGINT"   },
    {SIGQUIT,   "SIGQUIT"  },
    {SIGILL,    "SIGILL"   },
    {SIGTRAP,   "SIGTRAP"  },
    {SIGABRT,   "SIGABRT"  },
    {SIGBUS,    "SIGBUS"   },
    {SIGFPE,    "SIGFPE"   },
    {SIGKILL,   "SIGKILL"  },
    {SIGUSR1,   "SIGUSR1"  },
    {SIGSEGV,   "SIGSEGV"  },
    {SIGUSR2,   "SIGUSR2"  },
    {SIGPIPE,   "SIGPIPE"  },
    {SIGALRM,   "SIGALRM"  },
    {SIGTERM,   "SIGTERM"  },
    {SIGSTKFLT, "SIGSTKFLT"},
    {SIGCHLD,   "SIGCHLD"  },
    {SIGCONT,   "SIGCONT"  },
    {SIGSTOP,   "SIGSTOP"  },
    {SIGTSTP,   "SIGTSTP"  },
    {SIGTTIN,   "SIGTTIN"  },
    {SIGTTOU,   "SIGTTOU"  },
    {SIGURG,    "SIGURG"   },
    {SIGXCPU,   "SIGXCPU"  },
    {SIGXFSZ,   "SIGXFSZ"  },
    {SIGVTALRM, "SIGVTALRM"},
    {SIGPROF,   "SIGPROF"  },
    {SIGWINCH,  "SIGWINCH" },
    {SIGIO,     "SIGIO"    },
    {SIGPWR,    "SIGPWR"   },
    {SIGSYS,    "SIGSYS"   },
};

const char *body_signal_name(int signal)
{
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        if (signals[i].number == signal)
            return signals[i].name;
    }
    return NULL;
}

int body_signal(const char *name, int64_t *ret, struct err *err)
{
    struct err ignored;
    uint64_t number;
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        if (strcasecmp(name, signals[i].name) == 0 || strcasecmp(name, signals[i].name + 3) == 0) {
            *ret = signals[i].number;
            return 0;
        }
    }
    if (parse_u64(name, 1, 64, &number, &ignored) == 0) {
        *ret = (int64_t)number;
        return 0;
    }
    return err_set(err, ERR_INVALID, "'%.40s' is not a signal's name or number", name);
}
