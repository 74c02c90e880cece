/* tapir: ONNX models in and out.
 *
 * A model becomes a static graph (graph.h): its inputs are placeholders, its float weights are
 * parameters, and every value keeps its name. So it can be run, compiled, differentiated, trained
 * further, and written again. Files are distrusted: sizes, names and paths are checked. */
#ifndef TAPIR_ONNX_H
#define TAPIR_ONNX_H

#include "capture.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- reading ---------------------------------------------------------------------------- */

typedef struct tp_onnx_dim {
    const char *name; /* of a free dimension of the model: "batch"; or of one axis: "x_0" */
    int64_t size;
} tp_onnx_dim;

/* An input that is a sequence or an optional: n tensors, of the types and sizes of like[]; -1: an
 * optional without a value. */
typedef struct tp_onnx_sequence {
    const char *name;
    int n;
    tp_tensor *const *like; /* concrete */
} tp_onnx_sequence;

typedef struct tp_onnx_load_options {
    /* Free dimensions that are fixed at these sizes, each once; others become symbols. Any axis goes
     * by "<input>_<axis>", whatever its text is; what is said so of an axis goes before what is
     * said of its text. One without a text, or with one that stands for any size (without a letter,
     * as "?" and "-1" are, or None, none, unk, unknown, Unknown), has no other name (tp_onnx_summary
     * tells). */
    int n_dims;
    const tp_onnx_dim *dims;
    /* Values of inputs, for models in which one decides about sizes (a shape that is fed): those
     * on which that depends become constants, and are no inputs of the graph. A name that is NULL
     * means the input of the model in that place, inputs with an initializer not counted. */
    int n_values;
    const tp_feed *values;
    bool *became_constant; /* [n_values], set; or NULL */
    /* Every input that is a sequence or an optional, once. A sequence "x" becomes inputs "x.0",
     * "x.1" and so on of the graph; an optional is what is in it. An output that is one becomes
     * outputs likewise. So how many tensors there are is settled when the model is loaded. */
    int n_sequences;
    const tp_onnx_sequence *sequences;
} tp_onnx_load_options;

/* Reads a model (IR version 3 and later, default domain, opset 6 to 28; complete for 7 to 22) with
 * its external data, which has to lie in the folder of the model. `opt` may be NULL.
 * tp_graph_n_inputs and the like say what it takes and gives. If, Loop and Scan become blocks of the
 * graph (control.h); what is known when the model is loaded is decided then. A Loop that carries
 * sequences, or values whose sizes change from turn to turn, is written out, and the number of its
 * turns has to be known. Sizes that have to be equal and may be are taken to be; a run in which they are
 * not fails with TP_E_SHAPE and the node's name, inside a block when that is entered.
 * NULL on error: TP_E_IO, TP_E_FORMAT, TP_E_NAME for
 * options that name what the model does not have, or the same twice, or TP_E_VALUE for an
 * operator or a form that is not supported, named with its node. */
TP_FN(tp_graph *, tp_onnx_load, tp_ctx *tp, const char *path, const tp_onnx_load_options *opt);
#define tp_onnx_load(...) tp_onnx_load_at(TP_PLACE, __VA_ARGS__)
/* The same from memory, which is copied as far as needed; `folder` is where external data lies,
 * NULL: a model that names some is refused. */
TP_FN(tp_graph *, tp_onnx_load_bytes, tp_ctx *tp, const void *bytes, size_t size_bytes,
      const char *folder, const tp_onnx_load_options *opt);
#define tp_onnx_load_bytes(...) tp_onnx_load_bytes_at(TP_PLACE, __VA_ARGS__)

/* What a model's file says of itself, a line each; weights are not read, and operators need not be
 * supported. Names are in quotes, as in tp_graph_text; a free dimension has the name that
 * tp_onnx_load_options takes. NULL on error; tp_free frees.
 *
 *     ir_version 8
 *     opset 17 ""                             version, domain
 *     input "x" float "batch" 3 224 224       name, type, sizes; those that are fed
 *     output "y" float "batch" 1000           "?" in place of sizes that are not told
 *     input "z" optional(sequence(float)) ?   the type of what is no tensor is one word, too
 *     op 20 "" "Conv"                         how many, domain, operator; bodies too */
TP_FN(char *, tp_onnx_summary, tp_ctx *tp, const char *path);
#define tp_onnx_summary(...) tp_onnx_summary_at(TP_PLACE, __VA_ARGS__)

/* One tensor as ONNX stores it outside of models (a bare TensorProto, input_0.pb). */
TP_FN(tp_tensor *, tp_onnx_tensor_load, tp_ctx *tp, const char *path);
#define tp_onnx_tensor_load(...) tp_onnx_tensor_load_at(TP_PLACE, __VA_ARGS__)
/* The tensors in a value as ONNX stores it outside of models: `type` is that of the input or output,
 * as tp_onnx_summary tells it, on which depends what the bytes mean; elements of another type are
 * refused, TP_E_FORMAT. *n of them go to out[most]; -1:
 * it is an optional without a value. */
TP_FN(tp_status, tp_onnx_value_load, tp_ctx *tp, const char *path, const char *type, int most,
      tp_tensor **out, int *n);
#define tp_onnx_value_load(...) tp_onnx_value_load_at(TP_PLACE, __VA_ARGS__)
/* Writes one tensor, whole or not at all. */
TP_FN(tp_status, tp_onnx_tensor_save, const tp_tensor *t, const char *path);
#define tp_onnx_tensor_save(t, ...)                                                            \
    tp_onnx_tensor_save_at(TP_PLACE, TP_READ_OPERAND(t), __VA_ARGS__)

/* Writes a value of such a type, whole or not at all: n tensors; -1: an optional without a value. Floats of a type
 * float16 or bfloat16 are rounded to it, once. */
TP_FN(tp_status, tp_onnx_value_save, tp_ctx *tp, const char *path, const char *type, int n,
      tp_tensor *const *tensors);
#define tp_onnx_value_save(...) tp_onnx_value_save_at(TP_PLACE, __VA_ARGS__)

/* ---- writing ---------------------------------------------------------------------------- */

/* Writes the part of a graph that computes the named outputs from the named inputs, at opset 17,
 * whole or not at all. Inputs are mostly placeholders; any node may be one, and is then fed. Their
 * names and those of outputs are the model's. Variables leave with the values they have now,
 * random numbers with seed and positions of now. More than 2^30 bytes of weights go to
 * "<path>.data". Refused, with the line of the op: what ONNX cannot say (assignments), TP_E_VALUE;
 * a placeholder or a size that no input gives, TP_E_NAME. */
TP_FN(tp_status, tp_onnx_save, tp_graph *g, const char *path, int n_in,
      const char *const *inputs, int n_out, const char *const *outputs);
#define tp_onnx_save(...) tp_onnx_save_at(TP_PLACE, __VA_ARGS__)

/* Writes a captured function as it has been seen to run, its arguments and results named in
 * order. A branch on tp_truth of which both sides have been taken becomes an If; one side
 * never taken, or a branch on what is not a tensor, is refused with its line. Sizes of arguments
 * that varied are free dimensions. Of a function declared pure that was called with one set of sizes,
 * branches join and loops that values end are Loop (docs/capture.md, "As a model"). */
TP_FN(tp_status, tp_onnx_save_function, tp_function *f, const char *path, int n_in,
      const char *const *inputs, int n_out, const char *const *outputs);
#define tp_onnx_save_function(...) tp_onnx_save_function_at(TP_PLACE, __VA_ARGS__)

#ifdef __cplusplus
}
#endif
#endif
