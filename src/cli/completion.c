// SPDX-License-Identifier: Apache-2.0
// `cay completion bash`: a script that completes commands, flags, ids of sandboxes and processes.
// Every command tells its flags under --help, from the table that reads them; so each is asked for
// that, in a child, and there is no second list that could be wrong.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/opt.h"
#include "cli/cli.h"

enum {
    HELP_MAX = 256 * 1024,
    SUBS_MAX = 16,
    NAME_COLUMN = 6, // of "--name" in a line of help
};

static const struct opt_spec spec = {
    .usage = "cay completion bash",
    .summary =
        "Prints a script that completes commands, flags, and names of sandboxes and processes.",
    .more = "For this shell:      source <(cay completion bash)\n"
            "For all of them:     cay completion bash > /etc/bash_completion.d/cay",
};

// -- asking a command

static _Noreturn void say_help(const struct command *command, const char *sub, int out)
{
    char name[32], second[32], help[] = "--help";
    char *args[] = {name, help, NULL, NULL};
    (void)snprintf(name, sizeof name, "%s", command->name);
    if (sub != NULL) {
        (void)snprintf(second, sizeof second, "%s", sub);
        args[1] = second;
        args[2] = help;
    }
    if (dup2(out, STDOUT_FILENO) < 0)
        _exit(CLI_FAILED);
    int code = command->run(sub != NULL ? 3 : 2, args);
    (void)fflush(stdout);
    _exit(code);
}

static int read_all(int fd, struct buf *ret)
{
    char *at;
    size_t room;
    for (;;) {
        int r = buf_reserve(ret, 4096, &at, &room);
        if (r < 0)
            return r;
        ssize_t n = read(fd, at, room);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : 0;
        buf_commit(ret, (size_t)n);
    }
}

static int ask_help(const struct command *command, const char *sub, struct buf *ret,
                    struct err *err)
{
    int ends[2], status = 0;
    buf_reset(ret);
    (void)fflush(stdout); // what is printed so far is ours, not the child's
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_sys(err, errno, "make a pipe");
    pid_t pid = fork();
    if (pid == 0)
        say_help(command, sub, ends[1]);
    fd_close(ends[1]);
    int r = pid < 0 ? -errno : read_all(ends[0], ret);
    fd_close(ends[0]);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (r < 0 || status != 0)
        return err_sys(err, r < 0 ? -r : EIO, "ask 'cay %s' for its flags", command->name);
    return 0;
}

// -- what it says

// "  -m, --memory SIZE  ..." or "      --json  ...": the length of "--memory", and whether a value
// follows it. 0 when the line is not of a flag.
static size_t flag_in(const char *line, size_t len, bool *ret_value)
{
    if (len <= NAME_COLUMN + 2 || strncmp(line, "  ", 2) != 0 ||
        strncmp(line + NAME_COLUMN, "--", 2) != 0)
        return 0;
    size_t n = strcspn(line + NAME_COLUMN, " \n");
    const char *after = line + NAME_COLUMN + n;
    *ret_value = after[0] == ' ' && after[1] != ' ' && after[1] != '\0' && after[1] != '\n';
    return n;
}

static void add_word(struct buf *list, const char *word, size_t len)
{
    if (list->len > 0)
        (void)buf_append_char(list, ' ');
    (void)buf_append(list, word, len);
}

static void find_flags(const char *help, struct buf *flags, struct buf *with_value)
{
    for (const char *line = help; *line != '\0'; line += strcspn(line, "\n")) {
        bool value;
        line += *line == '\n';
        size_t len = strcspn(line, "\n"), n = flag_in(line, len, &value);
        if (n == 0)
            continue;
        add_word(flags, line + NAME_COLUMN, n);
        if (value)
            add_word(with_value, line + NAME_COLUMN, n);
        if (value && line[2] == '-')
            add_word(with_value, line + 2, 2);
    }
}

// The names below "commands:", each at the beginning of its line.
static unsigned find_subs(const char *help, char ret[SUBS_MAX][32])
{
    static const char heading[] = "\ncommands:\n";
    const char *line = strstr(help, heading);
    unsigned n = 0;
    line = line == NULL ? "" : line + sizeof heading - 1;
    while (n < SUBS_MAX && line[0] == ' ' && line[1] == ' ') {
        const char *name = line + 2;
        (void)snprintf(ret[n++], 32, "%.*s", (int)strcspn(name, " \n"), name);
        line = name + strcspn(name, "\n");
        line += *line == '\n';
    }
    return n;
}

// -- the script

// Which words of a command are names: of a sandbox, and then of something that it has.
static const char *words_of(const char *command)
{
    static const struct {
        const char *name, *words;
    } table[] = {
        {"archive",     "sandboxes"        },
        {"backup",      "sandbox"          },
        {"backup rm",   "backups"          },
        {"backups",     "sandbox"          },
        {"events",      "sandbox"          },
        {"exec",        "sandbox"          },
        {"export",      "sandbox"          },
        {"fork",        "sandbox"          },
        {"import",      "sandbox"          },
        {"info",        "sandbox"          },
        {"init",        "template"         },
        {"kill",        "sandbox process"  },
        {"logs",        "sandbox process"  },
        {"ps",          "sandbox"          },
        {"restore",     "sandbox backup"   },
        {"rm",          "sandboxes"        },
        {"rollback",    "sandbox snapshot" },
        {"shell",       "sandbox"          },
        {"sleep",       "sandboxes"        },
        {"snapshot",    "sandbox"          },
        {"snapshot rm", "sandbox snapshots"},
        {"snapshots",   "sandbox"          },
        {"stats",       "sandboxes"        },
        {"stored get",  "sandbox"          },
        {"stored ls",   "sandbox"          },
        {"stored put",  "sandbox"          },
        {"stored rm",   "sandbox"          },
        {"sync",        "sandbox"          },
        {"wake",        "sandboxes"        },
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (strcmp(table[i].name, command) == 0)
            return table[i].words;
    }
    return "";
}

static int print_entry(const struct command *command, const char *sub, const char *subs,
                       struct buf *help)
{
    char name[80];
    auto_buf flags, with_value;
    buf_init(&flags, HELP_MAX);
    buf_init(&with_value, HELP_MAX);
    find_flags(buf_str(help), &flags, &with_value);
    (void)snprintf(name, sizeof name, "%s%s%s", command->name, sub != NULL ? " " : "",
                   sub != NULL ? sub : "");
    (void)printf("    '%s') flags='%s' values='%s' subs='%s' words='%s' ;;\n", name,
                 buf_str(&flags), buf_str(&with_value), subs, words_of(name));
    return 0;
}

static int print_command(const struct command *command, struct err *err)
{
    char subs[SUBS_MAX][32];
    auto_buf help, list;
    buf_init(&help, HELP_MAX);
    buf_init(&list, HELP_MAX);
    if (ask_help(command, NULL, &help, err) < 0)
        return -1;
    unsigned n = find_subs(buf_str(&help), subs);
    for (unsigned i = 0; i < n; i++)
        add_word(&list, subs[i], strlen(subs[i]));
    (void)print_entry(command, NULL, buf_str(&list), &help);
    for (unsigned i = 0; i < n; i++) {
        if (ask_help(command, subs[i], &help, err) < 0)
            return -1;
        (void)print_entry(command, subs[i], "", &help);
    }
    return 0;
}

static const char script_start[] = "# Completion of cay for bash, made by 'cay completion bash'.\n"
                                   "_cay_command() {\n"
                                   "    flags='' values='' subs='' words=''\n"
                                   "    case \"$1\" in\n";

// Names come from a server, so they are matched one by one: compgen -W would expand them.
static const char script_end[] =
    "    esac\n"
    "}\n"
    "_cay_names() {\n"
    "    local name\n"
    "    while IFS= read -r name; do\n"
    "        [[ $name =~ ^[A-Za-z0-9._-]+$ && $name == \"$cur\"* ]] && COMPREPLY+=(\"$name\")\n"
    "    done < <(\"${COMP_WORDS[0]}\" \"$@\" \"${server[@]}\" -q 2>/dev/null)\n"
    "}\n"
    "_cay() {\n"
    "    local cur=${COMP_WORDS[COMP_CWORD]} flags values subs words commands i word command='' skip=''\n"
    "    local -a names=() server=()\n"
    "    COMPREPLY=()\n"
    "    _cay_command ''\n"
    "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
    "        word=${COMP_WORDS[i]}\n"
    "        if [[ -n $skip ]]; then\n"
    "            case $skip in --data | --url | --token-file) server+=(\"$skip\" \"$word\") ;; esac\n"
    "            skip=''\n"
    "        elif [[ -z $command ]]; then\n"
    "            command=$word\n"
    "            _cay_command \"$command\"\n"
    "        elif [[ ${#names[@]} -eq 0 && \" $subs \" == *\" $word \"* ]]; then\n"
    "            command+=\" $word\"\n"
    "            _cay_command \"$command\"\n"
    "        elif [[ $word == -- ]]; then\n"
    "            compopt -o default\n"
    "            return\n"
    "        elif [[ $word == -* ]]; then\n"
    "            [[ \" $values \" == *\" $word \"* ]] && skip=$word\n"
    "        else\n"
    "            names+=(\"$word\")\n"
    "        fi\n"
    "    done\n"
    "    if [[ -n $skip ]]; then\n"
    "        compopt -o default\n"
    "    elif [[ -z $command ]]; then\n"
    "        COMPREPLY=($(compgen -W \"$commands --help --version\" -- \"$cur\"))\n"
    "    elif [[ -n $subs && ${#names[@]} -eq 0 && $cur != -* ]]; then\n"
    "        COMPREPLY=($(compgen -W \"$subs\" -- \"$cur\"))\n"
    "        if [[ $words == sandbox* ]]; then _cay_names ls; fi\n"
    "    elif [[ $cur == -* ]]; then\n"
    "        COMPREPLY=($(compgen -W \"$flags\" -- \"$cur\"))\n"
    "    elif [[ $words == sandboxes || ( $words == sandbox* && ${#names[@]} -eq 0 ) ]]; then\n"
    "        _cay_names ls\n"
    "    elif [[ $words == template && ${#names[@]} -eq 0 ]]; then\n"
    "        _cay_names init\n"
    "    elif [[ $words == *process && ${#names[@]} -eq 1 ]]; then\n"
    "        _cay_names ps \"${names[0]}\"\n"
    "    elif [[ $words == *snapshots || ( $words == *snapshot && ${#names[@]} -eq 1 ) ]]; then\n"
    "        _cay_names snapshots \"${names[0]}\"\n"
    "    elif [[ $words == *backups || ( $words == *backup && ${#names[@]} -eq 1 ) ]]; then\n"
    "        _cay_names backups\n"
    "    else\n"
    "        compopt -o default\n"
    "    fi\n"
    "}\n"
    "complete -F _cay cay\n";

static int print_script(struct err *err)
{
    (void)fputs(script_start, stdout);
    for (const struct command *c = cli_commands; c->name != NULL; c++) {
        if (print_command(c, err) < 0)
            return -1;
    }
    (void)fputs("    '') commands='help", stdout);
    for (const struct command *c = cli_commands; c->name != NULL; c++)
        (void)printf(" %s", c->name);
    (void)fputs("' ;;\n    'help') subs=$commands ;;\n", stdout);
    (void)fputs(script_end, stdout);
    if (fflush(stdout) != 0)
        return err_sys(err, errno, "print the script");
    return 0;
}

int cmd_completion(int argc, char **argv)
{
    struct err err = {0};
    struct opt_reader reader;
    const char *value, *shell = NULL;
    int which;
    opt_start(&reader, &spec, argc, argv);
    while ((which = opt_next(&reader, &value, &err)) == OPT_WORD)
        shell = shell == NULL ? value : "";
    if (which == OPT_HELP) {
        opt_print_help(stdout, &spec);
        return CLI_OK;
    }
    if (which != OPT_FAILED && (shell == NULL || strcmp(shell, "bash") != 0))
        which = err_set(&err, ERR_INVALID, "it takes one shell, and knows only 'bash'");
    if (err.code != ERR_NONE)
        return cli_usage("completion", &err);
    return print_script(&err) < 0 ? cli_fail(&err) : CLI_OK;
}
