// SPDX-License-Identifier: Apache-2.0
// Components of Claude Code: what a request may say, what is found in a folder, what comes of it in
// a project that has something already.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agents/components.h"
#include "base/buf.h"
#include "base/fd.h"
#include "check.h"

static struct components *parse(const char *text, int dir_fd, struct err *err)
{
    json_error_t why;
    json_t *from = json_loads(text, JSON_DECODE_ANY, &why);
    assert_non_null(from);
    struct components *c = NULL;
    *err = (struct err){0};
    int r = components_parse(from, dir_fd, &c, err);
    json_decref(from);
    assert_true((r == 0) == (c != NULL) && (r == 0) == (err->code == ERR_NONE));
    return c;
}

static struct components *parse_well(const char *text, int dir_fd)
{
    struct err err;
    struct components *c = parse(text, dir_fd, &err);
    if (c == NULL)
        fail_msg("%s", err.msg);
    return c;
}

// What would be written at `path`, or NULL. With what the project has in its two files.
struct project {
    const char *mcp, *settings;
};

static char *written(const struct components *c, const struct project *project, const char *path,
                     bool *ret_executable)
{
    struct component_file *files;
    struct err err = {0};
    const char *current[2] = {0};
    char *found = NULL;
    size_t n;
    for (unsigned i = 0; components_reads(c, i) != NULL; i++)
        current[i] =
            strcmp(components_reads(c, i), ".mcp.json") == 0 ? project->mcp : project->settings;
    assert_int_equal(components_files(c, current, &files, &n, &err), 0);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(strlen(files[i].text), files[i].len);
        if (strcmp(files[i].path, path) != 0)
            continue;
        assert_null(found);
        found = strdup(files[i].text);
        if (ret_executable != NULL)
            *ret_executable = files[i].executable;
    }
    component_files_free(files, n);
    return found;
}

static void check_text(const struct components *c, const char *path, const char *expected)
{
    bool executable = true;
    char *text = written(c, &(struct project){0}, path, &executable);
    if (expected == NULL)
        assert_null(text);
    else
        assert_string_equal(text, expected);
    free(text);
}

// Order of members does not count, that of lists does.
static void check_json(const char *components, const struct project *project, const char *path,
                       const char *expected)
{
    struct components *c = parse_well(components, -1);
    char *text = written(c, project, path, NULL);
    json_t *is = text != NULL ? json_loads(text, 0, NULL) : NULL;
    json_t *should = expected != NULL ? json_loads(expected, 0, NULL) : NULL;
    assert_true((expected != NULL) == (should != NULL));
    if (is != should && !json_equal(is, should))
        fail_msg("%s: %s instead of %s", components, text, expected);
    json_decref(is);
    json_decref(should);
    free(text);
    components_free(c);
}

#define MCP      ".mcp.json"
#define SETTINGS ".claude/settings.local.json"

// -- what may be said

CHECK_CASE(refuses_what_makes_no_sense)
{
    static const struct {
        const char *from, *says;
    } cases[] = {
        {"[]",                                                                                          "is no object"          },
        {"{\"skills\": []}",                                                                            "no 'skills'"           },
        {"{\"agents\": {}}",                                                                            "agents is no list"     },
        {"{\"agents\": [1]}",                                                                           "agents[0]"             },
        {"{\"agents\": [{\"content\": \"x\"}]}",                                                        "\"name\""              },
        {"{\"agents\": [{\"name\": \"a\"}]}",                                                           "agents[0] a"           },
        {"{\"agents\": [{\"name\": \"a\", \"content\": \"\"}]}",                                        "it is empty"           },
        {"{\"agents\": [{\"name\": \"a\", \"content\": {}}]}",                                          "its text"              },
        {"{\"agents\": [{\"name\": \"a\", \"content\": \"x\", \"files\": {}}]}",                        "'files'"               },
        {"{\"agents\": [{\"name\": \"..\", \"content\": \"x\"}]}",                                      "a name has"            },
        {"{\"agents\": [{\"name\": \"../a\", \"content\": \"x\"}]}",                                    "a name has"            },
        {"{\"agents\": [{\"name\": \"/a\", \"content\": \"x\"}]}",                                      "a name has"            },
        {"{\"agents\": [{\"name\": \"a/\", \"content\": \"x\"}]}",                                      "a name has"            },
        {"{\"agents\": [{\"name\": \"a b\", \"content\": \"x\"}]}",                                     "a name has"            },
        {"{\"agents\": [{\"name\": \".a\", \"content\": \"x\"}]}",                                      "a name has"            },
        {"{\"agents\": [{\"name\": \"x/a\", \"content\": \"1\"}, {\"name\": \"y/a\", \"content\": "
         "\"2\"}]}",                                                                           "agents[1] y/a: another"},
        {"{\"mcps\": [{\"name\": \"a\", \"content\": \"{\"}]}",                                         "no JSON: line 1"       },
        {"{\"mcps\": [{\"name\": \"a\", \"content\": \"[]\"}]}",                                        "no JSON object"        },
        {"{\"mcps\": [{\"name\": \"a\", \"content\": {}}]}",                                            "mcpServers"            },
        {"{\"mcps\": [{\"name\": \"a\", \"content\": {\"mcpServers\": {\"x\": 1}}}]}",
         "server 'x'"                                                                                                           },
        {"{\"settings\": [{\"name\": \"a\", \"content\": \"{\\\"a\\\":1,\\\"a\\\":2}\"}]}",
         "no JSON"                                                                                                              },
        {"{\"settings\": [{\"name\": \"a\", \"content\": {\"hooks\": []}}]}",                           "\"hooks\""             },
        {"{\"hooks\": [{\"name\": \"a\", \"content\": {}}]}",                                           "\"hooks\""             },
        {"{\"hooks\": [{\"name\": \"a\", \"content\": {\"hooks\": {\"Stop\": 1}}}]}",                   "'Stop'"                },
        {"{\"hooks\": [{\"name\": \"a\", \"content\": {\"hooks\": {}}, \"files\": {\"../x\": \"\"}}]}",
         "no place"                                                                                                             },
        {"{\"hooks\": [{\"name\": \"a\", \"content\": {\"hooks\": {}}, \"files\": "
         "{\".claude/hooks/../../x\": \"\"}}]}",                                               "no place"              },
        {"{\"hooks\": [{\"name\": \"a\", \"content\": {\"hooks\": {}, \"files\": "
         "{\"~/.bashrc\": {\"content\": \"\"}}}}]}",                                           "no place"              },
        {"{\"hooks\": [{\"name\": \"a\", \"content\": {\"hooks\": {}}, \"files\": {\"x\": 1}}]}",
         "is no text"                                                                                                           },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err err;
        struct components *c = parse(cases[i].from, -1, &err);
        if (c != NULL || err.code != ERR_INVALID || strstr(err.msg, cases[i].says) == NULL)
            fail_msg("%s: %s", cases[i].from, c != NULL ? "taken" : err.msg);
    }
}

CHECK_CASE(names_without_a_folder_are_not_found)
{
    struct err err;
    assert_null(parse("{\"agents\": [\"a\"]}", -1, &err));
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_non_null(strstr(err.msg, "agents[0] a"));
}

static json_t *many(const char *kind, size_t n, size_t len)
{
    char *text = malloc(len + 1);
    json_t *list = json_array(), *all = json_object();
    assert_non_null(text);
    memset(text, 'x', len);
    text[len] = '\0';
    for (size_t i = 0; i < n; i++) {
        char name[24];
        (void)snprintf(name, sizeof name, "n%zu", i);
        (void)json_array_append_new(list, json_pack("{ss ss}", "name", name, "content", text));
    }
    free(text);
    (void)json_object_set_new(all, kind, list);
    return all;
}

CHECK_CASE(there_are_limits)
{
    static const struct {
        size_t n, len;
        bool fits;
    } cases[] = {
        {COMPONENTS_MAX,     1,                      true },
        {COMPONENTS_MAX + 1, 1,                      false},
        {1,                  COMPONENT_TEXT_MAX,     true },
        {1,                  COMPONENT_TEXT_MAX + 1, false},
        {4,                  COMPONENT_TEXT_MAX,     true },
        {5,                  COMPONENT_TEXT_MAX,     false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err err = {0};
        struct components *c = NULL;
        json_t *from = many("agents", cases[i].n, cases[i].len);
        assert_int_equal(components_parse(from, -1, &c, &err), cases[i].fits ? 0 : -1);
        json_decref(from);
        components_free(c);
    }
}

// -- where things go

CHECK_CASE(texts_go_where_they_are_looked_for)
{
    struct components *c = parse_well(
        "{\"agents\": [{\"name\": \"team/reviewer\", \"content\": \"# r\\n\"}], \"commands\": "
        "[{\"name\": \"check\", \"content\": \"do $ARGUMENTS\"}]}",
        -1);
    assert_null(components_reads(c, 0));
    check_text(c, ".claude/agents/reviewer.md", "# r\n");
    check_text(c, ".claude/commands/check.md", "do $ARGUMENTS");
    check_text(c, MCP, NULL);
    check_text(c, SETTINGS, NULL);
    components_free(c);
}

CHECK_CASE(scripts_are_executable)
{
    struct components *c = parse_well(
        "{\"hooks\": [{\"name\": \"h\", \"content\": {\"hooks\": {}, \"files\": "
        "{\".claude/scripts/b.py\": {\"content\": \"b\", \"executable\": true}}}, \"files\": "
        "{\"a.sh\": \"a\", \".claude/hooks/c.sh\": \"c\"}}]}",
        -1);
    static const char *const expected[][2] = {
        {".claude/hooks/a.sh",   "a"},
        {".claude/scripts/b.py", "b"},
        {".claude/hooks/c.sh",   "c"},
    };
    for (size_t i = 0; i < 3; i++) {
        bool executable = false;
        char *text = written(c, &(struct project){0}, expected[i][0], &executable);
        assert_non_null(text);
        assert_string_equal(text, expected[i][1]);
        assert_true(executable);
        free(text);
    }
    components_free(c);
}

// -- merging

#define SETTING(text) "{\"settings\": [{\"name\": \"s\", \"content\": " text "}]}"
#define TWO(a, b)                                                                                  \
    "{\"settings\": [{\"name\": \"s\", \"content\": " a "}, {\"name\": \"t\", \"content\": " b "}]}"
#define HOOK(text)   "{\"hooks\": [{\"name\": \"h\", \"content\": " text "}]}"
#define SERVER(text) "{\"mcps\": [{\"name\": \"m\", \"content\": " text "}]}"

// clang-format off
CHECK_CASE(settings_are_merged)
{
    static const struct {
        const char *components, *current, *expected;
    } cases[] = {
        {SETTING("{\"model\": \"haiku\", \"description\": \"for people\"}"), NULL,
         "{\"model\": \"haiku\"}"},
        {SETTING("{}"), "", "{}"},
        {SETTING("{\"a\": 1}"), "\xef\xbb\xbf{\"b\": 2}", "{\"a\": 1, \"b\": 2}"},
        // what was asked for wins over what a repository has
        {SETTING("{\"model\": \"haiku\"}"), "{\"model\": \"opus\", \"x\": [1]}",
         "{\"model\": \"haiku\", \"x\": [1]}"},
        {TWO("{\"model\": \"haiku\"}", "{\"model\": \"opus\"}"), NULL, "{\"model\": \"opus\"}"},
        {SETTING("{\"env\": {\"A\": \"1\", \"B\": \"2\"}}"),
         "{\"env\": {\"A\": \"0\", \"C\": \"3\"}}",
         "{\"env\": {\"A\": \"1\", \"B\": \"2\", \"C\": \"3\"}}"},
        {SETTING("{\"permissions\": {\"allow\": [\"a\", \"b\", \"b\"], \"defaultMode\": \"plan\"}}"),
         "{\"permissions\": {\"allow\": [\"c\", \"a\"], \"deny\": [\"d\"], \"defaultMode\": \"x\"}}",
         "{\"permissions\": {\"allow\": [\"c\", \"a\", \"b\"], \"deny\": [\"d\"],"
         " \"defaultMode\": \"plan\"}}"},
        // what is of another kind gives way
        {SETTING("{\"permissions\": {\"deny\": [\"a\"]}, \"env\": {\"A\": \"1\"}}"),
         "{\"permissions\": {\"deny\": 1}, \"env\": [2]}",
         "{\"permissions\": {\"deny\": [\"a\"]}, \"env\": {\"A\": \"1\"}}"},
        // hooks are added to those there are, and switched on
        {HOOK("{\"hooks\": {\"Stop\": [{\"hooks\": [1]}]}, \"model\": \"not a hook's\"}"), NULL,
         "{\"hooks\": {\"Stop\": [{\"hooks\": [1]}]}, \"disableAllHooks\": false}"},
        {HOOK("{\"hooks\": {\"Stop\": [{\"m\": 1}], \"New\": []}}"),
         "{\"hooks\": {\"Stop\": [{\"m\": 0}, {\"m\": 1}], \"Old\": [1]}, \"disableAllHooks\": true}",
         "{\"hooks\": {\"Stop\": [{\"m\": 0}, {\"m\": 1}], \"Old\": [1], \"New\": []},"
         " \"disableAllHooks\": false}"},
        {HOOK("{\"hooks\": {\"Stop\": \"date\"}}"), NULL,
         "{\"hooks\": {\"Stop\": [{\"matcher\": \"*\", \"hooks\": [{\"type\": \"command\","
         " \"command\": \"date\"}]}]}, \"disableAllHooks\": false}"},
        {SETTING("{\"hooks\": {\"Stop\": [2]}}"), "{\"hooks\": {\"Stop\": [1]}}",
         "{\"hooks\": {\"Stop\": [1, 2]}, \"disableAllHooks\": false}"},
        {SETTING("{\"hooks\": {\"Stop\": [2]}, \"disableAllHooks\": true}"), NULL,
         "{\"hooks\": {\"Stop\": [2]}, \"disableAllHooks\": true}"},
        // a server may be started, and its tools used
        {SERVER("{\"mcpServers\": {\"x\": {}, \"y\": {}}}"),
         "{\"enabledMcpjsonServers\": [\"y\", \"z\"]}",
         "{\"enabledMcpjsonServers\": [\"y\", \"z\", \"x\"],"
         " \"permissions\": {\"allow\": [\"mcp__x\", \"mcp__y\"]}}"},
        {SERVER("{\"mcpServers\": {\"a-b c.d\u00e9\U0001f600\": {}}}"), NULL,
         "{\"enabledMcpjsonServers\": [\"a-b c.d\u00e9\U0001f600\"],"
         " \"permissions\": {\"allow\": [\"mcp__a-b_c_d___\"]}}"},
    };
    // clang-format on
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_json(cases[i].components, &(struct project){.settings = cases[i].current}, SETTINGS,
                   cases[i].expected);
}

// Where nothing of a repository is in it, and no hooks: those count wherever they are.
CHECK_CASE(settings_are_there_alone_too)
{
    struct components *c = parse_well(
        "{\"settings\": [{\"name\": \"s\", \"content\": {\"model\": \"haiku\", \"hooks\": "
        "{\"Stop\": []}}}]}",
        -1);
    struct project project = {.settings = "{\"theirs\": 1}"};
    char *text = written(c, &project, components_settings(c), NULL);
    json_t *is = json_loads(text, 0, NULL);
    json_t *should = json_pack("{s:s, s:b}", "model", "haiku", "disableAllHooks", 0);
    assert_true(json_equal(is, should));
    json_decref(is);
    json_decref(should);
    free(text);
    components_free(c);
    c = parse_well("{\"agents\": []}", -1);
    assert_null(components_settings(c));
    components_free(c);
}

CHECK_CASE(servers_are_merged)
{
    static const struct {
        const char *components, *current, *expected;
    } cases[] = {
        {SERVER("{\"mcpServers\": {\"x\": {\"command\": \"a\", \"description\": \"d\"}}}"), NULL,
         "{\"mcpServers\": {\"x\": {\"command\": \"a\"}}}"                                                              },
        {SERVER("{\"mcpServers\": {\"x\": {\"command\": \"a\"}}}"),
         "{\"k\": 1, \"mcpServers\": {\"x\": {\"command\": \"b\", \"args\": []}, \"y\": "
         "{\"description\": \"its own\"}}}",                                                                        "{\"k\": 1, \"mcpServers\": {\"x\": {\"command\": \"a\"}, \"y\": {\"description\": \"its "
         "own\"}}}"                                                         },
        {SERVER("{\"mcpServers\": {\"x\": {}}}"),                                           "{\"mcpServers\": []}",
         "{\"mcpServers\": {\"x\": {}}}"                                                                                },
        {SETTING("{}"),                                                                     "{}",                   NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_json(cases[i].components, &(struct project){.mcp = cases[i].current}, MCP,
                   cases[i].expected);
}

CHECK_CASE(what_is_no_json_is_not_replaced)
{
    static const char *const texts[] = {"{", "[]", "null", "{} x", "{\"a\": 1,}", "// c\n{}"};
    struct components *c = parse_well(SETTING("{\"a\": 1}"), -1);
    assert_string_equal(components_reads(c, 0), SETTINGS);
    assert_null(components_reads(c, 1));
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct component_file *files;
        struct err err = {0};
        size_t n;
        assert_int_equal(components_files(c, &texts[i], &files, &n, &err), -1);
        assert_int_equal(err.code, ERR_CONFLICT);
        assert_non_null(strstr(err.msg, SETTINGS));
    }
    components_free(c);
}

// Thousands of rules, twice: it must not be done by looking at each for each.
CHECK_CASE(long_lists_are_no_trouble)
{
    auto_buf list, request;
    buf_init(&list, COMPONENT_JSON_MAX);
    buf_init(&request, 2 * COMPONENT_JSON_MAX);
    for (unsigned i = 0; i < 8000; i++)
        (void)buf_printf(&list, "%s%u", i > 0 ? "," : "", i);
    (void)buf_printf(&request, SETTING("{\"permissions\": {\"allow\": [%s]}}"), buf_str(&list));
    struct components *c = parse_well(buf_str(&request), -1);
    buf_reset(&request);
    (void)buf_printf(&request, "{\"permissions\": {\"allow\": [%s]}}", buf_str(&list));
    char *text = written(c, &(struct project){.settings = buf_str(&request)}, SETTINGS, NULL);
    json_t *root = json_loads(text, 0, NULL), *permissions = json_object_get(root, "permissions");
    assert_int_equal(json_array_size(json_object_get(permissions, "allow")), 8000);
    json_decref(root);
    free(text);
    components_free(c);
}

static void check_json_limit(size_t n, size_t len, bool fits)
{
    struct err err = {0};
    struct components *c = NULL;
    json_t *from = many("settings", n, 1), *list = json_object_get(from, "settings");
    char *text = malloc(len + 1);
    assert_non_null(text);
    memset(text, ' ', len);
    memcpy(text, "{}", 2);
    text[len] = '\0';
    for (size_t i = 0; i < n; i++)
        (void)json_object_set_new(json_array_get(list, i), "content", json_string(text));
    assert_int_equal(components_parse(from, -1, &c, &err), fits ? 0 : -1);
    free(text);
    json_decref(from);
    components_free(c);
}

CHECK_CASE(json_has_limits_of_its_own)
{
    check_json_limit(1, COMPONENT_JSON_MAX, true);
    check_json_limit(1, COMPONENT_JSON_MAX + 1, false);
    check_json_limit(COMPONENTS_JSON_MAX / COMPONENT_JSON_MAX, COMPONENT_JSON_MAX, true);
    check_json_limit(COMPONENTS_JSON_MAX / COMPONENT_JSON_MAX + 1, COMPONENT_JSON_MAX, false);
}

CHECK_CASE(what_is_too_long_is_not_merged)
{
    struct component_file *files;
    struct err err = {0};
    size_t n;
    char *text = calloc(1, COMPONENTS_JSON_MAX + 2);
    assert_non_null(text);
    memset(text, ' ', COMPONENTS_JSON_MAX + 1);
    memcpy(text, "{}", 2);
    struct components *c = parse_well(SETTING("{\"a\": 1}"), -1);
    const char *current[] = {text};
    assert_int_equal(components_files(c, current, &files, &n, &err), -1);
    assert_int_equal(err.code, ERR_CONFLICT);
    components_free(c);
    free(text);
}

// -- the folder

static void put(int dir_fd, const char *path, const char *text)
{
    int fd = openat(dir_fd, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
    fd_close(fd);
}

static int make_folder(char path[32])
{
    static const char *const folders[] = {"agents", "agents/team", "commands",           "mcps",
                                          "hooks",  "settings",    "settings/statusline"};
    (void)snprintf(path, 32, "/tmp/components-XXXXXX");
    assert_non_null(mkdtemp(path));
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        assert_int_equal(mkdirat(fd, folders[i], 0755), 0);
    put(fd, "secret", "secret");
    put(fd, "agents/a.md", "top");
    put(fd, "agents/team/a.md", "of the team");
    put(fd, "mcps/m.json", "{\"mcpServers\": {\"x\": {}}}");
    put(fd, "hooks/h.json", "{\"hooks\": {\"Stop\": []}}");
    put(fd, "hooks/h.py", "print(1)");
    put(fd, "hooks/h.sh", "echo");
    put(fd, "settings/statusline/s.json",
        "{\"statusLine\": {\"command\": \"python3 .claude/scripts/bar.py\"}}");
    put(fd, "settings/statusline/bar.py", "bar");
    put(fd, "settings/bad.json", "{");
    assert_int_equal(symlinkat("../secret", fd, "agents/link.md"), 0);
    assert_int_equal(symlinkat("team", fd, "agents/crew"), 0);
    assert_int_equal(mkfifoat(fd, "agents/pipe.md", 0644), 0);
    assert_int_equal(mkdirat(fd, "agents/folder.md", 0755), 0);
    return fd;
}

static void remove_folder(const char *path)
{
    char command[64];
    pid_t pid = fork();
    (void)snprintf(command, sizeof command, "%s", path);
    if (pid == 0) {
        (void)execlp("rm", "rm", "-r", command, (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void check_not_there(int fd, const char *request)
{
    struct err err;
    struct components *c = parse(request, fd, &err);
    if (c != NULL)
        fail_msg("%s was found", request);
    assert_true(err.code != ERR_NONE);
}

CHECK_CASE(names_are_found_in_the_folder)
{
    char path[32];
    int before = check_fds(), fd = make_folder(path);
    struct components *c = parse_well("{\"agents\": [\"team/a\"], \"mcps\": [\"m\"], \"hooks\": "
                                      "[\"h\"], \"settings\": [\"statusline/s\"]}",
                                      fd);
    check_text(c, ".claude/agents/a.md", "of the team");
    check_text(c, ".claude/hooks/h.py", "print(1)");
    check_text(c, ".claude/hooks/h.sh", "echo");
    check_text(c, ".claude/scripts/bar.py", "bar");
    assert_string_equal(components_reads(c, 0), MCP);
    assert_string_equal(components_reads(c, 1), SETTINGS);
    assert_null(components_reads(c, 2));
    components_free(c);
    static const char *const none[] = {
        "{\"agents\": [\"b\"]}",    "{\"agents\": [\"crew/a\"]}", "{\"agents\": [\"link\"]}",
        "{\"agents\": [\"pipe\"]}", "{\"agents\": [\"folder\"]}", "{\"agents\": [\"a/b\"]}",
        "{\"commands\": [\"a\"]}",  "{\"settings\": [\"bad\"]}",  "{\"agents\": [\"../secret\"]}",
    };
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        check_not_there(fd, none[i]);
    fd_close(fd);
    assert_int_equal(check_fds(), before);
    remove_folder(path);
}

// -- again

CHECK_CASE(their_text_says_the_same_without_the_folder)
{
    char path[32];
    int fd = make_folder(path);
    struct components *c = parse_well(
        "{\"agents\": [\"team/a\"], \"mcps\": [\"m\"], \"hooks\": [\"h\"], \"settings\": "
        "[\"statusline/s\", {\"name\": \"t\", \"content\": {\"a\": 1e15}}], \"commands\": "
        "[{\"name\": \"c\", \"content\": \"d\"}]}",
        fd);
    char *text = components_text(c);
    fd_close(fd);
    remove_folder(path);
    struct components *again = parse_well(text, -1);
    free(text);
    static const char *const paths[] = {
        ".claude/agents/a.md",
        ".claude/commands/c.md",
        ".claude/hooks/h.py",
        ".claude/hooks/h.sh",
        ".claude/scripts/bar.py",
        MCP,
        SETTINGS,
    };
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        char *first = written(c, &(struct project){0}, paths[i], NULL);
        char *second = written(again, &(struct project){0}, paths[i], NULL);
        assert_non_null(first);
        assert_string_equal(first, second);
        free(first);
        free(second);
    }
    components_free(c);
    components_free(again);
}

CHECK_CASE(they_are_counted)
{
    struct components *c = parse_well(SETTING("{\"a\": 1}"), -1);
    struct components *second = components_ref(c);
    components_free(c);
    assert_string_equal(components_reads(second, 0), SETTINGS);
    components_free(second);
    components_free(NULL);
}

CHECK_MAIN(cmocka_unit_test(refuses_what_makes_no_sense),
           cmocka_unit_test(names_without_a_folder_are_not_found),
           cmocka_unit_test(there_are_limits), cmocka_unit_test(texts_go_where_they_are_looked_for),
           cmocka_unit_test(scripts_are_executable), cmocka_unit_test(settings_are_merged),
           cmocka_unit_test(settings_are_there_alone_too), cmocka_unit_test(servers_are_merged),
           cmocka_unit_test(what_is_no_json_is_not_replaced),
           cmocka_unit_test(long_lists_are_no_trouble),
           cmocka_unit_test(json_has_limits_of_its_own),
           cmocka_unit_test(what_is_too_long_is_not_merged),
           cmocka_unit_test(names_are_found_in_the_folder),
           cmocka_unit_test(their_text_says_the_same_without_the_folder),
           cmocka_unit_test(they_are_counted))
