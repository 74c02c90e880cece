/* tapir: control flow on values: branches and loops that are part of a graph.
 *
 *     tp_if (tp_gt(tp_mean(x, TP_ALL, false), half), &h) { h = linear(&l1, x); }
 *     tp_else                                            { h = tp_relu(linear(&l1, x)); }
 *
 *     tp_while (tp_gt(err, tol), &z, &err) { z = step(z); err = residual(z); }
 *
 *     tp_for (tp_dim(xs, 0), &h) {
 *         h = cell(tp_each(xs), h);
 *         tp_emit(&ys, h);
 *     }
 *
 * On concrete tensors the block that is taken runs, turn by turn, as the C statement would. When
 * the condition, the count or a listed variable is symbolic, every block runs once, and becomes
 * part of the graph: a `cond` or a `loop` node. The bits are the same, those of gradients too.
 *
 * A block is a scope, once per turn: only the listed variables (at most 64, tensors' addresses)
 * leave it; anything else that was made in it and is used later is an error. What a listed variable
 * was at the end of a turn of an eager loop lives as long as the scope outside. A listed variable
 * keeps type and sizes from turn to turn, and has the same on both sides of a tp_if. What a
 * block assigns (tp_assign) stays assigned. What goes into a loop, or leaves a block, or is stacked
 * by tp_emit, is a value: of a tp_variable, or a view of one, what it is then, whatever is assigned
 * later. In a graph a view of a variable is not read after the variable was assigned
 * (TP_E_STATE). To gradients a turn, and the side that is taken, is one node: contributions inside are
 * added up inside first.
 *
 * Leaving a block by break, goto or return is an error that names the block's line: it is told at
 * once by gcc and clang, else at the end of the block, scope or function around it. `continue`
 * ends a turn as usual, and cannot be seen: what follows it in the block must not matter. A
 * variable that has no value before a tp_if has to be NULL. */
#ifndef TAPIR_CONTROL_H
#define TAPIR_CONTROL_H

#include "tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- blocks ------------------------------------------------------------------------------ */

typedef struct tp_block tp_block; /* an open block; the context's */

#define TP_BLOCK TP_JOIN(tp_block_, __LINE__)
#define TP_BLOCK_END ((tp_tensor **)0)
/* A loop without a variable does not compile, and this is what the compiler points at: nothing would
 * tell which context the loop is of. */
#define TP_LIST_A_VARIABLE(...) __VA_ARGS__
/* Where the compiler can tell, a block that is left in the middle is noticed at once. */
#define TP_BLOCK_VAR TP_LEFT_BY(tp_block_left) tp_block *TP_BLOCK

/* tp_if (pred, &a, ...) { } tp_else { }. pred: bool, one element. tp_else may be missing: then the
 * variables stay what they are. */
#define tp_if(...)                                                                             \
    for (TP_BLOCK_VAR = TP_IF_BEGIN(__VA_ARGS__, TP_BLOCK_END); tp_if_next(&TP_BLOCK);)        \
        if (tp_if_side(TP_BLOCK))
#define TP_IF_BEGIN(pred, ...) tp_if_begin(TP_PLACE, TP_OPERAND(pred), __VA_ARGS__)
#define tp_else else

/* tp_while (pred, &a, ...) { }. At least one variable. pred is evaluated before every turn. */
#define tp_while(pred, ...)                                                                    \
    for (TP_BLOCK_VAR =                                                                        \
             tp_while_begin(TP_PLACE, TP_LIST_A_VARIABLE(__VA_ARGS__), TP_BLOCK_END);          \
         tp_while_next(&TP_BLOCK, TP_OPERAND(pred));)

/* tp_for (count, &a, ...) { }: `count` turns, a number or a symbolic size. At least one
 * variable. tp_for_back takes the turns from the last to the first. */
#define tp_for(count, ...) TP_FOR(0, count, __VA_ARGS__)
#define tp_for_back(count, ...) TP_FOR(1, count, __VA_ARGS__)
#define TP_FOR(back, count, ...)                                                               \
    for (TP_BLOCK_VAR = tp_for_begin(TP_PLACE, back, (count), TP_LIST_A_VARIABLE(__VA_ARGS__), \
                                     TP_BLOCK_END);                                            \
         tp_for_next(&TP_BLOCK);)

/* Inside a tp_for of n turns: element [turn] of xs, whose leading size is n; it is made in the
 * innermost loop. */
TP_FN(tp_tensor *, tp_each, tp_tensor *xs);
#define tp_each(xs) tp_each_at(TP_PLACE, TP_OPERAND(xs))
/* Inside any loop: y is element [turn] of what *ys is after the loop, [turns, ...]; once per turn
 * and ys. On concrete tensors a loop of no turns changes nothing: *ys stays what it was, so let that
 * be NULL. In a graph it has no elements. */
TP_FN(tp_status, tp_emit, tp_tensor **ys, tp_tensor *y);
#define tp_emit(ys, y) tp_emit_at(TP_PLACE, ys, TP_OPERAND(y))
/* The number of this turn of the innermost loop, an i64; `tp` names the context. */
TP_FN(tp_tensor *, tp_turn, tp_ctx *tp);
#define tp_turn(...) tp_turn_at(TP_PLACE, __VA_ARGS__)
/* Inside a loop in a graph: its gradient keeps the carried values of some sqrt(turns) turns only,
 * and computes the rest again. The bits stay. */
TP_FN(tp_status, tp_checkpoint, tp_ctx *tp);
#define tp_checkpoint(...) tp_checkpoint_at(TP_PLACE, __VA_ARGS__)

/* What the macros call. */
TP_API tp_block *tp_if_begin(const char *file, int line, tp_tensor *pred, ...);
TP_API bool tp_if_next(tp_block **b);
TP_API bool tp_if_side(tp_block *b);
TP_API tp_block *tp_while_begin(const char *file, int line, tp_tensor **var, ...);
TP_API bool tp_while_next(tp_block **b, tp_tensor *pred);
TP_API tp_block *tp_for_begin(const char *file, int line, int back, int64_t count, ...);
TP_API bool tp_for_next(tp_block **b);
TP_API void tp_block_left(tp_block **b);

/* ---- the same with callbacks, for other languages ---------------------------------------------- */

/* v[n]: the variables, read and set. */
typedef void (*tp_block_body)(void *user, int n, tp_tensor **v);
typedef tp_tensor *(*tp_block_pred)(void *user, int n, tp_tensor *const *v);
/* x[n_xs]: elements of this turn; y[n_ys]: to be set, elements of what is stacked. */
typedef void (*tp_scan_body)(void *user, int n, tp_tensor **v, int n_xs, tp_tensor *const *x,
                             int n_ys, tp_tensor **y);

/* `other` may be NULL. The variables v[n] are set to what they are after it. */
TP_FN(tp_status, tp_cond, tp_tensor *pred, tp_block_body then, tp_block_body other, void *user,
      int n, tp_tensor **v);
#define tp_cond(pred, ...) tp_cond_at(TP_PLACE, TP_OPERAND(pred), __VA_ARGS__)
TP_FN(tp_status, tp_while_loop, tp_block_pred pred, tp_block_body body, void *user, int n,
      tp_tensor **v);
#define tp_while_loop(...) tp_while_loop_at(TP_PLACE, __VA_ARGS__)

typedef struct tp_scan_options {
    bool back;       /* the turns from the last to the first */
    bool checkpoint; /* see tp_checkpoint */
} tp_scan_options;
/* `count` turns over xs[n_xs], each [count, ...]; ys[n_ys] are set to [count, ...]; they are NULL when
 * concrete turns are none. `opt` may be NULL. */
TP_FN(tp_status, tp_scan, int64_t count, const tp_scan_options *opt, tp_scan_body body,
      void *user, int n, tp_tensor **v, int n_xs, tp_tensor *const *xs, int n_ys,
      tp_tensor **ys);
#define tp_scan(...) tp_scan_at(TP_PLACE, __VA_ARGS__)

#ifdef __cplusplus
}
#endif
#endif
