// SPDX-License-Identifier: Apache-2.0
// What an agent is given for a task: files of the person who asks. A word is a file if there is one
// of that name; else a name, looked for in the folders here; else the server may know it.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/text.h"
#include "cli/ask.h"

enum { TEXT_MAX = 1024 * 1024 }; // as the server has it

static const struct {
    const char *list; // of the request; and the folder
    const char *ending;
} kinds[ASK_KIND_MAX] = {
    [ASK_AGENT] = {"agents",   ".md"  },
      [ASK_COMMAND] = {"commands", ".md"  },
    [ASK_SETTING] = {"settings", ".json"},
      [ASK_MCP] = {"mcps",     ".json"},
    [ASK_HOOK] = {"hooks",    ".json"},
};

// -- reading

// 1, 0 when there is no such file, -1 with err.
static int read_text(const char *path, struct buf *ret, struct err *err)
{
    struct stat st;
    char *at;
    size_t room;
    auto_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR ? 0 : err_sys(err, errno, "open '%s'", path);
    if (fstat(fd, &st) < 0)
        return err_sys(err, errno, "look at '%s'", path);
    if (!S_ISREG(st.st_mode))
        return 0;
    int r = buf_reserve(ret, TEXT_MAX + 1, &at, &room);
    ssize_t n = r < 0 ? r : fd_read_all(fd, at, room);
    if (n < 0)
        return err_sys(err, (int)-n, "read '%s'", path);
    if (n > TEXT_MAX)
        return err_set(err, ERR_INVALID, "'%.120s' has more than 1 MiB", path);
    buf_commit(ret, (size_t)n);
    if (!utf8_valid(buf_str(ret), ret->len))
        return err_set(err, ERR_INVALID, "'%.120s' is not text (UTF-8)", path);
    return 1;
}

// -- finding

struct found {
    char path[PATH_MAX]; // "": it is a name
    struct buf text;
};

static int read_into(struct found *found, struct err *err)
{
    buf_reset(&found->text);
    int r = read_text(found->path, &found->text, err);
    if (r <= 0)
        found->path[0] = '\0';
    return r;
}

static bool is_path(const char *word, const char *ending)
{
    size_t len = strlen(word), tail = strlen(ending);
    return word[0] == '/' || word[0] == '.' || word[0] == '~' ||
           (len > tail && strcmp(word + len - tail, ending) == 0);
}

// FOLDER/agents/NAME.md, in a folder of the project, then in one of the user's.
static int look_in_folders(struct found *found, enum ask_kind kind, const char *word,
                           struct err *err)
{
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    char folders[2][PATH_MAX] = {".claude-components", ""};
    if (config != NULL && config[0] == '/')
        (void)snprintf(folders[1], PATH_MAX, "%s/cay/components", config);
    else if (home != NULL && home[0] == '/')
        (void)snprintf(folders[1], PATH_MAX, "%s/.config/cay/components", home);
    for (size_t i = 0; i < 2; i++) {
        int n = snprintf(found->path, PATH_MAX, "%s/%s/%s%s", folders[i], kinds[kind].list, word,
                         kinds[kind].ending);
        int r = folders[i][0] == '\0' || n >= PATH_MAX ? 0 : read_into(found, err);
        if (r != 0)
            return r;
    }
    return 0;
}

static int find(struct found *found, const struct ask_component *c, const char *word,
                struct err *err)
{
    if (snprintf(found->path, PATH_MAX, "%s", word) >= PATH_MAX)
        return err_set(err, ERR_INVALID, "the name '%.60s...' is too long", word);
    int r = read_into(found, err);
    if (r != 0)
        return r < 0 ? -1 : 0;
    if (is_path(word, kinds[c->kind].ending))
        return err_set(err, ERR_NOT_FOUND, "there is no file '%.120s'", word);
    found->path[0] = '\0';
    return look_in_folders(found, c->kind, word, err) < 0 ? -1 : 0;
}

// -- writing

static void put_string(struct json *j, const char *key, const char *text, size_t len)
{
    json_key(j, key);
    json_put_strn(j, text, len);
}

// The file's own name, without its ending.
static void put_name(struct json *j, const char *path, const char *ending)
{
    const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
    size_t len = strlen(name), tail = strlen(ending);
    if (len > tail && strcmp(name + len - tail, ending) == 0)
        len -= tail;
    put_string(j, "name", name, len);
}

// A file that lies beside the one at `path`.
static int put_beside(struct json *j, const char *path, const char *name, size_t len,
                      const char *as, struct err *err)
{
    char beside[PATH_MAX], key[NAME_MAX + 32];
    const char *slash = strrchr(path, '/');
    int before = slash != NULL ? (int)(slash + 1 - path) : 0;
    auto_buf text;
    if (len > NAME_MAX ||
        snprintf(beside, sizeof beside, "%.*s%.*s", before, path, (int)len, name) >= PATH_MAX)
        return 0;
    buf_init(&text, TEXT_MAX + 1);
    int r = read_text(beside, &text, err);
    (void)snprintf(key, sizeof key, "%s%.*s", as, (int)len, name);
    if (r == 1)
        put_string(j, key, buf_str(&text), text.len);
    return r < 0 ? -1 : 0;
}

// NAME.py and NAME.sh beside hooks/NAME.json.
static int put_hook_scripts(struct json *j, const char *path, struct err *err)
{
    static const char *const endings[] = {".py", ".sh"};
    const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    size_t len = dot != NULL && dot > name ? (size_t)(dot - name) : strlen(name);
    for (size_t i = 0; i < 2; i++) {
        char script[NAME_MAX + 8];
        int n = snprintf(script, sizeof script, "%.*s%s", (int)len, name, endings[i]);
        if (put_beside(j, path, script, (size_t)n, ".claude/hooks/", err) < 0)
            return -1;
    }
    return 0;
}

// What the command of a status line names.
static int put_status_script(struct json *j, const struct found *found, struct err *err)
{
    static const char folder[] = ".claude/scripts/";
    const char *at = strstr(buf_str(&found->text), folder);
    if (at == NULL || strstr(buf_str(&found->text), "statusLine") == NULL)
        return 0;
    at += strlen(folder);
    return put_beside(j, found->path, at, strcspn(at, " \t\\\"';|&<>()/"), folder, err);
}

static int put_scripts(struct json *j, const struct found *found, enum ask_kind kind,
                       struct err *err)
{
    if (kind != ASK_HOOK && kind != ASK_SETTING)
        return 0;
    json_key(j, "files");
    json_open_object(j);
    int r =
        kind == ASK_HOOK ? put_hook_scripts(j, found->path, err) : put_status_script(j, found, err);
    json_close_object(j);
    return r;
}

static int put_found(struct json *j, const struct found *found, enum ask_kind kind, struct err *err)
{
    json_open_object(j);
    put_name(j, found->path, kinds[kind].ending);
    put_string(j, "content", buf_str(&found->text), found->text.len);
    int r = put_scripts(j, found, kind, err);
    json_close_object(j);
    return r;
}

static int put_one(struct json *j, const struct ask_component *c, struct err *err)
{
    char word[PATH_MAX];
    struct found found = {.path = ""};
    if (c->len >= sizeof word)
        return err_set(err, ERR_INVALID, "the name '%.60s...' is too long", c->word);
    (void)snprintf(word, sizeof word, "%.*s", (int)c->len, c->word);
    buf_init(&found.text, TEXT_MAX + 1);
    int r = find(&found, c, word, err);
    if (r == 0 && found.path[0] != '\0')
        r = put_found(j, &found, c->kind, err);
    else if (r == 0)
        json_put_str(j, word);
    buf_done(&found.text);
    return r;
}

static int put_list(struct json *j, const struct ask_task *task, enum ask_kind kind,
                    struct err *err)
{
    bool is_open = false;
    for (size_t i = 0; i < task->n_components; i++) {
        if (task->component[i].kind != kind)
            continue;
        if (!is_open) {
            json_key(j, kinds[kind].list);
            json_open_array(j);
            is_open = true;
        }
        if (put_one(j, &task->component[i], err) < 0)
            return -1;
    }
    if (is_open)
        json_close_array(j);
    return 0;
}

int ask_components_put(struct json *json, const struct ask_task *task, struct err *err)
{
    if (task->n_components == 0)
        return 0;
    json_key(json, "components");
    json_open_object(json);
    for (unsigned i = 0; i < ASK_KIND_MAX; i++) {
        if (put_list(json, task, (enum ask_kind)i, err) < 0)
            return -1;
    }
    json_close_object(json);
    return 0;
}
