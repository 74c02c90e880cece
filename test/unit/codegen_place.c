/* Places of buffers in an arena: the rule said plainly gives the same ones, none lies on another that
 * lives at the same time, and many are placed in little time. Formulas of places hold at all sizes. */
#include "codegen/arena.h"
#include "unit.h"
#include <tapir/tapir.h>

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

/* n tensors of sizes that are products and quotients of two symbols. */
static void draw_tensors(tp_graph *g, int n, tp_tensor **t)
{
    const int64_t a = tp_symbol(g, "a"), b = tp_symbol(g, "b");
    for (int i = 0; i < n; i++) {
        const int64_t forms[] = {a,
                                 b,
                                 tp_dim_mul(g, a, b),
                                 tp_dim_div(g, tp_dim_add(g, a, 3), 2),
                                 tp_dim_add(g, b, 5),
                                 7};
        const int64_t shape[] = {forms[draw(6)], 1 + draw(40)};
        char name[16];
        snprintf(name, sizeof name, "x%d", i);
        t[i] = tp_placeholder(g, name, TP_F32, 2, shape);
    }
}

/* All of it is in the arena, nothing on what lives with it, and the total is where the highest one ends. */
static void check_places(const tpi_arena *a, const tpi_buffer *buffers, const int64_t *symbols,
                         int64_t *bytes, int64_t *offset)
{
    int64_t total, highest = 0;
    assert_true(tpi_arena_at(a, symbols, bytes, offset, &total));
    for (int i = 0; i < a->n_buffers; i++) {
        const int64_t end = offset[i] + (bytes[i] + 63) / 64 * 64;
        if (buffers[i].place != TPI_AT_ARENA)
            continue;
        assert_int_equal(offset[i] % 64, 0);
        assert_in_range(offset[i], 0, total - bytes[i]);
        highest = end > highest ? end : highest;
        for (int k = 0; k < i; k++)
            if (buffers[k].place == TPI_AT_ARENA && together(&buffers[i], &buffers[k]))
                assert_true(offset[i] >= offset[k] + bytes[k] || offset[k] >= end);
    }
    assert_int_equal(total, highest);
}

static void test_formula(void **state)
{
    static const int64_t sizes[][2] = {
        {0,   0  },
        {0,   9  },
        {1,   1  },
        {3,   200},
        {16,  16 },
        {500, 1  },
        {77,  78 }
    };
    tp_ctx *tp = *state;
    enum { MOST = 60, N_SIZES = sizeof sizes / sizeof *sizes };
    tpi_buffer buffers[MOST];
    int64_t bytes[MOST], offset[MOST], other[MOST];
    double all[2] = {
        0}; /* bytes that places for these sizes alone take, and that formulas take */
    drawn = 3;
    for (int turn = 0; turn < 60; turn++) {
        const int n = 1 + draw(MOST), n_kernels = 1 + draw(30);
        tp_graph *g = tp_graph_new(tp);
        tp_tensor *t[MOST];
        tpi_plan plan = {.graph = g,
                         .buffers = buffers,
                         .n_buffers = n,
                         .all_buffers = n,
                         .n_kernels = n_kernels};
        fill(n, n_kernels, 1 + draw(10), buffers, bytes);
        draw_tensors(g, n, t);
        for (int i = 0; i < n; i++)
            buffers[i].like = t[i];
        tpi_arena *a = tpi_arena_new(&plan, buffers);
        assert_non_null(a);
        for (int i = 0; i < N_SIZES; i++) {
            check_places(a, buffers, sizes[i], bytes, offset);
            int64_t total;
            tpi_arena_at(a, sizes[i], NULL, NULL, &total);
            all[0] += (double)tpi_place_buffers(&tp->mem, n, buffers, bytes, other);
            all[1] += (double)total;
        }
        tpi_arena_free(a);
        tp_graph_free(g);
    }
    assert_true(all[1] < 1.1 * all[0]);
}

static const struct CMUnitTest tests[] = {CASE(test_rule), CASE(test_many), CASE(test_formula)};

int main(void)
{
    return cmocka_run_group_tests(tests, NULL, NULL);
}
