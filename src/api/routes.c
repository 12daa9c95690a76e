// SPDX-License-Identifier: Apache-2.0
// Everything that can be asked, in one table. Nothing else is exposed.
#include "api/handlers.h"
#include "api/preview.h"
#include "api/route.h"
#include "api/schemas.h"

// -- the shapes of answers

static const struct shape done_shape = {"Done", "success:boolean"};
static const struct shape health_shape = {
    "Health", "ok:boolean status:string service:string version:string timestamp:string tier:string "
              "pool:object load:object volume:boolean restarts:integer"};
static const struct shape index_shape = {
    "Index", "service:string version:string description:string openapi:string health:string"};
static const struct shape limits_shape = {"Limits",
                                          "memory:integer disk:integer pids:integer cpus:number"};
static const struct shape usage_shape = {
    "Usage",
    "cpu:number memory:integer peakMemory:integer disk:integer pids:integer oomKills:integer "
    "networkBytes:integer connections:integer"};
static const struct shape sandbox_shape = {
    "Sandbox",
    "success:boolean sandboxId:string id:string slug:string status:string image:string "
    "limits:Limits labels:object userId:string network:any secrets:[string] languages:[string] sharedZygote:boolean provider:string box:integer boxes:integer "
    "sleepAfter:number destroyAfter:number archiveAfter:number budget:object keepAlive:boolean ephemeral:boolean durable:boolean sync:boolean archived:boolean createdAt:string updatedAt:string "
    "lastActiveAt:string workspaceSyncedAt:string created:boolean git:GitClone "
    "opencodeUrl:string opencodeUiUrl:string ports:[Port] stats:Usage"};
static const struct shape sandboxes_shape = {"Sandboxes",
                                             "success:boolean sandboxes:[Sandbox] next:string"};
static const struct shape stats_shape = {
    "Stats", "success:boolean sandboxId:string status:string limits:Limits stats:Usage"};
static const struct shape server_shape = {
    "ServerStats", "success:boolean timestamp:string uptime_ms:integer version:string scope:string "
                   "boxes:object sandboxes:object latency:object model:object host:object "
                   "egress:object"};
static const struct shape event_shape = {"Event",
                                         "id:integer type:string timestamp:string data:object"};
static const struct shape events_shape = {"Events", "success:boolean events:[Event] next:integer"};
static const struct shape exec_shape = {
    "ExecResult",
    "success:boolean exitCode:integer signal:integer reason:string limitsHit:[string] "
    "stdout:string stderr:string encoding:string truncated:boolean duration:number cpu:number "
    "peakMemory:integer command:any timestamp:string"};
static const struct shape context_shape = {
    "Context", "success:boolean id:string language:string cwd:string status:string reason:string "
               "detail:string executionCount:integer queued:integer cell:string timeout:integer "
               "isDefault:boolean pid:integer createdAt:string lastUsed:string"};
static const struct shape contexts_shape = {"Contexts", "success:boolean contexts:[Context]"};
static const struct shape code_shape = {
    "CodeResult",
    "id:string context:string language:string code:string success:boolean logs:object "
    "results:[object] error:object executionCount:integer reason:string duration:number "
    "truncated:boolean contextDied:boolean message:string status:string"};
static const struct shape answer_shape = {
    "Answer",
    "success:boolean request_id:string timestamp:string question:string code:string output:string "
    "stderr:string results:[object] truncated:boolean error:string error_code:string "
    "files:[object] filesTruncated:boolean sandboxId:string context:string language:string "
    "model:string attempts:integer reason:string executionTime:integer metrics:object "
    "cached:boolean"};
static const struct shape task_shape = {
    "TaskResult", "success:boolean request_id:string timestamp:string logs:string result:string "
                  "error:string error_code:string diff:string diff_truncated:boolean "
                  "files:[object] warnings:[string] metadata:object"};
static const struct shape agent_shape = {
    "Agent", "name:string about:string program:string image:string memory:integer "
             "needsModel:boolean options:[string]"};
static const struct shape agents_shape = {"Agents", "success:boolean agents:[Agent]"};
static const struct shape talk_shape = {
    "TalkResult", "success:boolean request_id:string timestamp:string result:string error:string "
                  "error_code:string messages:[object] metadata:object"};
static const struct shape session_shape = {
    "Session", "id:string cwd:string running:boolean createdAt:string lastUsedAt:string"};
static const struct shape session_answer_shape = {"SessionAnswer",
                                                  "success:boolean id:string session:Session"};
static const struct shape sessions_shape = {"Sessions", "success:boolean sessions:[Session]"};
static const struct shape process_shape = {
    "Process", "id:string pid:integer status:string command:any cwd:string keepAwake:boolean "
               "success:boolean exitCode:integer signal:integer reason:string limitsHit:[string] "
               "cpu:number peakMemory:integer startedAt:string endedAt:string duration:integer "
               "logs:object terminal:string"};
static const struct shape terminal_shape = {
    "Terminal", "id:string process:string pid:integer command:any cols:integer rows:integer "
                "viewers:integer startedAt:string"};
static const struct shape terminals_shape = {"Terminals", "success:boolean terminals:[Terminal]"};
static const struct shape process_answer_shape = {"ProcessAnswer",
                                                  "success:boolean id:string process:Process"};
static const struct shape processes_shape = {"Processes", "success:boolean processes:[Process]"};
static const struct shape wait_shape = {
    "WaitResult", "success:boolean matched:string timedOut:boolean stream:string offset:integer "
                  "line:string process:Process"};
static const struct shape token_shape = {
    "Token", "success:boolean id:string name:string tenant:string admin:boolean rate:any "
             "createdAt:string token:string"};
static const struct shape git_clone_shape = {
    "GitClone", "success:boolean repoUrl:string branch:string targetDir:string commit:string "
                "duration:number error:string error_code:string"};
static const struct shape git_status_shape = {
    "GitStatus", "success:boolean path:string branch:string commit:string upstream:string "
                 "ahead:integer behind:integer clean:boolean files:[object] truncated:boolean"};
static const struct shape git_diff_shape = {
    "GitDiff", "success:boolean path:string files:[object] diff:string encoding:string "
               "truncated:boolean"};
static const struct shape git_commit_shape = {
    "GitCommitted", "success:boolean path:string commit:string branch:string"};
static const struct shape port_shape = {"Port", "success:boolean port:integer name:string "
                                                "token:string url:string path:string "
                                                "createdAt:string"};
static const struct shape url_shape = {
    "ContainerUrl", "success:boolean id:string url:string createdAt:string expiresAt:string"};
static const struct shape urls_shape = {"ContainerUrls", "success:boolean urls:[ContainerUrl]"};
static const struct shape message_shape = {
    "MessageResult", "success:boolean sessionId:string response:string parts:[object] info:object"};
static const struct shape ports_shape = {"Ports", "success:boolean ports:[Port]"};
static const struct shape snapshot_shape = {
    "Snapshot", "success:boolean sandboxId:string id:string name:string bytes:integer "
                "createdAt:string"};
static const struct shape snapshots_shape = {"Snapshots", "success:boolean snapshots:[Snapshot]"};
static const struct shape rollback_shape = {"RolledBack",
                                            "success:boolean sandboxId:string snapshot:string"};
static const struct shape forks_shape = {"Forks",
                                         "success:boolean count:integer sandboxes:[Sandbox]"};
static const struct shape sync_shape = {
    "Synced", "success:boolean files:integer bytes:integer put:integer putBytes:integer "
              "deleted:integer durationMs:integer warning:string"};
static const struct shape sync_state_shape = {
    "SyncState", "success:boolean state:string syncedAt:string startedAt:string files:integer "
                 "bytes:integer options:object error:string warning:string retryAt:string"};
static const struct shape stored_shape = {"StoredFile", "path:string size:integer modified:string"};
static const struct shape stored_list_shape = {"StoredFiles",
                                               "success:boolean files:[StoredFile] next:string"};
static const struct shape stored_put_shape = {
    "StoredPut", "success:boolean path:string size:integer sha256:string"};
static const struct shape backup_shape = {
    "Backup", "success:boolean id:string sandboxId:string kind:string name:string dir:string "
              "image:string state:string size:integer bytes:integer entries:integer sha256:string "
              "createdAt:string expiresAt:string"};
static const struct shape backups_shape = {"Backups",
                                           "success:boolean backups:[Backup] next:string"};
static const struct shape restored_shape = {"Restored",
                                            "success:boolean sandboxId:string backup:string"};
static const struct shape archived_shape = {
    "Archived", "success:boolean sandboxId:string backup:string bytes:integer"};
static const struct shape language_shape = {
    "Language", "name:string aliases:[string] available:boolean stateful:boolean version:string "
                "package:string libraries:object"};
static const struct shape languages_shape = {"Languages", "success:boolean languages:[Language]"};
static const struct shape secret_shape = {
    "Secret", "success:boolean name:string upstream:string header:string format:string "
              "createdAt:string updatedAt:string"};
static const struct shape secrets_shape = {"Secrets", "success:boolean secrets:[Secret]"};
static const struct shape tokens_shape = {"Tokens", "success:boolean tokens:[Token]"};
static const struct shape tenant_shape = {
    "Tenant", "success:boolean tenant:string quotas:object createdAt:string"};

static const struct shape entry_shape = {
    "FileEntry", "name:string path:string type:string size:integer mode:string uid:integer "
                 "gid:integer mtime:string target:string nameBase64:string pathBase64:string"};
static const struct shape listing_shape = {
    "FileListing", "success:boolean path:string entries:[FileEntry] next:string"};
static const struct shape put_file_shape = {
    "PutFile", "success:boolean path:string size:integer etag:string created:boolean"};
static const struct shape file_op_shape = {
    "FileDone", "success:boolean path:string from:string to:string entries:integer bytes:integer"};
static const struct shape batch_shape = {"FileBatchResult", "success:boolean results:[object]"};
static const struct shape match_shape = {
    "FileMatch", "path:string line:integer column:integer text:string pathBase64:string"};
static const struct shape matches_shape = {
    "FileMatches", "success:boolean path:string matches:[FileMatch] truncated:boolean"};
static const struct shape replaced_shape = {
    "FileReplacements",
    "success:boolean path:string files:[object] replacements:integer truncated:boolean"};
static const struct shape unpacked_shape = {
    "Unpacked", "success:boolean path:string entries:integer bytes:integer"};

static const struct shape result_shape = {
    "Result",
    "request_id:string kind:string state:string question:string task:string success:boolean "
    "error_code:string sandboxId:string model:string cost_usd:number input_tokens:integer output_tokens:integer "
    "generation_ms:integer sandbox_ms:integer total_ms:integer created:string ended:string"};
static const struct shape results_shape = {"Results",
                                           "success:boolean results:[Result] next:string"};
static const struct shape result_state_shape = {"ResultState",
                                                "success:boolean request_id:string state:string"};
static const struct shape spent_shape = {
    "Spent", "key:string requests:integer input_tokens:integer output_tokens:integer "
             "cache_creation_input_tokens:integer cache_read_input_tokens:integer "
             "web_search_requests:integer web_fetch_requests:integer cost_usd:number"};
static const struct shape model_usage_shape = {
    "ModelUsage", "success:boolean by:string total:Spent usage:[Spent]"};

static const struct shape du_entry_shape = {
    "Held", "tenant:string sandboxId:string status:string disk:integer shared:integer "
            "snapshots:integer stored:integer backups:integer archived:integer"};
static const struct shape du_shape = {
    "DiskUsage", "success:boolean sandboxes:[Held] volume:object store:object"};

const struct shape *const shapes[] = {
    &du_entry_shape,
    &du_shape,
    &result_shape,
    &results_shape,
    &result_state_shape,
    &spent_shape,
    &model_usage_shape,
    &entry_shape,
    &listing_shape,
    &put_file_shape,
    &file_op_shape,
    &batch_shape,
    &match_shape,
    &matches_shape,
    &replaced_shape,
    &unpacked_shape,
    &done_shape,
    &health_shape,
    &index_shape,
    &limits_shape,
    &usage_shape,
    &sandbox_shape,
    &sandboxes_shape,
    &stats_shape,
    &event_shape,
    &events_shape,
    &exec_shape,
    &context_shape,
    &contexts_shape,
    &code_shape,
    &answer_shape,
    &talk_shape,
    &session_shape,
    &sessions_shape,
    &session_answer_shape,
    &process_shape,
    &process_answer_shape,
    &processes_shape,
    &wait_shape,
    &token_shape,
    &tokens_shape,
    &tenant_shape,
    &secret_shape,
    &secrets_shape,
    &git_clone_shape,
    &git_status_shape,
    &git_diff_shape,
    &git_commit_shape,
    &terminal_shape,
    &terminals_shape,
    &snapshot_shape,
    &snapshots_shape,
    &rollback_shape,
    &forks_shape,
    &sync_shape,
    &sync_state_shape,
    &stored_shape,
    &stored_list_shape,
    &stored_put_shape,
    &port_shape,
    &ports_shape,
    &url_shape,
    &urls_shape,
    &language_shape,
    &languages_shape,
    &server_shape,
    &message_shape,
    &task_shape,
    &agent_shape,
    &agents_shape,
    &backup_shape,
    &backups_shape,
    &restored_shape,
    &archived_shape,
    NULL,
};

// -- the routes

enum {
    SANDBOX = ROUTE_SANDBOX,
    IDEMPOTENT = ROUTE_IDEMPOTENT,
    SSE = ROUTE_SSE,
};

#define ROUTE(...)                                                                                 \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define QUERY(query_name, query_help)                                                              \
    {                                                                                              \
        (query_name), (query_help)                                                                 \
    }
#define TEXT         "text/plain"
#define LIMIT_QUERY  QUERY("limit", "At most so many entries")
#define FOLLOW_QUERY QUERY("follow", "1: the answer goes on as long as there is more to come")

#define BYTES "application/octet-stream"
#define LIST_QUERIES                                                                               \
    QUERY("list", "What is in the directory"), QUERY("recursive", "And in all below it"),          \
        QUERY("hidden", "1: also names that begin with a dot"), LIMIT_QUERY,                       \
        QUERY("after", "The `next` of the page before"), QUERY("stat", "What the path itself is")

// Found by another way (api.c), since what is behind the port is not for the router to read.
#define PREVIEW(method, operation)                                                                 \
    ROUTE(method, "/sandbox/{id}/proxy/{port}/{path*}", preview_by_path, 0,                        \
          .query = {QUERY("cay_token", "The port's token, instead of the API's")},                 \
          .name = (operation),                                                                     \
          .summary = "What the program on that port answers; any method, also WebSockets",         \
          .status = 200, .answer = "Its answer, with Content-Security-Policy: sandbox",            \
          .type = "*/*")

// By the same way: its own API is not for the router to read, either.
#define OPENCODE(method, operation)                                                                \
    ROUTE(method, "/sandbox/{id}/opencode/{path*}", preview_by_path, 0,                            \
          .query = {QUERY("cay_token", "The token of port 4096, instead of the API's")},           \
          .name = (operation),                                                                     \
          .summary = "OpenCode's own HTTP API in the sandbox; any method, also WebSockets",        \
          .status = 200, .answer = "Its answer", .type = "*/*")

const struct route routes[] = {
    ROUTE(HTTP_GET, "/", handle_index, ROUTE_PUBLIC, .name = "index", .summary = "What this is",
          .status = 200, .answer = "The service and where to go on", .shape = &index_shape),
    ROUTE(HTTP_GET, "/health", handle_health, ROUTE_PUBLIC, .name = "health",
          .summary = "Whether it works; with a token also pool and load", .status = 200,
          .answer = "It works", .shape = &health_shape),
    ROUTE(HTTP_GET, "/openapi.json", handle_openapi, ROUTE_PUBLIC, .name = "openapi",
          .summary = "This description", .status = 200, .answer = "OpenAPI 3.1"),
    ROUTE(HTTP_GET, "/metrics", handle_metrics, ROUTE_ADMIN, .name = "metrics",
          .summary = "Numbers for Prometheus", .status = 200, .answer = "Prometheus' text format",
          .type = TEXT),
    ROUTE(HTTP_GET, "/stats", handle_server_stats, 0, .name = "getServerStats",
          .summary = "How the server does; a tenant sees what is its own, an admin everything",
          .status = 200, .answer = "Boxes, sandboxes, latencies, models, the machine",
          .shape = &server_shape),
    ROUTE(HTTP_POST, "/sandbox", handle_create, IDEMPOTENT, &create_schema, .name = "createSandbox",
          .summary = "Make a sandbox and start it; one with the same id and settings is found",
          .status = 201, .answer = "It is new and runs (200: it was there)",
          .shape = &sandbox_shape),
    ROUTE(HTTP_GET, "/sandbox", handle_list, 0,
          .query = {QUERY("label", "NAME or NAME=VALUE"),
                    QUERY("status", "running, sleeping or destroying"),
                    QUERY("after", "The `next` of the page before"), LIMIT_QUERY},
          .name = "listSandboxes", .summary = "The tenant's sandboxes, by id", .status = 200,
          .answer = "A page of them", .shape = &sandboxes_shape),
    ROUTE(HTTP_PUT, "/sandbox/{id}", handle_put, IDEMPOTENT, &put_schema, .name = "putSandbox",
          .summary =
              "Make sure that there is a sandbox of this id, with these settings, and that it runs",
          .status = 201, .answer = "It is new and runs (200: it was there)",
          .shape = &sandbox_shape),
    ROUTE(HTTP_GET, "/sandbox/{id}", handle_get, SANDBOX, .name = "getSandbox",
          .summary = "Settings and state; never wakes", .status = 200, .answer = "The sandbox",
          .shape = &sandbox_shape),
    ROUTE(HTTP_PATCH, "/sandbox/{id}", handle_patch, SANDBOX, &patch_schema, .name = "patchSandbox",
          .summary = "Change settings; limits change at once", .status = 200,
          .answer = "The sandbox", .shape = &sandbox_shape),
    ROUTE(HTTP_DELETE, "/sandbox/{id}", handle_delete, SANDBOX, .name = "deleteSandbox",
          .summary = "End everything in it and free its disk", .status = 200,
          .answer = "It is gone", .shape = &done_shape),
    ROUTE(HTTP_POST, "/sandbox/{id}/wake", handle_wake, SANDBOX, .name = "wakeSandbox",
          .summary = "Make sure that it runs", .status = 200, .answer = "The sandbox",
          .shape = &sandbox_shape),
    ROUTE(HTTP_POST, "/sandbox/{id}/sleep", handle_sleep, SANDBOX, .name = "sleepSandbox",
          .summary = "End its processes and keep its disk", .status = 200, .answer = "The sandbox",
          .shape = &sandbox_shape),
    ROUTE(HTTP_GET, "/sandbox/{id}/stats", handle_stats, SANDBOX, .name = "getStats",
          .summary = "What it uses now; never wakes", .status = 200, .answer = "Usage and limits",
          .shape = &stats_shape),
    ROUTE(HTTP_GET, "/sandbox/{id}/events", handle_events, SANDBOX | SSE,
          .query = {QUERY("after", "Only events with a higher id"),
                    QUERY("offset", "The same as after"), LIMIT_QUERY, FOLLOW_QUERY},
          .name = "getEvents",
          .summary = "What happened to it; followed with Accept: text/event-stream", .status = 200,
          .answer = "A page of events", .shape = &events_shape),
    ROUTE(HTTP_POST, "/sandbox/{id}/exec", handle_exec, SANDBOX | IDEMPOTENT | SSE, &exec_schema,
          .name = "exec",
          .summary = "Run a command and wait for it, or stream it with Accept: text/event-stream",
          .status = 200, .answer = "How it ended and what it wrote", .shape = &exec_shape),
    ROUTE(HTTP_POST, "/execute", handle_execute, IDEMPOTENT | SSE | ROUTE_BODY_TOKEN,
          &execute_schema, .name = "execute",
          .summary = "Answer a question by code that a model writes, or have a coding agent do a "
                     "task, in a sandbox; streamed with Accept: text/event-stream",
          .status = 200,
          .answer = "The code, what it printed, showed and wrote, and the price; of a task "
                    "(TaskResult) what the agent said and changed",
          .shape = &answer_shape),
    ROUTE(HTTP_POST, "/execute/sdk", handle_execute_sdk, IDEMPOTENT | SSE, &sdk_schema,
          .name = "executeSdk",
          .summary = "A conversation with a model that may use tools, in the shapes of the Agent "
                     "SDK's messages; streamed with Accept: text/event-stream",
          .status = 200, .answer = "The last message's text, all messages, and the price",
          .shape = &talk_shape),
    ROUTE(HTTP_GET, "/execute", handle_result_list, 0,
          .query = {LIMIT_QUERY, QUERY("before", "The `next` of the page before"),
                    QUERY("kind", "question, sdk or task")},
          .name = "listResults", .summary = "What was asked, newest first", .status = 200,
          .answer = "A page of the list", .shape = &results_shape),
    ROUTE(HTTP_GET, "/execute/{request_id}", handle_result_get, SSE, .name = "getResult",
          .summary = "The answer to what was asked, or its events", .status = 200,
          .answer = "The answer as it was given, with its own status; 202 while it runs"),
    ROUTE(HTTP_DELETE, "/execute/{request_id}", handle_result_delete, 0, .name = "deleteResult",
          .summary = "Cancel what runs, or remove what has ended", .status = 200,
          .answer = "It is gone (202: it was asked to end)", .shape = &result_state_shape),
    ROUTE(HTTP_GET, "/agents", handle_agent_list, 0, .name = "listAgents",
          .summary = "Who may be asked to do a task", .status = 200, .answer = "The agents",
          .shape = &agents_shape),
    ROUTE(HTTP_GET, "/usage", handle_usage, 0,
          .query = {QUERY("by", "tenant, sandbox, request, model, source or day"),
                    QUERY("since", "ISO 8601, or milliseconds since 1970; 30 days before"),
                    QUERY("until", "The same; not included; now if not given"),
                    QUERY("sandbox", "Of this one alone"), LIMIT_QUERY,
                    QUERY("tenant", "Of another tenant, or all: for administrators")},
          .name = "getUsage", .summary = "What was spent on models", .status = 200,
          .answer = "Sums, the dearest first; days in order", .shape = &model_usage_shape),
    ROUTE(HTTP_GET, "/du", handle_du, 0,
          .query = {QUERY("all", "1: of all tenants, for administrators")}, .name = "getDiskUsage",
          .summary = "Who holds what, on the disk and in the store", .status = 200,
          .answer = "Bytes, of each sandbox and together", .shape = &du_shape),
    ROUTE(HTTP_POST, "/sandbox/{id}/code", handle_code, SANDBOX | IDEMPOTENT | SSE, &code_schema,
          .name = "runCode",
          .summary = "Run code in a context and wait for it, or stream it with Accept: "
                     "text/event-stream",
          .status = 200, .answer = "How it ended, what it wrote and showed", .shape = &code_shape),
    ROUTE(HTTP_GET, "/sandbox/{id}/code/{cell}", handle_code_get, SANDBOX | SSE,
          .query = {QUERY("offset", "Of a stream: the event to go on with, as its id has it")},
          .name = "getCode",
          .summary = "A cell that was run before; followed with Accept: text/event-stream",
          .status = 200, .answer = "Its result (202: it has not ended yet)", .shape = &code_shape),
    ROUTE(HTTP_DELETE, "/sandbox/{id}/code/{cell}", handle_code_cancel, SANDBOX,
          .name = "cancelCode",
          .summary = "Take a cell out of the queue, or interrupt it, and kill what does not heed",
          .status = 200, .answer = "It was told, or had ended", .shape = &done_shape),
    ROUTE(HTTP_POST, "/sandbox/{id}/contexts", handle_context_create, SANDBOX | IDEMPOTENT,
          &context_schema, .name = "createContext",
          .summary = "Make a context: an interpreter that stays", .status = 201,
          .answer = "The context", .shape = &context_shape),
    ROUTE(HTTP_GET, "/sandbox/{id}/contexts", handle_context_list, SANDBOX, .name = "listContexts",
          .summary = "All contexts; never wakes", .status = 200, .answer = "The contexts",
          .shape = &contexts_shape),
    ROUTE(HTTP_GET, "/sandbox/{id}/contexts/{cid}", handle_context_get, SANDBOX,
          .name = "getContext", .summary = "One context; never wakes", .status = 200,
          .answer = "The context", .shape = &context_shape),
    ROUTE(HTTP_DELETE, "/sandbox/{id}/contexts/{cid}", handle_context_delete, SANDBOX,
          .name = "deleteContext", .summary = "End its interpreter and what runs in it",
          .status = 200, .answer = "It is gone", .shape = &done_shape),
    ROUTE(HTTP_POST, "/sandbox/{id}/contexts/{cid}/interrupt", handle_context_interrupt, SANDBOX,
          .name = "interruptContext", .summary = "Interrupt the cell that runs in it",
          .status = 200, .answer = "It was told", .shape = &done_shape),
    ROUTE(HTTP_POST, "/sandbox/{id}/contexts/{cid}/restart", handle_context_restart, SANDBOX,
          .name = "restartContext", .summary = "Give it a new interpreter, which knows nothing",
          .status = 200, .answer = "The context", .shape = &context_shape),
    ROUTE(HTTP_GET, "/sandbox/{id}/languages", handle_language_list, SANDBOX,
          .name = "listLanguages",
          .summary = "The languages that code can be written in, and which of them it has",
          .status = 200, .answer = "All of them, with versions", .shape = &languages_shape),
    ROUTE(HTTP_POST, "/sandbox/{id}/sessions", handle_session_create, SANDBOX, &session_schema,
          .name = "createSession", .summary = "Make a session: a shell that stays", .status = 201,
          .answer = "The session", .shape = &session_answer_shape),
    ROUTE(HTTP_GET, "/sandbox/{id}/sessions", handle_session_list, SANDBOX, .name = "listSessions",
          .summary = "All sessions", .status = 200, .answer = "The sessions",
          .shape = &sessions_shape),
    ROUTE(HTTP_GET, "/sandbox/{id}/sessions/{sid}", handle_session_get, SANDBOX,
          .name = "getSession", .summary = "One session", .status = 200, .answer = "The session",
          .shape = &session_answer_shape),
    ROUTE(HTTP_DELETE, "/sandbox/{id}/sessions/{sid}", handle_session_delete, SANDBOX,
          .name = "deleteSession",
          .summary = "End its shell, its terminal, and all that runs in them", .status = 200,
          .answer = "It is gone", .shape = &done_shape),
    ROUTE(HTTP_POST, "/sandbox/{id}/processes", handle_process_start, SANDBOX | IDEMPOTENT,
          &process_schema, .name = "startProcess", .summary = "Start a background process",
          .status = 201, .answer = "The process", .shape = &process_answer_shape),
    ROUTE(HTTP_GET, "/sandbox/{id}/processes", handle_process_list, SANDBOX,
          .name = "listProcesses", .summary = "Those that run and the newest that have ended",
          .status = 200, .answer = "The processes", .shape = &processes_shape),
    ROUTE(HTTP_GET, "/sandbox/{id}/processes/{pid}", handle_process_get, SANDBOX,
          .name = "getProcess", .summary = "One process", .status = 200, .answer = "The process",
          .shape = &process_answer_shape),
    ROUTE(HTTP_DELETE, "/sandbox/{id}/processes/{pid}", handle_process_delete, SANDBOX,
          .name = "deleteProcess",
          .summary = "End it; one that has ended is forgotten, with its log", .status = 200,
          .answer = "Done", .shape = &done_shape),
    ROUTE(HTTP_POST, "/sandbox/{id}/processes/{pid}/signal", handle_process_signal, SANDBOX,
          &signal_schema, .name = "signalProcess", .summary = "Send a signal to its process group",
          .status = 200, .answer = "It was sent", .shape = &done_shape),
    ROUTE(HTTP_POST, "/sandbox/{id}/processes/{pid}/stdin", handle_process_stdin,
          SANDBOX | ROUTE_RAW_BODY, &stdin_schema,
          .query = {QUERY("end", "1: close standard input after it")}, .name = "writeStdin",
          .summary = "Write to its standard input: JSON, or application/octet-stream",
          .status = 200, .answer = "It is being written", .shape = &done_shape),
    ROUTE(HTTP_POST, "/sandbox/{id}/processes/{pid}/wait", handle_process_wait, SANDBOX,
          &wait_schema, .name = "waitProcess",
          .summary = "Wait for its end, a line of its output, or a port", .status = 200,
          .answer = "What came", .shape = &wait_shape),
    ROUTE(HTTP_GET, "/sandbox/{id}/processes/{pid}/logs", handle_process_logs, SANDBOX | SSE,
          .query = {QUERY("stream", "stdout, stderr or both"),
                    QUERY("offset", "Where to begin: a byte's number; STDOUT.STDERR of both"),
                    FOLLOW_QUERY},
          .name = "getLogs",
          .summary =
              "What it wrote: bytes, or pieces with Accept: application/json or text/event-stream",
          .status = 200, .answer = "Bytes from X-Cay-Offset on, without the hole X-Cay-Gap",
          .type = "application/octet-stream"),
    ROUTE(HTTP_GET, "/sandbox/{id}/terminal", handle_terminal, SANDBOX,
          .query = {QUERY("session", "Its name; \"default\" if not given"),
                    QUERY("cols", "Columns; 80 if not given"), QUERY("rows", "24 if not given"),
                    QUERY("readonly", "1: only looks on"),
                    QUERY("replay", "At most so many of the last bytes come first; 65536"),
                    QUERY("offset", "Begin at this byte of what was ever written instead"),
                    QUERY("resume", "The process of a terminal, also one that has ended"),
                    QUERY("shell", "Of a new one: a program's name or path; bash, else sh"),
                    QUERY("command", "Of a new one: a command line for the shell"),
                    QUERY("cwd", "Of a new one: an absolute path"),
                    QUERY("user", "Of a new one: root, user, a user id, or uid:gid")},
          .name = "openTerminal",
          .summary = "A WebSocket: a shell on a terminal, made when it is first asked for",
          .status = 101, .answer = "Bytes of the terminal in binary messages, JSON in text"),
    ROUTE(HTTP_GET, "/sandbox/{id}/terminals", handle_terminal_list, SANDBOX,
          .name = "listTerminals", .summary = "Those that run; never wakes", .status = 200,
          .answer = "The terminals", .shape = &terminals_shape),
    ROUTE(HTTP_DELETE, "/sandbox/{id}/terminals/{tid}", handle_terminal_delete, SANDBOX,
          .name = "deleteTerminal", .summary = "End it and all that runs in it", .status = 200,
          .answer = "It is being ended", .shape = &done_shape),
    ROUTE(HTTP_GET, "/sandbox/{id}/files", handle_file_get, SANDBOX, .query = {LIST_QUERIES},
          .name = "listRoot", .summary = "With ?list: what is in '/'", .status = 200,
          .answer = "A page of entries", .shape = &listing_shape),
    ROUTE(HTTP_GET, "/sandbox/{id}/files/{path*}", handle_file_get, SANDBOX,
          .query = {LIST_QUERIES}, .name = "readFile",
          .summary = "The bytes of a file (Range, If-Match, If-None-Match, If-Range); with ?list "
                     "what is in a directory, with ?stat what the path is",
          .status = 200, .answer = "Its bytes (206: a part); with ?list and ?stat JSON",
          .type = BYTES),
    ROUTE(HTTP_PUT, "/sandbox/{id}/files/{path*}", handle_file_put, SANDBOX | ROUTE_STREAM_BODY,
          .query = {QUERY("mode", "Octal, at most 0777; that of the file there was, or 0644"),
                    QUERY("parents", "0: directories above it must be there")},
          .name = "writeFile",
          .summary = "Give a file new content, all at once (If-Match, If-None-Match: *)",
          .status = 201, .answer = "It is new (200: it was replaced)", .shape = &put_file_shape),
    ROUTE(HTTP_DELETE, "/sandbox/{id}/files/{path*}", handle_file_remove, SANDBOX,
          .query = {QUERY("recursive", "1: a directory with all that is in it")},
          .name = "removeFile", .summary = "Delete a file, a link, or an empty directory",
          .status = 200, .answer = "It is gone", .shape = &file_op_shape),
    ROUTE(HTTP_POST, "/sandbox/{id}/files:mkdir", handle_file_mkdir, SANDBOX, &file_mkdir_schema,
          .name = "makeDirectory", .summary = "Make a directory", .status = 200,
          .answer = "It is there", .shape = &file_op_shape),
    ROUTE(HTTP_POST, "/sandbox/{id}/files:move", handle_file_move, SANDBOX, &file_move_schema,
          .name = "moveFile", .summary = "Give a file or directory another path", .status = 200,
          .answer = "It was moved", .shape = &file_op_shape),
    ROUTE(HTTP_POST, "/sandbox/{id}/files:copy", handle_file_copy, SANDBOX, &file_move_schema,
          .name = "copyFile", .summary = "Copy a file, or a directory with all in it",
          .status = 200, .answer = "It was copied", .shape = &file_op_shape),
    ROUTE(HTTP_POST, "/sandbox/{id}/files:chmod", handle_file_chmod, SANDBOX, &file_chmod_schema,
          .name = "changeMode", .summary = "Change who may do what with a file", .status = 200,
          .answer = "It was changed", .shape = &file_op_shape),
    ROUTE(HTTP_POST, "/sandbox/{id}/files:chown", handle_file_chown, SANDBOX, &file_chown_schema,
          .name = "changeOwner", .summary = "Change whose a file is", .status = 200,
          .answer = "It was changed", .shape = &file_op_shape),
    ROUTE(HTTP_POST, "/sandbox/{id}/files:delete", handle_file_delete, SANDBOX, &file_delete_schema,
          .name = "deleteFile", .summary = "Delete a file, a link, or a directory", .status = 200,
          .answer = "It is gone", .shape = &file_op_shape),
    ROUTE(HTTP_POST, "/sandbox/{id}/files:batch", handle_file_batch, SANDBOX, &file_batch_schema,
          .name = "batchFiles", .summary = "Many operations, one after the other", .status = 200,
          .answer = "A result for each that was begun", .shape = &batch_shape),
    ROUTE(HTTP_POST, "/sandbox/{id}/files:search", handle_file_search, SANDBOX, &file_search_schema,
          .name = "searchFiles", .summary = "Look for names and texts", .status = 200,
          .answer = "What was found", .shape = &matches_shape),
    ROUTE(HTTP_POST, "/sandbox/{id}/files:replace", handle_file_replace, SANDBOX,
          &file_replace_schema, .name = "replaceInFiles",
          .summary = "Put a text in the place of another, in all files of a tree", .status = 200,
          .answer = "The files that were changed", .shape = &replaced_shape),
    ROUTE(HTTP_GET, "/sandbox/{id}/archive", handle_archive_get, SANDBOX,
          .query = {QUERY("path", "A directory, or a file")}, .name = "getArchive",
          .summary = "A tree as a tar archive", .status = 200, .answer = "The archive",
          .type = "application/x-tar"),
    ROUTE(HTTP_PUT, "/sandbox/{id}/archive", handle_archive_put, SANDBOX | ROUTE_STREAM_BODY,
          .query = {QUERY("path", "The directory to unpack it into"),
                    QUERY("owner", "1: owners as the archive has them; else root's")},
          .name = "putArchive", .summary = "Unpack a tar archive", .status = 200,
          .answer = "It was unpacked", .shape = &unpacked_shape),
    ROUTE(HTTP_GET, "/sandbox/{id}/watch", handle_watch, SANDBOX,
          .query = {QUERY("path", "A directory, or a file"),
                    QUERY("recursive", "0: not what is in its directories"),
                    QUERY("include", "Only names that fit one of these, by commas: * ? [a-z]"),
                    QUERY("exclude", "No names that fit one of these")},
          .name = "watchFiles", .summary = "Changes of files, as server-sent events", .status = 200,
          .answer = "Events", .type = "text/event-stream"),
    ROUTE(HTTP_POST, "/sandbox/{id}/git/checkout", handle_git_checkout, SANDBOX | IDEMPOTENT,
          &git_checkout_schema, .name = "gitCheckout", .summary = "Clone a repository into it",
          .status = 200, .answer = "What was cloned, and where", .shape = &git_clone_shape),
    ROUTE(HTTP_GET, "/sandbox/{id}/git/status", handle_git_status, SANDBOX,
          .query = {QUERY("path", "The repository's directory; /workspace if not given")},
          .name = "gitStatus", .summary = "Branch and changed files of a repository in it",
          .status = 200, .answer = "What is changed", .shape = &git_status_shape),
    ROUTE(HTTP_GET, "/sandbox/{id}/git/diff", handle_git_diff, SANDBOX,
          .query = {QUERY("path", "The repository's directory; /workspace if not given")},
          .name = "gitDiff", .summary = "All that is not committed, new files too, as a patch",
          .status = 200, .answer = "The patch and its files", .shape = &git_diff_shape),
    ROUTE(HTTP_POST, "/sandbox/{id}/git/commit", handle_git_commit, SANDBOX | IDEMPOTENT,
          &git_commit_schema, .name = "gitCommit", .summary = "Commit what is changed",
          .status = 200, .answer = "The commit", .shape = &git_commit_shape),
    ROUTE(HTTP_POST, "/sandbox/{id}/ports", handle_port_open, SANDBOX, &port_schema,
          .name = "openPort",
          .summary = "Let others reach a port, by an address of its own; the same one is found",
          .status = 201, .answer = "It is open (200: it was)", .shape = &port_shape),
    ROUTE(HTTP_GET, "/sandbox/{id}/ports", handle_port_list, SANDBOX, .name = "listPorts",
          .summary = "The ports that others may reach", .status = 200, .answer = "The ports",
          .shape = &ports_shape),
    ROUTE(HTTP_DELETE, "/sandbox/{id}/ports/{port}", handle_port_close, SANDBOX,
          .name = "closePort", .summary = "Close its address and end the connections that use it",
          .status = 200, .answer = "It is closed", .shape = &done_shape),
    ROUTE(HTTP_POST, "/sandbox/{id}/snapshots", handle_snapshot_make, SANDBOX | IDEMPOTENT,
          &snapshot_schema, .name = "makeSnapshot",
          .summary = "Remember its files, environment and sessions as they are now", .status = 201,
          .answer = "The snapshot", .shape = &snapshot_shape),
    ROUTE(HTTP_GET, "/sandbox/{id}/snapshots", handle_snapshot_list, SANDBOX,
          .name = "listSnapshots", .summary = "Its snapshots, oldest first", .status = 200,
          .answer = "The snapshots", .shape = &snapshots_shape),
    ROUTE(HTTP_DELETE, "/sandbox/{id}/snapshots/{sid}", handle_snapshot_delete, SANDBOX,
          .name = "deleteSnapshot", .summary = "Forget a snapshot", .status = 200,
          .answer = "It is gone", .shape = &done_shape),
    ROUTE(HTTP_POST, "/sandbox/{id}/rollback", handle_rollback, SANDBOX | IDEMPOTENT,
          &rollback_schema, .name = "rollback",
          .summary = "Go back to a snapshot: what runs ends, the next use starts from it",
          .status = 200, .answer = "It has gone back", .shape = &rollback_shape),
    ROUTE(HTTP_POST, "/sandbox/{id}/fork", handle_fork, SANDBOX | IDEMPOTENT, &fork_schema,
          .name = "fork",
          .summary = "New sandboxes with its files, environment and sessions, not its memory",
          .status = 201, .answer = "The children, asleep", .shape = &forks_shape),
    ROUTE(HTTP_POST, "/sandbox/{id}/sync", handle_sync, SANDBOX | SSE, &sync_schema, .name = "sync",
          .summary = "Store what has changed in /workspace; how far it is with Accept: "
                     "text/event-stream. Never wakes",
          .status = 200, .answer = "What is stored now, and what was put and deleted",
          .shape = &sync_shape),
    ROUTE(HTTP_GET, "/sandbox/{id}/sync", handle_sync_get, 0, .name = "getSync",
          .summary = "How the last one went; also of a sandbox that is gone", .status = 200,
          .answer = "The state", .shape = &sync_state_shape),
    ROUTE(HTTP_GET, "/sandbox/{id}/stored", handle_stored_list, 0,
          .query = {QUERY("prefix", "Only paths that begin so"),
                    QUERY("after", "The `next` of the page before"), LIMIT_QUERY},
          .name = "listStored",
          .summary = "The stored files of a workspace; never wakes, also of a sandbox that is gone",
          .status = 200, .answer = "A page of them, by path", .shape = &stored_list_shape),
    ROUTE(HTTP_GET, "/sandbox/{id}/stored/{path*}", handle_stored_get, 0, .name = "getStored",
          .summary = "A stored file, or a part of it (Range)", .status = 200, .answer = "Its bytes",
          .type = BYTES),
    ROUTE(HTTP_PUT, "/sandbox/{id}/stored/{path*}", handle_stored_put, ROUTE_STREAM_BODY,
          .name = "putStored", .summary = "Store a file past the sandbox", .status = 200,
          .answer = "It is stored", .shape = &stored_put_shape),
    ROUTE(HTTP_DELETE, "/sandbox/{id}/stored/{path*}", handle_stored_delete, 0,
          .name = "deleteStored", .summary = "Remove a stored file", .status = 200,
          .answer = "It is gone", .shape = &done_shape),
    ROUTE(HTTP_POST, "/sandbox/{id}/backups", handle_backup_make, SANDBOX | IDEMPOTENT,
          &backup_schema, .name = "makeBackup",
          .summary = "Put a directory, or its whole disk, into the store as one archive",
          .status = 201, .answer = "The backup", .shape = &backup_shape),
    ROUTE(HTTP_GET, "/sandbox/{id}/backups", handle_backup_list, SANDBOX,
          .query = {LIMIT_QUERY, QUERY("before", "The `next` of the page before")},
          .name = "listBackups", .summary = "Its backups, newest first", .status = 200,
          .answer = "A page of the list", .shape = &backups_shape),
    ROUTE(HTTP_GET, "/sandbox/{id}/backups/{bid}", handle_backup_get, SANDBOX, .name = "getBackup",
          .summary = "One of its backups", .status = 200, .answer = "The backup",
          .shape = &backup_shape),
    ROUTE(HTTP_DELETE, "/sandbox/{id}/backups/{bid}", handle_backup_delete, SANDBOX,
          .name = "deleteBackup", .summary = "Delete a backup", .status = 200,
          .answer = "It is gone", .shape = &done_shape),
    ROUTE(HTTP_GET, "/backups", handle_backup_list_all, 0,
          .query = {LIMIT_QUERY, QUERY("before", "The `next` of the page before"),
                    QUERY("sandbox", "Of this id alone, whether there is such a sandbox or not")},
          .name = "listAllBackups",
          .summary = "The tenant's backups, also of sandboxes that are gone, newest first",
          .status = 200, .answer = "A page of the list", .shape = &backups_shape),
    ROUTE(HTTP_GET, "/backups/{bid}", handle_backup_get_any, 0, .name = "getAnyBackup",
          .summary = "One of the tenant's backups", .status = 200, .answer = "The backup",
          .shape = &backup_shape),
    ROUTE(HTTP_DELETE, "/backups/{bid}", handle_backup_delete_any, 0, .name = "deleteAnyBackup",
          .summary = "Delete one of the tenant's backups", .status = 200, .answer = "It is gone",
          .shape = &done_shape),
    ROUTE(HTTP_POST, "/sandbox/{id}/restore", handle_restore, SANDBOX | IDEMPOTENT, &restore_schema,
          .name = "restore",
          .summary = "Go back to a backup, all of it or nothing: what runs ends, the next use "
                     "starts from it",
          .status = 200, .answer = "It is restored", .shape = &restored_shape),
    ROUTE(HTTP_POST, "/sandbox/{id}/archive", handle_archive_disk, SANDBOX, .name = "archive",
          .summary = "Put it to sleep and its disk into the store alone; what wakes it brings it "
                     "back",
          .status = 200, .answer = "It is archived", .shape = &archived_shape),
    ROUTE(
        HTTP_GET, "/sandbox/{id}/export", handle_export, SANDBOX,
        .query = {QUERY("dir", "A directory, absolute; the whole disk if not given"),
                  QUERY("exclude", "What of it is left out: patterns as in .gitignore, by commas"),
                  QUERY("gitignore", "1: also what .gitignore files in it name")},
        .name = "export", .summary = "Its files as a .tar.zst with all metadata, without waking it",
        .status = 200, .answer = "The archive", .type = "application/zstd"),
    ROUTE(HTTP_POST, "/sandbox/{id}/import", handle_import, SANDBOX | ROUTE_STREAM_BODY,
          .query = {QUERY("dir", "The directory that it becomes; the whole disk if not given"),
                    QUERY("sha256", "What the body must have, in hexadecimal digits")},
          .name = "import",
          .summary = "An archive becomes a directory or its disk, all of it or nothing",
          .status = 200, .answer = "It is in place", .shape = &done_shape),
    ROUTE(HTTP_POST, "/sandbox/{id}/container-url", handle_url_make, SANDBOX, &url_schema,
          .name = "makeContainerUrl",
          .summary = "A base URL for clients of the container protocol that cannot send a header: "
                     "it has the permission for this one sandbox within",
          .status = 201, .answer = "The URL, told this once", .shape = &url_shape),
    ROUTE(HTTP_GET, "/sandbox/{id}/container-urls", handle_url_list, SANDBOX,
          .name = "listContainerUrls", .summary = "Those that there are, without the URLs",
          .status = 200, .answer = "The list, oldest first", .shape = &urls_shape),
    ROUTE(HTTP_DELETE, "/sandbox/{id}/container-urls/{url}", handle_url_revoke, SANDBOX,
          .name = "revokeContainerUrl", .summary = "Revoke one and end its streams", .status = 200,
          .answer = "It is gone", .shape = &done_shape),
    PREVIEW(HTTP_GET, "preview"),
    PREVIEW(HTTP_POST, "previewPost"),
    PREVIEW(HTTP_PUT, "previewPut"),
    PREVIEW(HTTP_PATCH, "previewPatch"),
    PREVIEW(HTTP_DELETE, "previewDelete"),
    ROUTE(HTTP_POST, "/sandbox/{id}/message", handle_message, SANDBOX | IDEMPOTENT, &message_schema,
          .name = "sendMessage",
          .summary = "Say something to OpenCode in it, and wait for its work", .status = 200,
          .answer = "What it says, and the parts of that", .shape = &message_shape),
    OPENCODE(HTTP_GET, "opencode"),
    OPENCODE(HTTP_POST, "opencodePost"),
    OPENCODE(HTTP_PUT, "opencodePut"),
    OPENCODE(HTTP_PATCH, "opencodePatch"),
    OPENCODE(HTTP_DELETE, "opencodeDelete"),
    ROUTE(HTTP_PUT, "/secrets/{name}", handle_secret_put, 0, &secret_schema, .name = "putSecret",
          .summary = "Store a credential for an upstream, or replace it; used at once",
          .status = 201, .answer = "It is new (200: it was replaced); never its value",
          .shape = &secret_shape),
    ROUTE(HTTP_GET, "/secrets", handle_secret_list, 0, .name = "listSecrets",
          .summary = "The tenant's secrets, without their values", .status = 200,
          .answer = "The secrets", .shape = &secrets_shape),
    ROUTE(HTTP_GET, "/secrets/{name}", handle_secret_get, 0, .name = "getSecret",
          .summary = "One secret, without its value", .status = 200, .answer = "The secret",
          .shape = &secret_shape),
    ROUTE(HTTP_DELETE, "/secrets/{name}", handle_secret_delete, 0, .name = "deleteSecret",
          .summary = "Forget it; sandboxes that name it cannot use it any more", .status = 200,
          .answer = "It is gone", .shape = &done_shape),
    ROUTE(HTTP_POST, "/tokens", handle_token_create, ROUTE_ADMIN, &token_schema,
          .name = "createToken", .summary = "Make a token", .status = 201,
          .answer = "The token, told this once", .shape = &token_shape),
    ROUTE(HTTP_GET, "/tokens", handle_token_list, ROUTE_ADMIN, .name = "listTokens",
          .summary = "All tokens, without their texts", .status = 200, .answer = "The tokens",
          .shape = &tokens_shape),
    ROUTE(HTTP_DELETE, "/tokens/{tid}", handle_token_revoke, ROUTE_ADMIN, .name = "revokeToken",
          .summary = "Revoke a token and end its streams", .status = 200, .answer = "It is gone",
          .shape = &done_shape),
    ROUTE(HTTP_PUT, "/tenants/{name}", handle_tenant_put, ROUTE_ADMIN, &tenant_schema,
          .name = "putTenant", .summary = "Make a tenant or change its quotas", .status = 200,
          .answer = "The tenant", .shape = &tenant_shape),
    ROUTE(HTTP_GET, "/tenants/{name}", handle_tenant_get, ROUTE_ADMIN, .name = "getTenant",
          .summary = "A tenant's quotas", .status = 200, .answer = "The tenant",
          .shape = &tenant_shape),
};

const size_t n_routes = sizeof routes / sizeof *routes;
