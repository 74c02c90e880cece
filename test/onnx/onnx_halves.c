/* What is said to be of 16-bit floats is rounded to such once, from f32, f64 and integers, and written as such. */
#include "base/half.h"
#include "common/unit.h"
#include "onnx_bytes.h"
#include "tapir/onnx.h"
#include "tapir/tapir.h"

#include <math.h>

enum { N = 22 };
/* Among them are some of which a rounding to f32 first would make the middle of two. */
static const double numbers[N] = {0.0,
                                  -0.0,
                                  -1e-9,
                                  1e-9,
                                  -0x1p-25,
                                  0x1.8p-24,
                                  0x1.0000001p-25,
                                  -1e-300,
                                  1 + 0x1p-11 + 0x1p-40,
                                  1 + 0x1p-11 - 0x1p-40,
                                  1 + 0x1p-8 + 0x1p-40,
                                  -1 - 0x1p-8 - 0x1p-40,
                                  0x1.ffcp14 + 0x1p-30,
                                  65504,
                                  65519.999999,
                                  65520,
                                  -1e300,
                                  3.3895313892515355e38,
                                  (double)INFINITY,
                                  -(double)INFINITY,
                                  0x1.23456789abcdp-130,
                                  123.456};

static tp_tensor *cast(tp_ctx *tp, int from, int to, tp_tensor *x, tp_engine engine)
{
    bytes g = {0}, n = node("Cast", NAMES("x"), NAMES("y"));
    const int64_t size = tp_size(x, 0);
    put_message(&n, TPI_PB_NODE_ATTRIBUTE, attr_int("to", to));
    put_message(&g, TPI_PB_GRAPH_INPUT, value("x", from, 1, &size, NULL));
    put_message(&g, TPI_PB_GRAPH_NODE, n);
    put_message(&g, TPI_PB_GRAPH_OUTPUT, value("y", to, 0, NULL, NULL));
    bytes m = model(g);
    tp_graph *loaded = tp_onnx_load_bytes(tp, m.at, m.size, NULL, NULL);
    free(m.at);
    tp_tensor *y;
    tp_program *p = tp_graph_compile(loaded, 1, (const char *[]){"x"}, 1, (const char *[]){"y"},
                                     &(tp_compile_options){.engine = engine});
    if (tp_program_run(p, &x, &y) != TP_OK)
        fail_msg("%s", tp_error_message(tp));
    return y;
}

static void expect(const tp_tensor *y, int to, const double *want, tp_engine engine)
{
    const float *got = tp_data((tp_tensor *)y);
    const tpi_half type = to == TPI_PB_F16 ? TPI_FLOAT16 : TPI_BFLOAT16;
    assert_int_equal(tp_dtype_of(y), TP_F32);
    for (int64_t i = 0; i < tp_size(y, 0); i++) {
        const float one = tpi_half_to_float(type, tpi_half_of_double(type, want[i]));
        if (memcmp(&one, &got[i], sizeof one) != 0)
            fail_msg("type %d, engine %d: %a is %a, not %a", to, (int)engine, want[i],
                     (double)got[i], (double)one);
    }
}

static void rounded_once(void **state)
{
    tp_ctx *tp = *state;
    static const tp_engine engines[] = {TP_ENGINE_REFERENCE, TP_ENGINE_TILES};
    tp_tensor *wide = tp_tensor_new(tp, TP_F64, TP_DIMS(N), numbers),
              *narrow = tp_cast(wide, TP_F32);
    double floats[N];
    for (int i = 0; i < N; i++)
        floats[i] = (double)(float)numbers[i];
    static const int32_t whole[4] = {0x1001001, -0x1001001, 2049, 65519};
    static const double wholes[4] = {0x1001001, -0x1001001, 2049, 65519};
    /* Just above the middle of two bfloat16, by bits that f64 has not; and what they then round as. */
    static const int64_t longs[4] = {(1LL << 60) + (1LL << 52) + 1,
                                     -(1LL << 60) - (1LL << 52) - 1,
                                     (1LL << 53) + (1LL << 45) + 1, INT64_MIN};
    static const double above[4] = {0x1.018p60, -0x1.018p60, 0x1.018p53, -0x1p63};
    static const uint64_t ulongs[4] = {(1ULL << 63) + (1ULL << 55) + 1,
                                       (1ULL << 63) + (1ULL << 55), 7, UINT64_MAX};
    static const double uabove[4] = {0x1.018p63, 0x1.01p63, 7, 0x1p64};
    for (int k = 0; k < 4; k++) {
        const tp_engine e = engines[k % 2];
        const int to = k / 2 ? TPI_PB_BF16 : TPI_PB_F16;
        expect(cast(tp, TPI_PB_F64, to, wide, e), to, numbers, e);
        expect(cast(tp, TPI_PB_F32, to, narrow, e), to, floats, e);
        expect(cast(tp, TPI_PB_I32, to, tp_tensor_new(tp, TP_I32, TP_DIMS(4), whole), e), to,
               wholes, e);
        expect(cast(tp, TPI_PB_I64, to, tp_tensor_new(tp, TP_I64, TP_DIMS(4), longs), e), to,
               above, e);
        expect(cast(tp, TPI_PB_U64, to, tp_tensor_new(tp, TP_U64, TP_DIMS(4), ulongs), e), to,
               uabove, e);
    }
}

/* As a value of a type of 16-bit floats: by the type that the file has, and its size. */
static void written(void **state)
{
    tp_ctx *tp = *state;
    static const char *const types[] = {"float16", "bfloat16", "sequence(float16)",
                                        "optional(float16)"};
    tp_tensor *x = tp_cast(tp_tensor_new(tp, TP_F64, TP_DIMS(N), numbers), TP_F32), *y;
    double floats[N];
    for (int i = 0; i < N; i++)
        floats[i] = (double)(float)numbers[i];
    for (int k = 0; k < 4; k++) {
        int n = 0;
        assert_int_equal(tp_onnx_value_save(tp, "onnx_halves.pb", types[k], 1, &x), TP_OK);
        if (tp_onnx_value_load(tp, "onnx_halves.pb", types[k], 1, &y, &n) != TP_OK)
            fail_msg("%s: %s", types[k], tp_error_message(tp));
        assert_int_equal(n, 1);
        expect(y, k == 1 ? TPI_PB_BF16 : TPI_PB_F16, floats, TP_ENGINE_AUTO);
        if (k < 3) /* it is no file of f32 */
            assert_int_equal(tp_onnx_value_load(tp, "onnx_halves.pb",
                                                k < 2 ? "float" : "sequence(float)", 1, &y, &n),
                             TP_E_FORMAT);
        tp_clear_error(tp);
    }
    FILE *f = fopen("onnx_halves.pb", "rb");
    fseek(f, 0, SEEK_END);
    assert_true(ftell(f) < 4 * N);
    fclose(f);
    remove("onnx_halves.pb");
    /* Integers stay. */
    x = tp_cast(x, TP_I32);
    assert_int_equal(tp_onnx_value_save(tp, "onnx_halves.pb", "float16", 1, &x), TP_OK);
    assert_int_equal(tp_dtype_of(tp_onnx_tensor_load(tp, "onnx_halves.pb")), TP_I32);
    remove("onnx_halves.pb");
}

int main(void)
{
    const struct CMUnitTest tests[] = {CASE(rounded_once), CASE(written)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
