/* What the calls of the monkey share: its state, and where arguments come from. A program is a seed: call
 * number i draws from a stream of its own, so that a program without some of its calls makes the
 * others as before. */
#ifndef TAPIR_MONKEY_H
#define TAPIR_MONKEY_H

#include "tapir/tapir.h"

#include <stdint.h>
#include <stdio.h>

enum { SLOTS = 24, KEPT = 3, MOST_NAME = 64, BUFFER = 1 << 16, DEEPEST = 3 };

typedef struct program {
    tp_program *p;
    int n_in, n_out;
    int is_plain; /* of one f32 [2, 3], as a runner needs it */
} program;

typedef struct monkey {
    uint64_t draws; /* of this call */
    tp_ctx *tp, *other;
    tp_tensor *slot[SLOTS];
    tp_tensor *alien; /* of the other context */
    tp_graph *graph[KEPT];
    program program[KEPT];
    tp_runner *runner[KEPT];
    tp_function *function[KEPT];
    tp_optimizer *optimizer[KEPT];
    tp_tensor *retained[KEPT];
    void *memory[KEPT];
    int scopes, depth;
    FILE *null;
    char *buffer;   /* [BUFFER] */
    long *ok, *bad; /* by row, shared by all processes */
    FILE *trace;    /* NULL: none */
} monkey;

/* What a function can do here: it has no way to say that it failed; or it needs more memory than there is, to
 * measure the machine. */
typedef enum outcome { EITHER, NO_FAILURE, NO_SUCCESS } outcome;

enum { NOT_MADE = -1 }; /* of a call that has no place here: neither a success nor a failure */

typedef struct row {
    const char *name;
    int (*call)(monkey *m); /* did it succeed? */
    outcome ends;
} row;

/* ---- arguments (operands.c) --------------------------------------------------------------------- */

/* Sizes of a tensor, or axes of one, with a count that is mostly theirs. */
typedef struct list {
    int n;
    const int64_t *v;
    int64_t own[TP_MAX_RANK + 1];
} list;

/* Several tensors, with a count that is mostly theirs. */
typedef struct many {
    int n;
    tp_tensor *const *in;
    tp_tensor **out;
    tp_tensor *of[5];
} many;

extern const char *const in_names[], *const out_names[];
uint64_t next(monkey *m);
int below(monkey *m, int n);
bool rarely(monkey *m);
tp_ctx *ctx(monkey *m);
tp_tensor *tensor(monkey *m);
tp_tensor *fellow(monkey *m, tp_tensor *x);
tp_tensor *number_like(monkey *m);
/* Mostly one of those, sometimes any. */
tp_tensor *some_number(monkey *m);
tp_tensor *integers(monkey *m);
/* Of those that are kept the first one, which there is from the beginning, more often than not. */
int which(monkey *m);
/* One made for the purpose, where chance would seldom find one that fits. */
tp_tensor *fresh(monkey *m, tp_dtype t, int rank, const int64_t *shape);
tp_graph *graph(monkey *m);
tp_tensor *variable(monkey *m);
int64_t handle(monkey *m);
int64_t size(monkey *m);
int64_t index_of(monkey *m);
int axis(monkey *m);
list *sizes(monkey *m, list *l);
list *sizes_like(monkey *m, const tp_tensor *x, list *l);
list *axes(monkey *m, const tp_tensor *x, list *l);
double number(monkey *m);
tp_dtype dtype(monkey *m);
const char *name(monkey *m);
const char *path(monkey *m);
const char *path_of(monkey *m, const char *ending);
const tp_window *window(monkey *m, tp_window *w, bool kernel);
const char *const *names(monkey *m, const char *const *good);
many *tensors(monkey *m, many *l, int n);
/* An image [n, c, h, w] as often as something else. */
tp_tensor *image(monkey *m);
/* A size, or the handle of one? */
bool is_size(int64_t d);
int put(monkey *m, tp_tensor *t);
int put_both(monkey *m, tp_tensor *a, tp_tensor *b); /* the first one's */
int done(tp_status s);
int put_many(monkey *m, const many *l, tp_status s);
int text(monkey *m, char *s);
void drop_symbolic(monkey *m);
/* Of a function of the user's: the monkey, and what it draws, the same each time. */
typedef struct drawn_body {
    monkey *m;
    uint64_t draws;
} drawn_body;
void run_body(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out);

/* ---- calls -------------------------------------------------------------------------------------- */

#define CALL(f) int call_##f(monkey *m)
/* By the macro that tells the line, now and then by the function. */
#define BOTH(m, f, ...) (below(m, 8) ? f(__VA_ARGS__) : (f)(__VA_ARGS__))

#define ROW(f, ends) CALL(f);
#include "rows.def"
#undef ROW

extern const row rows[];
extern const int n_rows;

tp_ctx *open_other(uint64_t seed);
void begin_objects(monkey *m, uint64_t seed);
/* Makes the call that the stream `draws` tells of; counts it. */
void one_call(monkey *m, uint64_t draws);

#endif
