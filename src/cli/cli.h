// SPDX-License-Identifier: Apache-2.0
// What the commands of `cay` share. Each command is one file and one function, listed in main.c;
// argv[0] is the command's own name. It answers `--help` from its table of flags (base/opt.h) and
// returns the program's exit code.
#pragma once

#include <stddef.h>

#include "base/err.h"

enum cli_exit {
    CLI_OK = 0,
    CLI_USAGE = 2,    // the command line makes no sense
    CLI_FAILED = 125, // Cay itself failed; other codes belong to what ran in the box
};

// A command, and where `cay help` lists it.
struct command {
    const char *name;
    const char *group; // commands of one group stand together
    const char *help;
    int (*run)(int argc, char **argv);
};
extern const struct command cli_commands[]; // main.c; ends with a name of NULL
#define GROUP_BOXES     "boxes"
#define GROUP_SERVER    "the server"
#define GROUP_SANDBOXES "sandboxes"
#define GROUP_STATE     "what stays of them"

int cmd_run(int argc, char **argv);
int cmd_image(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_serve(int argc, char **argv);
int cmd_upgrade(int argc, char **argv);
int cmd_token(int argc, char **argv);
int cmd_secret(int argc, char **argv);
int cmd_init(int argc, char **argv);
int cmd_completion(int argc, char **argv);
int cmd_monitor(int argc, char **argv);
int cmd_create(int argc, char **argv);
int cmd_ls(int argc, char **argv);
int cmd_info(int argc, char **argv);
int cmd_exec(int argc, char **argv);
int cmd_ask(int argc, char **argv);
int cmd_code(int argc, char **argv);
int cmd_repl(int argc, char **argv);
int cmd_shell(int argc, char **argv);
int cmd_ps(int argc, char **argv);
int cmd_logs(int argc, char **argv);
int cmd_kill(int argc, char **argv);
int cmd_port(int argc, char **argv);
int cmd_stats(int argc, char **argv);
int cmd_events(int argc, char **argv);
int cmd_sleep(int argc, char **argv);
int cmd_wake(int argc, char **argv);
int cmd_cp(int argc, char **argv);
int cmd_cat(int argc, char **argv);
int cmd_write(int argc, char **argv);
int cmd_find(int argc, char **argv);
int cmd_rm(int argc, char **argv);
int cmd_snapshot(int argc, char **argv);
int cmd_snapshots(int argc, char **argv);
int cmd_rollback(int argc, char **argv);
int cmd_fork(int argc, char **argv);
int cmd_sync(int argc, char **argv);
int cmd_stored(int argc, char **argv);
int cmd_backup(int argc, char **argv);
int cmd_backups(int argc, char **argv);
int cmd_restore(int argc, char **argv);
int cmd_export(int argc, char **argv);
int cmd_import(int argc, char **argv);
int cmd_archive(int argc, char **argv);
int cmd_du(int argc, char **argv);

// Commands of a command: `cay token ls`.
struct command_group {
    const char *name;  // "token"
    const char *about; // what they are for, ended by a line's end
    const struct command *commands;
    size_t n;
};
int cli_run_group(const struct command_group *group, int argc, char **argv);

// Both print "cay: <message>" as one line to standard error.
int cli_fail(const struct err *err);                       // returns CLI_FAILED
int cli_usage(const char *command, const struct err *err); // returns CLI_USAGE and names the help
