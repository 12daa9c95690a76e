// SPDX-License-Identifier: Apache-2.0
// The settings of `cay serve`, from one table (conf.c): defaults, then the file, then the
// environment (CAY_LISTEN for "listen"), then flags. The same table prints --help and
// cay.conf.example. The process that is root reads them all and hands them to the daemon as text;
// the daemon reads that with the same table. Texts are owned by the struct. One thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/err.h"

struct conf {
    char *listen;         // "127.0.0.1:8787"; port 0: any that is free
    char *data;           // "/var/lib/cay"
    char *socket;         // "": DATA/cay.sock
    char *group;          // of the socket, "cay"
    char *user;           // of the daemon, "cay"; where there is none, an unused id
    char *token;          // the admin token; "": DATA/admin.token, made on first start
    char *auth;           // "token", or "none": nobody is asked for one
    char *cors;           // origins that browsers may call from, by commas; "" none, "*" all
    char *preview_domain; // of previews' hosts: "localhost"
    char *log_level;
    bool behind_proxy; // a listen address that is not loopback is fine
    // the machine
    uint32_t boxes;      // at most, at once
    char *image;         // of sandboxes that name none, and of the pool
    uint32_t pool;       // boxes kept ready with a blank disk
    uint32_t pool_blank; // boxes kept ready for those that wake
    char *preload;       // modules that Python's zygotes load, by commas; "off": no zygotes
    int64_t zygote_renew_ms;
    uint64_t volume;       // bytes of the Btrfs volume; 0: disks are in memory
    uint64_t disk_spare;   // bytes that stay free where the volume lies
    uint64_t memory_spare; // bytes that must stay available on the machine for a box to be started
    // each tenant, unless its row says otherwise; 0: no limit
    uint32_t tenant_sandboxes;
    uint32_t tenant_running;
    uint64_t tenant_memory; // sum of the limits of its running boxes
    uint64_t tenant_disk;   // sum of the limits of its disks
    uint32_t rate;          // requests a minute and token; 0: no limit
    int64_t sleep_after_ms; // default of sandboxes
    int64_t drain_ms;       // how long a SIGTERM waits for requests that run
    uint64_t process_log;   // bytes kept of each stream of a process
    int64_t keep_results_ms;
    uint32_t max_results; // of each tenant
    uint64_t max_results_bytes;
    // where objects are kept; see store/store.h
    char *store;     // "local" or "s3"
    char *store_dir; // "": DATA/store
    char *s3_endpoint, *s3_bucket, *s3_region, *s3_prefix;
    char *s3_access_key, *s3_secret_key;
    char *s3_style; // "path" or "host"
    char *s3_ca;    // file; "": the machine's
    // ways out of boxes
    char *egress_private; // networks that boxes may reach although they are private, by commas
    char *egress_ca;      // file of certificates for the upstreams of secrets; "": none
    // models; see model/keys.h
    char *api_key, *auth_token, *refresh_token; // "": none
    char *base_url, *token_url, *client_id;
    char *model; // of those who name none
    // tasks of agents
    int64_t max_execution_ms;
    char *agents, *components; // folders; those of the default need not be there
};

#define CONF_AGENTS     "/etc/cay/agents"
#define CONF_COMPONENTS "/etc/cay/components"

// Defaults only.
int conf_init(struct conf *conf, struct err *err);
void conf_done(struct conf *conf);
// Boxes are forks of what `cay serve` becomes, and shall carry none: they are overwritten.
void conf_forget_secrets(struct conf *conf);

// `cay serve`'s command line: reads the file it names (or /etc/cay/cay.conf where that exists), the
// environment and the flags. OPT_END, OPT_HELP (printed already) or OPT_FAILED.
int conf_read(struct conf *conf, int argc, char **argv, struct err *err);

// "name = value" lines: what the file has, and what the daemon is handed. Unknown names are errors.
int conf_parse_text(struct conf *conf, const char *text, struct err *err);
// What another version of this program has written: settings that this one does not know are left
// out.
int conf_parse_older(struct conf *conf, const char *text, struct err *err);
int conf_write_text(const struct conf *conf, struct buf *ret); // 0 or -errno

void conf_print_example(FILE *out); // cay.conf.example
