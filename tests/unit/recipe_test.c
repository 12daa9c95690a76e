// SPDX-License-Identifier: Apache-2.0
// Recipes of images: what is read, what is refused and where, those that come with the program; the
// links and files that they make; and what a machine is said to lack.
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "box/image-make.h"
#include "box/image-steps.h"
#include "box/recipe.h"
#include "box/tree.h"
#include "check.h"
#include "cli/host-tools.h"

static int parse(const char *text, struct recipe *ret, struct err *err)
{
    recipe_init(ret);
    *err = (struct err){0};
    return recipe_parse(text, strlen(text), ret, err);
}

// -- reading

CHECK_CASE(whole)
{
    static const char text[] = "# a comment\n"
                               "about  some words \n"
                               "\n"
                               "from\tdebian:bookworm\n"
                               "packages  python3 git\n"
                               "packages g++=4:12.2.0-3\n"
                               "without docs\n"
                               "without /usr/include/boost/*\n"
                               "link /usr/bin/python python3\n"
                               "file /etc/pip.conf\n"
                               "| [global]\n"
                               "|\n"
                               "|  two  \n"
                               "|x\n"
                               "run echo '#' \"a  b\"\n"
                               "file /etc/empty\n"
                               "link /a /b";
    struct recipe recipe;
    struct err err;
    assert_int_equal(parse(text, &recipe, &err), 0);
    assert_string_equal(recipe.about, "some words");
    assert_string_equal(recipe.from, "debian:bookworm");
    assert_string_equal(buf_str(&recipe.packages), ",python3,git,g++=4:12.2.0-3");
    assert_true(recipe.without_docs);
    assert_int_equal(recipe.n_without, 1);
    assert_string_equal(recipe.without[0], "/usr/include/boost/*");
    assert_int_equal(recipe.n_steps, 5);
    assert_int_equal(recipe.steps[0].kind, STEP_LINK);
    assert_string_equal(recipe.steps[0].path, "usr/bin/python");
    assert_string_equal(recipe.steps[0].text, "python3");
    assert_int_equal(recipe.steps[1].kind, STEP_FILE);
    assert_string_equal(recipe.steps[1].path, "etc/pip.conf");
    assert_string_equal(recipe.steps[1].text, "[global]\n\n two  \nx\n");
    assert_int_equal(recipe.steps[2].kind, STEP_RUN);
    assert_null(recipe.steps[2].path);
    assert_string_equal(recipe.steps[2].text, "echo '#' \"a  b\"");
    assert_string_equal(recipe.steps[3].text, "");
    recipe_done(&recipe);
    recipe_done(&recipe); // is empty, and may be used again
}

CHECK_CASE(nothing)
{
    struct recipe recipe;
    struct err err;
    assert_int_equal(parse("", &recipe, &err), 0);
    assert_int_equal(parse("\n# only this\n   \n", &recipe, &err), 0);
    assert_string_equal(recipe.from, "");
    recipe_done(&recipe);
}

CHECK_CASE(refused)
{
    static const struct {
        const char *text, *word;
    } bad[] = {
        {"pakages git\n",                  "line 1: 'pakages' is none of"    },
        {"\n\nfrom fedora:40\n",           "line 3: from: 'fedora:40'"       },
        {"from debian:a\nfrom debian:b\n", "line 2: from: it was said before"},
        {"packages git --force\n",         "line 1: packages: '--force'"     },
        {"packages\n",                     "needs something after it"        },
        {"  packages git\n",               "begins with its word"            },
        {"| text\n",                       "line 1: a line with '|'"         },
        {"file /a\nrun x\n| text\n",       "line 3: a line with '|'"         },
        {"file etc/x\n",                   "line 1: file: 'etc/x' is not"    },
        {"file /\n",                       "is not a path"                   },
        {"file /etc/\n",                   "is not a path"                   },
        {"file /etc/../x\n",               "without '//'"                    },
        {"file /./x\n",                    "without '//'"                    },
        {"file //x\n",                     "without '//'"                    },
        {"file /a/..\n",                   "without '//'"                    },
        {"link /dev/x y\n",                "/dev is not part"                },
        {"file /proc\n",                   "/proc is not part"               },
        {"link /usr/bin/python\n",         "where it leads"                  },
        {"link /a b c\n",                  "where it leads"                  },
        {"without /usr/x y\n",             "neither docs nor"                },
        {"without doc\n",                  "is not a path"                   },
        {"without /a;b\n",                 "neither docs nor"                },
        {"run \x01\n",                     "plain text"                      },
        {"run \xff\n",                     "plain text"                      },
        {"about a\r\n",                    "plain text"                      },
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct recipe recipe;
        struct err err;
        assert_int_equal(parse(bad[i].text, &recipe, &err), -1);
        assert_int_equal(err.code, ERR_INVALID);
        if (strstr(err.msg, bad[i].word) == NULL)
            fail_msg("'%s' says: %s", bad[i].text, err.msg);
        recipe_done(&recipe);
    }
    struct recipe recipe;
    struct err err = {0};
    recipe_init(&recipe);
    assert_int_equal(recipe_parse("run a\0b\n", 8, &recipe, &err), -1);
    recipe_done(&recipe);
}

CHECK_CASE(too_much)
{
    struct recipe recipe;
    struct err err = {0};
    auto_buf text;
    buf_init(&text, 2 * RECIPE_TEXT_MAX);
    for (int i = 0; i <= RECIPE_STEPS_MAX; i++)
        assert_int_equal(buf_append_str(&text, "run true\n"), 0);
    assert_int_equal(parse(buf_str(&text), &recipe, &err), -1);
    assert_non_null(strstr(err.msg, "line 65: run: at most 64"));
    recipe_done(&recipe);
    buf_reset(&text);
    for (int i = 0; i <= RECIPE_WITHOUT_MAX; i++)
        assert_int_equal(buf_append_str(&text, "without /x\n"), 0);
    assert_int_equal(parse(buf_str(&text), &recipe, &err), -1);
    recipe_done(&recipe);
    buf_reset(&text);
    while (text.len <= RECIPE_TEXT_MAX)
        assert_int_equal(buf_append_str(&text, "# long\n"), 0);
    assert_int_equal(parse(buf_str(&text), &recipe, &err), -1);
    assert_non_null(strstr(err.msg, "64 KiB"));
    recipe_done(&recipe);
}

// -- those that come with the program

CHECK_CASE(known)
{
    const struct recipe_known *known;
    const char *before = "";
    unsigned n = 0;
    for (; (known = recipe_known(n)) != NULL; n++) {
        struct recipe recipe;
        struct err err = {0};
        recipe_init(&recipe);
        assert_int_equal(recipe_parse(known->text, known->len, &recipe, &err), 0);
        assert_int_not_equal(recipe.about[0], '\0');
        assert_int_equal(image_from_check(recipe.from, &err), 0);
        // What a context of Python needs, ctypes among it.
        assert_non_null(strstr(buf_str(&recipe.packages), ",python3,"));
        assert_true(strcmp(before, known->name) < 0);
        assert_ptr_equal(recipe_find(known->name), known);
        before = known->name;
        recipe_done(&recipe);
    }
    assert_int_equal(n, 2);
    assert_non_null(recipe_find("data"));
    assert_non_null(recipe_find("minimal"));
    assert_null(recipe_find("host"));
    assert_null(recipe_find(""));
}

// -- a directory to work in

static int place_make(char path[64])
{
    (void)snprintf(path, 64, "/tmp/recipe-test-XXXXXX");
    assert_non_null(mkdtemp(path));
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static void place_remove(const char *path, int fd)
{
    fd_close(fd);
    auto_fd tmp = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(tree_remove(tmp, path + strlen("/tmp/")), 0);
}

static void put_at(int fd, const char *path)
{
    assert_int_equal(tree_mkparents(fd, path), 0);
    assert_int_equal(tree_write(fd, path, "", 0, 0755), 0);
}

// -- following

CHECK_CASE(followed)
{
    char path[64], text[64];
    int root = place_make(path);
    struct recipe recipe;
    struct err err;
    struct apt_settings settings = {.path = "PATH=/usr/bin"};
    struct image_watch watch = {.stop_fd = -1};
    assert_int_equal(parse("file /etc/deep/er/x\n| one\nlink /usr/bin/python python3\n"
                           "link /etc/deep/er/x /elsewhere\nfile /etc/y\n| two\n",
                           &recipe, &err),
                     0);
    assert_int_equal(image_follow(root, &recipe, &settings, &watch, &err), 0);
    ssize_t n = readlinkat(root, "usr/bin/python", text, sizeof text);
    assert_int_equal(n, 7);
    assert_memory_equal(text, "python3", 7);
    n = readlinkat(root, "etc/deep/er/x", text, sizeof text); // the later line wins
    assert_int_equal(n, 10);
    assert_int_equal(fd_read_file(root, "etc/y", text, sizeof text), 4);
    assert_string_equal(text, "two\n");
    recipe_done(&recipe);
    place_remove(path, root);
}

CHECK_CASE(follows_no_link)
{
    char path[64];
    int root = place_make(path);
    struct recipe recipe;
    struct err err;
    struct apt_settings settings = {.path = "PATH=/usr/bin"};
    struct image_watch watch = {.stop_fd = -1};
    assert_int_equal(tree_symlink(root, "etc", "/tmp"), 0);
    assert_int_equal(parse("file /etc/recipe-test-escaped\n| x\n", &recipe, &err), 0);
    assert_int_equal(image_follow(root, &recipe, &settings, &watch, &err), -1);
    assert_int_not_equal(access("/tmp/recipe-test-escaped", F_OK), 0);
    recipe_done(&recipe);
    place_remove(path, root);
}

// -- what a machine lacks

CHECK_CASE(lacks)
{
    char path[64];
    int root = place_make(path);
    auto_buf text;
    buf_init(&text, 512);
    host_tools_missing(host_tools_find(path), &text);
    assert_string_equal(buf_str(&text), "python3, numpy, pandas, matplotlib, node");
    buf_reset(&text);
    host_tools_command(host_tools_find(path), path, &text);
    assert_string_equal(buf_str(&text), ""); // no apt there

    put_at(root, "usr/bin/python3");
    put_at(root, "usr/bin/apt-get");
    put_at(root, "usr/local/bin/node");
    put_at(root, "usr/lib/python3/dist-packages/numpy/__init__.py");
    put_at(root, "usr/local/lib/python3.11/dist-packages/pandas/__init__.py");
    struct host_tools tools = host_tools_find(path);
    assert_false(host_tools_complete(tools));
    buf_reset(&text);
    host_tools_present(tools, &text);
    assert_string_equal(buf_str(&text), "python3, numpy, pandas, node");
    buf_reset(&text);
    host_tools_command(tools, path, &text);
    assert_string_equal(buf_str(&text), "apt-get install python3-matplotlib");

    put_at(root, "usr/lib64/python3.12/site-packages/matplotlib/__init__.py");
    tools = host_tools_find(path);
    assert_true(host_tools_complete(tools));
    buf_reset(&text);
    host_tools_missing(tools, &text);
    host_tools_command(tools, path, &text);
    assert_string_equal(buf_str(&text), "");
    place_remove(path, root);
}

CHECK_MAIN(cmocka_unit_test(whole), cmocka_unit_test(nothing), cmocka_unit_test(refused),
           cmocka_unit_test(too_much), cmocka_unit_test(known), cmocka_unit_test(followed),
           cmocka_unit_test(follows_no_link), cmocka_unit_test(lacks))
