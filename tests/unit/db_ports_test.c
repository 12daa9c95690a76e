// SPDX-License-Identifier: Apache-2.0
// Ports of sandboxes as rows, and sandboxes found by their slugs and ids.
#include "db_kit.h"

static int see_port(void *data, const struct port_row *row)
{
    char *list = data;
    size_t len = strlen(list);
    (void)snprintf(list + len, 64 - len, "%lld:%s ", (long long)row->port, row->token);
    return 0;
}

CHECK_CASE(ports)
{
    int64_t sandbox = kit_sandbox("a"), other = kit_sandbox("b");
    char name[] = "web", first[] = "token001", second[] = "token002", list[64] = "";
    struct port_row row = {
        .sandbox = sandbox, .port = 65535, .name = name, .token = first, .created_ms = 7};
    struct port_row got = {0};
    MUST(db_port_put(kit_db, &row, &err));
    row.port = 1;
    MUST(db_port_put(kit_db, &row, &err));
    row.sandbox = other;
    MUST(db_port_put(kit_db, &row, &err));
    row = (struct port_row){.sandbox = sandbox, .port = 1, .token = second, .created_ms = 8};
    MUST(db_port_put(kit_db, &row, &err)); // keeps when it was made
    kit_reopen();
    MUST_BE(db_port_get(kit_db, sandbox, 1, &got, &err), 1);
    assert_string_equal(got.token, "token002");
    assert_null(got.name);
    assert_int_equal(got.created_ms, 7);
    port_row_done(&got);
    MUST_BE(db_port_get(kit_db, sandbox, 2, &got, &err), 0);
    MUST(db_port_each(kit_db, sandbox, see_port, list, &err));
    assert_string_equal(list, "1:token002 65535:token001 ");
    MUST_BE(db_port_del(kit_db, sandbox, 1, &err), 1);
    MUST_BE(db_port_del(kit_db, sandbox, 1, &err), 0);
    MUST_BE(db_port_get(kit_db, other, 1, &got, &err), 1);
    port_row_done(&got);
    // They go with their sandbox, and there are none without one.
    MUST(db_sandbox_del(kit_db, sandbox, &err));
    assert_string_equal(kit_ask("SELECT count(*) FROM ports"), "1");
    MUST_FAIL(db_port_put(kit_db, &row, &err), ERR_NOT_FOUND);
}

static int see_sandbox(void *data, const struct sandbox_row *row)
{
    char *list = data;
    size_t len = strlen(list);
    (void)snprintf(list + len, 64 - len, "%lld:%s ", (long long)row->tenant, row->slug);
    return 0;
}

CHECK_CASE(by_slug_and_id)
{
    int64_t tenant = kit_tenant("other");
    char id[] = "same", one[] = "slug-1", two[] = "slug-2", list[64] = "";
    struct sandbox_row row = kit_row(1, id, one), got = {0};
    MUST(db_sandbox_add(kit_db, &row, &err));
    row = kit_row(tenant, id, two);
    MUST(db_sandbox_add(kit_db, &row, &err));
    (void)kit_sandbox("another");
    MUST_BE(db_sandbox_by_slug(kit_db, "slug-2", &got, &err), 1);
    assert_int_equal(got.tenant, tenant);
    assert_string_equal(got.id, "same");
    sandbox_row_done(&got);
    MUST_BE(db_sandbox_by_slug(kit_db, "same", &got, &err), 0);
    MUST_BE(db_sandbox_by_slug(kit_db, "SLUG-2", &got, &err), 0);
    MUST(db_sandbox_each_by_id(kit_db, "same", see_sandbox, list, &err));
    char want[64];
    (void)snprintf(want, sizeof want, "1:slug-1 %lld:slug-2 ", (long long)tenant);
    assert_string_equal(list, want);
    list[0] = '\0';
    MUST(db_sandbox_each_by_id(kit_db, "none", see_sandbox, list, &err));
    assert_string_equal(list, "");
}

CHECK_MAIN(KIT_CASE(ports), KIT_CASE(by_slug_and_id))
