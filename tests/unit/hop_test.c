// SPDX-License-Identifier: Apache-2.0
// Which of a name's addresses are connected to, whatever the resolver says; and real connections.
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "check.h"
#include "egress/hop.h"

static struct networks *opened(const char *text)
{
    struct networks *networks = NULL;
    struct err err = {0};
    assert_int_equal(networks_parse(text, &networks, &err), 0);
    return networks;
}

static void add(struct addresses *addresses, const char *text)
{
    assert_int_equal(policy_address(text, &addresses->list[addresses->n++]), 1);
}

static bool has(const struct addresses *addresses, unsigned i, const char *text)
{
    struct sockaddr_storage want;
    assert_int_equal(policy_address(text, &want), 1);
    return memcmp(&want, &addresses->list[i], sizeof want) == 0;
}

CHECK_CASE(only_open_addresses_are_left)
{
    struct addresses list = {0};
    const struct hop_rules rules = {0};
    const char *why = NULL;
    add(&list, "10.0.0.1");
    add(&list, "93.184.216.34");
    add(&list, "::1");
    add(&list, "2606:4700::1111");
    add(&list, "::ffff:127.0.0.1");
    add(&list, "169.254.169.254");
    assert_int_equal(hop_filter(&list, &rules, 443, &why), 2);
    assert_true(has(&list, 0, "93.184.216.34"));
    assert_true(has(&list, 1, "2606:4700::1111"));
}

CHECK_CASE(a_name_that_was_rebound_leads_nowhere)
{
    struct addresses list = {0};
    const struct hop_rules rules = {0};
    const char *why = NULL;
    add(&list, "127.0.0.1");
    add(&list, "0.0.0.0");
    add(&list, "64:ff9b::a9fe:a9fe");
    assert_int_equal(hop_filter(&list, &rules, 80, &why), 0);
    assert_non_null(why);
    list.n = 0;
    assert_int_equal(hop_filter(&list, &rules, 80, &why), 0);
}

static struct sockaddr_storage listens(const char *text, uint16_t port)
{
    struct sockaddr_storage own;
    assert_int_equal(policy_address(text, &own), 1);
    if (own.ss_family == AF_INET)
        ((struct sockaddr_in *)(void *)&own)->sin_port = htons(port);
    else
        ((struct sockaddr_in6 *)(void *)&own)->sin6_port = htons(port);
    return own;
}

static unsigned left(const struct hop_rules *rules, const char *address, uint16_t port)
{
    struct addresses list = {0};
    const char *why = NULL;
    add(&list, address);
    return hop_filter(&list, rules, port, &why);
}

CHECK_CASE(the_server_itself_is_never_reached)
{
    struct networks *all = opened("127.0.0.0/8,::1/128");
    struct hop_rules rules = {.opened = all, .own = listens("127.0.0.1", 8787)};
    assert_int_equal(left(&rules, "127.0.0.1", 8787), 0);
    assert_int_equal(left(&rules, "::ffff:127.0.0.1", 8787), 0);
    assert_int_equal(left(&rules, "127.0.0.1", 8788), 1);
    assert_int_equal(left(&rules, "127.0.0.2", 8787), 1); // nobody listens there
    rules.own = listens("0.0.0.0", 8787);
    assert_int_equal(left(&rules, "127.0.0.1", 8787), 0);
    assert_int_equal(left(&rules, "127.9.9.9", 8787), 0);
    assert_int_equal(left(&rules, "93.184.216.34", 8787), 1);
    rules.own = listens("::", 8787);
    assert_int_equal(left(&rules, "127.0.0.1", 8787), 0);
    networks_free(all);
}

// Whoever runs the machine has said where the model is: anywhere, but not back here.
CHECK_CASE(the_installation_s_own_upstream)
{
    struct hop_rules rules = {.trusted = true, .own = listens("127.0.0.1", 8787)};
    assert_int_equal(left(&rules, "127.0.0.1", 8000), 1);
    assert_int_equal(left(&rules, "10.1.2.3", 443), 1);
    assert_int_equal(left(&rules, "::1", 443), 1);
    assert_int_equal(left(&rules, "93.184.216.34", 80), 1);
    assert_int_equal(left(&rules, "127.0.0.1", 8787), 0);
}

// In a network of its own, where a public address is this machine's. 77: not allowed to have one.
static int look_from_a_public_address(void)
{
    struct ifreq lo = {.ifr_name = "lo"};
    struct sockaddr_in *address = (struct sockaddr_in *)(void *)&lo.ifr_addr;
    struct hop_rules rules = {0};
    if (unshare(CLONE_NEWNET) < 0)
        return 77;
    auto_fd sock = socket(AF_INET, SOCK_DGRAM, 0);
    address->sin_family = AF_INET;
    address->sin_addr.s_addr = inet_addr("11.22.33.44");
    if (ioctl(sock, SIOCSIFADDR, &lo) < 0)
        return 77;
    lo.ifr_flags = IFF_UP | IFF_RUNNING;
    if (ioctl(sock, SIOCSIFFLAGS, &lo) < 0)
        return 77;
    struct networks *some = opened("11.22.33.44/32");
    bool closed =
        left(&rules, "11.22.33.44", 22) == 0 && left(&rules, "::ffff:11.22.33.44", 22) == 0;
    bool others = left(&rules, "93.184.216.34", 22) == 1;
    rules.opened = some;
    bool told = left(&rules, "11.22.33.44", 22) == 1 && left(&rules, "::ffff:11.22.33.44", 22) == 1;
    networks_free(some);
    return closed && others && told ? 0 : 1;
}

CHECK_CASE(a_public_address_of_this_machine_is_closed)
{
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(look_from_a_public_address());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

CHECK_CASE(without_tls_only_what_was_opened)
{
    struct networks *some = opened("10.0.0.0/8");
    const struct hop_rules rules = {.opened = some, .only_opened = true};
    assert_int_equal(left(&rules, "10.1.1.1", 80), 1);
    assert_int_equal(left(&rules, "93.184.216.34", 80), 0);
    assert_int_equal(left(&rules, "127.0.0.1", 80), 0);
    networks_free(some);
}

// --- real ones

struct world {
    uv_loop_t loop;
    struct resolver *resolver;
    struct resolve_line *line;
    struct networks *opened;
    struct hop_rules rules;
    unsigned calls;
    int fd;
    struct err err;
};

static void on_hop(void *data, int fd, const struct err *err)
{
    struct world *w = data;
    w->calls++;
    w->fd = fd;
    w->err = err != NULL ? *err : (struct err){0};
}

static void begin(struct world *w)
{
    struct err err = {0};
    *w = (struct world){.fd = -1};
    assert_int_equal(uv_loop_init(&w->loop), 0);
    assert_int_equal(resolver_open(&w->loop, &w->resolver, &err), 0);
    w->line = resolve_line_new(w->resolver);
    w->opened = opened("127.0.0.0/8");
    w->rules = (struct hop_rules){.opened = w->opened};
}

static void end(struct world *w)
{
    fd_close(w->fd);
    resolve_line_free(w->line);
    resolver_close(w->resolver);
    networks_free(w->opened);
    (void)uv_run(&w->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&w->loop), 0);
}

static int listener(uint16_t *ret_port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, len), 0);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    *ret_port = ntohs(at.sin_port);
    return fd;
}

static void go(struct world *w, const char *host, uint16_t port)
{
    unsigned before = w->calls;
    (void)hop_start(&w->loop, w->line, &w->rules, host, port, on_hop, w);
    assert_int_equal(w->calls, before); // later
    while (w->calls == before)
        (void)uv_run(&w->loop, UV_RUN_ONCE);
    assert_int_equal(w->calls, before + 1);
}

CHECK_CASE(names_and_addresses_are_connected_to)
{
    struct world w;
    uint16_t port;
    auto_fd server = listener(&port);
    begin(&w);
    go(&w, "127.0.0.1", port);
    assert_true(w.fd >= 0);
    fd_close(TAKE_FD(w.fd));
    go(&w, "localhost", port);
    assert_true(w.fd >= 0);
    char byte = 'x';
    assert_int_equal(write(w.fd, &byte, 1), 1);
    end(&w);
}

CHECK_CASE(what_is_closed_is_denied)
{
    struct world w;
    uint16_t port;
    auto_fd server = listener(&port);
    begin(&w);
    w.rules.opened = NULL;
    go(&w, "localhost", port);
    assert_int_equal(w.fd, -1);
    assert_int_equal(w.err.code, ERR_DENIED);
    go(&w, "127.0.0.1", port);
    assert_int_equal(w.err.code, ERR_DENIED);
    end(&w);
}

CHECK_CASE(nobody_listens)
{
    struct world w;
    uint16_t port;
    fd_close(listener(&port));
    begin(&w);
    go(&w, "127.0.0.1", port);
    assert_int_equal(w.fd, -1);
    assert_int_equal(w.err.code, ERR_UNAVAILABLE);
    assert_int_equal(w.err.sys_errno, ECONNREFUSED);
    end(&w);
}

CHECK_CASE(cancelled_ones_are_silent)
{
    struct world w;
    uint16_t port;
    auto_fd server = listener(&port);
    begin(&w);
    int before = check_fds();
    for (unsigned i = 0; i < 50; i++) {
        struct hop *by_name = hop_start(&w.loop, w.line, &w.rules, "localhost", port, on_hop, &w);
        struct hop *by_address =
            hop_start(&w.loop, w.line, &w.rules, "127.0.0.1", port, on_hop, &w);
        if (i % 2 == 1) // the name may have been found by now
            usleep(100);
        hop_cancel(by_name);
        (void)uv_run(&w.loop, UV_RUN_NOWAIT); // the address is being connected to
        if (w.calls == 0)
            hop_cancel(by_address);
        fd_close(TAKE_FD(w.fd)); // or was, before it could be cancelled
        w.calls = 0;
        (void)uv_run(&w.loop, UV_RUN_NOWAIT);
    }
    (void)uv_run(&w.loop, UV_RUN_NOWAIT);
    assert_int_equal(w.calls, 0);
    for (int i = 0; i < 1000 && check_fds() != before; i++)
        usleep(10 * 1000); // threads that nobody waits for still read /etc/hosts
    assert_int_equal(check_fds(), before);
    end(&w);
}

CHECK_MAIN(cmocka_unit_test(only_open_addresses_are_left),
           cmocka_unit_test(a_name_that_was_rebound_leads_nowhere),
           cmocka_unit_test(the_server_itself_is_never_reached),
           cmocka_unit_test(the_installation_s_own_upstream),
           cmocka_unit_test(a_public_address_of_this_machine_is_closed),
           cmocka_unit_test(without_tls_only_what_was_opened),
           cmocka_unit_test(names_and_addresses_are_connected_to),
           cmocka_unit_test(what_is_closed_is_denied), cmocka_unit_test(nobody_listens),
           cmocka_unit_test(cancelled_ones_are_silent))
