/* A remainder of floats is a function of rows in C: wherever in a nest it stands, the bits are those of the plain
 * function of elements, with quotients that are far or none, at any sizes and on any number of threads. */
#include "common/on_threads.h"
#include "common/same.h"
#include <tapir/tapir.h>

#include <math.h>

#undef TP_PLACE
#define TP_PLACE __FILE__, __LINE__

static const int64_t last[] = {-1}, first[] = {0};

/* One kernel each, of a and b [n, m]. */
static tp_tensor *elements(tp_tensor *a, tp_tensor *b)
{
    return tp_mul(tp_add(tp_mod(tp_neg(a), b), a), tp_exp(b));
}

static tp_tensor *chained(tp_tensor *a, tp_tensor *b)
{
    tp_tensor *less = tp_lt(a, b), *x = tp_mod(a, tp_mul(b, b)), *y = tp_mod(a, 0.7);
    return tp_where(less, tp_mod(y, tp_abs(x)), tp_mod(x, y));
}

static tp_tensor *of_itself(tp_tensor *a, tp_tensor *b)
{
    return tp_add(tp_mod(a, a), tp_mod(b, tp_scalar_like(b, -3)));
}

static tp_tensor *phases(tp_tensor *a, tp_tensor *b)
{
    tp_tensor *x = tp_mod(tp_mul(a, 2), b), *most = tp_reduce_max(x, 1, last, true);
    tp_tensor *e = tp_exp(tp_sub(x, most));
    return tp_mod(tp_div(e, tp_sum(e, 1, last, true)), tp_sub(x, most));
}

static tp_tensor *blocked(tp_tensor *a, tp_tensor *b)
{
    return tp_mod(tp_sum(tp_mul(tp_mod(tp_add(a, 1), b), a), 1, last, false), 0.3);
}

static tp_tensor *columns(tp_tensor *a, tp_tensor *b)
{
    tp_tensor *x = tp_sum(tp_mod(tp_sub(a, 1), b), 1, first, false);
    tp_tensor *y = tp_sum(tp_mul(tp_mod(tp_mul(a, b), 2), b), 1, first, false);
    return tp_add(tp_mod(x, y), x);
}

static tp_tensor *turned(tp_tensor *a, tp_tensor *b)
{
    return tp_mod(tp_add(tp_swap(a, 0, 1), 1), tp_swap(b, 0, 1));
}

static tp_tensor *behind_product(tp_tensor *a, tp_tensor *b)
{
    tp_tensor *x = tp_matmul(a, tp_swap(b, 0, 1));
    return tp_matmul(tp_mod(tp_mul(x, 3), 2), b);
}

typedef tp_tensor *form(tp_tensor *a, tp_tensor *b);
static form *const forms[] = {elements, chained, of_itself, phases,
                              blocked,  columns, turned,    behind_product};
enum { N_FORMS = sizeof forms / sizeof *forms };

static tp_program *compile(tp_ctx *tp, tp_engine engine)
{
    static const char *const names[N_FORMS] = {"y0", "y1", "y2", "y3", "y4", "y5", "y6", "y7"};
    tp_graph *g = tp_graph_new(tp);
    const int64_t n = tp_symbol(g, "n"), m = tp_symbol(g, "m");
    tp_tensor *a = tp_placeholder(g, "a", TP_F32, TP_DIMS(n, m));
    tp_tensor *b = tp_placeholder(g, "b", TP_F32, TP_DIMS(n, m));
    for (int i = 0; i < N_FORMS; i++)
        tp_name(forms[i](a, b), names[i]);
    const tp_compile_options c = {.engine = engine};
    tp_program *p = tp_graph_compile(g, TP_NAMES("a", "b"), N_FORMS, names, &c);
    assert_non_null(p);
    if (engine == TP_ENGINE_C)
        assert_int_equal(tp_program_wait(p), TP_OK);
    return p;
}

/* Ordinary numbers; in some blocks one that is special, or whose quotients are. */
static void fill(float *x, int64_t count, int step)
{
    static const float special[] = {NAN,   0.0f,   INFINITY, -INFINITY, -0.0f,
                                    2e38f, -2e38f, 1e-40f,   -1e-12f,   1e12f};
    for (int64_t i = 0; i < count; i++)
        x[i] = i % step == 17 ? special[i / step % 10]
                              : (float)((i * 7919 + step) % 1009) / 50 - 10.01f;
}

static void same_as_reference(tp_ctx *tp, tp_program *c, tp_program *reference, int64_t n,
                              int64_t m)
{
    const int64_t shape[] = {n, m};
    float *data = malloc((size_t)(2 * n * m + 1) * sizeof *data);
    assert_non_null(data);
    fill(data, n * m, 411);
    fill(data + n * m, n * m, 203);
    tp_tensor *in[] = {tp_tensor_new(tp, TP_F32, 2, shape, data),
                       tp_tensor_new(tp, TP_F32, 2, shape, data + n * m)};
    tp_tensor *y[N_FORMS], *want[N_FORMS];
    assert_int_equal(tp_program_run(c, in, y), TP_OK);
    assert_int_equal(tp_program_run(reference, in, want), TP_OK);
    for (int i = 0; i < N_FORMS; i++) {
        char why[256];
        if (!same_tensors(y[i], want[i], SAME_ZEROS_BITS, why, sizeof why))
            fail_msg("form %d of [%d, %d]: %s", i, (int)n, (int)m, why);
    }
    free(data);
}

static void on_threads(int threads)
{
    static const int64_t shapes[][2] = {
        {1,   1   },
        {1,   255 },
        {3,   256 },
        {5,   1025},
        {0,   9   },
        {4,   0   },
        {2,   9000},
        {67,  257 },
        {500, 3   },
    };
    tp_ctx *tp = tp_open(&(tp_options){.threads = threads});
    tp_program *c = compile(tp, TP_ENGINE_C), *reference = compile(tp, TP_ENGINE_REFERENCE);
    assert_non_null(strstr(tp_program_source(c), "tpk_mod_row_f32(m, "));
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        same_as_reference(tp, c, reference, shapes[i][0], shapes[i][1]);
    assert_int_equal(tp_error(tp), TP_OK);
    tp_close(tp);
}

int main(void)
{
    return main_on_threads(on_threads, 5);
}
