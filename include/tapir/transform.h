/* tapir: functions of the user's as a whole: of one sample, run on many at once; and their derivatives.
 *
 *     static void body(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
 *     {
 *         out[0] = tp_sum(tp_mul(in[0], in[0]), TP_ALL, false);      in[0] is one sample: [3]
 *     }
 *     y = tp_vmap_apply(body, NULL, 1, &x, NULL);                    x [64, 3]: y is [64]
 *     tp_jvp(body, NULL, 1, &p, &v, 1, &y, &dy);                     p and v [3]: dy is 2 p v, summed
 *     h = tp_hessian(body, NULL, 1, &p, 0);                          [3, 3]
 *
 * Each sample gets the bits that the function gives it alone. */
#ifndef TAPIR_TRANSFORM_H
#define TAPIR_TRANSFORM_H

#include "capture.h"

#ifdef __cplusplus
extern "C" {
#endif

/* In place of an axis: all samples have the whole argument. */
#define TP_SHARED 127

typedef struct tp_vmap_options {
    /* [n_in]: the axis of each argument along which the samples lie, from the end where it is below 0; TP_SHARED. NULL:
     * 0 for all. */
    const int *in_axes;
    const int *out_axes; /* [n_out]: where the samples lie in each result; NULL: 0 for all */
    bool same_draws; /* random numbers are drawn once for all samples; else each has those that it would have in a loop
                        over the samples */
} tp_vmap_options;

/* out[n_out] = body of each sample of in[n_in], whose sizes along `in_axes` are equal. The body runs once, on symbolic
 * tensors without that axis; each op that it calls becomes one op on all samples. So what holds for graphs holds for
 * it: values are not read in it (TP_E_SYMBOLIC), branches and loops are blocks (control.h). Other tensors that it reads
 * are the same for all samples. What it computes of them may be asked for its gradient in the body, by tp_grad: of a
 * loss per sample that is a gradient per sample.
 *
 * These alone take one sample after the other:
 *     a kernel of the user's (kernel.h)
 *     tp_conv and tp_conv_dx with weights that differ from sample to sample
 *     tp_conv_dw, and so the gradient by the weights of a convolution
 *     the gradient by a matrix by which rows are multiplied in a block: one sum, which goes on from turn to turn
 *
 * Works on concrete tensors (gradients go through it), in graphs, in captured functions, and in the body of another
 * tp_vmap. `opt` may be NULL.
 * TP_E_STATE: the body assigns a variable; draws random numbers in a block in which samples go different ways, or,
 * without `same_draws`, as many as values decide; keeps something of each turn of a loop that a value ends, by
 * tp_emit, for a gradient through the loop that it asks for itself, or by tp_nonzero, tp_masked_select and tp_unique
 * of arguments; reads a tensor, not an argument, through which the gradient that it asks for might go too; or has a
 * gradient of the user's (tp_custom, tp_straight_through, tp_hooked, and that of a kernel, asked for in the body)
 * while one may be asked for outside: of an argument that requires it or is symbolic, but in tp_no_grad. TP_E_SHAPE:
 * sizes along the axes differ. TP_E_AXIS: no such axis, more axes than TP_MAX_RANK with that of the samples, or all
 * arguments are TP_SHARED. Failed results are failed tensors; the status is the first one's. */
TP_FN(tp_status, tp_vmap, tp_body body, void *user, int n_in, tp_tensor *const *in, int n_out,
      tp_tensor **out, const tp_vmap_options *opt);
#define tp_vmap(...) tp_vmap_at(TP_PLACE, __VA_ARGS__)
/* The same for a function of one result. */
TP_FN(tp_tensor *, tp_vmap_apply, tp_body body, void *user, int n_in, tp_tensor *const *in,
      const tp_vmap_options *opt);
#define tp_vmap_apply(...) tp_vmap_apply_at(TP_PLACE, __VA_ARGS__)

/* ---- derivatives ---------------------------------------------------------------------------------
 *
 * Of a function that is run once, as by tp_vmap, on symbolic tensors, with what holds for that. Random numbers are drawn
 * once. */

/* out[n_out] = body of in[n_in], and dout[n_out], of their shapes, the derivatives along din[n_in] (forward mode: the
 * Jacobian-vector product), in one pass that keeps nothing. din[i] is of in[i]'s shape and type; NULL: zeros, as for
 * what is no float. dout[k] is zeros where out[k] does not depend on what has a direction, or is no float. Where a
 * gradient is that of a user's function or has no second one, so it is here. */
TP_FN(tp_status, tp_jvp, tp_body body, void *user, int n_in, tp_tensor *const *in,
      tp_tensor *const *din, int n_out, tp_tensor **out, tp_tensor **dout);
#define tp_jvp(...) tp_jvp_at(TP_PLACE, __VA_ARGS__)
/* Of y, the body's only result, by argument number `of`: d y[i...] / d x[j...] as [i..., j...]. Rows are computed as
 * samples of a tp_vmap, the function itself once. */
TP_FN(tp_tensor *, tp_jacobian, tp_body body, void *user, int n_in, tp_tensor *const *in,
      int of);
#define tp_jacobian(...) tp_jacobian_at(TP_PLACE, __VA_ARGS__)
/* Of the sum of y's elements: d2 y / d x[i...] d x[j...] as [i..., j...]. */
TP_FN(tp_tensor *, tp_hessian, tp_body body, void *user, int n_in, tp_tensor *const *in,
      int of);
#define tp_hessian(...) tp_hessian_at(TP_PLACE, __VA_ARGS__)
/* That times v, of x's shape, without the matrix: the derivative of the gradient along v. */
TP_FN(tp_tensor *, tp_hvp, tp_body body, void *user, int n_in, tp_tensor *const *in, int of,
      tp_tensor *v);
#define tp_hvp(body, user, n_in, in, of, v)                                                    \
    tp_hvp_at(TP_PLACE, body, user, n_in, in, of, TP_OPERAND(v))

#ifdef __cplusplus
}
#endif
#endif
