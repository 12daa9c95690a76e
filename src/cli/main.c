// SPDX-License-Identifier: Apache-2.0
// `cay COMMAND ...`: finds the command and calls it. Nothing else is done at start, so that
// `cay --version` costs what starting a process costs.
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/text.h"
#include "base/title.h"
#include "base/weaken.h"
#include "cli/cli.h"

const struct command cli_commands[] = {
    {"run",        GROUP_BOXES,     "run a program in a box of its own",                  cmd_run      },
    {"image",      GROUP_BOXES,     "build, import, list and remove images",              cmd_image    },
    {"doctor",     GROUP_BOXES,     "try what this machine's kernel offers, and explain", cmd_doctor   },
    {"serve",      GROUP_SERVER,    "serve sandboxes over HTTP",                          cmd_serve    },
    {"upgrade",    GROUP_SERVER,    "put a new program in the place of a running server", cmd_upgrade  },
    {"token",      GROUP_SERVER,    "make, list and revoke tokens",                       cmd_token    },
    {"secret",     GROUP_SERVER,    "store, list and forget credentials for boxes",       cmd_secret   },
    {"monitor",    GROUP_SERVER,    "show how a server does, live",                       cmd_monitor  },
    {"init",       GROUP_SERVER,    "copy a program to begin with, and its library",      cmd_init     },
    {"completion", GROUP_SERVER,    "print what a shell needs to complete these words",
     cmd_completion                                                                                    },
    {"ask",        GROUP_SANDBOXES, "say it in words: code is run, or an agent works",    cmd_ask      },
    {"create",     GROUP_SANDBOXES, "make a sandbox",                                     cmd_create   },
    {"ls",         GROUP_SANDBOXES, "list them",                                          cmd_ls       },
    {"info",       GROUP_SANDBOXES, "show one",                                           cmd_info     },
    {"exec",       GROUP_SANDBOXES, "run a command in one",                               cmd_exec     },
    {"code",       GROUP_SANDBOXES, "run a piece of code in one, or in a new one",        cmd_code     },
    {"repl",       GROUP_SANDBOXES, "talk to an interpreter in one, or in a new one",     cmd_repl     },
    {"shell",      GROUP_SANDBOXES, "open a terminal in one",                             cmd_shell    },
    {"ps",         GROUP_SANDBOXES, "list its processes",                                 cmd_ps       },
    {"logs",       GROUP_SANDBOXES, "print what a process wrote",                         cmd_logs     },
    {"kill",       GROUP_SANDBOXES, "send a signal to a process",                         cmd_kill     },
    {"cp",         GROUP_SANDBOXES, "copy files into and out of one",                     cmd_cp       },
    {"cat",        GROUP_SANDBOXES, "print a file of one",                                cmd_cat      },
    {"write",      GROUP_SANDBOXES, "give a file of one new content",                     cmd_write    },
    {"find",       GROUP_SANDBOXES, "look for files of one, and in them",                 cmd_find     },
    {"port",       GROUP_SANDBOXES, "open, list and close ports of one to others",        cmd_port     },
    {"stats",      GROUP_SANDBOXES, "show what they use",                                 cmd_stats    },
    {"events",     GROUP_SANDBOXES, "show what happened to one",                          cmd_events   },
    {"sleep",      GROUP_SANDBOXES, "end their programs, keep their files",               cmd_sleep    },
    {"wake",       GROUP_SANDBOXES, "wake them before they are used",                     cmd_wake     },
    {"rm",         GROUP_SANDBOXES, "destroy them",                                       cmd_rm       },
    {"snapshot",   GROUP_STATE,     "keep its files as they are now",                     cmd_snapshot },
    {"snapshots",  GROUP_STATE,     "list what was kept",                                 cmd_snapshots},
    {"rollback",   GROUP_STATE,     "take one back to a snapshot",                        cmd_rollback },
    {"fork",       GROUP_STATE,     "make others that begin with its files",              cmd_fork     },
    {"sync",       GROUP_STATE,     "bring its workspace to the store",                   cmd_sync     },
    {"stored",     GROUP_STATE,     "list, print, put and delete files there",            cmd_stored   },
    {"backup",     GROUP_STATE,     "make an archive of it in the store",                 cmd_backup   },
    {"backups",    GROUP_STATE,     "list the backups",                                   cmd_backups  },
    {"restore",    GROUP_STATE,     "give one what a backup has",                         cmd_restore  },
    {"export",     GROUP_STATE,     "write an archive of one to standard output",         cmd_export   },
    {"import",     GROUP_STATE,     "make one of an archive",                             cmd_import   },
    {"archive",    GROUP_STATE,     "move their disks to the store",                      cmd_archive  },
    {"du",         GROUP_STATE,     "show who holds what",                                cmd_du       },
    {NULL,         NULL,            NULL,                                                 NULL         },
};

static const struct command *find_command(const char *name)
{
    for (const struct command *c = cli_commands; c->name != NULL; c++) {
        if (strcmp(c->name, name) == 0)
            return c;
    }
    return NULL;
}

static void print_help(FILE *out)
{
    (void)fputs(
        "usage: cay COMMAND [ARG...]\n\n"
        "Cay runs programs in boxes: isolated Linux environments that start in a millisecond. A\n"
        "sandbox is a box that has a name and keeps its files, on a server.\n",
        out);
    const char *group = "";
    for (const struct command *c = cli_commands; c->name != NULL; c++) {
        if (strcmp(group, c->group) != 0)
            (void)fprintf(out, "\n%s:\n", c->group);
        group = c->group;
        (void)fprintf(out, "  %-10s  %s\n", c->name, c->help);
    }
    (void)fputs("\n'cay help COMMAND' says more about one. 'cay --version' prints the version.\n"
                "Try: cay run -- echo hello\n",
                out);
}

static int unknown_command(const char *name)
{
    const char *best = NULL;
    size_t best_distance = SIZE_MAX;
    for (const struct command *c = cli_commands; c->name != NULL; c++) {
        size_t distance = text_distance(name, c->name);
        if (distance < best_distance && text_near(name, c->name)) {
            best = c->name;
            best_distance = distance;
        }
    }
    if (best != NULL)
        (void)fprintf(stderr, "cay: unknown command '%s', did you mean '%s'?\n", name, best);
    else
        (void)fprintf(stderr, "cay: unknown command '%s' ('cay --help' lists them)\n", name);
    return CLI_USAGE;
}

// `cay help run` is `cay run --help`: the command's own table is the only place that knows.
static int help(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stdout);
        return CLI_OK;
    }
    const struct command *command = find_command(argv[1]);
    if (command == NULL)
        return unknown_command(argv[1]);
    char flag[] = "--help";
    char *args[] = {argv[1], flag, NULL};
    return command->run(2, args);
}

static int version(void)
{
    static const char line[] = "cay " CAY_VERSION "\n";
    // Past stdio: nothing else is printed, and nothing has to be set up or flushed.
    return write(STDOUT_FILENO, line, sizeof line - 1) == sizeof line - 1 ? CLI_OK : CLI_FAILED;
}

// A descriptor that is missing would be given to the next thing that is opened: a socket of ours.
static void fill_standard_streams(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd < 3);
    fd_close(fd);
}

int main(int argc, char **argv)
{
    weaken_init();
    title_init(argc, argv);
    if (argc < 2) {
        print_help(stderr);
        return CLI_USAGE;
    }
    if (strcmp(argv[1], "--version") == 0)
        return version();
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0)
        return help(argc - 1, argv + 1);
    const struct command *command = find_command(argv[1]);
    if (command == NULL)
        return unknown_command(argv[1]);
    fill_standard_streams();
    return command->run(argc - 1, argv + 1);
}
