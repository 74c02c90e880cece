/* Elementwise kernels over contiguous rows, for the types people compute with. Other types go
 * through the plain loops of op/elem_ref.c. */
#include "kernel/isa/isa_host.h"
#include "kernel/text/elem.h"

#undef bool /* names below are made of the word, which stdbool.h makes another */

/* In the order of tp_dtype. */
enum { AT_bool, AT_i8, AT_i16, AT_i32, AT_i64, AT_u8, AT_u16, AT_u32, AT_u64, AT_f32, AT_f64 };

/* Each set has what gains by its vectors; for the rest a narrower one is asked. */
#if defined(__AVX512F__)
#define TYPES_FLOAT(M, name) M(name, f32)
#define TYPES_NUM(M, name) TYPES_FLOAT(M, name)
#define TYPES_BIT(M, name)
#define CAST_TYPES(M, x) M(x, f32)
#elif defined(__AVX2__)
#define TYPES_FLOAT(M, name) M(name, f32) M(name, f64)
#define TYPES_NUM(M, name) TYPES_FLOAT(M, name)
#define TYPES_BIT(M, name)
#define CAST_TYPES(M, x) M(x, f32) M(x, f64)
#else
#define TYPES_FLOAT(M, name) M(name, f32) M(name, f64)
#define TYPES_NUM(M, name) M(name, i32) M(name, i64) M(name, f32) M(name, f64)
#define TYPES_BIT(M, name) M(name, bool)
#define CAST_TYPES(M, x) M(x, bool) M(x, u8) M(x, i32) M(x, i64) M(x, f32) M(x, f64)
#endif
#define TYPES_COMPARE(M, name) TYPES_NUM(M, name)
#define TYPES_ANY(M, name) TYPES_NUM(M, name) TYPES_BIT(M, name)

#define LOOP(y_t, e)                                                                           \
    {                                                                                          \
        (void)pa, (void)pb, (void)pc;                                                          \
        y_t *restrict y = py;                                                                  \
        for (int64_t i = 0; i < n; i++)                                                        \
            y[i] = (e);                                                                        \
    }
/* Of pointers that are restrict in the body alone gcc asks at run time whether they overlap, and has a loop for either.
 * Unused: a function of rows took its place. Not inlined: some rows are others with their operands exchanged. */
#define ROW(fn)                                                                                \
    static __attribute__((unused, noinline)) void fn(                                          \
        int64_t n, void *restrict py, const void *restrict pa, const void *restrict pb,        \
        const void *restrict pc)

#define ROWS1(name, t)                                                                         \
    ROW(name##_##t)                                                                            \
    {                                                                                          \
        const tpk_##t *restrict a = pa;                                                        \
        LOOP(tpk_##t, tpk_##name##_##t(a[i]))                                                  \
    }
#define ROWS2_AS(name, t, y_t)                                                                 \
    ROW(name##_##t)                                                                            \
    {                                                                                          \
        const tpk_##t *restrict a = pa, *restrict b = pb;                                      \
        LOOP(y_t, tpk_##name##_##t(a[i], b[i]))                                                \
    }                                                                                          \
    ROW(name##_##t##_sv)                                                                       \
    {                                                                                          \
        const tpk_##t a = *(const tpk_##t *)pa, *restrict b = pb;                              \
        LOOP(y_t, tpk_##name##_##t(a, b[i]))                                                   \
    }                                                                                          \
    ROW(name##_##t##_vs)                                                                       \
    {                                                                                          \
        const tpk_##t *restrict a = pa, b = *(const tpk_##t *)pb;                              \
        LOOP(y_t, tpk_##name##_##t(a[i], b))                                                   \
    }
#define ROWS2(name, t) ROWS2_AS(name, t, tpk_##t)
#define ROWS_eq(name, t) ROWS2_AS(name, t, tpk_bool)
#define ROWS_ne ROWS_eq
#define ROWS_lt ROWS_eq
#define ROWS_le ROWS_eq
/* a > b as b < a */
#define ROWS2_TURNED(name, of, t)                                                              \
    ROW(name##_##t)                                                                            \
    {                                                                                          \
        of##_##t(n, py, pb, pa, pc);                                                           \
    }                                                                                          \
    ROW(name##_##t##_sv)                                                                       \
    {                                                                                          \
        of##_##t##_vs(n, py, pb, pa, pc);                                                      \
    }                                                                                          \
    ROW(name##_##t##_vs)                                                                       \
    {                                                                                          \
        of##_##t##_sv(n, py, pb, pa, pc);                                                      \
    }
#define ROWS_gt(name, t) ROWS2_TURNED(name, lt, t)
#define ROWS_ge(name, t) ROWS2_TURNED(name, le, t)
#define ROWS3(name, t)                                                                         \
    ROW(name##_##t)                                                                            \
    {                                                                                          \
        const tpk_bool *restrict c = pa;                                                       \
        const tpk_##t *restrict a = pb, *restrict b = pc;                                      \
        LOOP(tpk_##t, tpk_##name##_##t(c[i], a[i], b[i]))                                      \
    }

#define DEFINE_FLOAT1(name) TYPES_FLOAT(ROWS1, name)
#define DEFINE_NUM1(name) TYPES_NUM(ROWS1, name)
#define DEFINE_BIT1(name) TYPES_BIT(ROWS1, name)
#define DEFINE_NUM2(name) TYPES_NUM(ROWS2, name)
#define DEFINE_BIT2(name) TYPES_BIT(ROWS2, name)
#define DEFINE_COMPARE2(name) TYPES_COMPARE(ROWS_##name, name)
#define DEFINE_ANY3(name) TYPES_ANY(ROWS3, name)
#define ELEM(class, n_in, name, effort) DEFINE_##class##n_in(name)
#include "kernel/text/elem.def"
#undef ELEM

#if TPK_HARD_FMA /* else no row is faster than its elements */
ROW(mod_row_f32)
{
    (void)pc;
    tpk_mod_row_f32(n, py, pa, pb);
}

ROW(mod_row_f32_vs)
{
    const float *a = pa, d = *(const float *)pb;
    float *y = py, b[TPK_ROW_BLOCK];
    if (!(tpk_abs_f32(d) >= 0x1p-126f)) /* all are far, or nearly */
        mod_f32_vs(n, py, pa, pb, pc);
    else {
        for (int k = 0; k < TPK_ROW_BLOCK; k++)
            b[k] = d;
        for (int64_t i = 0; i < n; i += TPK_ROW_BLOCK)
            tpk_mod_row_f32(TPK_LEAST(n - i, TPK_ROW_BLOCK), y + i, a + i, b);
    }
}
#define mod_f32 mod_row_f32
#define mod_f32_vs mod_row_f32_vs
#endif

#define LIST1(name, t) [TPI_ROW_##t] = {name##_##t},
#define LIST2(name, t) [TPI_ROW_##t] = {name##_##t, name##_##t##_sv, name##_##t##_vs},
#define LIST3(name, t) LIST1(name, t)
const tpi_row_fn TPI_ISA_NAME(tpi_isa_rows)[TPI_N_ELEMS][TPI_N_ROW_TYPES][TPI_N_ROWS] = {
#define ELEM(class, n_in, name, effort) [TPI_ELEM_##name] = {TYPES_##class(LIST##n_in, name)},
#include "kernel/text/elem.def"
#undef ELEM
};

#define CASTS_OF(M) M(bool) M(u8) M(i32) M(i64) M(f32) M(f64)

#define CAST_ROW(from, to)                                                                     \
    ROW(cast_##from##_##to)                                                                    \
    {                                                                                          \
        const tpk_##from *restrict a = pa;                                                     \
        LOOP(tpk_##to, tpk_cast_##from##_##to(a[i]))                                           \
    }
#define CAST_ROWS(from) CAST_TYPES(CAST_ROW, from)
CASTS_OF(CAST_ROWS)

#define CAST_LIST(from, to) [AT_##to] = cast_##from##_##to,
#define CAST_LISTS(from) [AT_##from] = {CAST_TYPES(CAST_LIST, from)},
const tpi_row_fn TPI_ISA_NAME(tpi_isa_casts)[TPI_N_ELEMENT_TYPES][TPI_N_ELEMENT_TYPES] = {
    CASTS_OF(CAST_LISTS)};
