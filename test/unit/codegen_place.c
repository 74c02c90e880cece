/* Places of buffers in an arena: the rule said plainly gives the same ones, none lies on another that
 * lives at the same time, and many are placed in little time. */
#include "codegen/plan.h"
#include "unit.h"

static uint64_t drawn;

static int draw(int below)
{
    drawn = drawn * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int)((drawn >> 33) % (uint64_t)below);
}

static void fill(int n, int n_kernels, int longest, tpi_buffer *buffers, int64_t *bytes)
{
    for (int i = 0; i < n; i++) {
        const int first = draw(n_kernels), last = first + draw(longest);
        const bool here = draw(8) != 0;
        buffers[i] = (tpi_buffer){.place = here ? TPI_AT_ARENA : TPI_AT_SOURCE,
                                  .first = first,
                                  .last = last < n_kernels ? last : n_kernels - 1};
        bytes[i] = draw(5) ? 4 * draw(100) : 256 * draw(4); /* many are equal, some are empty */
    }
}

static bool together(const tpi_buffer *a, const tpi_buffer *b)
{
    return a->last >= b->first && b->last >= a->first;
}

/* The rule: the largest first, at the lowest place that is free while it lives. */
static int64_t plain(int n, const tpi_buffer *buffers, const int64_t *bytes, int64_t *offset,
                     bool turned)
{
    int64_t total = 0;
    for (int i = 0; i < n; i++)
        offset[i] = -1;
    for (;;) {
        int next = -1;
        for (int i = 0; i < n; i++)
            if (offset[i] < 0 && buffers[i].place == TPI_AT_ARENA &&
                (next < 0 || bytes[i] > bytes[next] || (turned && bytes[i] == bytes[next])))
                next = i;
        if (next < 0)
            return (total + 63) / 64 * 64;
        int64_t at = 0;
        for (int i = 0; i < n; i++) {
            if (offset[i] < 0 || !together(&buffers[i], &buffers[next]) ||
                at >= offset[i] + bytes[i] || offset[i] >= at + bytes[next])
                continue;
            at = (offset[i] + bytes[i] + 63) / 64 * 64;
            i = -1; /* from the start */
        }
        offset[next] = at;
        total = at + bytes[next] > total ? at + bytes[next] : total;
    }
}

static void test_rule(void **state)
{
    tp_ctx *tp = *state;
    enum { MOST = 200 };
    tpi_buffer buffers[MOST];
    int64_t bytes[MOST], offset[MOST], expected[MOST];
    drawn = 1;
    for (int turn = 0; turn < 200; turn++) {
        const int n = 1 + draw(MOST);
        fill(n, 1 + draw(60), 1 + draw(30), buffers, bytes);
        const int64_t first = plain(n, buffers, bytes, expected, false);
        const int64_t other = plain(n, buffers, bytes, expected, true);
        if (first <= other)
            plain(n, buffers, bytes, expected, false);
        const int64_t total = tpi_place_buffers(&tp->mem, n, buffers, bytes, offset);
        assert_int_equal(total, first < other ? first : other);
        assert_memory_equal(offset, expected, (size_t)n * sizeof *offset);
    }
}

/* 100,000 buffers, of which few live at a time: looking at each pair would take minutes. */
static void test_many(void **state)
{
    tp_ctx *tp = *state;
    enum { N = 100000 };
    tpi_buffer *buffers = calloc(N, sizeof *buffers);
    int64_t *bytes = calloc(N, sizeof *bytes), *offset = calloc(N, sizeof *offset);
    drawn = 2;
    fill(N, N, 8, buffers, bytes);
    const int64_t total = tpi_place_buffers(&tp->mem, N, buffers, bytes, offset);
    assert_in_range(total, 1, 64 * 1024);
    for (int i = 0; i < N; i++)
        assert_true(buffers[i].place == TPI_AT_ARENA
                        ? offset[i] >= 0 && offset[i] + bytes[i] <= total
                        : offset[i] == -1);
    free(buffers);
    free(bytes);
    free(offset);
}

static const struct CMUnitTest tests[] = {CASE(test_rule), CASE(test_many)};

int main(void)
{
    return cmocka_run_group_tests(tests, NULL, NULL);
}
