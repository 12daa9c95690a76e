// SPDX-License-Identifier: Apache-2.0
// Files about agents: what is read, what is refused and where, what becomes of {name}, and those
// that come with the program or lie in a folder.
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agents/agent-file.h"
#include "base/buf.h"
#include "base/fd.h"
#include "check.h"

#define SMALL "program x\ninput {task}\noutput text\n"
#define LINES "program x\ninput {task}\noutput lines\n"

static struct agent_file *parse(const char *text)
{
    struct agent_file *file = NULL;
    struct err err = {0};
    if (agent_file_parse("some", text, strlen(text), &file, &err) < 0)
        print_error("%s\n", err.msg);
    assert_non_null(file);
    return file;
}

// -- reading

CHECK_CASE(whole)
{
    struct agent_file *file = parse("# a comment\n"
                                    "about Some  Agent \n"
                                    "program\tsome\n"
                                    "  \n"
                                    "image agents\n"
                                    "memory 1.5g\n"
                                    "needs model\n"
                                    "components claude\n"
                                    "arg {task}\n"
                                    "output text");
    assert_string_equal(agent_file_name(file), "some");
    assert_string_equal(agent_file_about(file), "Some  Agent");
    assert_string_equal(agent_file_program(file), "some");
    assert_string_equal(agent_file_image(file), "agents");
    assert_int_equal(agent_file_memory(file), 1536u << 20);
    assert_true(agent_file_needs_model(file));
    assert_true(agent_file_has_components(file));
    assert_true(agent_file_takes(file, "task"));
    assert_false(agent_file_takes(file, "model"));
    assert_false(agent_file_takes(file, "nonsense"));
    agent_file_free(file);
}

CHECK_CASE(smallest)
{
    struct agent_file *file = parse(SMALL);
    assert_string_equal(agent_file_about(file), "some");
    assert_null(agent_file_image(file));
    assert_int_equal(agent_file_memory(file), 0);
    assert_false(agent_file_needs_model(file));
    assert_false(agent_file_has_components(file));
    agent_file_free(file);
    agent_file_free(NULL);
}

static const struct {
    const char *text, *says;
} refused[] = {
    {"",                                                "there is no line 'program'"               },
    {"program x\noutput text",                          "nowhere is {task}"                        },
    {"program x\narg {task}",                           "there is no line 'output"                 },
    {SMALL "colour red",                                "line 4: 'colour' is no word"              },
    {SMALL " arg x",                                    "line 4: a line begins with its word"      },
    {SMALL "arg",                                       "line 4: 'arg' needs something"            },
    {SMALL "output text",                               "line 4: output: it was said before"       },
    {SMALL "program y",                                 "line 4: program: it was said before"      },
    {SMALL "about a\nabout b",                          "line 5: about: it was said before"        },
    {SMALL "image a\nimage b",                          "line 5: image: it was said before"        },
    {SMALL "memory 1g\nmemory 1g",                      "line 5: memory: it was said before"       },
    {SMALL "needs model\nneeds model",                  "line 5: needs: it was said before"        },
    {SMALL "components claude\ncomponents claude",      "line 5: components: it was said before"   },
    {SMALL "env A 1\nenv A 2",                          "line 5: env: it was said before"          },
    {"program a b\narg {task}\noutput text",            "line 1: program: 'a b' is not one program"},
    {"program -x\narg {task}\noutput text",             "line 1: program: '-x' is not"             },
    {"program a/b\narg {task}\noutput text",            "line 1: program: 'a/b': a name alone"     },
    {SMALL "image ../x",                                "line 4: image: '../x' is no name"         },
    {SMALL "image a/b",                                 "line 4: image: 'a/b' is no name"          },
    {SMALL "memory much",                               "line 4: memory: "                         },
    {SMALL "memory 0",                                  "line 4: memory: nothing runs"             },
    {SMALL "needs money",                               "line 4: needs: 'money'"                   },
    {SMALL "components vim",                            "line 4: components: 'vim'"                },
    {SMALL "env A=B c",                                 "line 4: env: 'A=B' is no name"            },
    {SMALL "env 1A c",                                  "line 4: env: '1A' is no name"             },
    {SMALL "arg {tusk}",                                "line 4: arg: '{tusk}' is none of {task}"  },
    {SMALL "env A {tusk}",                              "line 4: env: '{tusk}'"                    },
    {SMALL "input {tusk}",                              "line 4: input: '{tusk}'"                  },
    {SMALL "allow colour red",                          "line 4: allow: 'colour' is none of"       },
    {SMALL "allow task red",                            "line 4: allow: 'task' is none of"         },
    {SMALL "allow model",                               "line 4: allow: 'model' needs at least one"},
    {SMALL "allow model a",                             "'a' is used nowhere"                      },
    {SMALL "arg {model}\nallow model a\nallow model b", "line 6: allow: it was said before"        },
    {"program x\narg {task}\noutput json",              "line 3: output: 'json' is neither"        },
    {SMALL "on /a=b : end",                             "are for 'output lines'"                   },
    {LINES "on /a=b",                                   "line 4: on: it has no ' : '"              },
    {LINES "on /a=b:end",                               "line 4: on: it has no ' : '"              },
    {LINES "on /a=b :",                                 "line 4: on: it has no ' : '"              },
    {LINES "on : end",                                  "line 4: on: it needs a condition"         },
    {LINES "on a=b : end",                              "line 4: on: 'a' is no pointer"            },
    {LINES "on /a : end",                               "line 4: on: '/a' is neither"              },
    {LINES "on /a= : end",                              "line 4: on: '/a=' needs a value"          },
    {LINES "on //a=b : end",                            "line 4: on: '//a' is no pointer"          },
    {LINES "on /a/=b : end",                            "line 4: on: '/a/' is no pointer"          },
    {LINES "on /a/*/b=c : end",                         "line 4: on: '/a/*/b' is no pointer"       },
    {LINES "on /a=b /c/* : end",                        "line 4: on: '/c/*': /* is for"            },
    {LINES "log /a=b /c/* /d/* : x",                    "line 4: log: '/d/*': there is one before" },
    {LINES "log /* : x",                                "line 4: log: '/*' is neither"             },
    {LINES "log /c/* : x",                              "line 4: log: it needs a condition"        },
    {LINES "on /a=b : colour=/c",                       "line 4: on: 'colour' is nothing"          },
    {LINES "on /a=b : end=/c",                          "line 4: on: 'end' stands alone"           },
    {LINES "on /a=b : text",                            "line 4: on: 'text' needs an ="            },
    {LINES "on /a=b : text=c",                          "line 4: on: 'c' is no pointer"            },
    {LINES "on /a=b : text=",                           "line 4: on: '' is no pointer"             },
    {LINES "on /a=b : text=/c|",                        "line 4: on: '' is no pointer"             },
    {LINES "on /a=b : text=/c text=/d",                 "line 4: on: 'text' was said before"       },
    {LINES "on /a=b : code",                            "line 4: on: 'code' needs an ="            },
    {LINES "on /a=b : code=oops",                       "line 4: on: 'oops' is no code"            },
    {LINES "on /a=b : cost+",                           "line 4: on: 'cost+' needs an ="           },
    {LINES "log /a=b : {/c",                            "line 4: log: '{/c' has no end"            },
    {LINES "log /a=b : {/c|d}",                         "line 4: log: 'd' is no pointer"           },
    {LINES "warn /a=b : {/c//d}",                       "line 4: warn: '/c//d' is no pointer"      },
    {"program x\r\narg {task}\noutput text",            "it is plain text"                         },
    {"program \xff\narg {task}\noutput text",           "it is plain text"                         },
};

CHECK_CASE(refuses)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct agent_file *file = NULL;
        struct err err = {0};
        const char *text = refused[i].text;
        assert_int_equal(agent_file_parse("some", text, strlen(text), &file, &err), -1);
        if (err.code != ERR_INVALID || strstr(err.msg, refused[i].says) == NULL)
            fail_msg("'%s': '%s', not '%s'", text, err.msg, refused[i].says);
        assert_null(file);
    }
}

// One more than there may be, of everything that there may be many of.
CHECK_CASE(too_many)
{
    static const struct {
        const char *line;
        int most;
    } many[] = {
        {"arg a\n",         AGENT_ARGS_MAX      },
        {"word a\n",        AGENT_ARGS_MAX      },
        {"input a\n",       AGENT_INPUTS_MAX - 1}, // one is there
        {"log /a=b : x\n",  AGENT_RULES_MAX     },
        {"on /a=b : end\n", AGENT_RULES_MAX     },
        {"env V%d x\n",     AGENT_ENV_MAX       },
        {"# no end, %d\n",  AGENT_TEXT_MAX / 10 },
    };
    for (size_t i = 0; i < sizeof many / sizeof *many; i++) {
        auto_buf text;
        struct agent_file *file = NULL;
        struct err err = {0};
        buf_init(&text, 4 * AGENT_TEXT_MAX);
        (void)buf_append_str(&text, LINES);
        for (int k = 0; k < many[i].most; k++) {
            const char *number = strstr(many[i].line, "%d");
            if (number != NULL)
                (void)buf_printf(&text, "%.*s%d%s", (int)(number - many[i].line), many[i].line, k,
                                 number + 2);
            else
                (void)buf_append_str(&text, many[i].line);
        }
        if (i + 1 < sizeof many / sizeof *many) {
            assert_int_equal(agent_file_parse("x", text.data, text.len, &file, &err), 0);
            agent_file_free(file);
            (void)buf_append_str(&text, many[i].line[0] == 'e' ? "env MORE x\n" : many[i].line);
        }
        assert_int_equal(agent_file_parse("x", text.data, text.len, &file, &err), -1);
        assert_int_equal(err.code, ERR_INVALID);
    }
}

CHECK_CASE(names)
{
    static const char *const bad[] = {
        "", "-a", "A", "a b", "a/b", "a.b", "..", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct agent_file *file = NULL;
        struct err err = {0};
        assert_int_equal(agent_file_parse(bad[i], SMALL, strlen(SMALL), &file, &err), -1);
        assert_non_null(strstr(err.msg, "no name of an agent"));
    }
}

// -- starting

static void check_list(char **list, const char *const *expected)
{
    unsigned n = 0;
    for (; expected[n] != NULL; n++) {
        if (list[n] == NULL)
            fail_msg("'%s' is missing", expected[n]);
        assert_string_equal(list[n], expected[n]);
    }
    assert_null(list[n]);
}
#define CHECK_LIST(list, ...) check_list(list, (const char *const[]){__VA_ARGS__})

static const char many_holes[] = "program p\n"
                                 "allow permission_mode one   two\n"
                                 "env A plain\n"
                                 "env B {\"*\":{},\"m\":\"{model}\"}\n"
                                 "env C\n"
                                 "arg -a --mode={permission_mode}\n"
                                 "arg --system {system_prompt} --loud\n"
                                 "arg {model}{model}-x {}\n"
                                 "word echo ${x} {model} {nonsense}  \"a  b\"\n"
                                 "input first {system_prompt}\n"
                                 "input {task}!\n"
                                 "output text\n";

CHECK_CASE(fills_in)
{
    struct agent_file *file = parse(many_holes);
    struct agent_start start;
    struct err err = {0};
    const struct agent_values values = {
        .task = "do {model} $(this)\nand --that",
        .system_prompt = "be 'brief' {task}",
        .permission_mode = "two",
        .model = "m 1",
        .max_turns = "5", // it has no use for it
    };
    assert_int_equal(agent_file_start(file, &values, &start, &err), 0);
    CHECK_LIST(start.argv, "p", "-a", "--mode=two", "--system", "be 'brief' {task}", "--loud",
               "m 1m 1-x", "{}", "echo ${x} {model} {nonsense}  \"a  b\"", NULL);
    CHECK_LIST(start.env, "A=plain", "B={\"*\":{},\"m\":\"m 1\"}", "C=", NULL);
    assert_string_equal(start.input, "first be 'brief' {task}\ndo {model} $(this)\nand --that!\n");
    assert_int_equal(start.input_len, strlen(start.input));
    agent_start_done(&start);
    agent_start_done(&start);
    agent_file_free(file);
}

CHECK_CASE(leaves_out)
{
    struct agent_file *file = parse(many_holes);
    struct agent_start start;
    struct err err = {0};
    const struct agent_values values = {.task = "x"};
    assert_int_equal(agent_file_start(file, &values, &start, &err), 0);
    CHECK_LIST(start.argv, "p", "-a", "--mode=one", "echo ${x} {model} {nonsense}  \"a  b\"", NULL);
    CHECK_LIST(start.env, "A=plain", "C=", NULL);
    assert_string_equal(start.input, "x!\n");
    agent_start_done(&start);
    agent_file_free(file);

    file = parse("program p\narg {task}\noutput text");
    assert_int_equal(agent_file_start(file, &values, &start, &err), 0);
    CHECK_LIST(start.argv, "p", "x", NULL);
    CHECK_LIST(start.env, NULL);
    assert_null(start.input);
    agent_start_done(&start);
    agent_file_free(file);
}

CHECK_CASE(too_long)
{
    struct agent_file *by_word = parse("program p\narg {task}\noutput text");
    struct agent_file *by_input = parse(SMALL);
    struct agent_start start;
    struct err err = {0};
    char *text = malloc(5 << 20);
    assert_non_null(text);
    memset(text, 'x', 5 << 20);
    const struct agent_values values = {.task = text};
    text[AGENT_WORD_MAX] = '\0';
    assert_int_equal(agent_file_start(by_word, &values, &start, &err), 0);
    agent_start_done(&start);
    text[AGENT_WORD_MAX] = 'x';
    text[AGENT_WORD_MAX + 1] = '\0';
    assert_int_equal(agent_file_start(by_word, &values, &start, &err), -1);
    assert_int_equal(err.code, ERR_INVALID);
    assert_int_equal(agent_file_start(by_input, &values, &start, &err), 0);
    assert_int_equal(start.input_len, AGENT_WORD_MAX + 2);
    agent_start_done(&start);
    text[AGENT_WORD_MAX + 1] = 'x';
    text[(5 << 20) - 1] = '\0';
    assert_int_equal(agent_file_start(by_input, &values, &start, &err), -1);
    const struct agent_values none = {.task = ""};
    assert_int_equal(agent_file_start(by_input, &none, &start, &err), -1);
    free(text);
    agent_file_free(by_word);
    agent_file_free(by_input);
}

CHECK_CASE(checks)
{
    static const struct {
        struct agent_values values;
        const char *says; // NULL: fine
    } cases[] = {
        {{.task = "-x", .system_prompt = "--y\n"}, NULL                                   },
        {{.permission_mode = "two"},               NULL                                   },
        {{.permission_mode = "three"},             "'three' is none of: one two"          },
        {{.permission_mode = "one two"},           "is none of"                           },
        {{.permission_mode = ""},                  "is none of"                           },
        {{.model = "claude-x[1m]"},                NULL                                   },
        {{.model = "--dangerous"},                 "model: '--dangerous' is not one plain"},
        {{.model = "a\",\"b"},                     "not one plain word"                   },
        {{.model = "a b"},                         "not one plain word"                   },
        {{.model = "a\nb"},                        "not one plain word"                   },
        {{.model = "\xc3\xa4"},                    "not one plain word"                   },
        {{.model = ""},                            "not one plain word"                   },
        {{.max_turns = "5"},                       "max_turns: the agent 'some' has none" },
        {{.session = "5"},                         "session: the agent 'some' has none"   },
    };
    struct agent_file *file = parse(many_holes);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err err = {0};
        int r = agent_file_check(file, &cases[i].values, &err);
        assert_int_equal(r, cases[i].says == NULL ? 0 : -1);
        if (cases[i].says != NULL && strstr(err.msg, cases[i].says) == NULL)
            fail_msg("'%s', not '%s'", err.msg, cases[i].says);
    }
    agent_file_free(file);
}

// -- those that there are

CHECK_CASE(known)
{
    struct agent_files *files;
    struct agent_start start;
    struct err err = {0};
    assert_int_equal(agent_files_open(NULL, &files, &err), 0);
    assert_string_equal(agent_files_names(files), "claude, opencode");
    const struct agent_file *claude = agent_files_find(files, "claude");
    assert_ptr_equal(agent_files_at(files, 0), claude);
    assert_string_equal(agent_file_name(agent_files_at(files, 1)), "opencode");
    assert_null(agent_files_at(files, 2));
    assert_null(agent_files_find(files, "nobody"));
    const struct agent_values values = {
        .task = "-x", .system_prompt = "--version", .max_turns = "3"};
    assert_int_equal(agent_file_check(claude, &values, &err), 0);
    assert_int_equal(agent_file_start(claude, &values, &start, &err), 0);
    CHECK_LIST(start.argv, "claude", "-p", "--output-format", "stream-json", "--verbose",
               "--permission-mode=acceptEdits", "--append-system-prompt=--version", "--max-turns=3",
               NULL);
    assert_string_equal(start.input, "-x\n");
    agent_start_done(&start);
    // Nothing that somebody asks for is a word of its own that could be an option.
    const struct agent_values all = {"-t", "-s", NULL, "m", NULL, "s"};
    assert_int_equal(agent_file_start(agent_files_at(files, 1), &all, &start, &err), 0);
    for (char **p = start.argv + 1; *p != NULL; p++)
        assert_false(strcmp(*p, "-t") == 0 || strcmp(*p, "-s") == 0 || strcmp(*p, "m") == 0);
    assert_string_equal(start.input, "-s\n-t\n");
    agent_start_done(&start);
    agent_files_free(files);
    agent_files_free(NULL);
}

static void write_file(const char *dir, const char *name, const char *text)
{
    char path[300];
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void remove_file(const char *dir, const char *name)
{
    char path[300];
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(remove(path), 0);
}

CHECK_CASE(folder)
{
    char dir[] = "/tmp/agents-XXXXXX", path[300];
    struct agent_files *files;
    struct err err = {0};
    int fds = check_fds();
    assert_non_null(mkdtemp(dir));
    write_file(dir, "mine", SMALL);
    write_file(dir, "claude", "about Mine\n" SMALL);
    write_file(dir, "README.md", "no agent");
    write_file(dir, ".hidden", "no agent");
    write_file(dir, "mine~", "no agent");
    assert_int_equal(agent_files_open(dir, &files, &err), 0);
    assert_string_equal(agent_files_names(files), "claude, mine, opencode");
    assert_string_equal(agent_file_about(agent_files_find(files, "claude")), "Mine");
    agent_files_free(files);

    write_file(dir, "bad", SMALL "\ncolour red\n");
    assert_int_equal(agent_files_open(dir, &files, &err), -1);
    assert_non_null(strstr(err.msg, "/bad': line 5: 'colour'"));
    remove_file(dir, "bad");
    (void)snprintf(path, sizeof path, "%s/folder", dir);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(agent_files_open(dir, &files, &err), -1);
    assert_non_null(strstr(err.msg, "/folder': it is not a file"));
    remove_file(dir, "folder");
    (void)snprintf(path, sizeof path, "%s/pipe", dir);
    assert_int_equal(mkfifo(path, 0600), 0); // nobody waits for whoever writes to it
    assert_int_equal(agent_files_open(dir, &files, &err), -1);
    static const char *const rest[] = {"pipe", "mine", "claude", "README.md", ".hidden", "mine~"};
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++)
        remove_file(dir, rest[i]);
    assert_int_equal(remove(dir), 0);
    assert_int_equal(agent_files_open(dir, &files, &err), -1);
    assert_int_equal(check_fds(), fds);
}

// The file that docs/AGENTS.md shows is one.
static void parse_shown(struct buf *text, unsigned *n_scribes)
{
    struct agent_file *file = parse(buf_str(text));
    *n_scribes += strcmp(agent_file_about(file), "A scribe") == 0;
    agent_file_free(file);
    buf_reset(text);
}

CHECK_CASE(shown)
{
    static const char first[] = "    # /etc/cay/agents/";
    char line[1000];
    auto_buf text;
    bool in_file = false;
    unsigned n_scribes = 0;
    FILE *page = fopen(getenv("CAY_AGENTS_PAGE"), "re");
    assert_non_null(page);
    buf_init(&text, AGENT_TEXT_MAX);
    while (fgets(line, sizeof line, page) != NULL) {
        in_file =
            strncmp(line, first, strlen(first)) == 0 || (in_file && strncmp(line, "    ", 4) == 0);
        if (in_file)
            (void)buf_append_str(&text, line + 4);
        else if (text.len > 0)
            parse_shown(&text, &n_scribes);
    }
    (void)fclose(page);
    assert_int_equal(n_scribes, 1);
}

CHECK_MAIN(cmocka_unit_test(whole), cmocka_unit_test(smallest), cmocka_unit_test(refuses),
           cmocka_unit_test(too_many), cmocka_unit_test(names), cmocka_unit_test(fills_in),
           cmocka_unit_test(leaves_out), cmocka_unit_test(too_long), cmocka_unit_test(checks),
           cmocka_unit_test(known), cmocka_unit_test(folder), cmocka_unit_test(shown))
