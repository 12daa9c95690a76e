// SPDX-License-Identifier: Apache-2.0
// The probe is one shell in the box that asks all programs at once, each for a line
// "NAME VERSION...". Whoever has the box may put any program in their place: what comes is cut,
// checked for its form, and believed about this box alone.
#include "sandbox/language.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/text.h"
#include "sandbox/exec.h"

// Without importing them, which takes a second.
#define PYTHON_VERSION                                                                             \
    "\"$1\" -I -c 'import sys, importlib.metadata as m\n"                                          \
    "print(sys.version.split()[0], end=\" \")\n"                                                   \
    "for n in (\"numpy\", \"pandas\", \"matplotlib\", \"scipy\", \"scikit-learn\"):\n"             \
    "    try: print(n + \"=\" + m.version(n), end=\" \")\n"                                        \
    "    except Exception: pass'"
#define DASH_VERSION "\"$1\" --version"

const struct language languages[] = {
    {"python",     {"py", "python3"},    KERNEL_PYTHON, "python3",                  PYTHON_VERSION,                    "python3"             },
    {"javascript", {"js", "node"},       KERNEL_NODE,   "node",                     DASH_VERSION,                      "nodejs"              },
    {"typescript", {"ts"},               KERNEL_NODE,   "node",                     DASH_VERSION,                      "nodejs"              },
    {"bash",       {"sh", "shell"},      KERNEL_BASH,   "bash",                     DASH_VERSION,                      "bash"                },
    {"c",          {NULL},               KERNEL_ONCE,   "gcc cc clang",             "\"$1\" -dumpfullversion",         "gcc libc6-dev"       },
    {"cpp",        {"c++", "cc", "cxx"}, KERNEL_ONCE,   "g++ c++ clang++",          "\"$1\" -dumpfullversion",         "g++"                 },
    {"go",         {"golang"},           KERNEL_ONCE,   "go",                       "\"$1\" version",                  "golang-go"           },
    {"rust",       {"rs"},               KERNEL_ONCE,   "rustc",                    DASH_VERSION,                      "rustc"               },
    {"java",       {NULL},               KERNEL_ONCE,   "java",                     DASH_VERSION,                      "default-jdk-headless"},
    {"ruby",       {"rb"},               KERNEL_ONCE,   "ruby",                     DASH_VERSION,                      "ruby"                },
    {"php",        {NULL},               KERNEL_ONCE,   "php",                      "\"$1\" -r 'echo PHP_VERSION;'",   "php-cli"             },
    {"perl",       {"pl"},               KERNEL_ONCE,   "perl",                     "\"$1\" -e 'printf \"%vd\", $^V'", "perl"                },
    {"lua",        {NULL},               KERNEL_ONCE,   "lua5.4 lua lua5.3 luajit", "\"$1\" -v",                       "lua5.4"              },
    {"r",          {"rscript"},          KERNEL_ONCE,   "Rscript",                  DASH_VERSION,                      "r-base-core"         },
};
enum { N_LANGUAGES = sizeof languages / sizeof *languages };
const unsigned n_languages = N_LANGUAGES;

static bool has_name(const struct language *language, const char *name)
{
    if (strcasecmp(language->name, name) == 0)
        return true;
    for (size_t i = 0; language->aliases[i] != NULL; i++) {
        if (strcasecmp(language->aliases[i], name) == 0)
            return true;
    }
    return false;
}

const struct language *language_find(const char *name)
{
    for (unsigned i = 0; i < n_languages; i++) {
        if (has_name(&languages[i], name))
            return &languages[i];
    }
    return NULL;
}

int language_missing(const struct language *language, const struct sandbox *s, struct err *err)
{
    const char *image = sandbox_row(s)->image;
    int program = (int)strcspn(language->program, " ");
    if (image == NULL || strcmp(image, "host") == 0)
        return err_set(
            err, ERR_UNSUPPORTED,
            "this sandbox has no %s: the machine has no program %.*s below /usr. Install the "
            "package (apt-get install %s), or pick another image",
            language->name, program, language->program, language->package);
    return err_set(
        err, ERR_UNSUPPORTED,
        "this sandbox has no %s: its image '%.40s' lacks the program %.*s. Add the "
        "package (cay image build NAME --recipe data --packages %s), or pick another image",
        language->name, image, program, language->program, language->package);
}

// --- what a box said, for a while

enum {
    CACHE_BOXES = 32,
    CACHE_SECONDS = 60,
    PROBE_MS = 20000,
    SCRIPT_MAX = 16 * 1024,
    LINE_MAX_LEN = 400, // of what a program says of itself
};

struct said {
    uint64_t box; // 0: nothing
    int64_t at_ns;
    struct language_state states[N_LANGUAGES];
};

static struct said cache[CACHE_BOXES];

static struct said *cache_find(uint64_t box)
{
    for (unsigned i = 0; i < CACHE_BOXES; i++) {
        if (box != 0 && cache[i].box == box &&
            clock_ns() - cache[i].at_ns < CACHE_SECONDS * NS_PER_S)
            return &cache[i];
    }
    return NULL;
}

// The oldest goes.
static void cache_put(const struct said *said)
{
    struct said *place = &cache[0];
    for (unsigned i = 0; i < CACHE_BOXES; i++) {
        if (cache[i].box == said->box) {
            place = &cache[i];
            break;
        }
        if (cache[i].at_ns < place->at_ns)
            place = &cache[i];
    }
    *place = *said;
}

// --- the script

// Some print their version as an error (java of old, R).
static void write_script(struct buf *out)
{
    (void)buf_printf(out,
                     "ask() { for program in $2; do\n"
                     "    command -v \"$program\" >/dev/null || continue\n"
                     "    said=$(sh -c \"$3\" sh \"$program\" 2>&1 </dev/null | head -c %d)\n"
                     "    said=$(printf %%s \"$said\" | tr -s '\\n\\r\\t' '   ')\n"
                     "    printf '%%s %%s\\n' \"$1\" \"$said\"\n"
                     "    return\n"
                     "done; }\n",
                     LINE_MAX_LEN);
    for (unsigned i = 0; i < n_languages; i++) {
        (void)buf_printf(out, "ask %s ", languages[i].name);
        shell_quote(out, languages[i].program);
        (void)buf_append_char(out, ' ');
        shell_quote(out, languages[i].version);
        (void)buf_append_str(out, " &\n");
    }
    (void)buf_append_str(out, "wait\n");
}

// --- what it says

static bool is_version_char(char c)
{
    return isalnum((unsigned char)c) || (c != '\0' && strchr(".+-_~", c) != NULL);
}

// The first word that begins with a digit, perhaps after "v" or "go" or a quotation mark.
static void take_version(const char *text, char *ret, size_t size)
{
    const char *p = text;
    while (*p != '\0' && !(isdigit((unsigned char)*p) && strspn(p, "0123456789.") > 1))
        p++;
    if (*p == '\0') // "12", as a compiler may say
        p = text + strcspn(text, "0123456789");
    size_t n = 0;
    while (n < size - 1 && is_version_char(p[n]))
        n++;
    memcpy(ret, p, n);
    ret[n] = '\0';
}

// "NAME=VERSION", of the list and for the first time.
static bool is_library(const char *word, size_t len, const char *before)
{
    static const char *const names[] = {
        "numpy=", "pandas=", "matplotlib=", "scipy=", "scikit-learn="};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t at = strlen(names[i]);
        if (len <= at || strncmp(word, names[i], at) != 0 || strstr(before, names[i]) != NULL)
            continue;
        while (at < len && is_version_char(word[at]))
            at++;
        return at == len;
    }
    return false;
}

// Each with a space behind it.
static void take_libraries(const char *text, char *ret, size_t size)
{
    size_t used = 0;
    ret[0] = '\0';
    for (const char *p = text; *p != '\0'; p += strspn(p, " ")) {
        size_t len = strcspn(p, " ");
        if (used + len + 2 <= size && is_library(p, len, ret)) {
            memcpy(ret + used, p, len);
            used += len;
            memcpy(ret + used, " ", 2);
            used++;
        }
        p += len;
    }
}

static void take_line(struct language_state *states, const char *line)
{
    size_t len = strcspn(line, " ");
    for (unsigned i = 0; i < n_languages; i++) {
        struct language_state *state = &states[i];
        if (strlen(languages[i].name) != len || strncmp(languages[i].name, line, len) != 0)
            continue;
        state->available = true;
        take_version(line + len, state->version, sizeof state->version);
        if (languages[i].kernel == KERNEL_PYTHON)
            take_libraries(line + len, state->libraries, sizeof state->libraries);
    }
}

static void take_output(struct language_state *states, const struct buf *out)
{
    const char *text = buf_str(out), *end = text + out->len;
    while (text < end) {
        char line[LINE_MAX_LEN + 64];
        size_t len = strcspn(text, "\n"); // a NUL ends all: none of our programs writes one
        (void)snprintf(line, sizeof line, "%.*s", (int)(len < sizeof line ? len : sizeof line - 1),
                       text);
        take_line(states, line);
        if (text[len] == '\0')
            break;
        text += len + 1;
    }
}

// --- the probe

struct probe {
    struct said said;
    languages_fn fn;
    void *data;
};

static void states_init(struct language_state *states)
{
    for (unsigned i = 0; i < n_languages; i++)
        states[i] = (struct language_state){.language = &languages[i]};
}

static void finish(struct probe *probe, const struct err *err)
{
    probe->fn(probe->data, err == NULL ? probe->said.states : NULL, err == NULL ? n_languages : 0,
              err);
    free(probe);
}

static void on_exec(void *data, struct exec_result *result, const struct err *err)
{
    struct probe *probe = data;
    bool no_shell = result == NULL && err->sys_errno == ENOENT && err->code != ERR_UNAVAILABLE;
    if (result == NULL && !no_shell) {
        finish(probe, err);
        return;
    }
    if (result != NULL) {
        take_output(probe->said.states, result->out);
        probe->said.at_ns = clock_ns();
        if (result->end.reason == END_EXIT)
            cache_put(&probe->said);
    }
    finish(probe, NULL);
}

static struct exec *start(struct sandbox *s, struct probe *probe, struct err *err)
{
    auto_buf script;
    buf_init(&script, SCRIPT_MAX);
    write_script(&script);
    const char *const argv[] = {"sh", "-c", buf_str(&script), NULL};
    char **env = exec_env(s, NULL, 0, err);
    if (env == NULL)
        return NULL;
    const struct exec_request request = {
        .argv = argv,
        .envp = (const char *const *)env,
        .cwd = "/",
        .timeout_ms = PROBE_MS,
    };
    struct exec *exec = exec_start(s, &request, on_exec, probe, err);
    exec_env_free(env);
    return exec;
}

void languages_probe(struct sandbox *s, languages_fn fn, void *data)
{
    struct err err = {0};
    const struct said *known = cache_find(sandbox_box(s));
    if (known != NULL) {
        fn(data, known->states, n_languages, NULL);
        return;
    }
    struct probe *probe = calloc(1, sizeof *probe);
    if (probe == NULL)
        abort();
    probe->said.box = sandbox_box(s);
    probe->fn = fn;
    probe->data = data;
    states_init(probe->said.states);
    if (start(s, probe, &err) == NULL)
        finish(probe, &err);
}
