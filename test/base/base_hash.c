/* Hashes: pieces make no difference, every input bit reaches every output bit, and keys that
 * differ little do not collide more often than chance. */
#include "base/hash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void hash_of(const unsigned char *data, size_t size, uint64_t out[2])
{
    tpi_hasher h;
    tpi_hash_begin(&h);
    tpi_hash_add(&h, data, size);
    tpi_hash_end(&h, out);
}

static void test_pieces(void **state)
{
    (void)state;
    unsigned char data[100];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * 37 + 11);
    for (size_t size = 0; size <= sizeof data; size++) {
        uint64_t whole[2];
        hash_of(data, size, whole);
        assert_true(tpi_hash64(data, size) == whole[0]);
        for (size_t a = 0; a <= size; a++) {
            const size_t b = a + (size - a) / 3;
            tpi_hasher h;
            uint64_t cut[2];
            tpi_hash_begin(&h);
            tpi_hash_add(&h, data, a);
            tpi_hash_add(&h, data + a, b - a);
            tpi_hash_add(&h, data + b, size - b);
            tpi_hash_end(&h, cut);
            if (memcmp(whole, cut, sizeof cut) != 0)
                fail_msg("%zu bytes cut at %zu and %zu", size, a, b);
        }
    }
}

/* 640 keys with one bit set, all pairs of them, lengths of zeros, and lines of text: no two of
 * 216,000 agree in 64 bits (by chance: once in a billion tries). */
static int by_value(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

static void test_collisions(void **state)
{
    (void)state;
    enum { BITS = 640, ROOM = BITS + BITS * (BITS - 1) / 2 + 200 + 10000 };
    uint64_t *values = malloc(ROOM * sizeof *values);
    assert_non_null(values);
    unsigned char key[BITS / 8] = {0};
    int n = 0;
    for (int i = 0; i < BITS; i++) {
        key[i / 8] ^= (unsigned char)(1 << i % 8);
        values[n++] = tpi_hash64(key, sizeof key);
        for (int j = 0; j < i; j++) {
            key[j / 8] ^= (unsigned char)(1 << j % 8);
            values[n++] = tpi_hash64(key, sizeof key);
            key[j / 8] ^= (unsigned char)(1 << j % 8);
        }
        key[i / 8] ^= (unsigned char)(1 << i % 8);
    }
    static const unsigned char zeros[200];
    for (size_t i = 0; i < sizeof zeros; i++)
        values[n++] = i == sizeof key ? 1 : tpi_hash64(zeros, i);
    for (int i = 0; i < 10000; i++) {
        const uint64_t pair =
            tpi_hash_step(tpi_hash_step(0, (uint64_t)i % 100), (uint64_t)i / 100);
        values[n++] = pair;
    }
    qsort(values, (size_t)n, sizeof *values, by_value);
    int same = 0;
    for (int i = 1; i < n; i++)
        same += values[i] == values[i - 1];
    free(values);
    assert_int_equal(same, 0);
}

static void test_avalanche(void **state)
{
    (void)state;
    enum { SIZE = 40, TRIES = 1000 };
    static int flips[SIZE * 8][128];
    uint64_t x = 1;
    for (int t = 0; t < TRIES; t++) {
        unsigned char data[SIZE];
        uint64_t before[2], after[2];
        for (int i = 0; i < SIZE; i++)
            data[i] = (unsigned char)(x = tpi_mix64(x + 1));
        hash_of(data, SIZE, before);
        for (int k = 0; k < SIZE * 8; k++) {
            data[k / 8] ^= (unsigned char)(1 << k % 8);
            hash_of(data, SIZE, after);
            data[k / 8] ^= (unsigned char)(1 << k % 8);
            for (int j = 0; j < 128; j++)
                flips[k][j] += (int)((before[j / 64] ^ after[j / 64]) >> j % 64 & 1);
        }
    }
    /* 500 each, standard deviation 16; seven of them off is one in 10^11. */
    for (int k = 0; k < SIZE * 8; k++) {
        for (int j = 0; j < 128; j++) {
            if (abs(flips[k][j] - TRIES / 2) > 7 * 16)
                fail_msg("bit %d of the input flips bit %d in %d of %d", k, j, flips[k][j],
                         TRIES);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_collisions),
        cmocka_unit_test(test_avalanche),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
