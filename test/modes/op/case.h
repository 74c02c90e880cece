/* The cases of all ops, and how their operands are drawn. cases.def says what a case is. */
#ifndef TAPIR_TEST_CASE_H
#define TAPIR_TEST_CASE_H

#include "ir/graph_def.h"
#include "op/call.h"
#include "op/op.h"
#include "tapir/tapir.h"

#include <inttypes.h>

enum { CASE_MAX_IN = 6 };

typedef enum case_draw {
    DRAW_RANGE,   /* even in [lo, hi) */
    DRAW_INTS,    /* whole numbers lo..hi */
    DRAW_SPECIAL, /* NaN, infinities, zeros, subnormals, ends of the range, and plain numbers */
} case_draw;

typedef enum case_layout {
    LAYOUT_PACKED,
    LAYOUT_TURNED,  /* first and last axis have changed places in memory */
    LAYOUT_SLICED,  /* every second element of a longer last axis */
    LAYOUT_FLIPPED, /* backwards along the last axis */
    LAYOUT_SPREAD   /* one row for all of the first axis: stride 0 */
} case_layout;

typedef struct case_operand {
    bool present, optional, fixed;
    tp_dtype dtype;
    int rank;
    int64_t shape[TP_MAX_RANK];
    case_draw draw;
    case_layout layout;
    double lo, hi;
} case_operand;

typedef struct op_case {
    const char *op,
        *text;       /* the op's name; the call as written, "" when it is tp_op(a, b, ...) */
    int line;        /* in cases.def */
    tp_status fails; /* what it is refused with, TP_OK: nothing */
    void (*spec)(case_operand *in);
    tp_tensor *(*call)(tp_ctx *tp, tp_tensor *const *x);
    /* filled by case_list */
    char name[40]; /* "matmul/3" */
    int n_in;
    case_operand in[CASE_MAX_IN];
} op_case;

/* All cases, in order. */
op_case *case_list(int *n);

/* The operands of a case into x; the same for the same seed and name. As f64 when `wide`: what
 * is float then becomes f64. */
void case_draw_operands(tp_ctx *tp, const op_case *c, uint64_t seed, bool wide, tp_tensor **x);
/* "f32[2,3] i64[4]" */
const char *case_shapes(const op_case *c, char *out, size_t size);

static inline bool case_is_float(tp_dtype t)
{
    return t >= TP_F32;
}

/* What the command line asks for. */
typedef struct case_options {
    const char *mode, *only, *dump, *program;
    uint64_t seed;
    bool all;  /* every pass in turn, second gradients compiled: slow */
    int third; /* of the cases that are C programs */
} case_options;

bool case_wanted(const case_options *o, const op_case *c);
/* Counts a failure and prints it, with the command that repeats it. */
void case_fail(const case_options *o, const op_case *c, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int case_failures(void);

/* The modes; each returns how many cases it looked at. */
int case_mode_graph(const case_options *o, op_case *cases, int n);
int case_mode_grad(const case_options *o, op_case *cases, int n);
int case_mode_fail(const case_options *o, op_case *cases, int n);
int case_mode_cover(const case_options *o, op_case *cases, int n);
int case_mode_dump(const case_options *o, op_case *cases, int n);
int case_mode_factors(const case_options *o, op_case *cases, int n);
int case_mode_jvp(const case_options *o, op_case *cases, int n);
int case_mode_vmap(const case_options *o, op_case *cases, int n);
int case_mode_onnx(const case_options *o, op_case *cases, int n);

/* Results of one case over operands that are concrete or symbolic: y, and its gradients. */
enum { CASE_MAX_OUT = 2 + 2 * CASE_MAX_IN };
typedef struct case_results {
    int n;
    tp_tensor *t[CASE_MAX_OUT];
    const char *what[CASE_MAX_OUT];
} case_results;

typedef struct case_kind {
    bool wrapped; /* between elementwise producers and consumers */
    bool second;  /* second gradients too */
} case_kind;
void case_evaluate(tp_ctx *tp, const op_case *c, case_kind kind, tp_tensor *const *x,
                   case_results *r);

#endif
