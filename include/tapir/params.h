/* tapir: the parameters of a model as a named tree. */
#ifndef TAPIR_PARAMS_H
#define TAPIR_PARAMS_H

#include "tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Names are paths, "block.3.attn.q.w". A tree holds its tensors until tp_params_free or tp_close, whatever scopes are
 * open. A part of a tree, all below a path, is used like the tree and lives as long. */
typedef struct tp_params tp_params;

/* NULL on error. */
TP_FN(tp_params *, tp_params_new, tp_ctx *tp);
#define tp_params_new(...) tp_params_new_at(TP_PLACE, __VA_ARGS__)
/* Of a part: nothing. NULL is fine. */
TP_API void tp_params_free(tp_params *p);

/* The part below p's path and `name`, and of the second below that and the number: "block", 3 is "block.3". NULL
 * on error. */
TP_FN(tp_params *, tp_params_part, tp_params *p, const char *name);
#define tp_params_part(...) tp_params_part_at(TP_PLACE, __VA_ARGS__)
TP_FN(tp_params *, tp_params_nth, tp_params *p, const char *name, int i);
#define tp_params_nth(...) tp_params_nth_at(TP_PLACE, __VA_ARGS__)

TP_API tp_ctx *tp_params_ctx(const tp_params *p); /* NULL for NULL */

/* A parameter (tp_param) with the value `init`, below p. TP_E_NAME: the tree has one of that name. */
TP_FN(tp_tensor *, tp_params_add, tp_params *p, const char *name, tp_tensor *init);
#define tp_params_add(p, name, init) tp_params_add_at(TP_PLACE, p, name, TP_OPERAND(init))
/* A variable that is saved and not trained, such as a running mean. */
TP_FN(tp_tensor *, tp_params_add_state, tp_params *p, const char *name, tp_tensor *init);
#define tp_params_add_state(p, name, init)                                                     \
    tp_params_add_state_at(TP_PLACE, p, name, TP_OPERAND(init))
/* A second name for a parameter or state of the same tree: it is listed, trained and saved once. Returns t. */
TP_FN(tp_tensor *, tp_params_share, tp_params *p, const char *name, tp_tensor *t);
#define tp_params_share(p, name, t) tp_params_share_at(TP_PLACE, p, name, TP_OPERAND(t))

/* From now on the parameters of p are not among the trained ones, or are again. An optimiser steps those that it was
 * made with. */
TP_API void tp_params_freeze(tp_params *p, bool frozen);

/* What is trained, as the two arguments of an optimiser:  tp_adam_new(tp, 1e-3, NULL, TP_TRAINED(model)). The array
 * lives until the next call for p. */
#define TP_TRAINED(p) tp_params_n_trained(p), tp_params_trained(p)
TP_API int tp_params_n_trained(const tp_params *p);
TP_API tp_tensor *const *tp_params_trained(tp_params *p); /* NULL when there are none */

/* All of p, in the order in which they were added: 0 to tp_params_n(p) - 1. NULL when out of range. */
TP_API int tp_params_n(const tp_params *p);
TP_API tp_tensor *tp_params_tensor(const tp_params *p, int i);
TP_API const char *tp_params_name(const tp_params *p, int i); /* the whole path */
/* By its name below p, a second one too. NULL: there is none. */
TP_API tp_tensor *tp_params_find(const tp_params *p, const char *name);
/* Elements of all that is trained. */
TP_API int64_t tp_params_count(const tp_params *p);

/* A table: names, shapes, elements, bytes, what is frozen, state, or a second name; and the sums. NULL when out of
 * memory; tp_free frees. */
TP_API char *tp_params_text(const tp_params *p);

/* A table of the model that computed y, eagerly while recording, or in a graph: a row for each layer in its order, with
 * its name in the tree, its kind or its ops, its result, the parameters that it is the first to read, its operations as a
 * profile counts them (two per multiply-add), and the bytes of all that its ops compute; then the sums. Layers go by the
 * names of the variables that are read: "block.3.attn.q" of "block.3.attn.q.w". Ops that read none are rows too, one
 * per line of the program. What is applied several times in one way is one row, and so are layers of two trees with one
 * name. Parameters of p (or NULL) that y was not computed from are there as "not read". Symbolic sizes count as 1. NULL for
 * a NULL or failed y, and on error: TP_E_STATE, it was not recorded what computed y; TP_E_CTX, p is of another context.
 * tp_free frees. */
TP_API char *tp_summary(const tp_params *p, const tp_tensor *y);
#define tp_summary(p, y) tp_summary(p, TP_READ_OPERAND(y))

#ifdef __cplusplus
}
#endif
#endif
