// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "check.h"
#include "saved/crew-internal.h"

enum { ITEMS = 500 };

struct item {
    int number, square;
};

static atomic_int now, most;

static void square(void *data)
{
    struct item *item = data;
    int n = atomic_fetch_add(&now, 1) + 1, seen = atomic_load(&most);
    while (n > seen && !atomic_compare_exchange_weak(&most, &seen, n))
        ;
    (void)usleep((unsigned)(item->number * 7919 % 300)); // not as they were given
    item->square = item->number * item->number;
    (void)atomic_fetch_sub(&now, 1);
}

static void check_next(struct crew *crew, int *taken)
{
    const struct item *item = crew_take(crew);
    assert_non_null(item);
    assert_int_equal(item->number, *taken);
    assert_int_equal(item->square, *taken * *taken);
    ++*taken;
}

CHECK_CASE(what_is_given_comes_back_in_order)
{
    static struct item items[ITEMS];
    int taken = 0;
    struct crew *crew = crew_new(square);
    assert_null(crew_take(crew));
    for (int i = 0; i < ITEMS; i++) {
        items[i].number = i;
        if (crew_is_full(crew))
            check_next(crew, &taken);
        crew_give(crew, &items[i]);
        assert_true(i - taken < CREW_MAX);
    }
    while (taken < ITEMS)
        check_next(crew, &taken);
    assert_null(crew_take(crew));
    assert_true(atomic_load(&most) > 1 && atomic_load(&most) <= CREW_MAX);
    crew_free(crew);
}

CHECK_CASE(one_that_was_never_used_goes)
{
    crew_free(crew_new(square));
    crew_free(NULL);
}

CHECK_MAIN(cmocka_unit_test(what_is_given_comes_back_in_order),
           cmocka_unit_test(one_that_was_never_used_goes))
