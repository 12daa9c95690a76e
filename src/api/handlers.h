// SPDX-License-Identifier: Apache-2.0
// One function a route. Each answers its call exactly once, now or later.
#pragma once

#include <stdbool.h>

struct api;
struct call;
struct http_request;

bool health_quick(struct api *api, struct http_request *req); // answered, without a call
void handle_health(struct call *call);
void handle_index(struct call *call);
void handle_metrics(struct call *call);
void handle_server_stats(struct call *call);
void handle_openapi(struct call *call);

void handle_create(struct call *call);
void handle_put(struct call *call);
void handle_list(struct call *call);
void handle_get(struct call *call);
void handle_patch(struct call *call);
void handle_delete(struct call *call);
void handle_wake(struct call *call);
void handle_sleep(struct call *call);
void handle_stats(struct call *call);
void handle_events(struct call *call);

void handle_exec(struct call *call);

void handle_agent_list(struct call *call);
void handle_execute(struct call *call);
void handle_execute_sdk(struct call *call);

void handle_context_create(struct call *call);
void handle_context_list(struct call *call);
void handle_context_get(struct call *call);
void handle_context_delete(struct call *call);
void handle_context_interrupt(struct call *call);
void handle_context_restart(struct call *call);
void handle_code(struct call *call);
void handle_code_get(struct call *call);
void handle_code_cancel(struct call *call);

void handle_session_create(struct call *call);
void handle_session_list(struct call *call);
void handle_session_get(struct call *call);
void handle_session_delete(struct call *call);

void handle_process_start(struct call *call);
void handle_process_list(struct call *call);
void handle_process_get(struct call *call);
void handle_process_delete(struct call *call);
void handle_process_signal(struct call *call);
void handle_process_stdin(struct call *call);
void handle_process_wait(struct call *call);
void handle_process_logs(struct call *call);

void handle_terminal(struct call *call);
void handle_terminal_list(struct call *call);
void handle_terminal_delete(struct call *call);

void handle_file_get(struct call *call);
void handle_file_put(struct call *call);
void handle_file_remove(struct call *call);
void handle_file_mkdir(struct call *call);
void handle_file_move(struct call *call);
void handle_file_copy(struct call *call);
void handle_file_chmod(struct call *call);
void handle_file_chown(struct call *call);
void handle_file_delete(struct call *call);
void handle_file_batch(struct call *call);
void handle_file_search(struct call *call);
void handle_file_replace(struct call *call);
void handle_archive_get(struct call *call);
void handle_archive_put(struct call *call);
void handle_watch(struct call *call);

void handle_language_list(struct call *call);

void handle_git_checkout(struct call *call);
void handle_git_status(struct call *call);
void handle_git_diff(struct call *call);
void handle_git_commit(struct call *call);

void handle_message(struct call *call);

void handle_url_make(struct call *call);
void handle_url_list(struct call *call);
void handle_url_revoke(struct call *call);

void handle_port_open(struct call *call);
void handle_port_list(struct call *call);
void handle_port_close(struct call *call);
// "ports": [...] of the call's sandbox, into an open object.
struct json;
struct err;
int ports_show(struct call *call, struct json *json, struct err *err);

void handle_snapshot_make(struct call *call);
void handle_snapshot_list(struct call *call);
void handle_snapshot_delete(struct call *call);
void handle_rollback(struct call *call);
void handle_fork(struct call *call);

void handle_sync(struct call *call);
void handle_sync_get(struct call *call);
void handle_stored_list(struct call *call);
void handle_stored_get(struct call *call);
void handle_stored_put(struct call *call);
void handle_stored_delete(struct call *call);

void handle_backup_make(struct call *call);
void handle_backup_list(struct call *call);
void handle_backup_get(struct call *call);
void handle_backup_delete(struct call *call);
void handle_backup_list_all(struct call *call);
void handle_backup_get_any(struct call *call);
void handle_backup_delete_any(struct call *call);
void handle_restore(struct call *call);
void handle_archive_disk(struct call *call);
void handle_export(struct call *call);
void handle_import(struct call *call);

void handle_result_list(struct call *call);
void handle_result_get(struct call *call);
void handle_result_delete(struct call *call);
void handle_usage(struct call *call);
void handle_du(struct call *call);

void handle_secret_put(struct call *call);
void handle_secret_list(struct call *call);
void handle_secret_get(struct call *call);
void handle_secret_delete(struct call *call);

void handle_token_create(struct call *call);
void handle_token_list(struct call *call);
void handle_token_revoke(struct call *call);
void handle_tenant_put(struct call *call);
void handle_tenant_get(struct call *call);
