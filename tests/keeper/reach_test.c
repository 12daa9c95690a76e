// SPDX-License-Identifier: Apache-2.0
// What reaches into a box: sockets from its network namespace, the steering of its connections, and
// the hand.
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "kit.h"
#include "wire/hand-msg.h"

enum { PROXY = 3128, DNS = 53 };

static struct kit_box take_one(void)
{
    kit_start(&(struct keeper_config){.boxes = 2});
    struct claim claim = kit_claim(DISK_TMPFS, 0);
    return kit_take(&claim);
}

// Starts it and waits until it has said "up"; it goes on.
static void start(struct kit_box *box, const char *script)
{
    struct guest_event ev;
    char text[3] = "";
    (void)kit_exec(box, script, &ev);
    assert_int_equal(fd_read_all(ev.out, text, 2), 2);
    assert_string_equal(text, "up");
    fd_close(ev.out);
    fd_close(ev.err);
}

static struct guest_event given(struct kit_box *box, int sys_errno)
{
    struct guest_event ev;
    struct err err = {0};
    do // programs may end meanwhile
        assert_int_equal(guest_recv(box->guest, &ev, 0, &err), 1);
    while (ev.msg.head.type == GUEST_EXITED);
    assert_int_equal(ev.msg.head.type, GUEST_GIVEN);
    assert_int_equal(ev.msg.given.sys_errno, sys_errno);
    return ev;
}

static int dial(struct kit_box *box, uint16_t port, int sys_errno)
{
    struct err err = {0};
    assert_int_equal(guest_send_dial(guest_fresh(box->guest), 77, port, &err), 0);
    return given(box, sys_errno).out;
}

static struct guest_event listen_in(struct kit_box *box, int sys_errno)
{
    struct err err = {0};
    assert_int_equal(guest_send_listen(guest_fresh(box->guest), 78, PROXY, DNS, &err), 0);
    return given(box, sys_errno);
}

static void network(const struct kit_box *box, int listener, uint16_t type)
{
    struct keeper_event ev;
    struct err err = {0};
    assert_int_equal(keeper_send_network(kit_sock(), 9, box->number, listener, &err), 0);
    kit_expect(type, &ev);
}

static int accept_soon(int listener)
{
    struct pollfd p = {.fd = listener, .events = POLLIN};
    assert_int_equal(poll(&p, 1, KIT_PATIENCE_MS), 1);
    int fd = accept(listener, NULL, NULL);
    assert_true(fd >= 0);
    return fd;
}

// Where an accepted connection was to go.
static void expect_target(int fd, const char *address, uint16_t port)
{
    struct sockaddr_in name = {0};
    socklen_t len = sizeof name;
    char text[INET_ADDRSTRLEN];
    assert_int_equal(getsockname(fd, (struct sockaddr *)&name, &len), 0);
    assert_string_equal(inet_ntop(AF_INET, &name.sin_addr, text, sizeof text), address);
    assert_int_equal(ntohs(name.sin_port), port);
}

CHECK_CASE(a_port_of_the_box_is_dialled)
{
    struct kit_box box = take_one();
    assert_int_equal(dial(&box, 8080, ECONNREFUSED), -1);
    assert_int_equal(dial(&box, 0, EINVAL), -1);
    start(&box, "exec python3 -c \"import socket\n"
                "s = socket.socket(socket.AF_INET6)\n"
                "s.bind(('::1', 8081)); s.listen()\n"
                "t = socket.create_server(('127.0.0.1', 8080))\n"
                "print('up', flush=True)\n"
                "for l in (t, s): c, _ = l.accept(); c.sendall(b'hi'); c.close()\"");
    for (uint16_t port = 8080; port <= 8081; port++) {
        char text[8] = "";
        int fd = dial(&box, port, 0);
        (void)fd_set_nonblock(fd, 0);
        assert_int_equal(read(fd, text, sizeof text), 2);
        assert_string_equal(text, "hi");
        fd_close(fd);
    }
    (void)kit_destroy(&box);
}

CHECK_CASE(connections_come_to_the_listener)
{
    struct kit_box box = take_one();
    struct kit_ended end;
    const char *script =
        "echo up; exec bash -c 'exec 3<>/dev/tcp/93.184.216.34/443 && echo there >&3 && cat <&3; sleep 1000'";
    end = kit_run(&box, "bash -c 'exec 3<>/dev/tcp/93.184.216.34/443'");
    assert_int_not_equal(end.status, 0); // no route
    struct guest_event first = listen_in(&box, 0);
    assert_int_equal(first.msg.given.held, 0);
    network(&box, first.out, KEEPER_OK);
    start(&box, script);
    int fd = accept_soon(first.out);
    expect_target(fd, "93.184.216.34", 443);
    fd_close(fd);
    end = kit_run(&box, "python3 -c \"import socket\n"
                        "socket.getaddrinfo('1.2.3.4', 80, socket.AF_INET, 0, 0, "
                        "socket.AI_ADDRCONFIG)\"");
    assert_int_equal(end.status, 0);
    // A client that comes later gets the same ones, and knows that all is set.
    fd_close(first.out);
    fd_close(first.err);
    struct guest_event again = listen_in(&box, 0);
    assert_int_equal(again.msg.given.held, 1);
    start(&box, script);
    fd = accept_soon(again.out);
    expect_target(fd, "93.184.216.34", 443);
    fd_close(fd);
    // Loopback is the box's own.
    start(&box, "echo up; exec bash -c 'exec 3<>/dev/tcp/127.0.0.1/3128 && cat <&3; sleep 1000'");
    fd = accept_soon(again.out);
    expect_target(fd, "127.0.0.1", PROXY);
    fd_close(fd);
    end = kit_run(&box, "bash -c 'exec 3<>/dev/tcp/127.0.0.1/8080'");
    assert_int_not_equal(end.status, 0);
    fd_close(again.out);
    fd_close(again.err);
    (void)kit_destroy(&box);
}

CHECK_CASE(only_a_listener_of_that_box_will_do)
{
    struct kit_box box = take_one();
    struct claim claim = kit_claim(DISK_TMPFS, 0);
    struct kit_box other = kit_take(&claim);
    struct guest_event theirs = listen_in(&other, 0);
    int host = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(listen(host, 1), 0);
    network(&box, theirs.out, KEEPER_ERROR);
    network(&box, theirs.err, KEEPER_ERROR);
    network(&box, host, KEEPER_ERROR);
    network(&box, STDERR_FILENO, KEEPER_ERROR);
    network(&other, theirs.out, KEEPER_OK);
    fd_close(theirs.out);
    fd_close(theirs.err);
    fd_close(host);
    (void)kit_destroy(&other);
    (void)kit_destroy(&box);
}

CHECK_CASE(a_port_that_is_taken)
{
    struct kit_box box = take_one();
    start(&box, "exec python3 -c \"import socket, time\n"
                "t = socket.create_server(('127.0.0.1', 3128))\n"
                "print('up', flush=True); time.sleep(1000)\"");
    (void)listen_in(&box, EADDRINUSE);
    (void)kit_destroy(&box);
}

static int hand(struct kit_box *box)
{
    struct err err = {0};
    assert_int_equal(guest_send_hand(guest_fresh(box->guest), 79, &err), 0);
    return given(box, 0).out;
}

CHECK_CASE(a_hand_sees_what_the_box_sees)
{
    struct kit_box box = take_one();
    struct kit_ended end;
    end = kit_run(&box, "echo content > /workspace/a");
    assert_int_equal(end.status, 0);
    int sock = hand(&box);
    struct {
        struct hand_request req;
        char texts[16];
    } msg = {
        .req = {.head = {.version = WIRE_VERSION, .type = HAND_READ, .id = 5}, .path_len = 12},
        .texts = "/workspace/a",
    };
    struct {
        struct hand_done done;
        char data[64];
    } answer;
    struct wire_fds fds;
    assert_int_equal(wire_send(sock, &msg, sizeof msg.req + 14, NULL, 0, NULL, 0), 0);
    ssize_t n = wire_recv(sock, &answer, sizeof answer, &fds, 0);
    assert_int_equal(n, (ssize_t)sizeof answer.done + 8);
    assert_int_equal(answer.done.sys_errno, 0);
    assert_memory_equal(answer.data, "content\n", 8);
    // It is nobody that the box could look into, but root there may end it.
    end = kit_run(
        &box, "for p in /proc/[0-9]*; do p=${p#/proc/}; [ $p = 1 ] || [ $p = $$ ] || { cat "
              "/proc/$p/environ /proc/$p/maps && exit 3; kill -9 $p; }; done 2>/dev/null; exit 0");
    assert_int_equal(end.status, 0);
    assert_int_equal(wire_recv(sock, &answer, sizeof answer, &fds, 0), 0);
    fd_close(sock);
    fd_close(hand(&box)); // and there is another
    (void)kit_destroy(&box);
}

static struct guest_event listen_unix(struct kit_box *box, int on, int sys_errno)
{
    struct err err = {0};
    assert_int_equal(guest_send_listen_unix(guest_fresh(box->guest), 79, on, &err), 0);
    return given(box, sys_errno);
}

#define LOOK "stat -c %F:%a:%u /run/cay /run/cay/anthropic.sock"
#define ENTER                                                                                      \
    "python3 -c \"import socket; socket.socket(socket.AF_UNIX).connect('" GUEST_SOCKET_PATH "')\""

CHECK_CASE(a_socket_in_the_box_s_files)
{
    struct kit_box box = take_one();
    assert_int_not_equal(kit_run(&box, LOOK).status, 0);
    struct guest_event first = listen_unix(&box, 1, 0);
    assert_int_equal(
        kit_run(&box, "test \"$(echo $(" LOOK "))\" = 'directory:755:0 socket:666:0'").status, 0);
    assert_int_equal(kit_run(&box, ENTER).status, 0);
    fd_close(accept_soon(first.out));
    // Nobody has it for a while, and the next one gets the same, with whoever came meanwhile.
    fd_close(first.out);
    assert_int_equal(kit_run(&box, ENTER).status, 0);
    struct guest_event again = listen_unix(&box, 1, 0);
    fd_close(accept_soon(again.out));
    assert_int_equal(listen_unix(&box, 0, 0).out, -1);
    fd_close(again.out);
    assert_int_not_equal(kit_run(&box, LOOK).status, 0);
    assert_int_equal(listen_unix(&box, 0, 0).out, -1); // there is none
    (void)kit_destroy(&box);
}

// What root in the box does there is its own harm.
CHECK_CASE(a_socket_and_what_is_in_its_way)
{
    struct kit_box box = take_one();
    assert_int_equal(
        kit_run(&box, "mkdir -p /run/cay /tmp/x && ln -s /tmp/x/here /run/cay/anthropic.sock")
            .status,
        0);
    fd_close(listen_unix(&box, 1, 0).out);
    assert_int_equal(
        kit_run(&box, "test -S /run/cay/anthropic.sock && ! test -e /tmp/x/here").status, 0);
    assert_int_equal(listen_unix(&box, 0, 0).out, -1);
    assert_int_equal(kit_run(&box, "mkdir /run/cay/anthropic.sock").status, 0);
    assert_int_equal(listen_unix(&box, 1, EISDIR).out, -1);
    assert_int_equal(kit_run(&box, "rm -r /run/cay && touch /run/cay").status, 0);
    assert_int_equal(listen_unix(&box, 1, ENOTDIR).out, -1);
    assert_int_equal(
        kit_run(&box, "rm /run/cay && ln -s loop /run/loop && ln -s loop /run/cay").status, 0);
    assert_int_equal(listen_unix(&box, 1, ELOOP).out, -1);
    assert_int_equal(kit_run(&box, "rm /run/cay").status, 0);
    fd_close(listen_unix(&box, 1, 0).out);
    (void)kit_destroy(&box);
}

KIT_MAIN(KIT_CASE(a_port_of_the_box_is_dialled), KIT_CASE(connections_come_to_the_listener),
         KIT_CASE(only_a_listener_of_that_box_will_do), KIT_CASE(a_port_that_is_taken),
         KIT_CASE(a_hand_sees_what_the_box_sees), KIT_CASE(a_socket_in_the_box_s_files),
         KIT_CASE(a_socket_and_what_is_in_its_way))
