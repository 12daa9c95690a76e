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

#define SUM                                                                                        \
    "sha512-q/t/3p2CTxOT9y2kvjesb/LZab2+1eqlhhWA02Be6mjTtmYtNBcBsrI5yDo4Fw7ZSPBW2oyMIGMNRqiKQjiAWw=="

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
        {"pakages git\n",                   "line 1: 'pakages' is none of"    },
        {"\n\nfrom fedora:40\n",            "line 3: from: 'fedora:40'"       },
        {"from debian:a\nfrom debian:b\n",  "line 2: from: it was said before"},
        {"packages git --force\n",          "line 1: packages: '--force'"     },
        {"packages\n",                      "needs something after it"        },
        {"  packages git\n",                "begins with its word"            },
        {"| text\n",                        "line 1: a line with '|'"         },
        {"file /a\nrun x\n| text\n",        "line 3: a line with '|'"         },
        {"file etc/x\n",                    "line 1: file: 'etc/x' is not"    },
        {"file /\n",                        "is not a path"                   },
        {"file /etc/\n",                    "is not a path"                   },
        {"from data minimal\n",             "more than one word"              },
        {"file /etc/x 755\n",               "0755"                            },
        {"file /etc/x 4755\n",              "0755"                            },
        {"file /etc/x 0755 x\n",            "0755"                            },
        {"npm rg@1.0\n",                    "four words"                      },
        {"npm@mips rg@1.0\n",               "'npm@mips' is none of"           },
        {"npm rg@1.0 sha512-x bin/rg /a\n", "'sha512-x' is not the sum"       },
        {"npm rg " SUM " bin/rg /a\n",      "one version"                     },
        {"npm rg@latest " SUM " a /a\n",    "one version"                     },
        {"npm rg@^1.0 " SUM " a /a\n",      "one version"                     },
        {"npm -rg@1.0 " SUM " a /a\n",      "one version"                     },
        {"npm ../rg@1.0 " SUM " a /a\n",    "one version"                     },
        {"npm @a/b/c@1.0 " SUM " a /a\n",   "one version"                     },
        {"npm git+x:y@1.0 " SUM " a /a\n",  "one version"                     },
        {"npm rg@1.0 " SUM " ../a /a\n",    "is not a file in a package"      },
        {"npm rg@1.0 " SUM " /a /a\n",      "is not a file in a package"      },
        {"npm rg@1.0 " SUM " a a\n",        "is not a path"                   },
        {"npm rg@1.0 " SUM " a /a b\n",     "four words"                      },
        {"npm rg@1.0 " SUM "= a /a\n",      "is not the sum"                  },
        {"file /etc/../x\n",                "without '//'"                    },
        {"file /./x\n",                     "without '//'"                    },
        {"file //x\n",                      "without '//'"                    },
        {"file /a/..\n",                    "without '//'"                    },
        {"link /dev/x y\n",                 "/dev is not part"                },
        {"file /proc\n",                    "/proc is not part"               },
        {"link /usr/bin/python\n",          "where it leads"                  },
        {"link /a b c\n",                   "where it leads"                  },
        {"without /usr/x y\n",              "neither docs nor"                },
        {"without doc\n",                   "is not a path"                   },
        {"without /a;b\n",                  "neither docs nor"                },
        {"run \x01\n",                      "plain text"                      },
        {"run \xff\n",                      "plain text"                      },
        {"about a\r\n",                     "plain text"                      },
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
        assert_int_equal(recipe_load(known->name, &recipe, &err), 0);
        assert_int_not_equal(recipe.about[0], '\0');
        assert_int_equal(image_from_check(recipe.from, &err), 0);
        assert_int_equal(recipe_check_machine(&recipe, "x86_64", &err), 0);
        assert_int_equal(recipe_check_machine(&recipe, "aarch64", &err), 0);
        // What a context of Python needs, ctypes among it.
        assert_non_null(strstr(buf_str(&recipe.packages), ",python3,"));
        assert_true(strcmp(before, known->name) < 0);
        assert_ptr_equal(recipe_find(known->name), known);
        before = known->name;
        recipe_done(&recipe);
    }
    assert_int_equal(n, 3);
    assert_non_null(recipe_find("agents"));
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

// -- recipes that stand on others

static void write_recipe(int fd, const char *name, const char *text)
{
    assert_int_equal(tree_write(fd, name, text, strlen(text), 0644), 0);
}

static int load(const char *dir, const char *name, struct recipe *ret, struct err *err)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    recipe_init(ret);
    *err = (struct err){0};
    return recipe_load(path, ret, err);
}

CHECK_CASE(stands_on_another)
{
    char path[64];
    int dir = place_make(path);
    struct recipe recipe;
    struct err err;
    assert_int_equal(mkdirat(dir, "sub", 0755), 0);
    write_recipe(dir, "low.image", "about low\nfrom debian:trixie\npackages a1 b1\nrun one\n");
    write_recipe(dir, "sub/mid", "from ../low.image\nwithout docs\nrun two\n");
    write_recipe(dir, "top", "about top\npackages c1\nrun three\nfrom ./sub/mid\n");
    assert_int_equal(load(path, "top", &recipe, &err), 0);
    assert_string_equal(recipe.about, "top");
    assert_string_equal(recipe.from, "debian:trixie");
    assert_string_equal(buf_str(&recipe.packages), ",a1,b1,c1");
    assert_true(recipe.without_docs);
    assert_int_equal(recipe.n_steps, 3);
    assert_string_equal(recipe.steps[0].text, "one");
    assert_string_equal(recipe.steps[1].text, "two");
    assert_string_equal(recipe.steps[2].text, "three");
    recipe_done(&recipe);

    write_recipe(dir, "known", "from minimal\npackages zz\n");
    assert_int_equal(load(path, "known", &recipe, &err), 0);
    assert_string_equal(recipe.from, "debian:bookworm");
    assert_non_null(strstr(buf_str(&recipe.packages), ",curl,"));
    recipe_done(&recipe);
    write_recipe(dir, "machine", "from host\n");
    assert_int_equal(load(path, "machine", &recipe, &err), 0);
    assert_string_equal(recipe.from, "host");
    recipe_done(&recipe);
    place_remove(path, dir);
}

static void refuse(const char *dir, const char *name, const char *word)
{
    struct recipe recipe;
    struct err err;
    assert_int_equal(load(dir, name, &recipe, &err), -1);
    if (strstr(err.msg, word) == NULL)
        fail_msg("'%s' says: %s", name, err.msg);
    recipe_done(&recipe);
}

CHECK_CASE(stands_on_nothing)
{
    char path[64], name[16], text[64];
    int dir = place_make(path);
    write_recipe(dir, "self", "from ./self\n");
    refuse(path, "self", "from ./self: ");
    refuse(path, "self", "made from itself");
    write_recipe(dir, "one", "from ./two\n");
    write_recipe(dir, "two", "from .././one\n");
    assert_int_equal(tree_symlink(dir, "three", "one"), 0);
    refuse(path, "one", "No such file");
    write_recipe(dir, "two", "from ./three\n"); // the same by another name
    refuse(path, "one", "made from itself");
    write_recipe(dir, "gone", "from ./nowhere\n");
    refuse(path, "gone", "No such file");
    write_recipe(dir, "name", "from datta\n");
    refuse(path, "name", "did you mean 'data'");
    write_recipe(dir, "low", "from debian:bookworm\npakages x\n");
    write_recipe(dir, "on-bad", "from ./low\n");
    refuse(path, "on-bad", "from ./low: ./low: line 2: 'pakages'");
    for (int i = 0; i <= RECIPE_DEPTH_MAX; i++) {
        (void)snprintf(name, sizeof name, "deep%d", i);
        (void)snprintf(text, sizeof text, "from ./deep%d\n", i + 1);
        write_recipe(dir, name, text);
    }
    refuse(path, "deep0", "at most 8");
    place_remove(path, dir);
}

CHECK_CASE(for_machines)
{
    struct recipe recipe;
    struct err err;
    assert_int_equal(parse("npm@x86_64 @a/b@1.0.0-rc.1+2 " SUM " bin/x /opt/x\n"
                           "npm rg@14.1.0 " SUM " rg /opt/rg\n",
                           &recipe, &err),
                     0);
    assert_int_equal(recipe.steps[0].kind, STEP_NPM);
    assert_string_equal(recipe.steps[0].text, "@a/b@1.0.0-rc.1+2");
    assert_string_equal(recipe.steps[0].sum, SUM + 7);
    assert_string_equal(recipe.steps[0].member, "bin/x");
    assert_string_equal(recipe.steps[0].path, "opt/x");
    assert_int_equal(recipe_check_machine(&recipe, "x86_64", &err), 0);
    assert_int_equal(recipe_check_machine(&recipe, "aarch64", &err), -1);
    assert_non_null(strstr(err.msg, "'/opt/x'"));
    recipe_done(&recipe);
}

// -- following

CHECK_CASE(followed)
{
    char path[64], text[64];
    int root = place_make(path);
    struct recipe recipe;
    struct err err;
    struct image_watch watch = {.stop_fd = -1};
    struct image_work work = {.root_fd = root, .recipe = &recipe, .watch = &watch};
    assert_int_equal(parse("file /etc/deep/er/x\n| one\nlink /usr/bin/python python3\n"
                           "link /etc/deep/er/x /elsewhere\nfile /etc/y 0750\n| two\n",
                           &recipe, &err),
                     0);
    assert_int_equal(image_follow(&work, &err), 0);
    ssize_t n = readlinkat(root, "usr/bin/python", text, sizeof text);
    assert_int_equal(n, 7);
    assert_memory_equal(text, "python3", 7);
    n = readlinkat(root, "etc/deep/er/x", text, sizeof text); // the later line wins
    assert_int_equal(n, 10);
    assert_int_equal(fd_read_file(root, "etc/y", text, sizeof text), 4);
    assert_string_equal(text, "two\n");
    struct stat st;
    assert_int_equal(fstatat(root, "etc/y", &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 0750);
    recipe_done(&recipe);
    place_remove(path, root);
}

CHECK_CASE(keeps_directories)
{
    char path[64];
    int root = place_make(path);
    struct recipe recipe;
    struct err err;
    struct stat st;
    struct image_watch watch = {.stop_fd = -1};
    struct image_work work = {.root_fd = root, .recipe = &recipe, .watch = &watch};
    assert_int_equal(tree_mkdir(root, "home", 0750, geteuid()), 0);
    assert_int_equal(parse("file /home/new/x\n", &recipe, &err), 0);
    assert_int_equal(image_follow(&work, &err), 0);
    assert_int_equal(fstatat(root, "home", &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 0750);
    assert_int_equal(fstatat(root, "home/new", &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 0755);
    recipe_done(&recipe);
    place_remove(path, root);
}

// What lies in a directory of the machine's own is left out, whatever it is.
CHECK_CASE(leaves_the_machines_own)
{
    char path[64];
    int root = place_make(path);
    struct recipe recipe;
    struct err err;
    struct image_watch watch = {.stop_fd = -1};
    struct image_work work = {
        .root_fd = root,
        .recipe = &recipe,
        .watch = &watch,
        .host = {.n_binds = 1, .binds = {{.fd = -1, .target = "usr"}}},
    };
    assert_int_equal(parse("link /usr/bin/python python3\nfile /usr/x\nnpm a@1.0 " SUM " x /usr/y\n"
                           "file /usrx\n",
                           &recipe, &err),
                     0);
    assert_int_equal(image_follow(&work, &err), 0);
    assert_int_not_equal(faccessat(root, "usr", F_OK, 0), 0);
    assert_int_equal(faccessat(root, "usrx", F_OK, 0), 0);
    recipe_done(&recipe);
    place_remove(path, root);
}

CHECK_CASE(follows_no_link)
{
    char path[64];
    int root = place_make(path);
    struct recipe recipe;
    struct err err;
    struct image_watch watch = {.stop_fd = -1};
    struct image_work work = {.root_fd = root, .recipe = &recipe, .watch = &watch};
    assert_int_equal(tree_symlink(root, "etc", "/tmp"), 0);
    assert_int_equal(parse("file /etc/recipe-test-escaped\n| x\n", &recipe, &err), 0);
    assert_int_equal(image_follow(&work, &err), -1);
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
           cmocka_unit_test(too_much), cmocka_unit_test(known), cmocka_unit_test(stands_on_another),
           cmocka_unit_test(stands_on_nothing), cmocka_unit_test(for_machines),
           cmocka_unit_test(followed), cmocka_unit_test(keeps_directories),
           cmocka_unit_test(leaves_the_machines_own), cmocka_unit_test(follows_no_link),
           cmocka_unit_test(lacks))
