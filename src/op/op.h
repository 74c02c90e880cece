/* The one doorway of all ops, and what their rules are written with. */
#ifndef TAPIR_OP_H
#define TAPIR_OP_H

#include "ir/op_rules.h"
#include "kernel/abi/view.h"
#include "kernel/host/kernels_host.h"
#include "tapir/grad.h"

#define OP(name) extern const tpi_op tpi_op_##name;
#include "op/ops.def"
#undef OP

/* Every op call comes here: refuses bad operands, infers the result, and computes it now
 * (concrete operands; recorded when a gradient may be asked for) or adds a node to their graph
 * (a symbolic one among them). Never NULL. attrs: op->attrs_size bytes, copied when kept. */
tp_tensor *tpi_apply(tpi_at at, const tpi_op *op, int n_in, tp_tensor *const *in,
                     const void *attrs);
/* y was computed while recording was on, by what gradients pass through, and nothing was recorded: a
 * gradient that is asked later would not be found through it (grad/late.c). */
void tpi_note_unrecorded(int n_in, tp_tensor *const *in, tp_tensor *y);
/* What stands for x in `from`. Of many tensors some share a bit. */
static inline uint64_t tpi_from_bit(const tp_tensor *x)
{
    return (uint64_t)1 << (x->read & 63);
}
#define TPI_IN(...)                                                                            \
    (int)(sizeof((tp_tensor *[]){__VA_ARGS__}) / sizeof(tp_tensor *)), (tp_tensor *[])         \
    {                                                                                          \
        __VA_ARGS__                                                                            \
    }

/* Indices of any integer type become i64, those that are too large for it such as are out of range; what is no
 * index is left to the shape rule. */
tp_tensor *tpi_as_index(tpi_at at, tp_tensor *index);

/* The parts of it, for who defers the computing (src/capture). The shape rule: NULL, or the
 * failed tensor. */
tp_tensor *tpi_infer_op(tpi_infer *q);
/* Makes `out`, which has type and shape, a view of q->in[0] when the op is one and the strides
 * allow it. */
bool tpi_share(const tpi_infer *q, tp_tensor *out);
/* Gives `out` its value: out, or the failed tensor. */
tp_tensor *tpi_compute(const tpi_infer *q, tp_tensor *out);
/* Is the result recorded on a tape? */
bool tpi_records(const tp_ctx *ctx, const tpi_op *op, int dtype, bool requires);

/* The operands' broadcast shape, of type `dtype`. */
bool tpi_infer_broadcast(tpi_infer *q, tp_dtype dtype);

/* Refuses operands i and j of different types: wrappers make them meet, a text need not. */
bool tpi_infer_met(tpi_infer *q, int i, int j);

/* Casts both to the type in which they meet, in place (a failed operand stays as it is). */
void tpi_meet(tpi_at at, tp_tensor **a, tp_tensor **b);

/* In `simplify`: a node of s->to in place of s->node, of its type and shape. */
tp_tensor *tpi_simplify_node(const tpi_simplify *s, const tpi_op *op, int n_in,
                             tp_tensor *const *in, const void *attrs);
/* Is the gradient of operand i asked for? */
static inline bool tpi_wants(const tpi_grad *g, int i)
{
    return g->wanted[i];
}
/* Adds to the gradient of operand i, summed over the axes along which it was broadcast. */
void tpi_give(tpi_grad *g, int i, tp_tensor *dx);

/* Runs a kernel on concrete operands into r->out: the one for eager use, or the oracle. False:
 * r->failed says why. */
bool tpi_run_op(tpi_run *r);
bool tpi_run_reference(tpi_run *r);
/* In rules: the one of op->call. */
bool tpi_run_called(tpi_run *r);

/* Kernels by element type, of a text. Integers of one width wrap alike, and what only moves is alike for all
 * types of one width: one instance serves them. */
#define TPI_INTEGERS(name)                                                                     \
    [TP_I8] = tpk_##name##_u8, [TP_I16] = tpk_##name##_u16, [TP_I32] = tpk_##name##_u32,       \
    [TP_I64] = tpk_##name##_u64, [TP_U8] = tpk_##name##_u8, [TP_U16] = tpk_##name##_u16,       \
    [TP_U32] = tpk_##name##_u32, [TP_U64] = tpk_##name##_u64
#define TPI_NUMBERS(name)                                                                      \
    TPI_INTEGERS(name), [TP_F32] = tpk_##name##_f32, [TP_F64] = tpk_##name##_f64
/* An order is not that of other types of one width: an instance for each. */
#define TPI_ORDERED(name)                                                                      \
    [TP_I8] = tpk_##name##_i8, [TP_I16] = tpk_##name##_i16, [TP_I32] = tpk_##name##_i32,       \
    [TP_I64] = tpk_##name##_i64, [TP_U8] = tpk_##name##_u8, [TP_U16] = tpk_##name##_u16,       \
    [TP_U32] = tpk_##name##_u32, [TP_U64] = tpk_##name##_u64, [TP_F32] = tpk_##name##_f32,     \
    [TP_F64] = tpk_##name##_f64
#define TPI_MOVED(name)                                                                        \
    TPI_INTEGERS(name), [TP_BOOL] = tpk_##name##_u8, [TP_F32] = tpk_##name##_u32,              \
                        [TP_F64] = tpk_##name##_u64

/* What called kernels get (see tpi_call). */
enum { TPI_MAX_FLAT_ATTRS = 80 };
int tpi_flatten_attrs(const tpi_op *op, const void *attrs, int64_t *out);

/* The attribute of a node of that name, which its op has. */
int64_t tpi_attr_int(const tp_tensor *t, const char *name);
double tpi_attr_f64(const tp_tensor *t, const char *name);
const tpi_list *tpi_attr_list(const tp_tensor *t, const char *name);
void tpi_unflatten_attrs(const tpi_op *op, const int64_t *flat, void *attrs); /* the way back */
void tpi_view_of(const tp_tensor *t, tpk_view *v);
/* The tensor whose type picks the instance of op->call. */
static inline const tp_tensor *tpi_call_key(const tpi_op *op, tp_tensor *const *in,
                                            const tp_tensor *out)
{
    return op->call_dtype < 0 ? out : in[op->call_dtype];
}
/* The kernel of an op that is called, for elements of that type; NULL: there is none. */
static inline tpi_call tpi_called_kernel(const tp_ctx *ctx, const tpi_op *op, int dtype)
{
    const int wide = dtype == TP_F64;
    tpi_call own = NULL;
    if (op->isa_call > 0 && dtype >= TP_F32)
        own = ctx->kernels->call[op->isa_call][wide];
    if (op->isa_call == TPI_ISA_of_op && dtype >= TP_F32)
        own = op->call[TP_N_DTYPES + 2 * ctx->kernels->set + wide];
    return own ? own : op->call[dtype];
}
/* What a loop nest computes. */
static inline bool tpi_is_loop_op(const tp_tensor *t)
{
    return t->op->kind == TPI_ELEMENT || t->op->kind == TPI_REDUCE;
}
/* The index a kernel refused, and the size it had to be below (op/index.c). */
typedef struct tpi_bad_index {
    int64_t index, size;
} tpi_bad_index;
/* Of an op with index_in 1 and its index known: would a run take it? */
bool tpi_indices_in_range(tp_tensor *const *in, const void *attrs);
tpi_bad_index tpi_describe_bad_index(tp_tensor *const *in, const void *attrs, int64_t position);

#endif
