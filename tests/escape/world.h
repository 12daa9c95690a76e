// SPDX-License-Identifier: Apache-2.0
// What an attempt is told about the world outside its box, so that it can look for it: the limits
// the box was started with, and two witnesses (one on the host, one in a neighbour box) that own a
// process, a port, shared memory and so on, all named after a token. Filled by main, read-only
// afterwards.
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum {
    TOKEN_MAX = 40, // with the ending NUL
    LEAKED_MAX = 64,
};

struct peer {
    char token[TOKEN_MAX]; // empty: there is no such witness
    int pid;               // in its own pid namespace
    int port;              // TCP on 127.0.0.1, says the token to whoever connects
    int key_serial;        // 0: it could not make a key
    int pts;               // number of a terminal it holds; -1: none
};

struct world {
    struct peer host;
    struct peer neighbour;
    unsigned long host_pidns; // inode numbers of the host's namespaces
    unsigned long host_netns;
    unsigned disk_major, disk_minor;
    long memory, disk; // bytes; 0: not told
    int pids, files;
    int milli_cpus;
    int leaked[LEAKED_MAX]; // descriptors above 2 that were open at the start
    size_t n_leaked;
};

extern struct world world;

// "TOKEN:pid:port:serial:pts" as witness.c prints it. False if it is not one.
bool peer_parse(struct peer *peer, const char *text);

// Attempts on pid 1 are made only where pid 1 is a guest.
bool in_host_pid_namespace(void);

// The names a witness uses.
int peer_ipc_key(const char *token);
const char *peer_path(const char *dir, const char *token); // DIR/cay-TOKEN, static storage

// Remembers the descriptors above 2. Called before anything is opened.
void world_note_leaks(void);

// Reads up to size-1 bytes; the length, or -1 with errno.
long slurp(const char *path, char *buf, size_t size);
// Whether the file at (dirfd, path) holds the token.
bool holds_token(int dirfd, const char *path, const char *token);
