/* tapir: a kernel of one's own, a C function over plain memory, as an op.
 *
 *     static bool compute(void *user, int n_in, const tp_elements *in, const tp_elements *out)
 *     {
 *         const float *x = in[0].data;
 *         float *y = out->data;
 *         for (int64_t i = 0; i < out->count; i++)
 *             y[i] = x[i] < 0 ? 0 : x[i];
 *         return true;
 *     }
 *     static tp_tensor *reference(void *user, int n_in, tp_tensor *const *in)
 *     {
 *         return tp_relu(in[0]);
 *     }
 *     static const tp_kernel my_relu = {.name = "my_relu", .compute = compute, .reference = reference};
 *
 *     y = tp_kernel_apply(&my_relu, NULL, 1, &x, TP_F32, TP_DIMS(n, 64));
 *
 * It takes concrete and symbolic tensors, in captured functions and in blocks; compiled programs call it, too. Its
 * gradient and what leaves as C or ONNX are those of the reference. A gradient that is a kernel as well, or one without a
 * reference: call it within the functions of a tp_custom (grad.h). */
#ifndef TAPIR_KERNEL_H
#define TAPIR_KERNEL_H

#include "tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Elements in row-major order, without gaps. */
typedef struct tp_elements {
    tp_dtype dtype;
    int rank;
    const int64_t *shape; /* [rank] */
    int64_t count;        /* how many they are */
    void *data;
} tp_elements;

typedef struct tp_kernel {
    const char *name; /* in messages */
    /* Fills out->data from in[n_in], which it does not change. False: the op, or the run, fails with TP_E_VALUE. What it
     * gives depends on its arguments alone, since calls are left out, moved and repeated: while a graph is compiled, of
     * equal calls, and when a run begins again. It is called on the thread that runs, a runner's (graph.h) too, calls nothing
     * of the context, and is not called when the result has no elements. */
    bool (*compute)(void *user, int n_in, const tp_elements *in, const tp_elements *out);
    /* The same by public ops, of in[n_in] alone; its type and shape are the result's. NULL: there is none; then a gradient
     * that is asked fails (TP_E_STATE), and so does what would write the kernel to a C or ONNX file. */
    tp_tensor *(*reference)(void *user, int n_in, tp_tensor *const *in);
    /* At each call on concrete tensors outside of captured functions the result is compared with that of the reference;
     * TP_E_VALUE when an element differs by more than 1e-4 (f32) or 1e-9 (f64), relative to max(1, |element|), or at all
     * (integers and bool; NaN is equal to NaN). */
    bool check;
} tp_kernel;

/* What k computes of in[n_in], n_in >= 1, with that type and shape, whose sizes may be symbolic if an operand is. `k` and
 * `user` are used until the result, and what was computed from it and may be asked for a gradient, is gone; of a graph
 * until it and its programs are freed; a captured function notices when they are others. The text of a graph has no kernel: runs of
 * a graph that was read from one fail (TP_E_STATE). */
TP_FN(tp_tensor *, tp_kernel_apply, const tp_kernel *k, void *user, int n_in,
      tp_tensor *const *in, tp_dtype dtype, int rank, const int64_t *shape);
#define tp_kernel_apply(...) tp_kernel_apply_at(TP_PLACE, __VA_ARGS__)

#ifdef __cplusplus
}
#endif
#endif
