/* tapir: tensors, and how values get in and out of them.
 *
 * A tensor is an element type, a shape of up to TP_MAX_RANK axes and a value. Its value never
 * changes, unless it is a variable. The value of a symbolic tensor comes only when its graph
 * is run (graph.h). Views share memory with what they are a view of. */
#ifndef TAPIR_TENSOR_H
#define TAPIR_TENSOR_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tp_dtype {
    TP_BOOL, /* one byte, 0 or 1 */
    TP_I8,
    TP_I16,
    TP_I32,
    TP_I64,
    TP_U8,
    TP_U16,
    TP_U32,
    TP_U64,
    TP_F32,
    TP_F64,
    TP_N_DTYPES
} tp_dtype;

/* "f32", "i64", "bool", ... Static storage; "?" when out of range. */
TP_API const char *tp_dtype_name(tp_dtype t);
/* Bytes of one element; 0 when out of range. */
TP_API size_t tp_dtype_size(tp_dtype t);
/* The type in which `a` and `b` meet: float over integer over bool, then the wider; signed and
 * unsigned meet in the next wider signed type (i64 with u64: i64). */
TP_API tp_dtype tp_promote(tp_dtype a, tp_dtype b);

/* ---- makers: concrete tensors, owned by the open scope ------------------------------ */

/* Copies `data` (row-major, no padding) of product(shape) elements; NULL: zeros. */
TP_FN(tp_tensor *, tp_tensor_new, tp_ctx *tp, tp_dtype dtype, int rank, const int64_t *shape,
      const void *data);
#define tp_tensor_new(...) tp_tensor_new_at(TP_PLACE, __VA_ARGS__)

/* Uses `data` in place; it must live and stay unchanged until `release(user, data)` is called
 * (NULL: until the context is closed). */
TP_FN(tp_tensor *, tp_tensor_wrap, tp_ctx *tp, tp_dtype dtype, int rank, const int64_t *shape,
      void *data, void (*release)(void *user, void *data), void *user);
#define tp_tensor_wrap(...) tp_tensor_wrap_at(TP_PLACE, __VA_ARGS__)

/* Every element is `value`, cast to `dtype` as tp_cast does. */
TP_FN(tp_tensor *, tp_full, tp_ctx *tp, tp_dtype dtype, int rank, const int64_t *shape,
      double value);
#define tp_full(...) tp_full_at(TP_PLACE, __VA_ARGS__)

/* A tensor of rank 0. */
TP_FN(tp_tensor *, tp_scalar, tp_ctx *tp, tp_dtype dtype, double value);
#define tp_scalar(...) tp_scalar_at(TP_PLACE, __VA_ARGS__)

/* The number `value` as a rank-0 tensor of x's element type; symbolic when x is. */
TP_FN(tp_tensor *, tp_scalar_like, tp_tensor *x, double value);
#define tp_scalar_like(x, ...) tp_scalar_like_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)

/* A number as an operand beside x: a rank-0 tensor of x's element type, for the next op, that belongs to the
 * context, which keeps some of them: it is not to be marked or named (TP_E_STATE). Symbolic when x is. What is no number
 * of that type is refused (TP_E_DTYPE): 0.5 for i32, -1 for u8. An x whose scope or graph has ended is refused by the op,
 * which knows which of its operands that is; the number is 0 then. Ops of two operands take numbers themselves, as
 * in tp_add(x, 3) or tp_sub(1, x); these functions are what they call, for languages that cannot. */
TP_FN(tp_tensor *, tp_number, tp_tensor *x, double value);
#define tp_number(x, ...) tp_number_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
TP_FN(tp_tensor *, tp_integer, tp_tensor *x, int64_t value);
#define tp_integer(x, ...) tp_integer_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)
TP_FN(tp_tensor *, tp_natural, tp_tensor *x, uint64_t value);
#define tp_natural(x, ...) tp_natural_at(TP_PLACE, TP_OPERAND(x), __VA_ARGS__)

/* start, start + step, ... [n]. */
TP_FN(tp_tensor *, tp_arange, tp_ctx *tp, tp_dtype dtype, int64_t n, double start, double step);
#define tp_arange(...) tp_arange_at(TP_PLACE, __VA_ARGS__)

/* ---- variables: tensors whose value can be assigned --------------------------------- */

/* State with memory of its own, first value `init` (concrete). `name` is copied; it names the
 * variable in graphs, texts and saved files. A graph reads it anew at each run. Not in a block of
 * tapir/control.h (TP_E_STATE): it would be new in each turn, and one for all in a graph. */
TP_FN(tp_tensor *, tp_variable, tp_tensor *init, const char *name);
#define tp_variable(init, ...) tp_variable_at(TP_PLACE, TP_OPERAND(init), __VA_ARGS__)

/* A variable that gradients are asked of: tp_variable and tp_require_grad. */
TP_FN(tp_tensor *, tp_param, tp_tensor *init, const char *name);
#define tp_param(init, ...) tp_param_at(TP_PLACE, TP_OPERAND(init), __VA_ARGS__)

/* Writes `value` (same shape; cast to var's element type must not be needed) into a variable
 * or a view of one. Returns `var`. With a symbolic `value` it adds the write to value's graph:
 * the result is the new value, the variable changes at the end of a run that needs it. */
TP_FN(tp_tensor *, tp_assign, tp_tensor *var, tp_tensor *value);
#define tp_assign(var, value) tp_assign_at(TP_PLACE, TP_OPERAND(var), TP_OPERAND(value))

/* Gives a tensor a name that shows in texts and, when it is symbolic, can be fed and fetched.
 * TP_E_NAME when the graph has another node of that name. Returns `t`. */
TP_API tp_tensor *tp_name(tp_tensor *t, const char *name);
#define tp_name(t, ...) tp_name(TP_OPERAND(t), __VA_ARGS__)
/* NULL when it has none. */
TP_API const char *tp_name_of(const tp_tensor *t);
#define tp_name_of(t) tp_name_of(TP_READ_OPERAND(t))

/* ---- asking -------------------------------------------------------------------------- */

TP_API bool tp_failed(const tp_tensor *t);
#define tp_failed(t) tp_failed(TP_READ_OPERAND(t))
TP_API tp_status tp_status_of(const tp_tensor *t);
#define tp_status_of(t) tp_status_of(TP_READ_OPERAND(t))
/* The text of the error that spoiled `t`, "" when it is good. Lives as long as `t`. */
TP_API const char *tp_error_text(const tp_tensor *t);
#define tp_error_text(t) tp_error_text(TP_READ_OPERAND(t))
TP_API bool tp_is_symbolic(const tp_tensor *t);
#define tp_is_symbolic(t) tp_is_symbolic(TP_READ_OPERAND(t))
TP_API tp_ctx *tp_ctx_of(const tp_tensor *t);
#define tp_ctx_of(t) tp_ctx_of(TP_READ_OPERAND(t))
TP_API tp_dtype tp_dtype_of(const tp_tensor *t);
#define tp_dtype_of(t) tp_dtype_of(TP_READ_OPERAND(t))
TP_API int tp_rank(const tp_tensor *t);
#define tp_rank(t) tp_rank(TP_READ_OPERAND(t))
/* Size of an axis (negative: from the end). A symbolic size is an error (-1) that names
 * tp_dim. */
TP_FN(int64_t, tp_size, const tp_tensor *t, int axis);
#define tp_size(t, ...) tp_size_at(TP_PLACE, TP_READ_OPERAND(t), __VA_ARGS__)
/* The same, but a symbolic size comes back as a handle, good wherever a size is taken and for
 * tp_dim_add and the like; arithmetic in C on it is caught as an error where it is used. */
TP_API int64_t tp_dim(const tp_tensor *t, int axis);
#define tp_dim(t, ...) tp_dim(TP_READ_OPERAND(t), __VA_ARGS__)
/* Elements; -1 when a size is symbolic. */
TP_API int64_t tp_count(const tp_tensor *t);
#define tp_count(t) tp_count(TP_READ_OPERAND(t))

/* ---- values out ----------------------------------------------------------------------- */

/* Copies all elements, row-major, in t's own element type; `size_bytes` must be exact. */
TP_FN(tp_status, tp_read, const tp_tensor *t, void *out, size_t size_bytes);
#define tp_read(t, ...) tp_read_at(TP_PLACE, TP_READ_OPERAND(t), __VA_ARGS__)

/* The elements in place: row-major, valid while `t` lives. NULL (and an error) when symbolic,
 * failed, or a view with gaps (tp_contiguous mends that). */
TP_FN(const void *, tp_data, const tp_tensor *t);
#define tp_data(t) tp_data_at(TP_PLACE, TP_READ_OPERAND(t))

/* The only element of a one-element tensor, as a double (NaN on error) or an integer (0 on
 * error; floats as tp_cast does). */
TP_FN(double, tp_item, const tp_tensor *t);
#define tp_item(t) tp_item_at(TP_PLACE, TP_READ_OPERAND(t))
TP_FN(int64_t, tp_item_i64, const tp_tensor *t);
#define tp_item_i64(t) tp_item_i64_at(TP_PLACE, TP_READ_OPERAND(t))

/* Is the only element not zero? False for a failed tensor. For `if (tp_truth(tp_gt(a, b)))`. */
TP_FN(bool, tp_truth, const tp_tensor *t);
#define tp_truth(t) tp_truth_at(TP_PLACE, TP_READ_OPERAND(t))

/* Writes type, shape and values, large axes shortened, to `out`. */
TP_API tp_status tp_print(const tp_tensor *t, FILE *out);
#define tp_print(t, ...) tp_print(TP_READ_OPERAND(t), __VA_ARGS__)
/* The same as text of at most `size` bytes, NUL included; returns the length needed. */
TP_API size_t tp_format(const tp_tensor *t, char *out, size_t size);
#define tp_format(t, ...) tp_format(TP_READ_OPERAND(t), __VA_ARGS__)

/* ---- NumPy files ------------------------------------------------------------------------ */

/* Reads a .npy file (version 1 to 3, C or Fortran order, little or big endian); floats of 16 bits become f32. */
TP_FN(tp_tensor *, tp_npy_load, tp_ctx *tp, const char *path);
#define tp_npy_load(...) tp_npy_load_at(TP_PLACE, __VA_ARGS__)
/* The same from memory. */
TP_FN(tp_tensor *, tp_npy_parse, tp_ctx *tp, const void *bytes, size_t size_bytes);
#define tp_npy_parse(...) tp_npy_parse_at(TP_PLACE, __VA_ARGS__)
/* Writes a .npy file whole or not at all. */
TP_FN(tp_status, tp_npy_save, const tp_tensor *t, const char *path);
#define tp_npy_save(t, ...) tp_npy_save_at(TP_PLACE, TP_READ_OPERAND(t), __VA_ARGS__)
/* The same of a float tensor, as floats of 16 bits, rounded once (TP_E_DTYPE of others). */
TP_FN(tp_status, tp_npy_save_f16, const tp_tensor *t, const char *path);
#define tp_npy_save_f16(t, ...) tp_npy_save_f16_at(TP_PLACE, TP_READ_OPERAND(t), __VA_ARGS__)

#ifdef __cplusplus
}
#endif
#endif
