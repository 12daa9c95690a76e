// SPDX-License-Identifier: Apache-2.0
// What a next daemon needs to go on with a task, in its run's row as JSON: what was asked, and,
// from the moment its agent runs, where that is and how things were before. A task whose agent had
// not been started is begun anew, in another sandbox.
#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agents/fresh.h"
#include "agents/task-internal.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/show.h"

enum member_kind { MEMBER_TEXT, MEMBER_INT, MEMBER_BOOL };

static const struct member {
    const char *name;
    enum member_kind kind;
    size_t at;
} members[] = {
#define AT(field) offsetof(struct task_asked, field)
    {"task",           MEMBER_TEXT, AT(task)           },
    {"agent",          MEMBER_TEXT, AT(agent)          },
    {"sandbox",        MEMBER_TEXT, AT(sandbox)        },
    {"image",          MEMBER_TEXT, AT(image)          },
    {"repo",           MEMBER_TEXT, AT(repo)           },
    {"branch",         MEMBER_TEXT, AT(branch)         },
    {"secret",         MEMBER_TEXT, AT(secret)         },
    {"network",        MEMBER_TEXT, AT(network)        },
    {"workingDir",     MEMBER_TEXT, AT(working_dir)    },
    {"systemPrompt",   MEMBER_TEXT, AT(system_prompt)  },
    {"permissionMode", MEMBER_TEXT, AT(permission_mode)},
    {"model",          MEMBER_TEXT, AT(model)          },
    {"memory",         MEMBER_INT,  AT(memory)         },
    {"maxTurns",       MEMBER_INT,  AT(max_turns)      },
    {"timeout",        MEMBER_INT,  AT(timeout_ms)     },
    {"budgetCost",     MEMBER_INT,  AT(budget_cost)    },
    {"budgetTokens",   MEMBER_INT,  AT(budget_tokens)  },
    {"includeDiff",    MEMBER_BOOL, AT(include_diff)   },
    {"keep",           MEMBER_BOOL, AT(keep)           },
#undef AT
};
enum { N_MEMBERS = sizeof members / sizeof *members };

static void *field(const struct task_asked *asked, const struct member *m)
{
    return (char *)(uintptr_t)asked + m->at;
}

void task_asked_done(struct task_asked *asked)
{
    for (unsigned i = 0; i < N_MEMBERS; i++) {
        if (members[i].kind == MEMBER_TEXT)
            free(*(char **)field(asked, &members[i]));
    }
    components_free(asked->components);
    *asked = (struct task_asked){0};
}

// --- what was asked

static void show_member(struct json *j, const struct task_asked *asked, const struct member *m)
{
    const void *at = field(asked, m);
    switch (m->kind) {
    case MEMBER_TEXT:
        if (*(char *const *)at != NULL)
            show_str(j, m->name, *(char *const *)at);
        break;
    case MEMBER_INT:
        show_int(j, m->name, *(const int64_t *)at);
        break;
    case MEMBER_BOOL:
        show_bool(j, m->name, *(const bool *)at);
        break;
    }
}

int task_keep_asked(struct task *t, struct err *err)
{
    auto_buf text;
    struct json j;
    auto_free char *components =
        t->asked.components != NULL ? components_text(t->asked.components) : NULL;
    buf_init(&text, TASK_ASKED_MAX);
    json_init(&j, &text);
    json_open_object(&j);
    for (unsigned i = 0; i < N_MEMBERS; i++)
        show_member(&j, &t->asked, &members[i]);
    if (components != NULL)
        show_raw(&j, "components", components);
    json_close_object(&j);
    if (json_finish(&j) < 0)
        return err_set(err, ERR_EXHAUSTED, "it is too large to be kept");
    return db_result_asked(t->agents->config.db, run_tenant(t->run), run_id(t->run), buf_str(&text),
                           err);
}

// --- where it is

int task_keep_work(struct task *t, struct err *err)
{
    auto_buf text;
    struct json j;
    buf_init(&text, TASK_WORK_MAX);
    json_init(&j, &text);
    json_open_object(&j);
    show_str(&j, "sandbox", sandbox_row(t->s)->id);
    show_str(&j, "process", t->process != NULL ? process_row(t->process)->id : NULL);
    show_str(&j, "moment", t->moment != NULL ? git_moment_text(t->moment) : NULL);
    show_str(&j, "url", t->cloned.url);
    show_str(&j, "head", t->cloned.head);
    show_str(&j, "commit", t->cloned.commit);
    show_int(&j, "cloneMs", t->clone_ms);
    show_int(&j, "pids", t->pids_before);
    show_bool(&j, "fed", t->is_fed);
    json_close_object(&j);
    if (json_finish(&j) < 0)
        return err_set(err, ERR_EXHAUSTED, "it is too large to be kept");
    return db_result_work(t->agents->config.db, run_tenant(t->run), run_id(t->run), buf_str(&text),
                          err);
}

// --- going on

static void read_member(const struct json_node *root, const struct member *m,
                        struct task_asked *ret)
{
    void *at = field(ret, m);
    const struct json_node *node = json_get(root, m->name);
    switch (m->kind) {
    case MEMBER_TEXT:
        *(char **)at = mem_copy_text(json_text(node));
        break;
    case MEMBER_INT:
        *(int64_t *)at = json_int(node, 0);
        break;
    case MEMBER_BOOL:
        *(bool *)at = json_bool(node, false);
        break;
    }
}

static int read_components(const char *text, struct components **ret, struct err *err)
{
    json_t *root = json_loads(text, 0, NULL);
    if (root == NULL)
        return err_set(err, ERR_INTERNAL, "what was asked cannot be read");
    const json_t *from = json_object_get(root, "components");
    int r = from != NULL ? components_parse(from, /* dir_fd */ -1, ret, err) : 0;
    json_decref(root);
    return r;
}

static int read_asked(const char *text, struct task_asked *ret, struct err *err)
{
    auto_json_doc *doc = NULL;
    *ret = (struct task_asked){0};
    if (json_read(text, strlen(text), &doc, err) < 0)
        return -1;
    for (unsigned i = 0; i < N_MEMBERS; i++)
        read_member(json_root(doc), &members[i], ret);
    if (ret->task == NULL || ret->agent == NULL || ret->timeout_ms <= 0)
        return err_set(err, ERR_INTERNAL, "what was asked is not whole");
    return read_components(text, &ret->components, err);
}

static void copy_text(const struct json_node *work, const char *name, char *ret, size_t max)
{
    const char *text = json_text(json_get(work, name));
    (void)snprintf(ret, max, "%s", text != NULL ? text : "");
}

static void read_work(struct task *t, const struct json_node *work)
{
    const char *moment = json_text(json_get(work, "moment"));
    copy_text(work, "url", t->cloned.url, sizeof t->cloned.url);
    copy_text(work, "head", t->cloned.head, sizeof t->cloned.head);
    copy_text(work, "commit", t->cloned.commit, sizeof t->cloned.commit);
    t->clone_ms = json_int(json_get(work, "cloneMs"), 0);
    t->pids_before = (uint32_t)json_int(json_get(work, "pids"), 0);
    t->is_fed = json_bool(json_get(work, "fed"), false);
    t->moment = moment != NULL ? git_moment_parse(moment) : NULL;
}

static struct sandbox *find_sandbox(struct agents *agents, int64_t tenant,
                                    const struct json_node *work)
{
    struct err ignored;
    const char *id = json_text(json_get(work, "sandbox"));
    return id != NULL ? fleet_find(agents->config.fleet, tenant, id, &ignored) : NULL;
}

static void lose(struct task *t)
{
    struct failure failure;
    failure_set(&failure, 410, "RESULT_LOST",
                "the server was killed while it was being begun in your sandbox: look what is "
                "there, and ask again");
    task_fail(t, &failure);
}

// Its agent was at work: it still is, or has ended meanwhile, and all that it wrote is in its log.
static void go_on(struct task *t, const struct json_node *work)
{
    struct err err = {0};
    const char *name = json_text(json_get(work, "process"));
    struct sandbox *s = find_sandbox(t->agents, run_tenant(t->run), work);
    struct process *p = s != NULL && name != NULL ? process_find(s, name, &err) : NULL;
    read_work(t, work);
    t->phase = TASK_AGENT;
    if (s != NULL)
        task_box_hold(t, s);
    if (name == NULL || !t->is_fed) { // it was just being started
        if (p != NULL)
            (void)process_delete(p, &err);
        lose(t);
        return;
    }
    if (p == NULL) {
        t->is_lost = true;
        task_answer(t, NULL);
        return;
    }
    t->agent_ns = clock_ns() - (db_now_ms() - process_row(p)->started_ms) * NS_PER_MS;
    task_agent_watch(t, p);
}

struct search {
    struct fleet *fleet;
    struct sandbox *found[4];
    unsigned n;
};

static int see_sandbox(void *data, const struct sandbox_row *row)
{
    struct search *search = data;
    struct err ignored;
    struct sandbox *s = fleet_find(search->fleet, row->tenant, row->id, &ignored);
    if (s != NULL)
        search->found[search->n++] = sandbox_ref(s);
    return search->n == sizeof search->found / sizeof *search->found;
}

// What was made for it, and has its label.
static void destroy_made(struct agents *agents, int64_t tenant, const char *id)
{
    struct err err = {0};
    struct search search = {.fleet = agents->config.fleet};
    const struct sandbox_query query = {
        .tenant = tenant, .label_key = FRESH_LABEL, .label_value = id};
    if (db_sandbox_each(agents->config.db, &query, see_sandbox, &search, &err) < 0)
        log_line(LOG_WARN, "cannot look for a task's sandbox", "error", err.msg, NULL);
    for (unsigned i = 0; i < search.n; i++) {
        sandbox_destroy(search.found[i], NULL, NULL);
        sandbox_unref(search.found[i]);
    }
}

// Its agent had not been started. A sandbox of its own is made anew; in somebody else's a clone may
// be there by half.
static void start_over(struct task *t)
{
    if (t->fresh)
        destroy_made(t->agents, run_tenant(t->run), run_id(t->run));
    if (t->fresh || t->asked.repo == NULL)
        task_box_get(t);
    else
        lose(t);
}

static struct task *take_up(struct agents *agents, const struct result_row *row)
{
    struct err err = {0};
    struct task_asked asked;
    const struct agent_file *file = NULL;
    if (read_asked(row->asked, &asked, &err) == 0 && agents->config.agent_files != NULL)
        file = agent_files_find(agents->config.agent_files, asked.agent);
    if (file == NULL) {
        task_asked_done(&asked);
        return NULL;
    }
    struct task *t = task_new(agents, &asked, file);
    t->run = run_new_again(agents, row);
    t->resumed = true;
    t->start_ns = clock_ns() - (db_now_ms() - row->created_ms) * NS_PER_MS;
    return t;
}

// Its agent's file is gone: nobody works on it, and so it is lost.
static void forget(struct agents *agents, const struct result_row *row,
                   const struct json_node *work)
{
    struct err err = {0};
    const char *name = json_text(json_get(work, "process"));
    struct sandbox *s = find_sandbox(agents, row->tenant, work);
    struct process *p = s != NULL && name != NULL ? process_find(s, name, &err) : NULL;
    log_line(LOG_WARN, "a task is lost", "id", row->id, NULL);
    if (p != NULL && process_row(p)->reason == END_NONE)
        (void)process_delete(p, &err);
    destroy_made(agents, row->tenant, row->id);
    struct result_row lost = *row; // lent
    lost.state = RESULT_LOST;
    lost.ended_ms = db_now_ms();
    if (db_result_end(agents->config.db, &lost, &err) < 0)
        log_line(LOG_ERROR, "cannot store that a task is lost", "id", row->id, "error", err.msg,
                 NULL);
}

// An agent that has not got all of its input has not begun.
static bool has_begun(const struct task *t, const struct json_node *work)
{
    return work != NULL && (!t->fresh || json_bool(json_get(work, "fed"), false));
}

static void resume(struct agents *agents, const struct result_row *row)
{
    struct err err = {0};
    auto_json_doc *doc = NULL;
    struct task *t = take_up(agents, row);
    bool has_work = row->work != NULL && json_read(row->work, strlen(row->work), &doc, &err) == 0;
    const struct json_node *work = has_work ? json_root(doc) : NULL;
    if (t == NULL) {
        forget(agents, row, work);
        return;
    }
    log_line(LOG_INFO, "going on with a task", "id", row->id, NULL);
    task_begin(t);
    if (has_begun(t, work))
        go_on(t, work);
    else
        start_over(t);
}

void tasks_resume(struct agents *agents)
{
    struct err err = {0};
    struct result_row row = {0};
    int r;
    while ((r = db_result_left(agents->config.db, agents->config.run, &row, &err)) > 0) {
        resume(agents, &row);
        result_row_done(&row);
    }
    if (r < 0)
        log_line(LOG_ERROR, "cannot go on with tasks", "error", err.msg, NULL);
}
