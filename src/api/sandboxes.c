// SPDX-License-Identifier: Apache-2.0
// Sandboxes themselves: making, finding, changing, ending them.
#include <stdio.h>
#include <string.h>

#include "api/budget.h"
#include "api/call.h"
#include "api/git.h"
#include "api/handlers.h"
#include "api/language-read.h"
#include "api/network.h"
#include "api/opencode.h"
#include "api/page.h"
#include "api/restore-made.h"
#include "api/schemas.h"
#include "api/show.h"
#include "base/mem.h"
#include "box/limits.h"
#include "egress/egress.h"
#include "git/check.h"

#define SLEEP_AFTER_MAX   (INT64_C(366) * 86400 * 1000)
#define BUDGET_USD_MAX    (INT64_C(1000000) * 1000000000)
#define BUDGET_TOKENS_MAX (INT64_C(1000000) * 1000000)

static const struct field budget_fields[] = {
    FIELD("usd", FIELD_USD, offsetof(struct budget_body, usd), .nullable = true, .min = 1,
          .max = BUDGET_USD_MAX, .help = "Dollars; null: any number"),
    FIELD("tokens", FIELD_INT, offsetof(struct budget_body, tokens), .nullable = true, .min = 1,
          .max = BUDGET_TOKENS_MAX, .help = "Tokens of every kind; null: any number"),
};
const struct schema budget_schema = SCHEMA("Budget", struct budget_body, budget_fields);

struct settings_body {
    const char *id, *image, *user_id;
    struct body_int memory, disk, pids, cpus, sleep_after, destroy_after, archive_after;
    struct budget_body budget;
    struct body_bool keep_alive, ephemeral;
    struct body_map env, labels;
    const char *network;
    struct body_strings secrets, languages;
    struct body_bool shared_zygote;
    struct body_bool durable, sync, restore;
    const char *snapshot;
    const char *git_url, *git_branch, *config;
};

#define AT(member) offsetof(struct settings_body, member)

#define COMMON_FIELDS                                                                              \
    FIELD("memory", FIELD_SIZE, AT(memory), .min = LIMIT_MEMORY_MIN, .max = LIMIT_BYTES_MAX,       \
          .help = "Memory in bytes, or a text such as \"512m\"; 1g if not given"),                 \
        FIELD("disk", FIELD_SIZE, AT(disk), .min = LIMIT_DISK_MIN, .max = LIMIT_BYTES_MAX,         \
              .help = "Disk in bytes, or a text such as \"2g\"; 2g if not given"),                 \
        FIELD("pids", FIELD_INT, AT(pids), .min = LIMIT_PIDS_MIN, .max = LIMIT_PIDS_MAX,           \
              .help = "Processes and threads; 256 if not given"),                                  \
        FIELD("cpus", FIELD_CPUS, AT(cpus), .min = LIMIT_CPU_MIN, .max = LIMIT_CPU_MAX,            \
              .help = "Processor cores, such as 0.5; 1 if not given"),                             \
        FIELD("env", FIELD_ENV, AT(env), .max = EDGE_ENV_MAX,                                      \
              .help = "Variables of everything that runs in it"),                                  \
        FIELD("labels", FIELD_LABELS, AT(labels), .max = EDGE_LABELS_MAX,                          \
              .help = "The caller's own names and values, to filter the list by"),                 \
        FIELD("sleepAfter", FIELD_SECONDS, AT(sleep_after), .min = 1000, .max = SLEEP_AFTER_MAX,   \
              .help =                                                                              \
                  "Falls asleep after so long without use: seconds, or a text such as \"10m\""),   \
        FIELD("keepAlive", FIELD_BOOL, AT(keep_alive), .help = "Never falls asleep"),              \
        FIELD("archiveAfter", FIELD_SECONDS, AT(archive_after), .nullable = true,                  \
              .max = SLEEP_AFTER_MAX,                                                              \
              .help = "Asleep for so long, its disk goes to the store and leaves the machine "     \
                      "until it is used: seconds, or a text such as \"30d\"; 0 or null: never"),   \
        FIELD("destroyAfter", FIELD_SECONDS, AT(destroy_after), .nullable = true,                  \
              .max = SLEEP_AFTER_MAX,                                                              \
              .help = "Is destroyed after so long without use, awake or asleep, unless it has "    \
                      "keepAlive: seconds, or a text such as \"7d\"; 0 or null: never"),           \
        FIELD("budget", FIELD_OBJECT, AT(budget), .sub = &budget_schema, .nullable = true,         \
              .help = "What it may spend on models while it exists; null: any amount"),            \
        FIELD("network", FIELD_JSON, AT(network), .max = NETWORK_TEXT_MAX,                         \
              .help = "What it may reach: \"none\" (if not given), \"internet\", or "              \
                      "{\"allow\": [\"api.example.com\", \"*.example.org:443\"]}"),                \
        FIELD("secrets", FIELD_STRINGS, AT(secrets), .max = NETWORK_SECRETS_MAX,                   \
              .help = "Names of the secrets that it may use, as http://NAME.cay/"),                \
        FIELD("languages", FIELD_STRINGS, AT(languages), .max = LANGUAGE_NAMES_MAX,                \
              .help = "What its code will be written in: then a box is taken in which they wait"), \
        FIELD("sharedZygote", FIELD_BOOL, AT(shared_zygote),                                       \
              .help =                                                                              \
                  "false: its interpreters are started for it alone, not forked from one that "    \
                  "others' are forked from, too; true if not given"),                              \
        FIELD("durable", FIELD_BOOL, AT(durable),                                                  \
              .help = "fsync in it reaches the disk, so that what was written outlives a power "   \
                      "cut; from its next start on if it runs; false if not given"),               \
        FIELD("sync", FIELD_BOOL, AT(sync),                                                        \
              .help = "Whenever it falls asleep, what has changed in /workspace is stored")

#define NEW_FIELDS                                                                                 \
    FIELD("image", FIELD_STRING, AT(image), .max = KEEPER_IMAGE_MAX - 1,                           \
          .help = "What it is made of; the server's default if not given"),                        \
        FIELD("ephemeral", FIELD_BOOL, AT(ephemeral),                                              \
              .help = "Its disk is lost when it falls asleep"),                                    \
        FIELD("snapshot", FIELD_STRING, AT(snapshot), .max = EDGE_NAME_MAX,                        \
              .help = "A new one begins with the files, environment and sessions of this "         \
                      "snapshot, of any of the tenant's sandboxes"),                               \
        FIELD("restore", FIELD_BOOL, AT(restore),                                                  \
              .help = "A new one gets what is stored of the workspace of this id"),                \
        FIELD("userId", FIELD_STRING, AT(user_id), .max = 256,                                     \
              .help = "The caller's own name for whom it is for"),                                 \
        FIELD("gitUrl", FIELD_STRING, AT(git_url), .max = GIT_URL_MAX - 1,                         \
              .help = "A repository that a new one is to have in /workspace/NAME"),                \
        FIELD("gitBranch", FIELD_STRING, AT(git_branch), .max = GIT_REF_MAX,                       \
              .help = "Its branch or tag; the remote's own if not given"),                         \
        FIELD("config", FIELD_JSON, AT(config), .max = OPENCODE_CONFIG_MAX,                        \
              .help = "OpenCode's configuration; credentials in it become secrets of the sandbox " \
                      "and never get into it")

#define LATER(name)  FIELD(name, FIELD_LATER, 0)
#define LATER_FIELDS LATER("ports")

static const struct field create_fields[] = {
    FIELD(
        "id", FIELD_STRING, AT(id), .max = EDGE_NAME_MAX,
        .help =
            "Letters, digits, '.', '_', '-'; a letter or digit at both ends; made up if not given"),
    NEW_FIELDS,
    COMMON_FIELDS,
    LATER_FIELDS,
};
static const struct field put_fields[] = {
    NEW_FIELDS,
    COMMON_FIELDS,
    LATER_FIELDS,
};
static const struct field patch_fields[] = {
    COMMON_FIELDS,
    LATER_FIELDS,
    FIELD("id", FIELD_FIXED, 0),
    FIELD("image", FIELD_FIXED, 0),
    FIELD("ephemeral", FIELD_FIXED, 0),
    FIELD("snapshot", FIELD_FIXED, 0),
    FIELD("restore", FIELD_FIXED, 0),
    FIELD("userId", FIELD_FIXED, 0),
    FIELD("gitUrl", FIELD_FIXED, 0),
    FIELD("gitBranch", FIELD_FIXED, 0),
    FIELD("config", FIELD_FIXED, 0),
};

const struct schema create_schema = SCHEMA("CreateSandbox", struct settings_body, create_fields);
const struct schema put_schema = SCHEMA("PutSandbox", struct settings_body, put_fields);
const struct schema patch_schema = SCHEMA("PatchSandbox", struct settings_body, patch_fields);

// -- settings

static struct sandbox_settings settings_of(const struct settings_body *b,
                                           const struct network *network, const char *names)
{
    return (struct sandbox_settings){
        .id = b->id,
        .image = b->image,
        .limits = {.memory = (uint64_t)b->memory.value,
                   .disk = (uint64_t)b->disk.value,
                   .pids = (uint32_t)b->pids.value,
                   .cpu_milli = (uint32_t)b->cpus.value},
        .sleep_after_ms = b->sleep_after.given ? b->sleep_after.value : -1,
        .keep_alive = b->keep_alive.value,
        .ephemeral = b->ephemeral.value,
        .env = b->env.json,
        .labels = b->labels.json,
        .user_id = b->user_id,
        .network = network->network,
        .secrets = network->secrets,
        .languages = names,
        .own_zygote = b->shared_zygote.given && !b->shared_zygote.value,
        .destroy_after_ms = b->destroy_after.value,
        .archive_after_ms = b->archive_after.value,
        .budget_cost = b->budget.usd.value,
        .budget_tokens = b->budget.tokens.value,
        .durable = b->durable.value,
        .sync = b->sync.value,
        .snapshot = b->snapshot,
    };
}

// -- answers

static void begin(struct json *j, struct buf *buf, const struct sandbox_row *row)
{
    buf_init(buf, SHOW_MAX);
    json_init(j, buf);
    json_open_object(j);
    show_bool(j, "success", true);
    show_str(j, "sandboxId", row->id);
}

// `cloned`: what was cloned into it, and how that went; NULL: nothing was to be.
static void reply_made(struct call *call, struct sandbox *s, unsigned status, bool created,
                       const struct git_cloned *cloned, const struct git_fault *fault)
{
    struct buf buf;
    struct json j;
    begin(&j, &buf, sandbox_row(s));
    show_sandbox(&j, sandbox_row(s));
    show_synced(&j, call->api->db, sandbox_row(s));
    opencode_show(call, sandbox_row(s), &j);
    if (call->route->method != HTTP_PATCH)
        show_bool(&j, "created", created);
    if (cloned != NULL) {
        json_key(&j, "git");
        json_open_object(&j);
        git_clone_show(&j, call, cloned, fault);
        json_close_object(&j);
    }
    json_close_object(&j);
    call_reply_json(call, status, &j);
}

static void reply_sandbox(struct call *call, struct sandbox *s, unsigned status, bool created)
{
    reply_made(call, s, status, created, NULL, NULL);
}

// -- a repository to begin with: the sandbox is there whether or not it can be cloned

static int check_git(struct call *call, const struct settings_body *b)
{
    struct err err = {0};
    struct url parts;
    char url[GIT_URL_MAX], dir[GIT_PATH_MAX];
    if (b->git_url == NULL && b->git_branch == NULL)
        return 0;
    if (b->git_url == NULL)
        (void)err_set(&err, ERR_INVALID, "gitBranch: of which repository? gitUrl is missing");
    else if (git_check_url(b->git_url, url, &parts, &err) < 0 ||
             git_default_dir(url, dir, &err) < 0)
        (void)err_wrap(&err, "gitUrl");
    else if (b->git_branch != NULL && git_check_ref(b->git_branch, &err) < 0)
        (void)err_wrap(&err, "gitBranch");
    if (err.code == ERR_NONE)
        return 0;
    call_fail(call, &err);
    return -1;
}

static void reply_cloned(struct call *call, const struct git_cloned *cloned,
                         const struct git_fault *fault)
{
    struct git_cloned none = {0};
    struct url parts;
    struct err ignored;
    if (cloned == NULL) { // both were checked
        (void)git_check_url(((const struct settings_body *)call->body.values)->git_url, none.url,
                            &parts, &ignored);
        (void)git_default_dir(none.url, none.dir, &ignored);
    }
    reply_made(call, call->sandbox, 201, true, cloned != NULL ? cloned : &none, fault);
}

static void on_cloned(void *data, const struct git_cloned *cloned, const struct git_fault *fault)
{
    struct call *call = data;
    reply_cloned(call, cloned, fault);
    git_call_done(call);
}

static struct git_clone clone_of(const struct call *call, char secret[SECRET_NAME_MAX])
{
    const struct settings_body *b = call->body.values;
    return (struct git_clone){
        .url = b->git_url,
        .branch = b->git_branch,
        .secret = git_find_secret(call->api->db, sandbox_row(call->sandbox), b->git_url, secret),
        .url_field = "gitUrl",
    };
}

static struct git_work *begin_clone(struct call *call)
{
    char secret[SECRET_NAME_MAX];
    const struct git_clone clone = clone_of(call, secret);
    return git_clone_start(call->api->db, call->sandbox, &clone, on_cloned, call);
}

static void clone_into(struct call *call, struct sandbox *s)
{
    char secret[SECRET_NAME_MAX];
    struct git_fault fault;
    call->sandbox = sandbox_ref(s);
    const struct git_clone clone = clone_of(call, secret);
    if (git_clone_allowed(call->api->db, sandbox_row(s), &clone, &fault) < 0)
        reply_cloned(call, NULL, &fault);
    else
        git_call_begin(call, begin_clone);
}

static void finish_made(struct call *call, struct sandbox *s, bool created)
{
    const struct settings_body *b = call->body.values;
    if (created && b->git_url != NULL)
        clone_into(call, s);
    else
        reply_sandbox(call, s, created ? 201 : 200, created);
}

static void on_configured(void *data, struct sandbox *s, bool created, const struct err *err)
{
    struct call *call = data;
    (void)created;
    if (s == NULL || (err != NULL && err->code != ERR_NONE))
        call_fail(call, err);
    else
        finish_made(call, s, /*created=*/call->state != NULL);
    call_unref(call);
}

// The names of its secrets are among the sandbox's already.
static void configure(struct call *call, struct sandbox *s, bool created)
{
    const struct settings_body *b = call->body.values;
    auto_opencode_config config = {0};
    if (opencode_read_config(call, b->config, &config) < 0)
        return;
    call->state = created ? mem_copy_text("") : NULL;
    opencode_configure(call->api->agents, s, &config, on_configured, call_ref(call));
}

static void go_on(struct call *call, struct sandbox *s, bool created)
{
    const struct settings_body *b = call->body.values;
    if (b->config != NULL)
        configure(call, s, created);
    else
        finish_made(call, s, created);
}

static void on_made(void *data, struct sandbox *s, bool created, const struct err *err)
{
    struct call *call = data;
    const struct settings_body *b = call->body.values;
    const char *id = b->id != NULL ? b->id : call->param[0];
    if (!created)
        restore_unannounce(call, id);
    if (err != NULL && err->code != ERR_NONE)
        call_fail(call, err);
    else if (created && b->restore.value)
        restore_made(call, s, go_on);
    else
        go_on(call, s, created);
    call_unref(call);
}

// What is lost with the box cannot be stored when that is gone, nor stay when it comes back.
static int check_kept(struct call *call, const struct settings_body *b)
{
    if (!b->ephemeral.value || (!b->sync.value && !b->restore.value))
        return 0;
    call_error(call, ERROR_INVALID_REQUEST, NULL,
               "%s: an ephemeral sandbox has no disk that it could be done with",
               b->sync.value ? "sync" : "restore");
    return -1;
}

static void create(struct call *call, const char *id)
{
    const struct settings_body *b = call->body.values;
    auto_network network = {0};
    auto_free char *names = NULL;
    auto_opencode_config config = {0};
    if (check_git(call, b) < 0 || check_kept(call, b) < 0 ||
        network_read(call, b->network, &b->secrets, &network) < 0 ||
        languages_read(call, &b->languages, &names) < 0 ||
        opencode_read_config(call, b->config, &config) < 0)
        return;
    if (config.n > 0) { // so that the same request finds the same settings
        char *all = opencode_secret_names(network.secrets, &config);
        free(network.secrets);
        network.secrets = all;
    }
    struct sandbox_settings settings = settings_of(b, &network, names);
    if (id != NULL)
        settings.id = id;
    if (settings.id != NULL && !sandbox_id_valid(settings.id)) {
        call_error(
            call, ERROR_INVALID_REQUEST, NULL,
            "id: must be 1 to %d letters, digits, '.', '_' and '-', with a letter or digit at "
            "both ends",
            EDGE_NAME_MAX);
        return;
    }
    if (b->restore.value && restore_announce(call, settings.id) < 0)
        return;
    fleet_create(call->api->fleet, call->tenant, &settings, on_made, call_ref(call));
}

void handle_create(struct call *call)
{
    create(call, NULL);
}

void handle_put(struct call *call)
{
    create(call, call->param[0]);
}

// -- one

static void on_got(void *data, const struct keeper_used *used, const struct err *err)
{
    struct call *call = data;
    struct buf buf;
    struct json j;
    const struct sandbox_row *row = sandbox_row(call->sandbox);
    struct show_network network;
    egress_usage(call->api->egress, call->sandbox, &network.bytes, &network.open);
    (void)err; // it does not run: then there is nothing to tell
    begin(&j, &buf, row);
    if (call->route->handle == handle_get) {
        show_sandbox(&j, row);
        show_synced(&j, call->api->db, row);
        opencode_show(call, row, &j);
        (void)ports_show(call, &j, &(struct err){0}); // none where they cannot be read
    } else {
        show_str(&j, "status", show_status(row->status));
        show_limits(&j, row);
    }
    json_key(&j, "stats");
    if (used != NULL)
        show_usage(&j, used, &network);
    else
        json_put_null(&j);
    json_close_object(&j);
    call_reply_json(call, 200, &j);
    call_unref(call);
}

// GET and GET .../stats: what the row says, and what the box uses if there is one.
void handle_get(struct call *call)
{
    if (sandbox_box(call->sandbox) != 0)
        sandbox_usage(call->sandbox, on_got, call_ref(call));
    else
        on_got(call_ref(call), NULL, NULL);
}

void handle_stats(struct call *call)
{
    handle_get(call);
}

static void on_changed(void *data, struct sandbox *s, bool created, const struct err *err)
{
    struct call *call = data;
    (void)created;
    if (err != NULL && err->code != ERR_NONE)
        call_fail(call, err);
    else
        reply_sandbox(call, s != NULL ? s : call->sandbox, 200, false);
    call_unref(call);
}

// Of a budget only what is named changes.
static void keep_rest_of_budget(const struct settings_body *b, const struct sandbox_row *row,
                                struct sandbox_settings *settings)
{
    if (!b->budget.usd.given && row->budget_cost >= 0)
        settings->budget_cost = row->budget_cost > 0 ? row->budget_cost : BUDGET_NOTHING;
    if (!b->budget.tokens.given && row->budget_tokens >= 0)
        settings->budget_tokens = row->budget_tokens > 0 ? row->budget_tokens : BUDGET_NOTHING;
}

void handle_patch(struct call *call)
{
    const struct settings_body *b = call->body.values;
    auto_network network = {0};
    auto_free char *names = NULL;
    unsigned which = 0;
    if (network_read(call, b->network, &b->secrets, &network) < 0 ||
        languages_read(call, &b->languages, &names) < 0)
        return;
    struct sandbox_settings settings = settings_of(b, &network, names);
    if (b->memory.given || b->disk.given || b->pids.given || b->cpus.given)
        which |= PATCH_LIMITS;
    if (b->sleep_after.given)
        which |= PATCH_SLEEP_AFTER;
    if (b->keep_alive.given)
        which |= PATCH_KEEP_ALIVE;
    if (b->env.json != NULL)
        which |= PATCH_ENV;
    if (b->labels.json != NULL)
        which |= PATCH_LABELS;
    if (b->network != NULL)
        which |= PATCH_NETWORK;
    if (b->secrets.items != NULL)
        which |= PATCH_SECRETS;
    if (b->languages.items != NULL)
        which |= PATCH_LANGUAGES;
    if (b->shared_zygote.given)
        which |= PATCH_ZYGOTE;
    if (b->destroy_after.given)
        which |= PATCH_DESTROY_AFTER;
    if (b->archive_after.given)
        which |= PATCH_ARCHIVE_AFTER;
    if (b->budget.usd.given || b->budget.tokens.given)
        which |= PATCH_BUDGET;
    if (b->durable.given)
        which |= PATCH_DURABLE;
    if (b->sync.given)
        which |= PATCH_SYNC;
    keep_rest_of_budget(b, sandbox_row(call->sandbox), &settings);
    sandbox_patch(call->sandbox, &settings, which, on_changed, call_ref(call));
}

void handle_wake(struct call *call)
{
    sandbox_wake(call->sandbox, on_changed, call_ref(call));
}

void handle_sleep(struct call *call)
{
    sandbox_sleep(call->sandbox, "asked", on_changed, call_ref(call));
}

static void on_destroyed(void *data, struct sandbox *s, bool created, const struct err *err)
{
    struct call *call = data;
    struct buf buf;
    struct json j;
    (void)s;
    (void)created;
    if (err != NULL && err->code != ERR_NONE) {
        call_fail(call, err);
    } else {
        buf_init(&buf, SHOW_MAX);
        json_init(&j, &buf);
        json_open_object(&j);
        show_bool(&j, "success", true);
        show_str(&j, "sandboxId", call->param[0]);
        show_str(&j, "status", "destroyed");
        json_close_object(&j);
        call_reply_json(call, 200, &j);
    }
    call_unref(call);
}

void handle_delete(struct call *call)
{
    sandbox_destroy(call->sandbox, on_destroyed, call_ref(call));
}

// -- the list

static int see_sandbox(void *data, const struct sandbox_row *row)
{
    struct page *page = data;
    if (!page_open(page, row->id))
        return 1;
    show_sandbox(page->j, row);
    show_synced(page->j, page->call->api->db, row);
    json_close_object(page->j);
    return 0;
}

static int each_sandbox(struct page *page, const void *query, struct err *err)
{
    return db_sandbox_each(page->call->api->db, query, see_sandbox, page, err);
}

static int parse_status(struct call *call, enum sandbox_status *ret)
{
    const char *text = call_query(call, "status");
    if (text == NULL)
        return 0;
    for (int s = SANDBOX_SLEEPING; s <= SANDBOX_DESTROYING; s++) {
        if (strcmp(text, show_status((enum sandbox_status)s)) == 0) {
            *ret = (enum sandbox_status)s;
            return 0;
        }
    }
    call_error(call, ERROR_INVALID_REQUEST, NULL,
               "?status: must be running, sleeping or destroying");
    return -1;
}

void handle_list(struct call *call)
{
    uint64_t max;
    struct sandbox_query query = {.tenant = call->tenant, .after = call_query(call, "after")};
    char key[EDGE_LABEL_MAX + 1];
    const char *label = call_query(call, "label");
    if (parse_status(call, &query.status) < 0 ||
        call_query_u64(call, "limit", EDGE_PAGE_MAX, EDGE_PAGE_DEFAULT, &max) < 0)
        return;
    if (label != NULL) { // "key", or "key=value"
        size_t len = strcspn(label, "=");
        if (len == 0 || len > EDGE_LABEL_MAX) {
            call_error(call, ERROR_INVALID_REQUEST, NULL, "?label: must be NAME or NAME=VALUE");
            return;
        }
        (void)snprintf(key, sizeof key, "%.*s", (int)len, label);
        query.label_key = key;
        query.label_value = label[len] == '=' ? label + len + 1 : NULL;
    }
    query.max = (unsigned)max + 1; // one more tells whether there is a next page
    page_reply(call, "sandboxes", (unsigned)max, each_sandbox, &query);
}
