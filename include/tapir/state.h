/* tapir: the state of a training in one file: parameters, what optimisers keep, numbers of one's own, and the
 * position of the random numbers.
 *
 *     tp_state *s = tp_state_new(tp);
 *     tp_state_add_params(s, NULL, model);
 *     tp_state_add_optimizer(s, NULL, adam);
 *     tp_state_add_counter(s, "epoch", &epoch);
 *     tp_state_add_random(s);
 *     tp_state_save(s, "run.safetensors");     later, and in another process:     tp_state_load(s, path, NULL);
 *
 * The file is a safetensors file, as other libraries read and write them: the length of a header in 8 bytes, the header
 * in JSON, the elements. Counters and random numbers are text in its "__metadata__". */
#ifndef TAPIR_STATE_H
#define TAPIR_STATE_H

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
/* Seed and position of the context's random numbers (tp_random_position), under the name "random". */
TP_FN(tp_status, tp_state_add_random, tp_state *s);
#define tp_state_add_random(...) tp_state_add_random_at(TP_PLACE, __VA_ARGS__)
/* All that a tree or a part of one has now, and all variables of an optimiser, under their names; with a prefix, which
 * tells two models or optimisers apart, "prefix.name". */
TP_FN(tp_status, tp_state_add_params, tp_state *s, const char *prefix, const tp_params *p);
#define tp_state_add_params(...) tp_state_add_params_at(TP_PLACE, __VA_ARGS__)
TP_FN(tp_status, tp_state_add_optimizer, tp_state *s, const char *prefix,
      const tp_optimizer *o);
#define tp_state_add_optimizer(...) tp_state_add_optimizer_at(TP_PLACE, __VA_ARGS__)

/* Whole or not at all: a save that fails, or whose process is killed, leaves what had the name before as it was. */
TP_FN(tp_status, tp_state_save, tp_state *s, const char *path);
#define tp_state_save(...) tp_state_save_at(TP_PLACE, __VA_ARGS__)
/* Fills all of s from a file that has exactly that. With a pattern, in which * stands for any characters, only what it
 * fits is looked at, of s and of the file: "encoder.*". F16 and BF16 become f32; other types have to be the same. When
 * it fails, nothing has changed: TP_E_NAME for what is missing, too much, or of another type or shape, all of which
 * the text lists; TP_E_FORMAT for a file that is malformed. */
TP_FN(tp_status, tp_state_load, tp_state *s, const char *path, const char *pattern);
#define tp_state_load(...) tp_state_load_at(TP_PLACE, __VA_ARGS__)

#ifdef __cplusplus
}
#endif
#endif
