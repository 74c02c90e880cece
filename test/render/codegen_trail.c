/* The last phase of a softmax is done beside the next row's: rows of any number and length have the bits of
 * the eager op, with NaNs, infinities and -0, read from turned memory, on any number of threads. */
#include "common/on_threads.h"
#include <tapir/tapir.h>

#include <math.h>

static tp_tensor *turned(tp_tensor *x, bool turn)
{
    return turn ? tp_swap(x, 0, 1) : x;
}

static tp_program *compile(tp_ctx *tp, bool turn)
{
    tp_graph *g = tp_graph_new(tp);
    const int64_t a = tp_symbol(g, "a"), b = tp_symbol(g, "b"), n = tp_symbol(g, "n");
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(a, b, n));
    tp_name(tp_softmax(turned(x, turn), -1), "y");
    const tp_compile_options c = {.engine = TP_ENGINE_C};
    tp_program *p = tp_graph_compile(g, TP_NAMES("x"), TP_NAMES("y"), &c);
    assert_non_null(p);
    assert_int_equal(tp_program_wait(p), TP_OK);
    assert_non_null(strstr(tp_program_source(p), "tpk_exp_down_f32"));
    assert_non_null(strstr(tp_program_source(p), "if (late)"));
    return p;
}

/* Rows of ordinary numbers, with far ones in some, and a special one in some. */
static void fill(float *x, int64_t count)
{
    static const float special[] = {NAN,   -NAN,   INFINITY, -INFINITY,
                                    -0.0f, -2e38f, 2e38f,    1e-40f};
    for (int64_t i = 0; i < count; i++) {
        x[i] = (float)((i * 7919) % 1009) / 50 - 10;
        x[i] = i % 37 == 5 ? x[i] * 12 : x[i];
        x[i] = i % 411 == 17 ? special[i / 411 % 8] : x[i];
    }
}

static void same_bits(tp_ctx *tp, tp_program *p, bool turn, const int64_t *shape)
{
    const int64_t count = shape[0] * shape[1] * shape[2];
    const size_t bytes = (size_t)count * sizeof(float);
    float *data = calloc(2, bytes + 1), *other = data + count;
    assert_non_null(data);
    fill(data, count);
    tp_tensor *x = tp_tensor_new(tp, TP_F32, 3, shape, data), *y = NULL;
    assert_int_equal(tp_program_run(p, &x, &y), TP_OK);
    tp_read(y, data, bytes);
    tp_read(tp_softmax(turned(x, turn), -1), other, bytes);
    for (int64_t i = 0; i < count; i++)
        assert_true(isnan(data[i]) ? isnan(other[i])
                                   : memcmp(&data[i], &other[i], sizeof(float)) == 0);
    free(data);
}

static void on_threads(int threads)
{
    static const int64_t shapes[][3] = {
        {1,  1,  1   },
        {3,  5,  300 },
        {1,  2,  4096},
        {0,  4,  9   },
        {4,  3,  0   },
        {7,  1,  33  },
        {2,  40, 257 },
        {1,  1,  9000},
        {64, 9,  129 }
    };
    tp_ctx *tp = tp_open(&(tp_options){.threads = threads});
    for (int turn = 0; turn < 2; turn++) {
        tp_program *p = compile(tp, turn);
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            same_bits(tp, p, turn, shapes[i]);
    }
    assert_int_equal(tp_error(tp), TP_OK);
    tp_close(tp);
}

int main(void)
{
    return main_on_threads(on_threads, 7);
}
