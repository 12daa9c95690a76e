// SPDX-License-Identifier: Apache-2.0
// The command line of `cay ask`: a question, or a task for an agent.
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/ask.h"
#include "cli/lang.h"

enum ask_flag {
    FLAG_LANGUAGE,
    FLAG_MODEL,
    FLAG_SANDBOX,
    FLAG_CONTINUE,
    FLAG_CONTEXT,
    FLAG_TIMEOUT,
    FLAG_RETRIES,
    FLAG_MAX_TOKENS,
    FLAG_NO_CACHE,
    FLAG_OUTPUT,
    FLAG_NO_FILES,
    FLAG_KEY_FILE,
    FLAG_KEY,
    FLAG_QUIET,
    FLAG_YES,
    FLAG_REPO,
    FLAG_BRANCH,
    FLAG_SECRET,
    FLAG_TASK,
    FLAG_WITH,
    FLAG_AGENT,
    FLAG_COMMAND,
    FLAG_SETTING,
    FLAG_MCP,
    FLAG_HOOK,
    FLAG_MAX_TURNS,
    FLAG_PERMISSION_MODE,
    FLAG_ALLOW,
    FLAG_INTERNET,
    FLAG_KEEP,
    FLAG_APPLY,
};

enum { RETRIES_MAX = 5, TOKENS_MAX = 64000, TURNS_MAX = 1000 }; // as the server has them

// clang-format off
static const struct opt opts[] = {
    {"language",        'l', "NAME", "what is written: python or javascript",               "python"            },
    {"model",           'm', "NAME", "who writes it: sonnet, opus, haiku, or a model's id", "sonnet"            },
    {"sandbox",         's', "ID",   "where it runs; 'last' is that of the last question",  "a new one"         },
    {"continue",        'c', NULL,   "go on where the last question from here has ended",   NULL                },
    {"context",         0,   "ID",   "in this context of the sandbox",                      "the language's own"},
    {"timeout",         't', "TIME", "how long the code may run, or all of a task (10s, 2m)", "30s; a task 5m"  },
    {"retries",         0,   "N",    "how often code that fails goes back to the model",    "1"                 },
    {"max-tokens",      0,   "N",    "how much may be written",                             "2048"              },
    {"no-cache",        0,   NULL,   "have it written anew, also if it was before",         NULL                },
    {"output",          'o', "DIR",  "where files go, and the change of a task",            "./cay-<time>"      },
    {"no-files",        0,   NULL,   "leave them in the sandbox",                           NULL                },
    {"key-file",        0,   "FILE", "holds the key of the model's API",                    NULL                },
    {"key",             0,   "KEY",  "the key itself; others on this machine can see it",   NULL                },
    {"quiet",           'q', NULL,   "print the output, and nothing besides",               NULL                },
    {"yes",             'y', NULL,   "ask nothing: start a server, give it the key",        NULL                },
    {"repo",            0,   "URL",  "a task: an agent works on this repository",           NULL                },
    {"branch",          0,   "NAME", "of it, or a tag",                                     "its own"           },
    {"secret",          0,   "NAME", "of the server's, for a private repository",           NULL                },
    {"task",            0,   NULL,   "a task without a repository",                         NULL                },
    {"with",            0,   "NAME", "the agent that does it",                              "claude"            },
    {"agent",           0,   "LIST", "with these agents: files, or names (see below)",      NULL                },
    {"command",         0,   "LIST", "and these commands",                                  NULL                },
    {"setting",         0,   "LIST", "and these settings",                                  NULL                },
    {"mcp",             0,   "LIST", "and these MCP servers",                               NULL                },
    {"hook",            0,   "LIST", "and these hooks",                                     NULL                },
    {"max-turns",       0,   "N",    "how often the agent may ask the model",               NULL                },
    {"permission-mode", 0,   "MODE", "what it may do unasked",                              "acceptEdits"       },
    {"allow",           0,   "HOST", "it may reach this host (*.x.org:443); may be repeated", NULL              },
    {"internet",        0,   NULL,   "it may reach all but private networks",               NULL                },
    {"keep",            0,   NULL,   "leave its sandbox for a look",                        NULL                },
    {"apply",           0,   NULL,   "apply the change to the repository in this directory", NULL               },
    REMOTE_OPTS,
};
// clang-format on

const struct opt_spec ask_spec = {
    .usage = "cay ask [flags] QUESTION... | -",
    .summary =
        "Say what you want in words: a model writes code for it, the code runs in a sandbox, and\n"
        "what it gives is printed. Code that fails goes back to the model once. The output goes to\n"
        "standard output; the code, how long it took and what it cost to standard error.\n"
        "\n"
        "With --repo it is a task: an agent works on the repository in a sandbox, you see what it\n"
        "says and does, and the change comes back as a diff. The server needs the image with the\n"
        "agents for that: 'cay image build agents', or in a minute with '--from host'.",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .more =
        "Examples:\n"
        "  cay ask 'the first 10 primes, one a line'\n"
        "  cay ask -l javascript 'a uuid'\n"
        "  cay ask 'draw a sine to sine.png'    and then    cay ask -c 'now a cosine, too'\n"
        "  cay ask -q 'today in ISO 8601' | tr -d '\\n'\n"
        "  cay ask --json 'what is 6 * 7' | jq .output\n"
        "  cay ask - < question.txt\n"
        "  cay ask --repo https://github.com/you/thing 'make the tests pass'\n"
        "  cay ask --repo https://github.com/you/thing --agent reviewer.md --mcp ./db.json '...'\n"
        "\n"
        "The change of a task is saved as ./cay-<time>/changes.diff, for `git apply`; with --apply it\n"
        "is applied to the clone that you stand in instead. To let the agent run commands, too, say\n"
        "--permission-mode bypassPermissions: it is the box that holds it.\n"
        "\n"
        "Components of Claude Code (--agent to --hook) are files, or names: NAME stands for\n"
        "agents/NAME.md, commands/NAME.md, settings/NAME.json, mcps/NAME.json or hooks/NAME.json in\n"
        "./.claude-components, ~/.config/cay/components, or the server's own folder.\n"
        "\n"
        "The key: --key-file, --key, ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN, or .env in this\n"
        "directory. It is wanted only where the server has none of its own; a server that we start\n"
        "gets it in its environment, one that runs keeps it as a secret, and you are asked before.\n"
        "\n"
        "Files that the code has written are saved in ./cay-<time>/, over nothing that is there;\n"
        "with --json only if --output names a place. In a pipe the output of an attempt comes when\n"
        "it has ended, so that one that failed leaves none; with --retries 0 it comes at once.\n"
        "\n"
        "Exit codes: 0; 1 the code or the agent failed, or there was no code; 124 timeout; 130\n"
        "cancelled; 125 Cay, the server, the model or the clone failed; 2 usage. Ctrl-C cancels, a\n"
        "second one gives up waiting.",
};

static int take_language(struct ask_options *o, const char *value, struct err *err)
{
    const struct lang *lang = lang_find(value);
    if (lang == NULL ||
        (strcmp(lang->name, "python") != 0 && strcmp(lang->name, "javascript") != 0))
        return err_set(err, ERR_INVALID, "'%.40s' is neither python nor javascript", value);
    o->language = lang->name;
    return 0;
}

static int take_sandbox(struct ask_options *o, const char *value, struct err *err)
{
    if (value[0] == '\0' || strlen(value) >= ASK_ID_MAX)
        return err_set(err, ERR_INVALID, "'%.60s' is not the id of a sandbox", value);
    bool is_last = strcmp(value, "last") == 0;
    o->go_on = o->go_on || is_last;
    o->sandbox = is_last ? NULL : value;
    return 0;
}

static int take_text(const char **ret, const char *value, struct err *err)
{
    if (value[0] == '\0')
        return err_set(err, ERR_INVALID, "an empty word");
    *ret = value;
    return 0;
}

// Names between commas; spaces around them do not count.
static int take_components(struct ask_task *task, enum ask_kind kind, const char *value,
                           struct err *err)
{
    size_t before = task->n_components;
    for (const char *at = value;; at++) {
        at += strspn(at, " ");
        size_t n = strcspn(at, ","), len = n;
        while (len > 0 && at[len - 1] == ' ')
            len--;
        if (len > 0 && task->n_components == ASK_COMPONENTS_MAX)
            return err_set(err, ERR_INVALID, "there are at most %d components", ASK_COMPONENTS_MAX);
        if (len > 0)
            task->component[task->n_components++] = (struct ask_component){kind, at, len};
        at += n;
        if (*at == '\0')
            break;
    }
    return task->n_components > before ? 0 : err_set(err, ERR_INVALID, "an empty list");
}

static int take_host(struct ask_task *task, const char *value, struct err *err)
{
    if (task->n_allow == ASK_ALLOW_MAX)
        return err_set(err, ERR_INVALID, "there are at most %d hosts", ASK_ALLOW_MAX);
    return take_text(&task->allow[task->n_allow++], value, err);
}

// What is only a word or a switch, and where it goes.
struct place {
    unsigned flag;
    size_t at;
};
#define AT(member) offsetof(struct ask_options, member)
static const struct place words[] = {
    {FLAG_MODEL,           AT(model)               },
    {FLAG_CONTEXT,         AT(context)             },
    {FLAG_OUTPUT,          AT(output)              },
    {FLAG_KEY_FILE,        AT(key_file)            },
    {FLAG_KEY,             AT(key)                 },
    {FLAG_REPO,            AT(task.repo)           },
    {FLAG_BRANCH,          AT(task.branch)         },
    {FLAG_SECRET,          AT(task.secret)         },
    {FLAG_WITH,            AT(task.with)           },
    {FLAG_PERMISSION_MODE, AT(task.permission_mode)},
};
static const struct place switches[] = {
    {FLAG_CONTINUE, AT(go_on)        },
    {FLAG_NO_CACHE, AT(no_cache)     },
    {FLAG_NO_FILES, AT(no_files)     },
    {FLAG_QUIET,    AT(quiet)        },
    {FLAG_YES,      AT(yes)          },
    {FLAG_TASK,     AT(is_task)      },
    {FLAG_KEEP,     AT(task.keep)    },
    {FLAG_APPLY,    AT(task.apply)   },
    {FLAG_INTERNET, AT(task.internet)},
};
#undef AT

static void *find_place(struct ask_options *o, unsigned flag, const struct place *places, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (places[i].flag == flag)
            return (char *)o + places[i].at;
    }
    return NULL;
}

int ask_take_flag(void *data, unsigned flag, const char *value, struct err *err)
{
    struct ask_options *o = data;
    o->given |= UINT64_C(1) << flag;
    switch (flag) {
    case FLAG_LANGUAGE:
        return take_language(o, value, err);
    case FLAG_SANDBOX:
        return take_sandbox(o, value, err);
    case FLAG_TIMEOUT:
        return parse_duration(value, &o->timeout_ms, err);
    case FLAG_RETRIES:
        o->has_retries = true;
        return parse_u64(value, 0, RETRIES_MAX, &o->retries, err);
    case FLAG_MAX_TOKENS:
        return parse_u64(value, 1, TOKENS_MAX, &o->max_tokens, err);
    case FLAG_MAX_TURNS:
        return parse_u64(value, 1, TURNS_MAX, &o->task.max_turns, err);
    case FLAG_AGENT:
    case FLAG_COMMAND:
    case FLAG_SETTING:
    case FLAG_MCP:
    case FLAG_HOOK:
        return take_components(&o->task, (enum ask_kind)(flag - FLAG_AGENT), value, err);
    case FLAG_ALLOW:
        return take_host(&o->task, value, err);
    default:
        break;
    }
    const char **word = find_place(o, flag, words, sizeof words / sizeof *words);
    bool *is_on = find_place(o, flag, switches, sizeof switches / sizeof *switches);
    if (is_on != NULL)
        *is_on = true;
    return word != NULL ? take_text(word, value, err) : 0;
}

// -- what makes no sense together

#define BIT(flag) (UINT64_C(1) << (flag))

static const char *first_of(uint64_t given)
{
    for (unsigned i = 0; i < sizeof opts / sizeof *opts; i++) {
        if (given & BIT(i))
            return opts[i].name;
    }
    return NULL;
}

// A flag that is for the other of the two.
static int check_kind(struct ask_options *o, struct err *err)
{
    static const uint64_t of_question = BIT(FLAG_LANGUAGE) | BIT(FLAG_CONTEXT) | BIT(FLAG_RETRIES) |
                                        BIT(FLAG_MAX_TOKENS) | BIT(FLAG_NO_CACHE);
    static const uint64_t makes_task = BIT(FLAG_REPO) | BIT(FLAG_TASK) | BIT(FLAG_WITH) |
                                       BIT(FLAG_AGENT) | BIT(FLAG_COMMAND) | BIT(FLAG_SETTING) |
                                       BIT(FLAG_MCP) | BIT(FLAG_HOOK);
    static const uint64_t of_task = BIT(FLAG_BRANCH) | BIT(FLAG_SECRET) | BIT(FLAG_MAX_TURNS) |
                                    BIT(FLAG_PERMISSION_MODE) | BIT(FLAG_ALLOW) |
                                    BIT(FLAG_INTERNET) | BIT(FLAG_KEEP) | BIT(FLAG_APPLY);
    static const uint64_t of_repo = BIT(FLAG_BRANCH) | BIT(FLAG_SECRET);
    o->is_task = (o->given & makes_task) != 0;
    const char *wrong = first_of(o->given & (o->is_task ? of_question : of_task));
    if (wrong != NULL)
        return err_set(err, ERR_INVALID, "--%s is for %s", wrong,
                       o->is_task ? "a question, and this is a task"
                                  : "a task: name its --repo, or say --task");
    wrong = first_of(o->given & of_repo);
    if (wrong != NULL && o->task.repo == NULL)
        return err_set(err, ERR_INVALID, "--%s: of which --repo?", wrong);
    return 0;
}

static const char *conflict(const struct ask_options *o, const struct remote *remote)
{
    if (remote->n_words == 0 && isatty(STDIN_FILENO))
        return o->is_task ? "no task: give it as words, or - for standard input"
                          : "no question: give it as words, or - for standard input";
    if (o->go_on && o->sandbox != NULL)
        return "both --continue and --sandbox: which?";
    if (o->context != NULL && o->sandbox == NULL && !o->go_on)
        return "--context goes with --sandbox";
    if (o->no_files && o->output != NULL)
        return "--output and --no-files do not go together";
    if (o->no_files && o->task.apply)
        return "--apply and --no-files do not go together";
    if (o->task.internet && o->task.n_allow > 0)
        return "--internet and --allow do not go together";
    if (o->key != NULL && o->key_file != NULL)
        return "both --key and --key-file: which?";
    return NULL;
}

int ask_check(struct ask_options *o, const struct remote *remote, struct err *err)
{
    if (check_kind(o, err) < 0)
        return -1;
    const char *why = conflict(o, remote);
    return why != NULL ? err_set(err, ERR_INVALID, "%s", why) : 0;
}
