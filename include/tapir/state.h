/* tapir: the state of a training in one file: parameters, what optimisers keep, numbers of one's own, and the
 * positions of the random numbers.
 *
 *     tp_state *s = tp_state_new(tp);
 *     tp_state_add_params(s, NULL, model);
 *     tp_state_add_optimizer(s, NULL, adam);
 *     tp_state_add_counter(s, "epoch", &epoch);
 *     tp_state_add_random(s);
 *     tp_state_save(s, "run.safetensors");     later, and in another process:     tp_state_load(s, path, NULL);
 *
 * The file is a safetensors file, as other libraries read and write them, or npz if its name ends in ".npz". Counters and
 * random numbers are texts in it (archive.h). */
#ifndef TAPIR_STATE_H
#define TAPIR_STATE_H

#include "archive.h"
#include "params.h"
#include "train.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A list of what is saved and loaded, each under a name of its own. It holds its tensors until tp_state_free or
 * tp_close, whatever scopes are open. What could not be added spoils it: then it is neither saved nor loaded. */
typedef struct tp_state tp_state;

/* NULL on error. */
TP_FN(tp_state *, tp_state_new, tp_ctx *tp);
#define tp_state_new(...) tp_state_new_at(TP_PLACE, __VA_ARGS__)
TP_API void tp_state_free(tp_state *s); /* NULL is fine */

/* A variable (tp_variable, tp_param; no view of one). NULL: under its own name. TP_E_NAME: the name is there, or is no
 * UTF-8, or the variable is there under another. */
TP_FN(tp_status, tp_state_add, tp_state *s, const char *name, tp_tensor *variable);
#define tp_state_add(s, name, variable) tp_state_add_at(TP_PLACE, s, name, TP_OPERAND(variable))
/* A number of the caller's, read when it is saved and written when it is loaded: it lives as long as s. */
TP_FN(tp_status, tp_state_add_counter, tp_state *s, const char *name, int64_t *counter);
#define tp_state_add_counter(...) tp_state_add_counter_at(TP_PLACE, __VA_ARGS__)
/* Seed of the context's random numbers, and where each stream is (random.h), under the name "random". */
TP_FN(tp_status, tp_state_add_random, tp_state *s);
#define tp_state_add_random(...) tp_state_add_random_at(TP_PLACE, __VA_ARGS__)
/* All that a tree or a part of one has now, and all variables of an optimiser, of L-BFGS, of a loss scale, of an average, of
 * a sum, under their names; with a prefix, which tells two models or optimisers apart, "prefix.name". */
TP_FN(tp_status, tp_state_add_params, tp_state *s, const char *prefix, const tp_params *p);
#define tp_state_add_params(...) tp_state_add_params_at(TP_PLACE, __VA_ARGS__)
TP_FN(tp_status, tp_state_add_optimizer, tp_state *s, const char *prefix,
      const tp_optimizer *o);
#define tp_state_add_optimizer(...) tp_state_add_optimizer_at(TP_PLACE, __VA_ARGS__)
TP_FN(tp_status, tp_state_add_lbfgs, tp_state *s, const char *prefix, const tp_lbfgs *l);
#define tp_state_add_lbfgs(...) tp_state_add_lbfgs_at(TP_PLACE, __VA_ARGS__)
TP_FN(tp_status, tp_state_add_loss_scale, tp_state *s, const char *prefix,
      const tp_loss_scale *scale);
#define tp_state_add_loss_scale(...) tp_state_add_loss_scale_at(TP_PLACE, __VA_ARGS__)
TP_FN(tp_status, tp_state_add_average, tp_state *s, const char *prefix, const tp_average *a);
#define tp_state_add_average(...) tp_state_add_average_at(TP_PLACE, __VA_ARGS__)
TP_FN(tp_status, tp_state_add_gradient_sum, tp_state *s, const char *prefix,
      const tp_gradient_sum *sum);
#define tp_state_add_gradient_sum(...) tp_state_add_gradient_sum_at(TP_PLACE, __VA_ARGS__)
/* The same of n variables. */
TP_FN(tp_status, tp_state_add_variables, tp_state *s, const char *prefix, int n,
      tp_tensor *const *variables);
#define tp_state_add_variables(...) tp_state_add_variables_at(TP_PLACE, __VA_ARGS__)

/* Whole or not at all: a save that fails, or whose process is killed, leaves what had the name before as it was. */
TP_FN(tp_status, tp_state_save, tp_state *s, const char *path);
#define tp_state_save(...) tp_state_save_at(TP_PLACE, __VA_ARGS__)
/* Fills all of s from a file that has exactly that, of any kind that tp_archive_open reads. With a pattern, in which *
 * stands for any characters, only what it fits is looked at, of s and of the file: "encoder.*". F16 and BF16 become f32;
 * other types have to be the same. When it fails, nothing has changed: TP_E_NAME for what is missing, too much, or of
 * another type or shape, all of which the text lists; TP_E_FORMAT for a file that is malformed. */
TP_FN(tp_status, tp_state_load, tp_state *s, const char *path, const char *pattern);
#define tp_state_load(...) tp_state_load_at(TP_PLACE, __VA_ARGS__)

/* ---- files of others ------------------------------------------------------------------------ */

/* A row of a table by which a file with names and layouts of its own fills a state:
 *
 *     static const tp_transfer rows[] = {
 *         {.from = "*.num_batches_tracked", .to = NULL},
 *         {.from = "layers.*.weight", .to = "layer.*.w", .turn = true},
 *         {.from = "layers.*.bias", .to = "layer.*.b"},
 *     };
 *
 * In `from`, which a name of the file fits, * stands for any characters, dots too, up to 8 times, each but the last for as
 * few as can be; in `to`, the name in the state, for what it stood for there, in the same order. Of a name the first
 * row that fits it counts, and with it all rows that have the same `from`. */
typedef struct tp_transfer {
    const char *from, *to; /* to NULL: it is left out */
    bool turn;             /* the last two axes change places; what has one axis stays */
    /* Then, unless pieces is 0, the last axis is cut into so many equal pieces, and those that `take` lists, in its order,
     * are laid side by side: "0 3 1 2", "0-31". */
    int pieces;
    const char *take;
} tp_transfer;
/* Rows that lead to one name are laid side by side along the last axis, in the order of the table. */

/* PyTorch's gates as struct tp_recurrent has them, of matrices that are turned before, and of biases:
 *     {.from = "lstm.weight_ih_l*", .to = "lstm.*.w", .turn = true, TP_LSTM_GATES},
 *     {.from = "lstm.bias_ih_l*", .to = "lstm.*.wb", TP_LSTM_GATES}, */
#ifndef __cplusplus
#define TP_LSTM_GATES .pieces = 4, .take = "0 3 1 2"
#define TP_GRU_GATES .pieces = 3, .take = "1 0 2"
#endif

/* Fills all of s by the table, from a file of which each tensor has a row. Otherwise as tp_state_load. TP_E_VALUE: a row
 * is malformed; TP_E_NAME, too: one row makes the same of two tensors. */
TP_FN(tp_status, tp_state_transfer, tp_state *s, const char *path, int n,
      const tp_transfer *rows);
#define tp_state_transfer(...) tp_state_transfer_at(TP_PLACE, __VA_ARGS__)

#ifdef __cplusplus
}
#endif
#endif
