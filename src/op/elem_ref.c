/* The scalar functions of src/kernel/text/elem.h as a table, and the plain loop over them. */
#include "kernel/text/elem.h"
#include "op/elementwise.h"

#include <string.h>

#undef bool /* names below are made of the word, which stdbool.h makes another */
#define TRUTH _Bool

#define TYPES_FLOAT(M, name) M(name, f32) M(name, f64)
#define TYPES_INT(M, name)                                                                     \
    M(name, i8)                                                                                \
    M(name, i16) M(name, i32) M(name, i64) M(name, u8) M(name, u16) M(name, u32) M(name, u64)
#define TYPES_NUM(M, name) TYPES_FLOAT(M, name) TYPES_INT(M, name)
#define TYPES_BIT(M, name) TYPES_INT(M, name) M(name, bool)
#define TYPES_ANY(M, name) TYPES_NUM(M, name) M(name, bool)
#define TYPES_COMPARE(M, name) TYPES_ANY(M, name)

#define HEAD(fn) static void fn(void *y, const void *a, const void *b, const void *c)
#define AT(t, p) (*(const tpk_##t *)(p))
#define SCALAR1(name, t)                                                                       \
    HEAD(name##_##t)                                                                           \
    {                                                                                          \
        (void)b, (void)c;                                                                      \
        *(tpk_##t *)y = tpk_##name##_##t(AT(t, a));                                            \
    }
#define SCALAR2_AS(name, t, y_t)                                                               \
    HEAD(name##_##t)                                                                           \
    {                                                                                          \
        (void)c;                                                                               \
        *(y_t *)y = tpk_##name##_##t(AT(t, a), AT(t, b));                                      \
    }
#define SCALAR2(name, t) SCALAR2_AS(name, t, tpk_##t)
#define SCALAR2_COMPARE(name, t) SCALAR2_AS(name, t, tpk_bool)
#define SCALAR3(name, t)                                                                       \
    HEAD(name##_##t)                                                                           \
    {                                                                                          \
        *(tpk_##t *)y = tpk_##name##_##t(AT(bool, a), AT(t, b), AT(t, c));                     \
    }

#define DEFINE_FLOAT1(name) TYPES_FLOAT(SCALAR1, name)
#define DEFINE_NUM1(name) TYPES_NUM(SCALAR1, name)
#define DEFINE_BIT1(name) TYPES_BIT(SCALAR1, name)
#define DEFINE_NUM2(name) TYPES_NUM(SCALAR2, name)
#define DEFINE_BIT2(name) TYPES_BIT(SCALAR2, name)
#define DEFINE_COMPARE2(name) TYPES_COMPARE(SCALAR2_COMPARE, name)
#define DEFINE_ANY3(name) TYPES_ANY(SCALAR3, name)
#define ELEM(class, n_in, name, effort) DEFINE_##class##n_in(name)
#include "kernel/text/elem.def"
#undef ELEM

enum {
    AT_bool = TP_BOOL,
    AT_i8 = TP_I8,
    AT_i16 = TP_I16,
    AT_i32 = TP_I32,
    AT_i64 = TP_I64,
    AT_u8 = TP_U8,
    AT_u16 = TP_U16,
    AT_u32 = TP_U32,
    AT_u64 = TP_U64,
    AT_f32 = TP_F32,
    AT_f64 = TP_F64
};

#define LIST(name, t) [AT_##t] = name##_##t,
static const tpi_scalar_fn scalars[TPI_N_ELEMS][TP_N_DTYPES] = {
#define ELEM(class, n_in, name, effort) [TPI_ELEM_##name] = {TYPES_##class(LIST, name)},
#include "kernel/text/elem.def"
#undef ELEM
};

tpi_scalar_fn tpi_elem_scalar(tpi_elem e, tp_dtype type)
{
    return scalars[e][type];
}

#define CASTS_OF(M) M(bool) M(i8) M(i16) M(i32) M(i64) M(u8) M(u16) M(u32) M(u64) M(f32) M(f64)
#define CAST(from, to)                                                                         \
    HEAD(cast_##from##_##to)                                                                   \
    {                                                                                          \
        (void)b, (void)c;                                                                      \
        *(tpk_##to *)y = tpk_cast_##from##_##to(AT(from, a));                                  \
    }
#define CASTS(from) TYPES_ANY(CAST, from)
CASTS_OF(CASTS)

#define CAST_LIST(from, to) [AT_##to] = cast_##from##_##to,
#define CAST_LISTS(from) [AT_##from] = {TYPES_ANY(CAST_LIST, from)},
static const tpi_scalar_fn casts[TP_N_DTYPES][TP_N_DTYPES] = {CASTS_OF(CAST_LISTS)};

tpi_scalar_fn tpi_cast_scalar(tp_dtype from, tp_dtype to)
{
    return casts[from][to];
}

/* Address of x's element that is broadcast to position `at` of an array of `rank` axes. */
static const char *element(const tp_tensor *x, int rank, const int64_t *at)
{
    int64_t offset = 0;
    for (int i = 0; i < x->rank; i++)
        if (x->shape[i] != 1)
            offset += at[rank - x->rank + i] * x->stride[i];
    return x->data + offset * (int64_t)tp_dtype_size((tp_dtype)x->dtype);
}

TRUTH tpi_elem_reference(tpi_run *r, tpi_scalar_fn f)
{
    const int rank = r->out->rank;
    int64_t at[TP_MAX_RANK] = {0};
    const size_t size = tp_dtype_size((tp_dtype)r->out->dtype);
    const int64_t n = tpi_count(r->out);
    for (int64_t i = 0; i < n; i++) {
        const void *x[3] = {NULL, NULL, NULL};
        for (int k = 0; k < r->n_in; k++)
            x[k] = element(r->in[k], rank, at);
        f(r->out->data + (size_t)i * size, x[0], x[1], x[2]);
        for (int axis = rank - 1; axis >= 0 && ++at[axis] == r->out->shape[axis]; axis--)
            at[axis] = 0;
    }
    return 1;
}

TRUTH tpi_elem_kernel(tpi_run *r)
{
    const tp_tensor *x = r->in[r->op->call_dtype];
    return tpi_elem_reference(r, tpi_elem_scalar((tpi_elem)r->op->elem, (tp_dtype)x->dtype));
}
