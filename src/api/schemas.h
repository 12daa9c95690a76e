// SPDX-License-Identifier: Apache-2.0
// The bodies that routes take, each beside its handler.
#pragma once

#include "edge/body.h"

extern const struct schema create_schema, put_schema, patch_schema;
extern const struct schema exec_schema;
extern const struct schema execute_schema, sdk_schema;
extern const struct schema session_schema;
extern const struct schema context_schema, code_schema;
extern const struct schema process_schema, signal_schema, stdin_schema, wait_schema;
extern const struct schema git_checkout_schema, git_commit_schema;
extern const struct schema port_schema;
extern const struct schema url_schema;
extern const struct schema snapshot_schema, rollback_schema, fork_schema;
extern const struct schema sync_schema;
extern const struct schema backup_schema, restore_schema;
extern const struct schema message_schema;
extern const struct schema secret_schema;
extern const struct schema file_mkdir_schema, file_move_schema, file_chmod_schema;
extern const struct schema file_chown_schema, file_delete_schema, file_batch_schema;
extern const struct schema file_search_schema, file_replace_schema;
extern const struct schema token_schema, tenant_schema;
