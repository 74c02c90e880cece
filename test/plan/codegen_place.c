/* Places of buffers in an arena: the rule said plainly gives the same ones, none lies on another that
 * lives at the same time, and many are placed in little time. Formulas of places hold at all sizes. */
#include "common/unit.h"
#include "plan/arena.h"
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
        buffers[i] = (tpi_buffer){.storage = here ? TPI_IN_ARENA : TPI_IN_SOURCE,
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
            if (offset[i] < 0 && buffers[i].storage == TPI_IN_ARENA &&
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

/* So many that they are in trees; some live long. */
static void test_rule_of_many(void **state)
{
    tp_ctx *tp = *state;
    enum { N = 2100 };
    static tpi_buffer buffers[N];
    static int64_t bytes[N], offset[N], expected[N];
    static const int longest[] = {3, 40, 600};
    drawn = 5;
    for (int turn = 0; turn < 3; turn++) {
        fill(N, 700, longest[turn], buffers, bytes);
        const int64_t total = plain(N, buffers, bytes, expected, false);
        assert_int_equal(tpi_place_buffers(&tp->mem, N, buffers, bytes, offset), total);
        assert_memory_equal(offset, expected, sizeof offset);
    }
}

/* What a forward pass keeps for the backward one: in the middle all live, one on top of the other. */
static void test_all_living(void **state)
{
    tp_ctx *tp = *state;
    enum { N = 100000, BYTES = 100, ROOM = 128 };
    tpi_buffer *buffers = calloc(N, sizeof *buffers);
    int64_t *bytes = calloc(N, sizeof *bytes), *offset = calloc(N, sizeof *offset);
    for (int i = 0; i < N; i++) {
        buffers[i] = (tpi_buffer){.storage = TPI_IN_ARENA, .first = i, .last = 2 * N - i};
        bytes[i] = BYTES;
    }
    assert_int_equal(tpi_place_buffers(&tp->mem, N, buffers, bytes, offset), N * ROOM);
    for (int i = 0; i < N; i++)
        assert_int_equal(offset[i], i * ROOM);
    free(buffers);
    free(bytes);
    free(offset);
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
        assert_true(buffers[i].storage == TPI_IN_ARENA
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

/* Nothing lies on what lives with it, in the bodies of blocks neither, which are within their arena; where the
 * highest one ends. */
static int64_t check_places(const tpi_plan *plan, const int64_t *bytes, const int64_t *offset)
{
    const tpi_buffer *b = plan->buffers;
    int64_t highest = 0;
    bytes += plan->first_buffer;
    offset += plan->first_buffer;
    for (int i = 0; i < plan->n_buffers; i++) {
        const int64_t end = offset[i] + (bytes[i] + 63) / 64 * 64;
        if (b[i].storage != TPI_IN_ARENA)
            continue;
        assert_true(offset[i] >= 0 && offset[i] % 64 == 0);
        highest = end > highest ? end : highest;
        for (int k = 0; k < i; k++)
            if (b[k].storage == TPI_IN_ARENA && together(&b[i], &b[k]))
                assert_true(offset[i] >= offset[k] + bytes[k] || offset[k] >= end);
        for (int k = 0; b[i].section && k < b[i].section->n_bodies; k++)
            assert_true(check_places(b[i].section->plan[k], bytes - plan->first_buffer,
                                     offset - plan->first_buffer) <= bytes[i]);
    }
    return highest;
}

static const int64_t sizes[][2] = {
    {0,   0  },
    {0,   9  },
    {1,   1  },
    {3,   200},
    {16,  16 },
    {500, 1  },
    {77,  78 }
};
enum { N_SIZES = sizeof sizes / sizeof *sizes };

static void test_formula(void **state)
{
    tp_ctx *tp = *state;
    enum { MOST = 60 };
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
        tpi_bump memory = TPI_BUMP(&tp->mem);
        tpi_arena *a = tpi_arena_new(&memory, &plan, buffers);
        assert_non_null(a);
        for (int i = 0; i < N_SIZES; i++) {
            int64_t total;
            assert_true(tpi_arena_at(a, sizes[i], bytes, offset, &total));
            assert_int_equal(check_places(&plan, bytes, offset), total);
            all[0] += (double)tpi_place_buffers(&tp->mem, n, buffers, bytes, other);
            all[1] += (double)total;
        }
        tpi_bump_free(&memory);
        tp_graph_free(g);
    }
    assert_true(all[1] < 1.1 * all[0]);
}

enum { MOST_PLANS = 64, MOST_IN_PLAN = 12, MOST_BODIES = 2, DEPTH = 3 };

/* Plans, and in these blocks with bodies, three deep. */
typedef struct nest {
    tp_graph *g;
    tp_tensor *like[MOST_IN_PLAN];
    int n_likes, most, n_plans, n_sections, n_buffers;
    tpi_plan plan[MOST_PLANS];
    tpi_section section[MOST_PLANS];
    tpi_buffer buffer[MOST_PLANS][MOST_IN_PLAN];
} nest;

static tpi_plan *draw_plan(nest *s, int depth)
{
    int64_t bytes[MOST_IN_PLAN];
    const int n = 1 + draw(s->most), n_kernels = 1 + draw(4);
    tpi_buffer *b = s->buffer[s->n_plans];
    tpi_plan *plan = &s->plan[s->n_plans++];
    *plan = (tpi_plan){.graph = s->g,
                       .buffers = b,
                       .n_buffers = n,
                       .n_kernels = n_kernels,
                       .first_buffer = s->n_buffers};
    s->n_buffers += n;
    fill(n, n_kernels, 3, b, bytes);
    for (int i = 0; i < n; i++) {
        b[i].like = s->like[draw(s->n_likes)];
        if (depth == 0 || draw(4) || s->n_plans == MOST_PLANS)
            continue;
        tpi_section *section = &s->section[s->n_sections++];
        *section = (tpi_section){0};
        b[i].storage = TPI_IN_ARENA;
        b[i].like = NULL;
        b[i].section = section;
        for (int k = draw(2); k < MOST_BODIES && s->n_plans < MOST_PLANS; k++)
            section->plan[section->n_bodies++] = draw_plan(s, depth - 1);
    }
    return plan;
}

static void test_nested(void **state)
{
    static nest s;
    static int64_t bytes[MOST_PLANS * MOST_IN_PLAN], offset[MOST_PLANS * MOST_IN_PLAN];
    int most_plans = 0;
    drawn = 4;
    for (int turn = 0; turn < 20000; turn++) {
        s = (nest){.g = tp_graph_new(*state),
                   .n_likes = 1 + draw(3),
                   .most = 1 + draw(MOST_IN_PLAN)}; /* so that many are equal */
        draw_tensors(s.g, s.n_likes, s.like);
        tpi_plan *plan = draw_plan(&s, DEPTH);
        plan->all_buffers = s.n_buffers;
        most_plans = s.n_plans > most_plans ? s.n_plans : most_plans;
        tpi_bump memory = TPI_BUMP(&s.g->ctx->mem);
        tpi_arena *a = tpi_arena_new(&memory, plan, plan->buffers);
        assert_non_null(a);
        for (int i = 0; i < N_SIZES; i++) {
            int64_t total;
            assert_true(tpi_arena_at(a, sizes[i], bytes, offset, &total));
            if (check_places(plan, bytes, offset) != total)
                fail_msg("draw %d, at %d, %d", turn, (int)sizes[i][0], (int)sizes[i][1]);
        }
        tpi_bump_free(&memory);
        tp_graph_free(s.g);
    }
    assert_true(most_plans > MOST_PLANS / 2);
}

static const struct CMUnitTest tests[] = {CASE(test_rule),       CASE(test_rule_of_many),
                                          CASE(test_all_living), CASE(test_many),
                                          CASE(test_formula),    CASE(test_nested)};

int main(void)
{
    return cmocka_run_group_tests(tests, NULL, NULL);
}
