// SPDX-License-Identifier: Apache-2.0
// A sync on its thread: what cay-pack finds changed goes to the store as it comes. Deleting waits
// until all of it is there and cay-pack has said that it saw everything; the index comes last.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/fd.h"
#include "base/mem.h"
#include "saved/crew-internal.h"
#include "saved/sync-internal.h"
#include "saved/sync-records.h"
#include "store/sha256.h"

// -- before: the index of the last time

static int give_text(struct sync_job *job, const char *text, size_t len, struct err *err)
{
    job->in = memfd_create("index", MFD_CLOEXEC);
    if (job->in < 0)
        return err_sys(err, errno, "make a file in memory");
    int r = fd_write_all(job->in, text, len);
    if (r < 0)
        return err_sys(err, -r, "write a file in memory");
    return lseek(job->in, 0, SEEK_SET) == 0 ? 0 : err_sys(err, errno, "go back in a file");
}

// After a sync that was cut off the objects may be newer than the index: then it says which there
// were, but not what is in them, and all that is still there is put again.
static int give_index(struct sync_job *job, struct err *err)
{
    auto_buf names;
    buf_init(&names, 2 * SYNC_INDEX_MAX);
    if (!job->is_marked)
        return give_text(job, job->old, job->old_len, err);
    if (!index_distrust(job->old, job->old_len, &names))
        return err_set(err, ERR_EXHAUSTED, "too many files are stored");
    return give_text(job, names.data, names.len, err);
}

// What a sync goes by, in one number: the disk as it was, the options, the index. Where it is the
// same again, so would the result be. "": nobody can tell.
static void see(struct sync_job *job, const char *index, size_t len, char ret[static 65])
{
    auto_sha256 sha = {0};
    uint8_t sum[STORE_SHA256];
    ret[0] = '\0';
    if (job->version.change == 0 || !sha256_init(&sha))
        return;
    sha256_add(&sha, &job->version, sizeof job->version);
    sha256_add(&sha, job->row.options, strlen(job->row.options) + 1);
    sha256_add(&sha, index, len);
    sha256_end(&sha, sum);
    sha256_hex(sum, ret);
}

static bool is_same(struct sync_job *job)
{
    struct err ignored;
    if (job->last_seen == NULL || job->old_damaged || job->is_marked)
        return false;
    see(job, job->old, job->old_len, job->seen_text);
    return strcmp(job->seen_text, job->last_seen) == 0 &&
           index_check(job->old, job->old_len, &job->sums, &ignored) == 0;
}

static int see_any(void *data, const struct store_listed *object)
{
    (void)object;
    *(bool *)data = true;
    return 1;
}

// Whether one before this was cut off.
static int find_marker(struct sync_job *job, struct err *err)
{
    struct store_info info;
    int found = store_head(job->store, job->place->marker, &info, err);
    if (found < 0)
        saved_blame_store(err);
    job->is_marked = found > 0;
    return found < 0 ? -1 : 0;
}

static int prepare(struct sync_job *job, struct err *err)
{
    struct place *place = job->place;
    (void)pthread_mutex_lock(&place->lock);
    place_set_job(place, true);
    int r = place_read_index(place, &job->old, &job->old_len, &job->old_damaged, err);
    (void)pthread_mutex_unlock(&place->lock);
    if (r < 0 || find_marker(job, err) < 0)
        return -1;
    job->is_same = is_same(job);
    if (job->is_same)
        return 0;
    if (give_index(job, err) < 0)
        return -1;
    job->is_far = strcmp(store_kind(job->store), "local") != 0;
    if (job->is_far)
        return 0;
    int seen = store_list(job->store, place->prefix, NULL, 1, see_any, &job->may_collide, err);
    if (seen < 0)
        saved_blame_store(err);
    return seen;
}

void sync_run_prepare(void *data)
{
    struct sync_job *job = data;
    if (prepare(job, &job->err) == 0)
        job->err = (struct err){0};
}

// -- putting

// What the store answered, with an err that says whose fault it is.
static int blame(int r, struct err *err)
{
    if (r < 0)
        saved_blame_store(err);
    return r;
}

// From here on the objects may be newer than the index.
static int mark(struct sync_job *job, struct err *err)
{
    if (job->is_marked)
        return 0;
    if (blame(store_put_bytes(job->store, job->place->marker, "", 0, err), err) < 0)
        return -1;
    job->is_marked = true;
    return 0;
}

// Where files of the store are files on a disk, what was a directory and is a file now (or the
// reverse) has to make way first. Nothing else is deleted before all is put.
static int make_way(struct sync_job *job, char *key, struct err *err)
{
    char below[STORE_KEY_MAX + 2];
    size_t len = strlen(key);
    for (char *at = strchr(key + strlen(job->place->prefix), '/'); at != NULL;
         at = strchr(at + 1, '/')) {
        *at = '\0';
        int r = store_delete(job->store, key, err);
        *at = '/';
        if (r < 0 && err->code != ERR_CONFLICT && err->code != ERR_NOT_FOUND)
            return blame(-1, err);
    }
    if (len + 2 > STORE_KEY_MAX)
        return 0; // no key is longer: there is nothing below it
    memcpy(below, key, len);
    memcpy(below + len, "/", 2);
    bool any = false;
    if (store_list(job->store, below, NULL, 1, see_any, &any, err) < 0)
        return blame(-1, err);
    return any ? blame(store_delete_all(job->store, below, err), err) : 0;
}

// Small ones that go to a store far away are read, and put while others are. They are on their way
// until they were taken back.
struct parcel {
    struct sync_job *job;
    char key[STORE_KEY_MAX + 1];
    uint8_t sha256[STORE_SHA256];
    char *bytes;
    size_t len, at;
    struct err err;
};

static ssize_t read_parcel(void *data, void *buf, size_t size, struct err *err)
{
    struct parcel *p = data;
    size_t n = p->len - p->at < size ? p->len - p->at : size;
    (void)err;
    memcpy(buf, p->bytes + p->at, n);
    p->at += n;
    return (ssize_t)n;
}

static void put_parcel(void *data)
{
    struct parcel *p = data;
    const struct store_put put = {
        .key = p->key,
        .read = read_parcel,
        .data = p,
        .size = (int64_t)p->len,
        .sha256 = p->sha256,
        .stop = &p->job->stop,
    };
    struct err err = {0};
    if (blame(store_put(p->job->store, &put, NULL, &err), &err) < 0)
        p->err = err;
}

// 1: the oldest is there, 0: none is on its way.
static int take_parcel(struct sync_job *job, struct err *err)
{
    struct parcel *p = crew_take(job->crew);
    if (p == NULL)
        return 0;
    int r = p->err.code == ERR_NONE ? 1 : -1;
    if (r < 0)
        *err = p->err;
    atomic_fetch_add(&job->put, r > 0);
    atomic_fetch_add(&job->put_bytes, r > 0 ? p->len : 0);
    free(p->bytes);
    free(p);
    return r;
}

// All that are on their way; the first failure counts.
static int take_parcels(struct sync_job *job, struct err *err)
{
    struct err other;
    int failed = 0, r;
    while (job->crew != NULL && (r = take_parcel(job, failed < 0 ? &other : err)) != 0)
        failed = r < 0 ? -1 : failed;
    return failed;
}

static int give_parcel(struct sync_job *job, struct records *records, const struct record *record,
                       const char *key, struct err *err)
{
    if (job->crew == NULL)
        job->crew = crew_new(put_parcel);
    if (crew_is_full(job->crew) && take_parcel(job, err) < 0)
        return -1;
    struct parcel *p = calloc(1, sizeof *p);
    if (p == NULL)
        abort();
    if (records_read_all(records, &p->bytes, &p->len, err) < 0) {
        free(p);
        return -1;
    }
    p->job = job;
    memcpy(p->key, key, sizeof p->key);
    memcpy(p->sha256, record->head.sha256, sizeof p->sha256);
    crew_give(job->crew, p);
    return 0;
}

static int put_one(struct sync_job *job, struct records *records, const struct record *record,
                   struct err *err)
{
    char key[STORE_KEY_MAX + 1];
    const struct store_put put = {
        .key = key,
        .read = records_read,
        .data = records,
        .size = (int64_t)record->head.size,
        .sha256 = record->head.sha256,
        .stop = &job->stop,
    };
    if (atomic_load(&job->put_bytes) + record->head.size > job->bytes_max)
        return err_set(err, ERR_EXHAUSTED,
                       "its files are larger than its disk (are they sparse?): exclude some");
    if (place_key(job->place, record->path, key, err) < 0 || mark(job, err) < 0 ||
        (job->may_collide && make_way(job, key, err) < 0))
        return -1;
    if (job->is_far && record->head.size <= CREW_BYTES)
        return give_parcel(job, records, record, key, err);
    if (blame(store_put(job->store, &put, NULL, err), err) < 0)
        return -1;
    atomic_fetch_add(&job->put, 1);
    atomic_fetch_add(&job->put_bytes, record->head.size);
    return 0;
}

static int take_record(struct sync_job *job, struct records *records, const struct record *record,
                       struct err *err)
{
    switch ((enum pack_record_type)record->head.type) {
    case PACK_PUT:
        return put_one(job, records, record, err);
    case PACK_DELETE:
        if (buf_append(&job->deletes, record->path, record->head.path_len + 1) < 0)
            return err_set(err, ERR_EXHAUSTED, "too many files were removed at once");
        return 0;
    case PACK_PROGRESS:
        atomic_store(&job->seen, record->head.seen);
        atomic_store(&job->bytes, record->head.size);
        return 0;
    case PACK_INDEX:
        return records_read_all(records, &job->index, &job->index_len, err);
    case PACK_END:
    case PACK_RECORD_MAX:
        break;
    }
    return err_set(err, ERR_INTERNAL, "an unknown record");
}

// "ok ENTRIES BYTES skipped N\n": the end of it is of sync alone.
static size_t cut_skipped(char *verdict, size_t len, uint64_t *ret)
{
    static const char word[] = " skipped ";
    char *at = memmem(verdict, len, word, sizeof word - 1), *end;
    if (at == NULL || len < 3 || memcmp(verdict, "ok ", 3) != 0 || verdict[len - 1] != '\n')
        return len;
    *ret = strtoull(at + sizeof word - 1, &end, 10);
    if (end != verdict + len - 1)
        return len;
    *at = '\n';
    return (size_t)(at - verdict) + 1;
}

static int hear(struct sync_job *job, struct err *err)
{
    struct freight_result seen;
    char verdict[PACK_VERDICT_MAX];
    ssize_t n = records_read_text(job->verdict, &job->stop, verdict, sizeof verdict, err);
    if (n < 0)
        return -1;
    return freight_read_verdict(verdict, cut_skipped(verdict, (size_t)n, &job->skipped), &seen,
                                err);
}

static int take_all(struct sync_job *job, struct err *err)
{
    struct records records;
    auto_free struct record *record = malloc(sizeof *record);
    if (record == NULL)
        abort();
    records_init(&records, job->out, &job->stop);
    int r;
    while ((r = records_next(&records, record, err)) > 0) {
        if (take_record(job, &records, record, err) < 0)
            return -1;
    }
    if (take_parcels(job, err) < 0)
        return -1;
    // One that failed, and so ends anywhere, says why itself.
    if (r < 0 && err->sys_errno != EPROTO)
        return -1;
    struct err why = *err;
    if (hear(job, err) < 0)
        return -1;
    if (r < 0)
        *err = why;
    return r;
}

// -- deleting

// What somebody has written since is not the file that is gone. Whoever is about to write takes the
// lock first.
static int delete_untouched(struct sync_job *job, const char *path, const char *key,
                            struct err *err)
{
    struct place *place = job->place;
    (void)pthread_mutex_lock(&place->lock);
    int r = place_is_touched(place, path) ? 0 : store_delete(job->store, key, err);
    (void)pthread_mutex_unlock(&place->lock);
    return r;
}

static int delete_one(struct sync_job *job, const char *path, struct err *err)
{
    char key[STORE_KEY_MAX + 1];
    if (place_key(job->place, path, key, err) < 0 || mark(job, err) < 0)
        return -1;
    // Where something lies below it now it has made way already.
    int r = delete_untouched(job, path, key, err);
    if (r < 0 && err->code != ERR_CONFLICT && err->code != ERR_NOT_FOUND)
        return blame(-1, err);
    atomic_fetch_add(&job->deleted, r > 0);
    return 0;
}

// Only what the last index had: what else is stored was put there by others.
static int delete_all(struct sync_job *job, struct err *err)
{
    struct map gone = {0};
    struct index_reader reader;
    auto_free struct index_line *line = malloc(sizeof *line);
    if (line == NULL)
        abort();
    if (job->deletes.len == 0 || index_open(&reader, job->old, job->old_len) < 0)
        return 0;
    for (size_t at = 0; at < job->deletes.len; at += strlen(job->deletes.data + at) + 1)
        map_put(&gone, job->deletes.data + at, job);
    int r = 0;
    while (r == 0 && index_next(&reader, line) > 0) {
        if (atomic_load(&job->stop))
            r = err_set(err, ERR_UNAVAILABLE, "it was ended");
        else if (line->kind == 'f' && map_get(&gone, line->path) != NULL)
            r = delete_one(job, line->path, err);
    }
    map_done(&gone);
    return r;
}

// -- the index

static int write_index(struct sync_job *job, struct err *err)
{
    struct place *place = job->place;
    bool same = job->index_len == job->old_len && !job->old_damaged &&
                memcmp(job->index, job->old, job->old_len) == 0;
    auto_buf touched;
    buf_init(&touched, TOUCHED_MAX);
    place_list_touched(place, &touched);
    if (same && !job->is_marked && touched.len == 0)
        return 0;
    for (size_t at = 0; at < touched.len; at += strlen(touched.data + at) + 1)
        (void)index_drop(job->index, &job->index_len, touched.data + at);
    job->was_touched = touched.len > 0;
    if (store_sync(job->store, err) < 0 ||
        store_put_bytes(job->store, place->index, job->index, job->index_len, err) < 0 ||
        store_sync(job->store, err) < 0)
        return blame(-1, err);
    // One left over from a sync that was cut off goes, too: now all is as the index says.
    int r = store_delete(job->store, place->marker, err);
    return r < 0 && err->code != ERR_NOT_FOUND ? blame(-1, err) : 0;
}

static int check_index(struct sync_job *job, struct err *err)
{
    if (index_check(job->index, job->index_len, &job->sums, err) < 0)
        return -1;
    if (job->sums.bytes > job->bytes_max)
        return err_set(err, ERR_EXHAUSTED,
                       "its files are larger than its disk (are they sparse?): exclude some");
    return 0;
}

static int work(struct sync_job *job, struct err *err)
{
    struct place *place = job->place;
    if (take_all(job, err) < 0 || check_index(job, err) < 0 || delete_all(job, err) < 0)
        return -1;
    (void)pthread_mutex_lock(&place->lock);
    int r = write_index(job, err);
    (void)pthread_mutex_unlock(&place->lock);
    see(job, job->index, job->index_len, job->seen_text);
    // What is skipped is told of every time; what was touched is put by the next one.
    if (job->skipped > 0 || job->was_touched)
        job->seen_text[0] = '\0';
    return r;
}

void sync_run_work(void *data)
{
    struct sync_job *job = data;
    struct err ignored;
    if (work(job, &job->err) == 0)
        job->err = (struct err){0}; // of what was tried in vain and does not matter
    (void)take_parcels(job, &ignored);
    crew_free(job->crew);
    // Whoever still writes is to notice that nobody reads.
    fd_close(TAKE_FD(job->out));
    fd_close(TAKE_FD(job->verdict));
}
