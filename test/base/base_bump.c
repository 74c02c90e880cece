/* The bump allocator: pieces are zeroed, aligned and apart; what comes after a mark is freed; memory that is
 * not there is told, and sticks. */
#include "base/bump.h"
#include "common/unit.h"

static void pieces(void **state)
{
    enum { N = 400 };
    tpi_bump b = TPI_BUMP(&((tp_ctx *)*state)->mem);
    unsigned char *p[N];
    for (size_t i = 0; i < N; i++) { /* some are larger than a block */
        p[i] = tpi_bump_take(&b, i % 40 ? i : 1000 * i, 1 + i % 3);
        assert_non_null(p[i]);
        assert_int_equal((uintptr_t)p[i] % 16, 0);
        for (size_t k = 0; k < i; k++)
            assert_int_equal(p[i][k], 0);
        memset(p[i], (int)(i % 251), i);
    }
    for (size_t i = 0; i < N; i++)
        for (size_t k = 0; k < i; k++)
            assert_int_equal(p[i][k], i % 251);
    assert_false(b.failed);
    tpi_bump_free(&b);
}

static void marks(void **state)
{
    tp_ctx *tp = *state;
    const size_t before = tp->mem.in_use;
    tpi_bump b = TPI_BUMP(&tp->mem);
    unsigned char *kept = tpi_bump_take(&b, 100, 1);
    memset(kept, 7, 100);
    const size_t one = tp->mem.in_use;
    for (int round = 0; round < 3; round++) {
        const tpi_bump mark = b;
        unsigned char *first = tpi_bump_take(&b, 24, 1);
        for (int i = 0; i < 50; i++)
            memset(tpi_bump_take(&b, 5000, 1), 9, 5000);
        assert_true(tp->mem.in_use > one);
        assert_int_equal(first[0], 0); /* anew in each round */
        tpi_bump_release(&b, &mark);
        assert_int_equal(tp->mem.in_use, one);
    }
    for (int i = 0; i < 100; i++)
        assert_int_equal(kept[i], 7);
    tpi_bump_free(&b);
    assert_int_equal(tp->mem.in_use, before);
}

static void grown(void **state)
{
    tpi_bump b = TPI_BUMP(&((tp_ctx *)*state)->mem);
    int32_t *list = NULL, size = 0;
    for (int32_t n = 0; n < 1000; n++) {
        list = tpi_bump_grow(&b, list, n, &size, sizeof *list);
        assert_true(list && size > n);
        list[n] = n;
    }
    for (int32_t n = 0; n < 1000; n++)
        assert_int_equal(list[n], n);
    tpi_bump_free(&b);
}

static void too_many(void **state)
{
    tpi_bump b = TPI_BUMP(&((tp_ctx *)*state)->mem);
    int32_t size = INT32_MAX - 1;
    assert_null(tpi_bump_take(&b, SIZE_MAX / 2, 4));
    assert_true(b.failed);
    b.failed = false;
    assert_null(tpi_bump_take(&b, SIZE_MAX, 1));
    assert_true(b.failed);
    b.failed = false;
    assert_null(tpi_bump_grow(&b, NULL, size, &size, 1));
    assert_true(b.failed && size == INT32_MAX - 1);
    tpi_bump_free(&b);
}

/* None from then on, whatever is released; what was taken before stays as it is. */
static void sticks(void **state)
{
    tpi_bump b = TPI_BUMP(&((tp_ctx *)*state)->mem);
    unsigned char *kept = tpi_bump_take(&b, 100, 1);
    int32_t size = 0;
    memset(kept, 7, 100);
    const tpi_bump mark = b;
    assert_non_null(tpi_bump_take(&b, 100000, 1));
    assert_null(tpi_bump_take(&b, SIZE_MAX, 1));
    assert_null(tpi_bump_take(&b, 1, 1));
    tpi_bump_release(&b, &mark);
    assert_null(tpi_bump_take(&b, 1, 1));
    assert_null(tpi_bump_grow(&b, NULL, 0, &size, 1));
    assert_true(b.failed && size == 0 && kept[0] == 7 && kept[99] == 7);
    tpi_bump_free(&b);
}

/* Every block that is asked for is refused once. */
static void no_memory(void **state)
{
    (void)state;
    long at = 0;
    bool failed = true;
    while (failed) {
        unit_memory m = {0};
        tp_ctx *tp = unit_open(&m);
        assert_non_null(tp);
        tpi_bump b = TPI_BUMP(&tp->mem);
        int32_t size = 0;
        char *list = NULL;
        m.fail_at = m.calls + ++at;
        for (int32_t n = 0; n < 300000; n++) {
            char *more = tpi_bump_grow(&b, list, n, &size, 1);
            assert_true(more || b.failed);
            if (!more)
                break;
            list = more;
            list[n] = 1;
        }
        failed = b.failed;
        tpi_bump_free(&b);
        tp_close(tp);
        assert_int_equal(m.bytes, 0);
    }
    assert_true(at > 3);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(pieces),   CASE(marks),  CASE(grown),
        CASE(too_many), CASE(sticks), cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
