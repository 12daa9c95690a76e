// SPDX-License-Identifier: Apache-2.0
// Backups as rows, and what is to go from the store with them.
#include "db_kit.h"

static char made_kind[] = "disk", made_image[] = "host", made_of[] = "a";

static struct backup_row made(int64_t tenant, char *id)
{
    return (struct backup_row){
        .tenant = tenant,
        .id = id,
        .sandbox = made_of,
        .number = 7,
        .kind = made_kind,
        .image = made_image,
        .state = BACKUP_MAKING,
        .run = 7,
        .created_ms = 1,
    };
}

static void add(int64_t tenant, char *id)
{
    struct backup_row row = made(tenant, id);
    MUST(db_backup_add(kit_db, &row, &err));
}

static int see_backup(void *data, const struct backup_row *row)
{
    char *list = data;
    size_t len = strlen(list);
    (void)snprintf(list + len, 64 - len, "%s ", row->id);
    return 0;
}

#define LIST_IS(query_, want)                                                                      \
    do {                                                                                           \
        char list_[64] = "";                                                                       \
        const struct backup_query q_ = query_;                                                     \
        MUST(db_backup_each(kit_db, &q_, see_backup, list_, &err));                                \
        assert_string_equal(list_, want);                                                          \
    } while (0)
#define QUERY(...)                                                                                 \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

CHECK_CASE(backups)
{
    char one[] = "bak-1", name[] = "n", dir[] = "/workspace", tree[] = "tree";
    struct backup_row row = made(1, one), got = {0};
    row.name = name;
    row.dir = dir;
    row.kind = tree;
    row.expires_ms = 100;
    MUST(db_backup_add(kit_db, &row, &err));
    MUST_FAIL(db_backup_add(kit_db, &row, &err), ERR_CONFLICT);
    row.size = 10;
    row.raw = 20;
    row.entries = 3;
    memset(row.sha256, 0xab, sizeof row.sha256);
    MUST(db_backup_ready(kit_db, &row, &err));
    kit_reopen();
    MUST_BE(db_backup_get(kit_db, 1, one, &got, &err), 1);
    assert_int_equal(got.state, BACKUP_READY);
    assert_int_equal(got.size, 10);
    assert_int_equal(got.raw, 20);
    assert_int_equal(got.entries, 3);
    assert_int_equal(got.expires_ms, 100);
    assert_memory_equal(got.sha256, row.sha256, sizeof row.sha256);
    assert_string_equal(got.dir, "/workspace");
    assert_int_equal(got.number, 7);
    assert_string_equal(got.name, "n");
    backup_row_done(&got);
    MUST_BE(db_backup_get(kit_db, 2, one, &got, &err), 0); // another tenant's
    MUST_BE(db_backup_del(kit_db, 2, one, &err), 0);
    MUST_BE(db_backup_del(kit_db, 1, one, &err), 1);
    MUST_BE(db_backup_del(kit_db, 1, one, &err), 0);
    MUST_FAIL(db_backup_ready(kit_db, &row, &err), ERR_NOT_FOUND);
    row.tenant = 99;
    MUST_FAIL(db_backup_add(kit_db, &row, &err), ERR_NOT_FOUND);
}

CHECK_CASE(lists)
{
    char a[] = "bak-a", b[] = "bak-b", c[] = "bak-c", d[] = "bak-d", elsewhere[] = "b";
    int64_t tenant = kit_tenant("other");
    add(1, a);
    struct backup_row row = made(1, b);
    row.expires_ms = 50;
    row.run = 8;
    row.sandbox = elsewhere;
    MUST(db_backup_add(kit_db, &row, &err));
    add(1, c);
    add(tenant, d);
    MUST(db_backup_ready(kit_db, &(struct backup_row){.tenant = 1, .id = c}, &err));
    LIST_IS(QUERY(.tenant = 1), "bak-c bak-b bak-a ");
    LIST_IS(QUERY(0), "bak-d bak-c bak-b bak-a ");
    LIST_IS(QUERY(.tenant = 1, .sandbox = "a"), "bak-c bak-a ");
    LIST_IS(QUERY(.tenant = 1, .before = "bak-c", .max = 1), "bak-b ");
    LIST_IS(QUERY(.tenant = 1, .sandbox = "a", .before = "bak-c"), "bak-a ");
    LIST_IS(QUERY(.tenant = 1, .before = "gone"), "");
    LIST_IS(QUERY(.expired_ms = 49), "");
    LIST_IS(QUERY(.expired_ms = 50), "bak-b ");
    LIST_IS(QUERY(.not_run = 7), "bak-b ");       // of another daemon
    LIST_IS(QUERY(.not_run = 8), "bak-d bak-a "); // those that are ready are nobody's
}

static char *doomed_key(int64_t *after)
{
    static char key[128];
    struct doomed_row row = {0};
    struct err err = {0};
    int r = db_doomed_next(kit_db, *after, &row, &err);
    assert_true(r >= 0);
    (void)snprintf(key, sizeof key, "%s", r > 0 ? row.key : "");
    *after = row.seq;
    doomed_row_done(&row);
    return key;
}

CHECK_CASE(doomed)
{
    char a[] = "bak-a", b[] = "bak-b";
    int64_t at = 0, first, tenant = kit_tenant("other");
    add(1, a);
    add(tenant, b);
    MUST(db_doomed_add(kit_db, "admin/x", &err));
    MUST_BE(db_backup_del(kit_db, tenant, b, &err), 1);
    kit_reopen();
    assert_string_equal(doomed_key(&at), "admin/x");
    first = at;
    assert_string_equal(doomed_key(&at), "other/backups/bak-b/");
    assert_string_equal(doomed_key(&at), "");
    MUST(db_doomed_del(kit_db, first, &err));
    at = 0;
    assert_string_equal(doomed_key(&at), "other/backups/bak-b/");
}

CHECK_CASE(archives)
{
    char a[] = "bak-a", b[] = "bak-b", archive[] = "archive";
    int64_t at = 0, sandbox = kit_sandbox("a");
    struct sandbox_row row = {0};
    struct backup_row first = made(1, a), second = made(1, b);
    first.kind = second.kind = archive;
    MUST(db_backup_add(kit_db, &first, &err));
    MUST(db_backup_add(kit_db, &second, &err));
    first.size = 5;
    MUST(db_backup_ready(kit_db, &first, &err));
    MUST_BE(db_sandbox_get(kit_db, 1, "a", &row, &err), 1);
    row.archive = strdup(a);
    MUST(db_sandbox_update(kit_db, &row, &err));
    sandbox_row_done(&row);
    LIST_IS(QUERY(.orphans = true), "bak-b "); // that no sandbox is in
    struct stored_sums sums;
    MUST(db_stored_sums(kit_db, 0, &sums, &err));
    assert_int_equal(sums.archives, 5);
    assert_int_equal(sums.backups, 0);
    // The only copy of a disk goes with its sandbox.
    MUST(db_sandbox_del(kit_db, sandbox, &err));
    LIST_IS(QUERY(.tenant = 1), "bak-b ");
    assert_string_equal(doomed_key(&at), "admin/backups/bak-a/");
}

CHECK_MAIN(KIT_CASE(backups), KIT_CASE(lists), KIT_CASE(doomed), KIT_CASE(archives))
