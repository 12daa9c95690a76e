// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "check.h"

CHECK_CASE(empty)
{
    struct map map = {0};
    size_t at = 0;
    assert_null(map_get(&map, "a"));
    assert_null(map_del(&map, "a"));
    assert_null(map_next(&map, &at));
    map_done(&map);
    map_done(&map);
}

CHECK_CASE(put_get_replace_del)
{
    struct map map = {0};
    int one, two;
    char key[] = "key", same[] = "key";
    map_put(&map, key, &one);
    map_put(&map, "", &two);
    assert_int_equal(map.n, 2);
    assert_ptr_equal(map_get(&map, "key"), &one);
    assert_ptr_equal(map_get(&map, ""), &two);
    assert_null(map_get(&map, "kez"));
    map_put(&map, same, &two); // the key, too: the old one may go
    memset(key, 'x', sizeof key - 1);
    assert_int_equal(map.n, 2);
    assert_ptr_equal(map_get(&map, "key"), &two);
    assert_ptr_equal(map_del(&map, "key"), &two);
    memset(same, 'x', sizeof same - 1);
    assert_null(map_get(&map, "key"));
    assert_null(map_get(&map, "xxx"));
    assert_null(map_del(&map, "key"));
    assert_int_equal(map.n, 1);
    assert_ptr_equal(map_del(&map, ""), &two); // what removed ones are called, too
    map_put(&map, "", &one);
    assert_int_equal(map.n, 1);
    assert_ptr_equal(map_get(&map, ""), &one);
    map_done(&map);
}

static void put_null(void)
{
    struct map map = {0};
    map_put(&map, "a", NULL);
}

CHECK_CASE(null_is_no_value)
{
    assert_int_equal(check_signal(put_null), SIGABRT);
}

enum { KEYS = 500, STEPS = 200000 };

// Random puts and deletes against an array; now and then everything is compared.
CHECK_CASE(against_a_model)
{
    static char keys[KEYS][16];
    static void *model[KEYS];
    struct map map = {0};
    uint32_t dice = 12345;
    size_t n = 0;
    for (int i = 0; i < KEYS; i++)
        (void)snprintf(keys[i], sizeof keys[i], "k%d", i);
    for (int step = 0; step < STEPS; step++) {
        dice = dice * 1664525 + 1013904223;
        // Waves: mostly filling, then mostly emptying.
        int i = (int)(dice >> 8) % KEYS, wave = step / 5000 % 2 == 0 ? 3 : 1;
        if ((int)(dice >> 28) % 4 < wave) {
            n += model[i] == NULL;
            model[i] = &keys[(dice >> 4) % KEYS];
            map_put(&map, keys[i], model[i]);
        } else {
            n -= model[i] != NULL;
            assert_ptr_equal(map_del(&map, keys[i]), model[i]);
            model[i] = NULL;
        }
        assert_int_equal(map.n, n);
        for (int k = 0; step % 1000 == 0 && k < KEYS; k++)
            assert_ptr_equal(map_get(&map, keys[k]), model[k]);
    }
    assert_true(map.cap <= 4096); // removed entries do not make it grow
    map_done(&map);
}

CHECK_CASE(walking_while_removing)
{
    static char keys[KEYS][16];
    bool seen[KEYS] = {0};
    struct map map = {0};
    size_t at = 0, n = 0;
    for (int i = 0; i < KEYS; i++) {
        (void)snprintf(keys[i], sizeof keys[i], "k%d", i);
        map_put(&map, keys[i], keys[i]);
    }
    for (char *key; (key = map_next(&map, &at)) != NULL; n++) {
        size_t i = (size_t)(key - keys[0]) / sizeof keys[0];
        assert_false(seen[i]);
        seen[i] = true;
        if (i % 3 != 0)
            assert_ptr_equal(map_del(&map, key), key);
    }
    assert_int_equal(n, KEYS);
    assert_int_equal(map.n, (KEYS + 2) / 3);
    for (n = at = 0; map_next(&map, &at) != NULL; n++)
        ;
    assert_int_equal(n, (KEYS + 2) / 3);
    map_done(&map);
}

// A queue: what goes in goes out again, for a long time, in a table that stays small.
CHECK_CASE(coming_and_going)
{
    struct map map = {0};
    static char keys[4][16];
    for (int i = 0; i < 100000; i++) {
        if (i >= 4)
            assert_non_null(map_del(&map, keys[i % 4]));
        (void)snprintf(keys[i % 4], sizeof keys[0], "%d", i);
        map_put(&map, keys[i % 4], &map);
    }
    assert_int_equal(map.n, 4);
    assert_int_equal(map.cap, 16);
    map_done(&map);
}

CHECK_MAIN(cmocka_unit_test(empty), cmocka_unit_test(put_get_replace_del),
           cmocka_unit_test(null_is_no_value), cmocka_unit_test(against_a_model),
           cmocka_unit_test(walking_while_removing), cmocka_unit_test(coming_and_going))
