// SPDX-License-Identifier: Apache-2.0
// What has changed between two moments of a directory, with the machine's own git: right, or a
// fault that says what is wrong, whatever somebody has done to the directory; and nothing of it is
// run.
#include "git_kit.h"

static struct {
    bool told;
    struct git_fault fault; // code NULL: none
    char *diff, *files;
    bool truncated, files_truncated;
    struct git_moment *moment;
} seen;

static void forget(void)
{
    free(seen.diff);
    free(seen.files);
    git_moment_free(seen.moment);
    memset(&seen, 0, sizeof seen);
}

static void on_changes(void *data, const struct git_changes *c, const struct git_fault *fault)
{
    assert_null(data);
    assert_false(seen.told);
    assert_true((c == NULL) != (fault == NULL));
    seen.told = true;
    if (fault != NULL) {
        seen.fault = *fault;
        return;
    }
    seen.diff = strndup(buf_str(c->diff), c->diff->len);
    seen.files = strdup(buf_str(c->files));
    seen.truncated = c->truncated;
    seen.files_truncated = c->files_truncated;
}

static void on_moment(void *data, struct git_moment *moment, const struct git_fault *fault)
{
    assert_null(data);
    assert_true((moment == NULL) != (fault == NULL));
    seen.told = true;
    seen.moment = moment;
    if (fault != NULL)
        seen.fault = *fault;
}

// As it is written down and read again, which is how it gets over a restart.
static void look_since(struct git_moment *moment)
{
    char *text = strdup(git_moment_text(moment));
    git_moment_free(moment);
    moment = git_moment_parse(text);
    assert_non_null(moment);
    assert_string_equal(git_moment_text(moment), text);
    assert_null(strpbrk(text, " \n\t"));
    free(text);
    forget();
    kit.started = 0;
    struct git_work *work =
        git_changes_since(NULL, &kit.sandbox, moment, true, 60000, on_changes, NULL);
    assert_true((work == NULL) == seen.told);
    git_moment_free(moment);
    kit_run();
    assert_true(seen.told);
}

static void must_be(const char *files)
{
    if (seen.fault.code != NULL)
        fail_msg("%s: %s\n%s", seen.fault.code, seen.fault.message, seen.fault.said);
    assert_string_equal(seen.files, files);
}

static void must_fail(const char *code, const char *words)
{
    assert_non_null(seen.fault.code);
    if (strcmp(seen.fault.code, code) != 0)
        fail_msg("%s: %s\n%s", seen.fault.code, seen.fault.message, seen.fault.said);
    if (strstr(seen.fault.message, words) == NULL)
        fail_msg("'%s' is not in '%s'", words, seen.fault.message);
    assert_true(seen.fault.status >= 400);
}

static struct git_moment *take(const char *dir)
{
    forget();
    struct git_work *work = git_moment_take(NULL, &kit.sandbox, dir, 60000, on_moment, NULL);
    assert_true((work == NULL) == seen.told);
    kit_run();
    assert_true(seen.told);
    if (seen.fault.code != NULL)
        fail_msg("%s: %s\n%s", seen.fault.code, seen.fault.message, seen.fault.said);
    struct git_moment *moment = seen.moment;
    seen.moment = NULL;
    return moment;
}

// A repository "r" with a few files, as a clone of which nobody has touched anything yet.
static struct git_moment *cloned_as(const char *options)
{
    struct git_cloned cloned = {.head = "main"};
    char script[512];
    (void)snprintf(script, sizeof script,
                   "git init -q --template= -b main %s r; cd r; mkdir d .git/info .git/hooks; "
                   "printf 'one\\ntwo\\n' > a; echo b > b; seq 40 > d/c; echo k > kept.log; "
                   "echo '*.log' > .gitignore; git add -f .; git commit -qm first; "
                   "git rev-parse HEAD",
                   options);
    (void)snprintf(cloned.dir, sizeof cloned.dir, "%s", kit_path("r"));
    (void)snprintf(cloned.commit, sizeof cloned.commit, "%.64s", kit_sh(script));
    return git_moment_clone(&cloned);
}

// The same once more in a case is a copy.
static struct git_moment *cloned(void)
{
    static char commit[GIT_COMMIT_MAX];
    struct git_cloned again = {.head = "main"};
    if (access(kit_path("first"), F_OK) < 0) {
        git_moment_free(cloned_as(""));
        (void)snprintf(commit, sizeof commit, "%.64s",
                       kit_sh("cp -r r first; cd r; git rev-parse HEAD"));
    } else {
        (void)kit_sh("cp -r first r");
    }
    (void)snprintf(again.dir, sizeof again.dir, "%s", kit_path("r"));
    (void)snprintf(again.commit, sizeof again.commit, "%s", commit);
    return git_moment_clone(&again);
}

// -- what is right

CHECK_CASE(an_empty_directory)
{
    struct git_moment *moment = git_moment_empty(kit_path("w"));
    (void)kit_sh("mkdir w");
    look_since(moment);
    must_be("[]");
    assert_string_equal(seen.diff, "");
    assert_int_equal(kit.started, 4); // init, add, diff-index; and rm, for which nobody waits

    moment = git_moment_empty(kit_path("w"));
    (void)kit_sh(
        "cd w; echo x > x; printf 'a\\0b' > bin; mkdir d; printf no > 'd/s p'; chmod +x d/*; "
        "ln -s /etc link; : > zero; mkfifo pipe; mkdir hollow");
    look_since(moment);
    must_be("[{\"path\":\"bin\",\"status\":\"added\",\"added\":null,\"removed\":null},"
            "{\"path\":\"d/s p\",\"status\":\"added\",\"added\":1,\"removed\":0},"
            "{\"path\":\"link\",\"status\":\"added\",\"added\":1,\"removed\":0},"
            "{\"path\":\"x\",\"status\":\"added\",\"added\":1,\"removed\":0},"
            "{\"path\":\"zero\",\"status\":\"added\",\"added\":0,\"removed\":0}]");
    assert_non_null(strstr(seen.diff, "GIT binary patch\nliteral 3\n"));
    assert_non_null(strstr(seen.diff, "new file mode 100755"));
    assert_non_null(strstr(seen.diff, "new file mode 120000"));
    assert_int_equal(kit.started, 4);
    assert_true(kit_is_clean());
    assert_string_equal(kit_sh("ls -A w"), "bin\nd\nhollow\nlink\npipe\nx\nzero");
}

CHECK_CASE(binaries_that_leave_no_room)
{
    struct git_moment *moment = git_moment_empty(kit_path("w"));
    (void)kit_sh("mkdir w; cd w; head -c 9000000 /dev/urandom > bin; echo x > x");
    look_since(moment);
    must_be("[{\"path\":\"bin\",\"status\":\"added\",\"added\":null,\"removed\":null},"
            "{\"path\":\"x\",\"status\":\"added\",\"added\":1,\"removed\":0}]");
    assert_non_null(strstr(seen.diff, "Binary files /dev/null and b/bin differ"));
    assert_non_null(strstr(seen.diff, "\n+x\n"));
    assert_false(seen.truncated);
    assert_true(kit_is_clean());
}

CHECK_CASE(names_of_all_kinds)
{
    struct git_moment *moment = git_moment_empty(kit_path("w"));
    (void)kit_sh(
        "mkdir w; cd w; for n in \"$(printf 'li\\nne')\" \"$(printf 'n\\351')\" 'q\"t' ' x ' "
        "':(top)y' '-z' 'a\tb' ':100644 x'; do echo 1 > \"./$n\"; done");
    look_since(moment);
    must_be("[{\"path\":\" x \",\"status\":\"added\",\"added\":1,\"removed\":0},"
            "{\"path\":\"-z\",\"status\":\"added\",\"added\":1,\"removed\":0},"
            "{\"path\":\":(top)y\",\"status\":\"added\",\"added\":1,\"removed\":0},"
            "{\"path\":\":100644 x\",\"status\":\"added\",\"added\":1,\"removed\":0},"
            "{\"path\":\"a\\tb\",\"status\":\"added\",\"added\":1,\"removed\":0},"
            "{\"path\":\"li\\nne\",\"status\":\"added\",\"added\":1,\"removed\":0},"
            "{\"path\":\"n\xef\xbf\xbd\",\"status\":\"added\",\"added\":1,\"removed\":0},"
            "{\"path\":\"q\\\"t\",\"status\":\"added\",\"added\":1,\"removed\":0}]");
    // deleted, with such names, though .gitignore names them
    moment = take(kit_path("w"));
    (void)kit_sh("cd w; rm ./*; echo '*' > .gitignore");
    look_since(moment);
    assert_null(seen.fault.code);
    assert_non_null(strstr(seen.files, "\"li\\nne\",\"status\":\"deleted\""));
    assert_true(kit_is_clean());
}

CHECK_CASE(a_clone)
{
    look_since(cloned());
    must_be("[]");
    assert_int_equal(kit.started, 4 + 4); // kept.log is ignored, and tracked all the same
    (void)kit_sh("cd r; git rm -qf kept.log; git commit -qm less");
    struct git_cloned less = {0};
    (void)snprintf(less.dir, sizeof less.dir, "%s", kit_path("r"));
    (void)snprintf(less.commit, sizeof less.commit, "%.64s", kit_sh("cd r; git rev-parse HEAD"));
    look_since(git_moment_clone(&less));
    must_be("[]");
    assert_int_equal(kit.started, 4);
    (void)kit_sh("rm -rf r");

    struct git_moment *moment = cloned();
    (void)kit_sh("cd r; echo three >> a; git commit -qam second; git rm -q b; git mv d/c d/e; "
                 "echo 41 >> d/e; git commit -qm third; chmod +x a; echo n > new; echo i > i.log; "
                 "git checkout -q -b other; git stash -q -u 2>/dev/null; git stash pop -q");
    look_since(moment);
    must_be("[{\"path\":\"a\",\"status\":\"modified\",\"added\":1,\"removed\":0},"
            "{\"path\":\"b\",\"status\":\"deleted\",\"added\":0,\"removed\":1},"
            "{\"path\":\"d/e\",\"status\":\"renamed\",\"old\":\"d/c\",\"added\":1,\"removed\":0},"
            "{\"path\":\"new\",\"status\":\"added\",\"added\":1,\"removed\":0}]");
    assert_non_null(strstr(seen.diff, "old mode 100644\nnew mode 100755"));
    assert_non_null(strstr(seen.diff, "rename from d/c\nrename to d/e"));
    assert_non_null(strstr(seen.diff, "+three\n"));
    assert_true(kit_is_clean());
}

CHECK_CASE(the_diff_can_be_applied)
{
    struct git_moment *moment = cloned();
    (void)kit_sh(
        "cp -r r again; cd r; echo three >> a; rm b; mv d/c d/e; ln -s x l; echo n > \"$(printf 'n\\351 \"')\"");
    look_since(moment);
    assert_null(seen.fault.code);
    FILE *patch = fopen(kit_path("patch"), "we");
    assert_non_null(patch);
    (void)fputs(seen.diff, patch);
    (void)fclose(patch);
    (void)kit_sh("cd again; git apply ../patch; diff -r --no-dereference -x .git . ../r");
}

CHECK_CASE(tracked_and_ignored)
{
    (void)kit_sh("true");
    static const struct {
        const char *script, *files;
    } cases[] = {
        {"true",                                                                                                     "[]"},
        {"echo l >> kept.log",
         "[{\"path\":\"kept.log\",\"status\":\"modified\",\"added\":1,\"removed\":0}]"                                   },
        {"rm kept.log",
         "[{\"path\":\"kept.log\",\"status\":\"deleted\",\"added\":0,\"removed\":1}]"                                    },
        {"rm kept.log; mkdir kept.log; echo x > kept.log/x",
         "[{\"path\":\"kept.log\",\"status\":\"deleted\",\"added\":0,\"removed\":1}]"                                    },
 // a directory that was tracked is a link now, and ignored
        {"mv d ../elsewhere; ln -s ../elsewhere d; echo d >> .git/info/exclude; printf '*.log\\nd\\n' > .gitignore",
         "[{\"path\":\".gitignore\",\"status\":\"modified\",\"added\":1,\"removed\":0},"
         "{\"path\":\"d/c\",\"status\":\"deleted\",\"added\":0,\"removed\":40}]"                                         },
 // where a file was is a directory
        {"rm b; mkdir b; echo x > b/x; echo y > b/y",
         "[{\"path\":\"b\",\"status\":\"deleted\",\"added\":0,\"removed\":1},"
         "{\"path\":\"b/x\",\"status\":\"added\",\"added\":1,\"removed\":0},"
         "{\"path\":\"b/y\",\"status\":\"added\",\"added\":1,\"removed\":0}]"                                            },
 // everything is ignored all of a sudden: it is still there
        {"echo '*' > .gitignore; echo more >> a; echo n > new",
         "[{\"path\":\".gitignore\",\"status\":\"modified\",\"added\":1,\"removed\":1},"
         "{\"path\":\"a\",\"status\":\"modified\",\"added\":1,\"removed\":0}]"                                           },
 // git is told not to look
        {"git update-index --assume-unchanged a; git update-index --skip-worktree b; echo x >> a; rm b",
         "[{\"path\":\"a\",\"status\":\"modified\",\"added\":1,\"removed\":0},"
         "{\"path\":\"b\",\"status\":\"deleted\",\"added\":0,\"removed\":1}]"                                            },
        {"echo new > new; echo new >> .git/info/exclude",
         "[{\"path\":\"new\",\"status\":\"added\",\"added\":1,\"removed\":0}]"                                           },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char script[512];
        struct git_moment *moment = cloned();
        (void)snprintf(script, sizeof script, "cd r; %s", cases[i].script);
        (void)kit_sh(script);
        look_since(moment);
        must_be(cases[i].files);
        assert_true(kit_is_clean());
        (void)kit_sh("rm -rf r elsewhere");
    }
}

CHECK_CASE(a_directory_of_any_kind)
{
    (void)kit_sh("mkdir 'w \"x\":y'; cd 'w \"x\":y'; echo a > a; echo b > b; echo c > c");
    struct git_moment *moment = take(kit_path("w \"x\":y"));
    assert_false(kit_is_clean());
    (void)kit_sh("cd 'w \"x\":y'; rm a; echo 2 >> b; git init -q; git add b; git commit -qm b");
    look_since(moment);
    must_be("[{\"path\":\"a\",\"status\":\"deleted\",\"added\":0,\"removed\":1},"
            "{\"path\":\"b\",\"status\":\"modified\",\"added\":1,\"removed\":0}]");
    assert_true(kit_is_clean());
}

CHECK_CASE(a_repository_at_work)
{
    git_moment_free(cloned());
    (void)kit_sh("cd r; echo mine >> a; echo u > u; echo s > s; git add s; echo local > hidden; "
                 "echo hidden > .git/info/exclude; echo l >> kept.log; "
                 "find .git -type f | sort | xargs sha1sum > ../before");
    struct git_moment *moment = take(kit_path("r/d")); // from below
    (void)kit_sh("cd r; find .git -type f | sort | xargs sha1sum | cmp - ../before");
    look_since(moment);
    must_be("[]");
    (void)kit_sh("cd r; find .git -type f | sort | xargs sha1sum | cmp - ../before");

    moment = take(kit_path("r"));
    (void)kit_sh("cd r; git add .; git commit -qam all; echo theirs >> a; echo m >> kept.log; "
                 ": > .git/info/exclude; echo 1 >> hidden; echo new > new");
    look_since(moment);
    must_be("[{\"path\":\"a\",\"status\":\"modified\",\"added\":1,\"removed\":0},"
            "{\"path\":\"kept.log\",\"status\":\"modified\",\"added\":1,\"removed\":0},"
            "{\"path\":\"new\",\"status\":\"added\",\"added\":1,\"removed\":0}]");
    assert_null(strstr(seen.diff, "mine\n+theirs\n+"));
    assert_true(kit_is_clean());
}

CHECK_CASE(a_repository_without_a_commit)
{
    (void)kit_sh("git init -q r; cd r; echo a > a; git add a");
    struct git_moment *moment = take(kit_path("r"));
    (void)kit_sh("cd r; git commit -qm a; echo b > b");
    look_since(moment);
    must_be("[{\"path\":\"b\",\"status\":\"added\",\"added\":1,\"removed\":0}]");
}

CHECK_CASE(other_hashes)
{
    struct git_moment *moment = cloned_as("--object-format=sha256");
    assert_true(strlen(git_moment_text(moment)) > 64);
    (void)kit_sh("cd r; echo x >> a; rm b");
    look_since(moment);
    must_be("[{\"path\":\"a\",\"status\":\"modified\",\"added\":1,\"removed\":0},"
            "{\"path\":\"b\",\"status\":\"deleted\",\"added\":0,\"removed\":1}]");
    moment = take(kit_path("r"));
    (void)kit_sh("cd r; echo y >> a; echo z >> kept.log");
    look_since(moment);
    must_be("[{\"path\":\"a\",\"status\":\"modified\",\"added\":1,\"removed\":0},"
            "{\"path\":\"kept.log\",\"status\":\"modified\",\"added\":1,\"removed\":0}]");
}

// -- repositories in repositories

CHECK_CASE(repositories_below)
{
    struct git_moment *moment = git_moment_empty(kit_path("w"));
    (void)kit_sh(
        "mkdir w; cd w; echo t > t; git init -q one; cd one; echo a > a; git add a; git commit -qm a; "
        "echo b > b; echo x > x.o; echo '*.o' > .gitignore; git init -q deep; echo d > deep/d; cd ..; "
        "git init -q 'no commit'; echo n > 'no commit/n'; git init -q hollow; "
        "mkdir -p x/y; git init -q x/y/z; echo z > x/y/z/z");
    look_since(moment);
    must_be("[{\"path\":\"no commit/n\",\"status\":\"added\",\"added\":1,\"removed\":0},"
            "{\"path\":\"one/.gitignore\",\"status\":\"added\",\"added\":1,\"removed\":0},"
            "{\"path\":\"one/a\",\"status\":\"added\",\"added\":1,\"removed\":0},"
            "{\"path\":\"one/b\",\"status\":\"added\",\"added\":1,\"removed\":0},"
            "{\"path\":\"one/deep/d\",\"status\":\"added\",\"added\":1,\"removed\":0},"
            "{\"path\":\"t\",\"status\":\"added\",\"added\":1,\"removed\":0},"
            "{\"path\":\"x/y/z/z\",\"status\":\"added\",\"added\":1,\"removed\":0}]");
    moment = take(kit_path("w"));
    (void)kit_sh(
        "cd w; echo 2 >> one/a; cd one; git commit -qam 2; cd ..; rm -rf 'no commit' x/y/z/.git");
    look_since(moment);
    must_be("[{\"path\":\"no commit/n\",\"status\":\"deleted\",\"added\":0,\"removed\":1},"
            "{\"path\":\"one/a\",\"status\":\"modified\",\"added\":1,\"removed\":0}]");
    assert_true(kit_is_clean());
}

CHECK_CASE(submodules)
{
    struct git_cloned cloned = {.head = "main"};
    (void)snprintf(cloned.dir, sizeof cloned.dir, "%s", kit_path("r"));
    (void)snprintf(
        cloned.commit, sizeof cloned.commit, "%.64s",
        kit_sh(
            "git init -q s; cd s; echo s > s; git add s; git commit -qm s; cd ..; git init -q m; cd m; "
            "git -c protocol.file.allow=always submodule --quiet add ../s sub; echo m > m; git add m; "
            "git commit -qm m; cd ..; git clone -q m r; cd r; git rev-parse HEAD"));
    look_since(git_moment_clone(&cloned)); // nothing is in "sub"
    must_be("[]");
    (void)kit_sh("cd r; git -c protocol.file.allow=always submodule --quiet update --init");
    look_since(git_moment_clone(&cloned));
    must_be("[{\"path\":\"sub/s\",\"status\":\"added\",\"added\":1,\"removed\":0}]");
    struct git_moment *moment = take(kit_path("r"));
    (void)kit_sh("cd r; echo 2 >> sub/s; echo n > sub/n; rm m");
    look_since(moment);
    must_be("[{\"path\":\"m\",\"status\":\"deleted\",\"added\":0,\"removed\":1},"
            "{\"path\":\"sub/n\",\"status\":\"added\",\"added\":1,\"removed\":0},"
            "{\"path\":\"sub/s\",\"status\":\"modified\",\"added\":1,\"removed\":0}]");
}

CHECK_CASE(too_many_repositories)
{
    struct git_moment *moment = git_moment_empty(kit_path("w"));
    (void)kit_sh(
        "mkdir w; cd w; git init -q r0; rm -rf r0/.git/hooks r0/.git/info; for i in $(seq 260); do cp -r r0 r$i; done");
    look_since(moment);
    must_fail("GIT_OPERATION_FAILED", "repositories below");
    assert_true(kit_is_clean());
}

// -- what must not be run

#define EVIL "\"touch $HOME/canary; cat\""

// Each is planted, and shown to be live with a git that nobody looks after.
static const struct plant {
    const char *script, *control; // control NULL: there is no easy one
} plants[] = {
    {"git config core.fsmonitor \"touch $HOME/canary; false\"",                                   "git status"             },
    {"git config diff.external \"touch $HOME/canary;\"",                                          "git diff"               },
    {"mkdir h; for n in post-index-change reference-transaction pre-commit; do "
     "printf \"#!/bin/sh\\ntouch $HOME/canary\\n\" > h/$n; chmod +x h/$n; done; "
     "git config core.hooksPath h; cp h/* .git/hooks/",                                      "git commit -qam x"      },
    {"echo '* filter=evil' > .gitattributes; git config filter.evil.clean " EVIL
     "; git config filter.evil.smudge " EVIL "; git config filter.evil.required true",
     "git add ."                                                                                                           },
    {"echo '* filter=evil' > .gitattributes; "
     "git config filter.evil.process \"touch $HOME/canary; false\"",                         "git add ."              },
    {"echo '* diff=evil' > .gitattributes; git config diff.evil.textconv " EVIL,                  "git diff"               },
    {"echo '* diff=evil' > .gitattributes; git config diff.evil.command \"touch $HOME/canary;\"",
     "git diff"                                                                                                            },
    {"echo '* filter=evil' > .git/info/attributes; git config filter.evil.clean " EVIL,
     "git add ."                                                                                                           },
    {"git config core.pager " EVIL "; git config pager.diff true",                                NULL                     },
    {"git config include.path ../more; "
     "printf \"[core]\\n fsmonitor = touch $HOME/canary\\n\" > more",                        "git status"             },
    {"git config core.worktree \"$HOME/first\"; "
     "git config core.fsmonitor \"touch $HOME/canary; false\"",                              "git status"             },
    {"git config extensions.partialClone origin; git config protocol.ext.allow always; "
     "git config remote.origin.url \"ext::sh -c touch% $HOME/canary\"; "
     "git config remote.origin.promisor true",                                               NULL                     },
    {"mv .git ../elsewhere; ln -s ../elsewhere .git; "
     "git config core.fsmonitor \"touch $HOME/canary; false\"",                              "git status"             },
 // below: with files, and with none that anybody sees
    {"git init -q sub; cd sub; echo s > s; git add s; git commit -qm s; "
     "echo '* filter=evil' > .gitattributes; git config filter.evil.clean " EVIL
     "; touch -d 2001-01-01 s; rm ../b; echo b >> ../.gitignore",                            "git add sub; git status"},
    {"git init -q sub; cd sub; echo s > s; git add s; git commit -qm s; "
     "printf '*\\n' > .gitignore; echo '* filter=evil' > .gitattributes; "
     "git config filter.evil.clean " EVIL "; touch -d 2001-01-01 s; "
     "rm ../b; echo b >> ../.gitignore",                                                     "git add sub; git status"},
};

static void must_not_run(const struct plant *plant, const char *when)
{
    if (access(kit_path("canary"), F_OK) == 0)
        fail_msg("%s, this ran: %s", when, plant->script);
}

static void try_plant(const struct plant *plant)
{
    char script[1024];
    struct git_moment *moment = cloned();
    (void)snprintf(script, sizeof script, "cd r; echo changed >> a; echo new > new; %s",
                   plant->script);
    (void)kit_sh(script);
    (void)unlink(kit_path("canary"));
    look_since(moment);
    must_not_run(plant, "at the end");
    assert_null(seen.fault.code);
    assert_non_null(strstr(seen.diff, "+changed"));
    assert_non_null(strstr(seen.files, "\"new\""));
    look_since(take(kit_path("r"))); // of what is hostile already
    must_not_run(plant, "for a moment");
    must_be("[]");
    if (plant->control != NULL) {
        (void)snprintf(script, sizeof script, "cd r; (%s) </dev/null >/dev/null 2>&1 || true",
                       plant->control);
        (void)kit_sh(script);
        if (access(kit_path("canary"), F_OK) < 0)
            fail_msg("this is no plant: %s", plant->script);
    }
    (void)kit_sh("rm -rf r elsewhere canary");
    assert_true(kit_is_clean());
}

CHECK_CASE(nothing_is_run)
{
    for (size_t i = 0; i < sizeof plants / sizeof *plants; i++)
        try_plant(&plants[i]);
}

// -- what is broken

CHECK_CASE(broken_repositories)
{
    static const struct {
        const char *script, *code;
    } cases[] = {
        {"rm -rf .git",                                                                                          "GIT_REPO_NOT_FOUND"},
        {"rm -rf .git; ln -s /nowhere .git",                                                                     "GIT_REPO_NOT_FOUND"},
        {"rm -rf .git; ln -s .git .git",                                                                         "GIT_REPO_NOT_FOUND"},
        {"rm -rf .git; echo 'gitdir: ../x' > .git",                                                              "GIT_REPO_NOT_FOUND"},
        {"rm -rf .git; git init -q; git add .; git commit -qm other",                                            "GIT_REPO_NOT_FOUND"},
        {"rm -rf .git/objects; mkdir .git/objects",                                                              "GIT_REPO_NOT_FOUND"},
        {"find .git/objects -type f | xargs chmod u+w; find .git/objects -type f -exec sh -c 'echo x > {}' \\;",
         "GIT_REPO_NOT_FOUND"                                                                                                        },
        {"rm -rf .git/objects; echo x > .git/objects",                                                           "GIT_REPO_NOT_FOUND"},
        {"cd ..; rm -rf r",                                                                                      "NOT_FOUND"         },
        {"cd ..; rm -rf r; echo x > r",                                                                          "NOT_FOUND"         },
 // these are as good as whole
        {"mv .git ../elsewhere; ln -s ../elsewhere .git",                                                        NULL                },
        {"rm .git/HEAD .git/config .git/index",                                                                  NULL                },
        {"echo '[' > .git/config; echo x > .git/index; touch .git/index.lock",                                   NULL                },
        {"git gc -q --prune=now",                                                                                NULL                },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char script[512];
        struct git_moment *moment = cloned();
        (void)snprintf(script, sizeof script, "cd r; echo x >> a; %s", cases[i].script);
        (void)kit_sh(script);
        look_since(moment);
        if (cases[i].code != NULL)
            must_fail(cases[i].code, "r'");
        else
            must_be("[{\"path\":\"a\",\"status\":\"modified\",\"added\":1,\"removed\":0}]");
        assert_true(kit_is_clean());
        (void)kit_sh("rm -rf r elsewhere");
    }
}

CHECK_CASE(moments_that_are_dropped)
{
    git_moment_free(cloned());
    struct git_moment *moment = take(kit_path("r"));
    assert_false(kit_is_clean());
    git_moment_drop(&kit.sandbox, moment);
    kit_run();
    assert_true(kit_is_clean());
    git_moment_free(moment);
    kit.started = 0;
    moment = git_moment_empty("/w");
    git_moment_drop(&kit.sandbox, moment); // it has nothing
    assert_int_equal(kit.started, 0);
    git_moment_free(moment);
}

CHECK_CASE(looks_that_are_left_for_others)
{
    git_moment_free(cloned());
    struct git_moment *moment = take(kit_path("r"));
    (void)kit_sh("cd r; echo x >> a");
    struct git_work *work =
        git_changes_since(NULL, &kit.sandbox, moment, true, 0, on_changes, NULL);
    assert_non_null(work);
    git_changes_leave(work);
    kit_run();
    git_changes_leave(NULL);
    look_since(moment);
    must_be("[{\"path\":\"a\",\"status\":\"modified\",\"added\":1,\"removed\":0}]");
    assert_true(kit_is_clean());
}

CHECK_CASE(moments_that_are_gone)
{
    (void)kit_sh("mkdir w; echo a > w/a");
    struct git_moment *moment = take(kit_path("w"));
    kit_lose_own();
    look_since(moment);
    must_fail("GIT_REPO_NOT_FOUND", "broken or gone");
    forget();
    (void)git_moment_take(NULL, &kit.sandbox, "/nowhere", 0, on_moment, NULL);
    kit_run();
    must_fail("NOT_FOUND", "/nowhere");
    assert_true(kit_is_clean());
}

// -- bounds

CHECK_CASE(large_ones_are_cut)
{
    struct git_moment *moment = git_moment_empty(kit_path("w"));
    (void)kit_sh("mkdir w; seq 2000000 > w/big; mkdir w/z; echo x > w/z/last");
    look_since(moment);
    must_be("[{\"path\":\"big\",\"status\":\"added\",\"added\":2000000,\"removed\":0},"
            "{\"path\":\"z/last\",\"status\":\"added\",\"added\":1,\"removed\":0}]");
    assert_true(seen.truncated && !seen.files_truncated);
    size_t len = strlen(seen.diff);
    assert_true(len <= GIT_DIFF_MAX && len > GIT_DIFF_MAX - 100 && seen.diff[len - 1] == '\n');

    moment = git_moment_empty(kit_path("w"));
    (void)kit_sh("rm -rf w; mkdir w; cd w; seq 10100 | split -l 1 -a 4 -");
    look_since(moment);
    assert_null(seen.fault.code);
    assert_true(seen.files_truncated && !seen.truncated);
    unsigned n = 0;
    for (const char *p = seen.files; (p = strstr(p, "\"path\"")) != NULL; p++)
        n++;
    assert_int_equal(n, 10000);
    assert_non_null(strstr(seen.diff, "\n+10100\n"));
}

CHECK_CASE(time_is_over)
{
    (void)kit_sh("mkdir w; mkfifo w/.gitignore"); // git waits for somebody to write
    struct git_moment *moment = git_moment_empty(kit_path("w"));
    forget();
    (void)git_changes_since(NULL, &kit.sandbox, moment, true, 1500, on_changes, NULL);
    kit_run();
    git_moment_free(moment);
    must_fail("GIT_OPERATION_FAILED", "longer than 1 s");
    assert_true(kit_is_clean());
}

CHECK_CASE(a_box_that_is_gone)
{
    struct git_moment *moment = git_moment_empty(kit_path("w"));
    forget();
    kit.down = true;
    assert_null(git_changes_since(NULL, &kit.sandbox, moment, true, 0, on_changes, NULL));
    must_fail("UNAVAILABLE", "the box is gone");
    git_moment_free(moment);
}

// -- given up at any step

CHECK_CASE(cancelled)
{
    git_cancel(NULL);
    for (unsigned steps = 0; steps < 13; steps++) {
        struct git_moment *moment = cloned();
        (void)kit_sh("cd r; rm b; git init -q sub; echo x > sub/x; echo l >> kept.log");
        forget();
        struct git_work *work =
            git_changes_since(NULL, &kit.sandbox, moment, true, 60000, on_changes, NULL);
        for (unsigned i = 0; i < steps && !seen.told; i++)
            (void)kit_step();
        if (!seen.told)
            git_cancel(work);
        bool told = seen.told;
        kit_run();
        assert_true(seen.told == told);
        assert_true(kit_is_clean());
        assert_int_equal(kit.sandbox.refs, 0);
        git_moment_free(moment);
        (void)kit_sh("rm -rf r");
    }
    assert_true(seen.told); // so that there was a last step
}

CHECK_CASE(all_before_the_call_returns)
{
    struct git_moment *moment = cloned();
    (void)kit_sh("cd r; rm b; git init -q sub; echo x > sub/x; echo l >> kept.log");
    kit.at_once = true;
    look_since(moment);
    must_be("[{\"path\":\"b\",\"status\":\"deleted\",\"added\":0,\"removed\":1},"
            "{\"path\":\"kept.log\",\"status\":\"modified\",\"added\":1,\"removed\":0},"
            "{\"path\":\"sub/x\",\"status\":\"added\",\"added\":1,\"removed\":0}]");
}

// -- moments as text

CHECK_CASE(texts_that_are_no_moments)
{
    static const char id[] = "1,4b825dc642cb6eb9a060e54bf8d69288fbee4904";
    static const char *const bad[] = {
        "",
        "1",
        "2,empty,,,/w",
        "1,empty,,,",
        "1,empty,,,w",
        "1,empty,,/w",
        "1,empty,,,/w,",
        "1,empty,,,/w ",
        "1,empty,x,,/w",
        "1,empty,,,/a/../b",
        "1,HEAD,,,/w",
        "1,empty,,,/%61",
        "1,empty,,,/%0a",
        "1,empty,,,/%0",
        "1,empty,,,/%00",
        "1,empty,,,/%gg",
        "1,--all,,,/w",
        "1,4B825DC642CB6EB9A060E54BF8D69288FBEE4904,,,/w",
    };
    char text[3 * GIT_PATH_MAX];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_null(git_moment_parse(bad[i]));
    (void)snprintf(text, sizeof text, "%s,,,/%0*d", id, GIT_PATH_MAX, 0);
    assert_null(git_moment_parse(text));
    (void)snprintf(text, sizeof text, "%s,/tmp/x,/a%%20b/objects,/a%%20b", id);
    struct git_moment *moment = git_moment_parse(text);
    assert_non_null(moment);
    assert_string_equal(git_moment_text(moment), text);
    git_moment_free(moment);
    git_moment_free(NULL);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, kit_setup, kit_teardown)

static int done(void **state)
{
    (void)state;
    forget();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(an_empty_directory),
        CASE(binaries_that_leave_no_room),
        CASE(names_of_all_kinds),
        CASE(a_clone),
        CASE(the_diff_can_be_applied),
        CASE(tracked_and_ignored),
        CASE(a_directory_of_any_kind),
        CASE(a_repository_at_work),
        CASE(a_repository_without_a_commit),
        CASE(other_hashes),
        CASE(repositories_below),
        CASE(submodules),
        CASE(too_many_repositories),
        CASE(nothing_is_run),
        CASE(broken_repositories),
        CASE(moments_that_are_dropped),
        CASE(looks_that_are_left_for_others),
        CASE(moments_that_are_gone),
        CASE(large_ones_are_cut),
        CASE(time_is_over),
        CASE(a_box_that_is_gone),
        CASE(cancelled),
        CASE(all_before_the_call_returns),
        CASE(texts_that_are_no_moments),
    };
    return cmocka_run_group_tests(tests, NULL, done);
}
