// SPDX-License-Identifier: Apache-2.0
// Questions of several lines at once, with names of which some take as long as the test wants.
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "check.h"
#include "egress/resolve.h"

// --- the machine's resolver

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t let_go = PTHREAD_COND_INITIALIZER;
static bool slow_may_go;

static struct sockaddr_in loopback = {.sin_family = AF_INET};
static struct addrinfo found = {
    .ai_family = AF_INET,
    .ai_addrlen = sizeof loopback,
    .ai_addr = (struct sockaddr *)&loopback,
};

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                struct addrinfo **ret)
{
    (void)service;
    (void)hints;
    (void)pthread_mutex_lock(&lock);
    while (strcmp(name, "slow") == 0 && !slow_may_go)
        (void)pthread_cond_wait(&let_go, &lock);
    (void)pthread_mutex_unlock(&lock);
    *ret = &found;
    return 0;
}

void freeaddrinfo(struct addrinfo *list)
{
    (void)list;
}

static void set_slow_may_go(bool may)
{
    (void)pthread_mutex_lock(&lock);
    slow_may_go = may;
    (void)pthread_cond_broadcast(&let_go);
    (void)pthread_mutex_unlock(&lock);
}

// --- those who ask

static void on_answer(void *data, const struct addresses *addresses, const struct err *err)
{
    int *answered = data;
    assert_null(err);
    assert_int_equal(addresses->n, 1);
    (*answered)++;
}

static void run_until(uv_loop_t *loop, const int *answered, int n)
{
    while (*answered < n)
        (void)uv_run(loop, UV_RUN_ONCE);
}

// A thread that has answered before waits for the next question, and comes for the first of two:
// the second must not wait behind that one.
static void ask_two(uv_loop_t *loop, struct resolve_line *one, struct resolve_line *other)
{
    int slow = 0, fast = 0;
    set_slow_may_go(true);
    assert_non_null(resolve_start(one, "fast", on_answer, &fast));
    run_until(loop, &fast, 1);
    set_slow_may_go(false);
    assert_non_null(resolve_start(one, "slow", on_answer, &slow));
    assert_non_null(resolve_start(other, "fast", on_answer, &fast));
    run_until(loop, &fast, 2);
    assert_int_equal(slow, 0);
    set_slow_may_go(true);
    run_until(loop, &slow, 1);
}

static void ask_in_lines(bool same_line)
{
    enum { ROUNDS = 20 };
    for (int i = 0; i < ROUNDS; i++) {
        uv_loop_t loop;
        struct resolver *resolver;
        struct err err = {0};
        assert_int_equal(uv_loop_init(&loop), 0);
        assert_int_equal(resolver_open(&loop, &resolver, &err), 0);
        struct resolve_line *one = resolve_line_new(resolver);
        struct resolve_line *other = same_line ? one : resolve_line_new(resolver);
        ask_two(&loop, one, other);
        resolve_line_free(one);
        if (!same_line)
            resolve_line_free(other);
        resolver_close(resolver);
        (void)uv_run(&loop, UV_RUN_DEFAULT);
        assert_int_equal(uv_loop_close(&loop), 0);
    }
}

CHECK_CASE(nobody_waits_behind_a_slow_name_of_another)
{
    ask_in_lines(/*same_line=*/false);
}

CHECK_CASE(nor_behind_one_of_its_own)
{
    ask_in_lines(/*same_line=*/true);
}

CHECK_MAIN(cmocka_unit_test(nobody_waits_behind_a_slow_name_of_another),
           cmocka_unit_test(nor_behind_one_of_its_own))
