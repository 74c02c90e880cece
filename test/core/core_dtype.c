/* Element types: where two meet, and what a number becomes in each. */
#include "common/unit.h"

#include <math.h>

static void promotion(void **state)
{
    (void)state;
    /* Row by row in the order of tp_dtype. */
    static const tp_dtype table[TP_N_DTYPES][TP_N_DTYPES] = {
        {TP_BOOL, TP_I8,  TP_I16, TP_I32, TP_I64, TP_U8,  TP_U16, TP_U32, TP_U64, TP_F32, TP_F64},
        {TP_I8,   TP_I8,  TP_I16, TP_I32, TP_I64, TP_I16, TP_I32, TP_I64, TP_I64, TP_F32, TP_F64},
        {TP_I16,  TP_I16, TP_I16, TP_I32, TP_I64, TP_I16, TP_I32, TP_I64, TP_I64, TP_F32,
         TP_F64                                                                                 },
        {TP_I32,  TP_I32, TP_I32, TP_I32, TP_I64, TP_I32, TP_I32, TP_I64, TP_I64, TP_F32,
         TP_F64                                                                                 },
        {TP_I64,  TP_I64, TP_I64, TP_I64, TP_I64, TP_I64, TP_I64, TP_I64, TP_I64, TP_F32,
         TP_F64                                                                                 },
        {TP_U8,   TP_I16, TP_I16, TP_I32, TP_I64, TP_U8,  TP_U16, TP_U32, TP_U64, TP_F32, TP_F64},
        {TP_U16,  TP_I32, TP_I32, TP_I32, TP_I64, TP_U16, TP_U16, TP_U32, TP_U64, TP_F32,
         TP_F64                                                                                 },
        {TP_U32,  TP_I64, TP_I64, TP_I64, TP_I64, TP_U32, TP_U32, TP_U32, TP_U64, TP_F32,
         TP_F64                                                                                 },
        {TP_U64,  TP_I64, TP_I64, TP_I64, TP_I64, TP_U64, TP_U64, TP_U64, TP_U64, TP_F32,
         TP_F64                                                                                 },
        {TP_F32,  TP_F32, TP_F32, TP_F32, TP_F32, TP_F32, TP_F32, TP_F32, TP_F32, TP_F32,
         TP_F64                                                                                 },
        {TP_F64,  TP_F64, TP_F64, TP_F64, TP_F64, TP_F64, TP_F64, TP_F64, TP_F64, TP_F64,
         TP_F64                                                                                 },
    };
    for (int a = 0; a < TP_N_DTYPES; a++) {
        for (int b = 0; b < TP_N_DTYPES; b++) {
            if (tp_promote((tp_dtype)a, (tp_dtype)b) != table[a][b])
                fail_msg("%s with %s: %s", tp_dtype_name((tp_dtype)a),
                         tp_dtype_name((tp_dtype)b),
                         tp_dtype_name(tp_promote((tp_dtype)a, (tp_dtype)b)));
        }
    }
}

static void names(void **state)
{
    (void)state;
    static const char *const names[] = {"bool", "i8",  "i16", "i32", "i64", "u8",
                                        "u16",  "u32", "u64", "f32", "f64"};
    static const size_t sizes[] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 4, 8};
    for (int t = 0; t < TP_N_DTYPES; t++) {
        assert_string_equal(tp_dtype_name((tp_dtype)t), names[t]);
        assert_int_equal(tp_dtype_size((tp_dtype)t), sizes[t]);
    }
    assert_string_equal(tp_dtype_name(TP_N_DTYPES), "?");
    assert_string_equal(tp_dtype_name((tp_dtype)-1), "?");
    assert_int_equal(tp_dtype_size((tp_dtype)99), 0);
}

static double stored(tp_dtype t, double v)
{
    uint64_t place = UINT64_C(0xeeeeeeeeeeeeeeee);
    tpi_store_f64(t, &place, v);
    return tpi_load_f64(t, &place);
}

static void numbers_saturate(void **state)
{
    (void)state;
    static const struct {
        tp_dtype t;
        double low, high;
    } ends[] = {
        {TP_I8,  -128,    127       },
        {TP_I16, -32768,  32767     },
        {TP_I32, -0x1p31, 0x1p31 - 1},
        {TP_I64, -0x1p63, 0x1p63    },
        {TP_U8,  0,       255       },
        {TP_U16, 0,       65535     },
        {TP_U32, 0,       0x1p32 - 1},
        {TP_U64, 0,       0x1p64    },
    };
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const tp_dtype t = ends[i].t;
        assert_true(stored(t, NAN) == 0);
        assert_true(stored(t, INFINITY) == ends[i].high);
        assert_true(stored(t, 1e300) == ends[i].high);
        assert_true(stored(t, ends[i].high + 0.5) == ends[i].high);
        assert_true(stored(t, -INFINITY) == ends[i].low);
        assert_true(stored(t, -1e300) == ends[i].low);
        assert_true(stored(t, 2.9) == 2);
        assert_true(stored(t, -2.9) == (ends[i].low < 0 ? -2 : 0));
        assert_true(stored(t, -0.5) == 0);
    }
    assert_true(stored(TP_BOOL, 0.25) == 1 && stored(TP_BOOL, NAN) == 1);
    assert_true(stored(TP_BOOL, -0.0) == 0);
    assert_true(stored(TP_F32, 1e300) == INFINITY && stored(TP_F32, 0.1) == (double)0.1f);
    assert_true(stored(TP_F64, 0.1) == 0.1 && isnan(stored(TP_F64, NAN)));
}

static void integers(void **state)
{
    (void)state;
    const uint64_t u = UINT64_MAX;
    const int64_t low = INT64_MIN, odd = INT64_MAX - 2;
    const double d[] = {NAN, 1e300, -1e300, -3.9, 0x1p62};
    const int64_t want[] = {0, INT64_MAX, INT64_MIN, -3, INT64_C(1) << 62};
    assert_true(tpi_load_i64(TP_U64, &u) == INT64_MAX);
    assert_true(tpi_load_i64(TP_I64, &low) == INT64_MIN);
    assert_true(tpi_load_i64(TP_I64, &odd) == odd);
    for (int i = 0; i < 5; i++)
        assert_true(tpi_load_i64(TP_F64, &d[i]) == want[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(promotion),
        CASE(names),
        CASE(numbers_saturate),
        CASE(integers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
