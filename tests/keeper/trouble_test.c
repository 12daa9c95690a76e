// SPDX-License-Identifier: Apache-2.0
// A keeper that is asked for nonsense, loses its spawner, or cannot start: clear answers, no hang,
// nothing left.
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

#include "base/fd.h"
#include "kit.h"

#define VOLUME (4ull << 30)

// --- nonsense in a field: refused, and the keeper serves on ---

static enum err_code send_claim_raw(const struct keeper_claim *msg)
{
    struct keeper_event ev;
    assert_int_equal(wire_send(kit_sock(), msg, sizeof *msg, NULL, 0, NULL, 0), 0);
    kit_expect(KEEPER_ERROR, &ev);
    assert_int_equal(ev.msg.head.id, msg->head.id);
    assert_true(memchr(ev.msg.error.msg, '\0', sizeof ev.msg.error.msg) != NULL);
    assert_true(ev.msg.error.msg[0] != '\0');
    return (enum err_code)ev.msg.error.code;
}

static struct keeper_claim good_claim(void)
{
    return (struct keeper_claim){
        .head = {.version = WIRE_VERSION, .type = KEEPER_CLAIM, .id = 31},
        .limits = limits_default(),
        .disk_kind = DISK_TMPFS,
        .image = "host",
    };
}

CHECK_CASE(fields_out_of_range)
{
    kit_start(&(struct keeper_config){.boxes = 2, .volume_bytes = VOLUME});
    static const uint64_t bad_bytes[] = {0, 1, (1ull << 46) + 1, UINT64_MAX};
    for (unsigned i = 0; i < sizeof bad_bytes / sizeof *bad_bytes; i++) {
        struct keeper_claim c = good_claim();
        c.limits.memory = bad_bytes[i];
        assert_int_equal(send_claim_raw(&c), ERR_INVALID);
        c = good_claim();
        c.limits.disk = bad_bytes[i];
        assert_int_equal(send_claim_raw(&c), ERR_INVALID);
    }
    static const uint32_t bad_counts[] = {0, 1, UINT32_MAX};
    for (unsigned i = 0; i < sizeof bad_counts / sizeof *bad_counts; i++) {
        struct keeper_claim c = good_claim();
        c.limits.pids = bad_counts[i];
        assert_int_equal(send_claim_raw(&c), ERR_INVALID);
        c = good_claim();
        c.limits.cpu_milli = bad_counts[i];
        assert_int_equal(send_claim_raw(&c), ERR_INVALID);
    }
    static const uint32_t bad_kinds[] = {0, DISK_KIND_MAX, UINT32_MAX};
    for (unsigned i = 0; i < sizeof bad_kinds / sizeof *bad_kinds; i++) {
        struct keeper_claim c = good_claim();
        c.disk_kind = bad_kinds[i];
        assert_int_equal(send_claim_raw(&c), ERR_INVALID);
    }
    struct keeper_claim c = good_claim();
    c.disk = 5; // a number for a disk that has none
    assert_int_equal(send_claim_raw(&c), ERR_INVALID);
    c.disk_kind = DISK_BLANK;
    assert_int_equal(send_claim_raw(&c), ERR_INVALID);
    c.disk = 0;
    c.disk_kind = DISK_KEPT;
    assert_int_equal(send_claim_raw(&c), ERR_INVALID);
    // It was worth asking: a good one is granted.
    struct claim good = kit_claim(DISK_TMPFS, 0);
    struct kit_box box = kit_take(&good);
    (void)kit_destroy(&box);
}

CHECK_CASE(image_names)
{
    kit_start(&(struct keeper_config){.boxes = 1});
    static const char *const bad[] = {"",      ".",   "..",   "../host", "/",
                                      "host/", "a/b", "HOST", "-x",      "a b"};
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct keeper_claim c = good_claim();
        (void)snprintf(c.image, sizeof c.image, "%s", bad[i]);
        assert_int_equal(send_claim_raw(&c), ERR_INVALID);
    }
    struct keeper_claim c = good_claim();
    memset(c.image, 'a', sizeof c.image); // no end
    assert_int_equal(send_claim_raw(&c), ERR_INVALID);
    c.image[sizeof c.image - 1] = '\0';
    assert_int_equal(send_claim_raw(&c), ERR_NOT_FOUND);
    for (int i = 0; i < 40; i++) { // more names than images may be open
        (void)snprintf(c.image, sizeof c.image, "none-%d", i);
        assert_int_equal(send_claim_raw(&c), ERR_NOT_FOUND);
    }
}

CHECK_CASE(boxes_that_are_not_there)
{
    kit_start(&(struct keeper_config){.boxes = 2, .pool_blank = 1});
    kit_await_pool(0, 1);
    static const uint64_t numbers[] = {0, 1, 2, 77,
                                       UINT64_MAX}; // 1 is the pool's, nobody's to destroy
    struct keeper_event ev;
    struct err err = {0};
    for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        assert_int_equal(keeper_send_destroy(kit_sock(), 40 + i, numbers[i], &err), 0);
        kit_expect(KEEPER_ERROR, &ev);
        assert_int_equal(ev.msg.head.id, 40 + i);
        assert_int_equal(ev.msg.error.code, ERR_NOT_FOUND);
    }
    kit_await_pool(0, 1);
}

// --- nonsense in a message: the connection ends, and everything with it ---

struct nonsense {
    const char *what;
    uint16_t version, type;
    size_t len;
};

static void send_nonsense(const struct nonsense *n)
{
    char bytes[8192] = {0};
    struct wire_head head = {.version = n->version, .type = n->type, .id = 1};
    memcpy(bytes, &head, sizeof head);
    assert_int_equal(wire_send(kit_sock(), bytes, n->len, NULL, 0, NULL, 0), 0);
}

CHECK_CASE(messages_that_are_none)
{
    static const struct nonsense all[] = {
        {"another version",  WIRE_VERSION + 1, KEEPER_STATUS,    sizeof(struct keeper_plain)        },
        {"no version",       0,                KEEPER_STATUS,    sizeof(struct keeper_plain)        },
        {"no head",          WIRE_VERSION,     KEEPER_STATUS,    3                                  },
        {"unknown type",     WIRE_VERSION,     KEEPER_TYPE_MAX,  sizeof(struct keeper_plain)        },
        {"type 0",           WIRE_VERSION,     0,                sizeof(struct keeper_plain)        },
        {"largest type",     WIRE_VERSION,     UINT16_MAX,       sizeof(struct keeper_plain)        },
        {"an answer",        WIRE_VERSION,     KEEPER_CLAIMED,   sizeof(struct keeper_box)          },
        {"an event",         WIRE_VERSION,     KEEPER_ENDED,     sizeof(struct keeper_ended)        },
        {"an empty take",    WIRE_VERSION,     KEEPER_TAKE,      sizeof(struct wire_head)           },
        {"short claim",      WIRE_VERSION,     KEEPER_CLAIM,     sizeof(struct keeper_claim) - 1    },
        {"long claim",       WIRE_VERSION,     KEEPER_CLAIM,     sizeof(struct keeper_claim) + 1    },
        {"only a head",      WIRE_VERSION,     KEEPER_CLAIM,     sizeof(struct wire_head)           },
        {"short destroy",    WIRE_VERSION,     KEEPER_DESTROY,   sizeof(struct keeper_box) - 4      },
        {"long destroy",     WIRE_VERSION,     KEEPER_DESTROY,   sizeof(struct keeper_box) + 8      },
        {"long status",      WIRE_VERSION,     KEEPER_STATUS,    sizeof(struct keeper_plain) + 1    },
        {"short limit",      WIRE_VERSION,     KEEPER_LIMIT,     sizeof(struct keeper_limit) - 8    },
        {"short drop",       WIRE_VERSION,     KEEPER_DISK_DROP, sizeof(struct keeper_disk_drop) - 8},
        {"too long for all", WIRE_VERSION,     KEEPER_CLAIM,     8192                               },
    };
    struct claim claim = kit_claim(DISK_TMPFS, 0);
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
        kit_start(&(struct keeper_config){.boxes = 2, .pool_blank = 1});
        struct kit_box box = kit_take(&claim);
        const char *word = kit_marker();
        char script[64];
        struct guest_event started;
        (void)snprintf(script, sizeof script, "setsid sleep %s & sleep %s", word, word);
        (void)kit_exec(&box, script, &started);
        KIT_AWAIT(kit_count_processes(word) == 3);
        send_nonsense(&all[i]);
        kit_expect_closed();
        if (kit_count_processes(word) != 0)
            fail_msg("%s: a box outlives the connection", all[i].what);
        kit_stop();
        fd_close(box.guest);
        fd_close(started.out);
        fd_close(started.err);
    }
}

CHECK_CASE(descriptors_nobody_asked_for)
{
    kit_start(&(struct keeper_config){.boxes = 1});
    (void)kit_state();
    unsigned before = kit_count_fds();
    struct keeper_plain msg = {
        .head = {.version = WIRE_VERSION, .type = KEEPER_STATUS, .id = 3}
    };
    int fds[WIRE_FDS_MAX];
    for (unsigned i = 0; i < WIRE_FDS_MAX; i++)
        fds[i] = 0;
    for (int i = 0; i < 50; i++) {
        struct keeper_event ev;
        assert_int_equal(wire_send(kit_sock(), &msg, sizeof msg, NULL, 0, fds, WIRE_FDS_MAX), 0);
        kit_expect(KEEPER_STATE, &ev);
    }
    KIT_AWAIT(kit_count_fds() <= before);
}

CHECK_CASE(thousand_questions_nobody_waits_for)
{
    kit_start(&(struct keeper_config){.boxes = 1});
    struct err err = {0};
    (void)fd_set_nonblock(kit_sock(), 1);
    unsigned sent = 0, heard = 0;
    while (sent < 1000 && keeper_send_status(kit_sock(), sent + 1, &err) == 0)
        sent++; // the rest does not fit before answers are read
    (void)fd_set_nonblock(kit_sock(), 0);
    for (struct keeper_event ev; heard < sent; heard++) {
        kit_expect(KEEPER_STATE, &ev);
        assert_int_equal(ev.msg.head.id, heard + 1);
    }
    struct claim claim = kit_claim(DISK_TMPFS, 0);
    struct kit_box box = kit_take(&claim);
    (void)kit_destroy(&box);
}

// --- the spawner ---

CHECK_CASE(spawner_killed)
{
    kit_start(&(struct keeper_config){.boxes = 4});
    struct claim claim = kit_claim(DISK_TMPFS, 0);
    struct kit_box box = kit_take(&claim);
    pid_t spawner = kit_child(0);
    assert_int_equal(kill(spawner, SIGKILL), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(kit_refused(&claim).code, ERR_INTERNAL);
    // What runs runs on.
    assert_string_equal(kit_run(&box, "echo on").out, "on\n");
    (void)kit_destroy(&box);
    assert_int_equal(kit_refused(&claim).code, ERR_INTERNAL);
    struct keeper_state s = kit_state();
    assert_int_equal(s.live + s.ready + s.blank + s.busy, 0);
    assert_int_equal(kit_count_cgroups(), 0);
}

CHECK_CASE(spawner_killed_while_boxes_are_made)
{
    for (unsigned i = 0; i < 20; i++) {
        enum { N = 4 };
        kit_start(&(struct keeper_config){.boxes = N, .pool_ready = 1, .volume_bytes = VOLUME});
        struct claim claim = kit_claim(DISK_BLANK, 0);
        struct err err = {0};
        KIT_AWAIT(kit_child(0) != 0);
        pid_t spawner = kit_child(0);
        for (uint32_t j = 0; j < N; j++)
            assert_int_equal(keeper_send_claim(kit_sock(), j + 1, &claim, &err), 0);
        struct timespec wait = {.tv_nsec = i * 300000};
        (void)nanosleep(&wait, NULL);
        (void)kill(spawner, SIGKILL);
        for (unsigned answers = 0; answers < N;) { // each is answered, this way or that
            struct keeper_event ev;
            assert_int_equal(keeper_recv(kit_sock(), &ev, 0, &err), 1);
            answers += ev.msg.head.type == KEEPER_CLAIMED || ev.msg.head.type == KEEPER_ERROR;
            if (ev.msg.head.type == KEEPER_ERROR && ev.msg.head.id == 0)
                answers = N; // the keeper had not started yet, and does not
            fd_close(ev.guest);
        }
        kit_stop();
    }
}

// --- starting ---

static struct err start_error(const struct keeper_config *config)
{
    struct keeper_event ev;
    struct err err = {0};
    kit_start(config);
    kit_expect(KEEPER_ERROR, &ev);
    assert_int_equal(ev.msg.head.id, 0);
    (void)keeper_error_take(&ev.msg.error, &err);
    kit_expect_closed();
    kit_stop();
    return err;
}

CHECK_CASE(one_keeper_for_a_volume)
{
    struct keeper_config config = {.data = kit_data(), .boxes = 1, .volume_bytes = VOLUME};
    struct keeper_process first;
    struct err err = {0};
    assert_int_equal(keeper_start(&config, &first, &err), 0);
    assert_int_equal(keeper_send_status(first.sock, 1, &err), 0);
    struct keeper_event ev;
    assert_int_equal(keeper_recv(first.sock, &ev, 0, &err), 1);
    assert_int_equal(ev.msg.head.type, KEEPER_STATE);
    err = start_error(&config);
    assert_int_equal(err.code, ERR_CONFLICT);
    // Without a volume there is nothing to fight over.
    kit_start(&(struct keeper_config){.boxes = 1});
    struct claim claim = kit_claim(DISK_TMPFS, 0);
    struct kit_box box = kit_take(&claim);
    (void)kit_destroy(&box);
    kit_stop();
    keeper_stop(&first);
    kit_start(&config);
    assert_int_equal(kit_state().live, 0);
}

CHECK_CASE(too_many_boxes)
{
    assert_int_equal(start_error(&(struct keeper_config){.boxes = 1000000}).code, ERR_INVALID);
    assert_int_equal(start_error(&(struct keeper_config){.boxes = 0}).code, ERR_INVALID);
    assert_int_equal(start_error(&(struct keeper_config){.boxes = UINT32_MAX}).code, ERR_INVALID);
}

CHECK_CASE(data_directory_that_will_not_do)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/a-file", kit_data());
    fd_close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    struct keeper_config config = {.data = path, .boxes = 1};
    assert_int_equal(start_error(&config).code, ERR_INVALID);
    (void)snprintf(path, sizeof path, "%s/missing/below", kit_data());
    assert_int_equal(start_error(&config).code, ERR_NOT_FOUND);
}

// In a child with mounts of its own, where something that the volume needs is hidden.
static int in_private_mounts(int (*fn)(void))
{
    (void)fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
            _exit(100);
        _exit(fn());
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// 0 when the keeper says `word` and ends; asserts nothing, because it runs in the child.
static int start_says(const char *data, uint64_t volume, const char *word)
{
    struct keeper_config config = {.data = data, .boxes = 1, .volume_bytes = volume};
    struct keeper_process keeper;
    struct keeper_event ev;
    struct err err = {0};
    if (keeper_start(&config, &keeper, &err) < 0 || keeper_recv(keeper.sock, &ev, 0, &err) != 1 ||
        ev.msg.head.type != KEEPER_ERROR)
        return 1;
    (void)keeper_error_take(&ev.msg.error, &err);
    keeper_stop(&keeper);
    if (strstr(err.msg, word) != NULL)
        return 0;
    (void)fprintf(stderr, "said: %s\n", err.msg);
    return 2;
}

static int without_loop_devices(void)
{
    if (mount("tmpfs", "/dev", "tmpfs", 0, NULL) < 0)
        return 101;
    if (mknod("/dev/null", S_IFCHR | 0666, 0x103) < 0)
        return 102;
    return start_says(kit_data(), VOLUME, "/dev/loop-control");
}

static int without_mkfs(void)
{
    if (mount("tmpfs", "/mnt", "tmpfs", 0, "mode=0711") < 0)
        return 101;
    static const char *const places[] = {"/usr/sbin/mkfs.btrfs", "/sbin/mkfs.btrfs"};
    for (int i = 0; i < 2; i++) {
        if (mount("/dev/null", places[i], NULL, MS_BIND, NULL) < 0 && errno != ENOENT)
            return 102;
    }
    int r = start_says("/mnt", VOLUME, "mkfs.btrfs");
    struct stat st; // nothing half-made is taken for a volume the next time
    return r != 0                                                                     ? r
           : stat("/mnt/volume.btrfs", &st) == 0 || stat("/mnt/volume.new", &st) == 0 ? 3
                                                                                      : 0;
}

static int on_a_full_disk(void)
{
    if (mount("tmpfs", "/mnt", "tmpfs", 0, "mode=0711,size=1m") < 0)
        return 101;
    return start_says("/mnt", VOLUME, "free");
}

static int on_a_read_only_disk(void)
{
    if (mount("tmpfs", "/mnt", "tmpfs", 0, "mode=0711") < 0 ||
        mount(NULL, "/mnt", NULL, MS_REMOUNT | MS_RDONLY, NULL) < 0)
        return 101;
    return start_says("/mnt", VOLUME, "ead-only");
}

CHECK_CASE(machine_that_will_not_do)
{
    // The volume must be there, so that the loop device is what is missed.
    kit_start(&(struct keeper_config){.boxes = 1, .volume_bytes = VOLUME});
    (void)kit_state();
    kit_stop();
    assert_int_equal(in_private_mounts(without_loop_devices), 0);
    assert_int_equal(in_private_mounts(without_mkfs), 0);
    assert_int_equal(in_private_mounts(on_a_full_disk), 0);
    assert_int_equal(in_private_mounts(on_a_read_only_disk), 0);
}

CHECK_CASE(volume_that_is_none)
{
    char dir[128], path[160];
    (void)snprintf(dir, sizeof dir, "%s/broken", kit_data());
    (void)snprintf(path, sizeof path, "%s/volume.btrfs", dir);
    assert_int_equal(mkdir(dir, 0711), 0);
    auto_fd fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_int_equal(ftruncate(fd, 64 << 20), 0);
    struct keeper_config config = {.data = dir, .boxes = 1, .volume_bytes = VOLUME};
    struct err err = start_error(&config);
    assert_true(err.code != ERR_NONE && strstr(err.msg, "volume") != NULL);
    // It is somebody's data, whatever it is.
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_size, 64 << 20);
}

KIT_MAIN(KIT_CASE(fields_out_of_range), KIT_CASE(image_names), KIT_CASE(boxes_that_are_not_there),
         KIT_CASE(messages_that_are_none), KIT_CASE(descriptors_nobody_asked_for),
         KIT_CASE(thousand_questions_nobody_waits_for), KIT_CASE(spawner_killed),
         KIT_CASE(spawner_killed_while_boxes_are_made), KIT_CASE(one_keeper_for_a_volume),
         KIT_CASE(too_many_boxes), KIT_CASE(data_directory_that_will_not_do),
         KIT_CASE(machine_that_will_not_do), KIT_CASE(volume_that_is_none))
