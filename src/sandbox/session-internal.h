// SPDX-License-Identifier: Apache-2.0
// Sessions in memory. session.c has rows and the queue of commands; session-shell.c the shell: its
// job, its pipes, and how it is stopped; session-keep.c what outlives it. A session is counted: the
// list has one reference, and whoever calls back into the unknown holds another meanwhile.
#pragma once

#include "sandbox/sandbox-internal.h"
#include "sandbox/session-script.h"
#include "sandbox/session.h"

struct asking;
struct shell;

struct session_command {
    struct session *session;
    struct session_command *next;
    session_fn fn; // NULL: nobody waits
    exec_output_fn output;
    void *data;
    char *command, *cwd, **envp, *stdin_data;
    size_t stdin_len;
    int64_t timeout_ms;
    uint32_t seq; // 0: not sent yet
    int64_t begun_ns;
    uint64_t since;          // nanoseconds of CLOCK_BOOTTIME when it was sent
    enum end_reason stopped; // why it is being ended
    bool again;              // it was sent before, to a shell that ended without having begun it
    struct err *refusal;     // while session_exec is on the stack: where an error goes instead
    bool *refused;
};

struct session {
    struct sandbox *s;
    struct session *next;
    unsigned refs;
    bool dead; // not in the list any more
    struct session_row row;
    char *made_cwd, *made_env; // as it was made: what `exit` goes back to
    char *state;               // of the last shell, for the next one; NULL: none
    struct shell *shell;       // NULL: none
    uint32_t seq;              // given out last
    struct session_command *commands;
    unsigned n_commands;
    uint64_t ended; // CLOCK_BOOTTIME of the last command's end
    struct buf out, err;
    bool truncated;
    uint32_t exports_seq;  // not 0: it was asked for its exported variables
    uint32_t known_seq;    // when it has told them last
    struct asking *asking; // who wants to know them
};

struct saving;

struct sessions {
    struct session *first;
    struct saving *saving;
};

// --- session.c

struct session *session_load(struct sandbox *s, const struct session_row *row);   // copies the row
struct session *session_find(struct sandbox *s, const char *id, struct err *err); // or loads it
void session_store(struct session *session); // the row; an error is logged
void session_unref(struct session *session);
void session_pump(struct session *session);
// What the shell tells. Afterwards the session may be gone, unless the caller has a reference.
void session_on_started(struct session *session, uint32_t exec);
void session_on_record(struct session *session, const struct script_record *record);
void session_on_deadline(struct session *session);
void session_on_output(struct session *session); // something is in `out` or `err`
struct shell_end {
    const struct err *err; // it could not be started; else
    struct job_end job;
    bool lost;        // with its box
    bool exit_called; // `exit`
    bool has_state;   // it ended in its own way
    uint32_t begun;   // with it: the command it began last,
    int status;       // its status,
    const char *cwd;  // where it was
    const char *state;
};
void session_on_ended(struct session *session, const struct shell_end *end);

void session_renew_output(struct session *session); // what came so far is nobody's

// --- session-keep.c

// Its exported variables came; or its shell is gone, and they never will.
void saving_saw(struct session *session);
void session_ask_exports(struct session *session);
void session_answer(struct session *session);         // those who ask, with what is known
int session_set_text(char **text, const char *value); // whether it changed

// --- session-shell.c

int shell_start(struct session *session, struct err *err);
struct shell *shell_adopt(struct session *session, uint32_t exec); // NULL: it is gone
bool shell_ready(const struct shell *shell); // it has started, and is not being stopped
// Appends a message with `write` and sends it as the pipe takes it.
struct buf *shell_outgoing(struct shell *shell);
void shell_flush(struct shell *shell);
void shell_set_deadline(struct shell *shell, int64_t ms); // 0: none
// Ends what runs in it and was started since; the shell hands over its state and ends.
void shell_stop(struct shell *shell, uint64_t since);
void shell_drain(struct shell *shell);              // reads what its streams have
void shell_pause(struct shell *shell, bool paused); // does not read them, but for shell_drain
void shell_let_go(struct shell *shell); // kills all of it; nothing is told of it any more
const struct buf *shell_exports(const struct shell *shell);
