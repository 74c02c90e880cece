/* Random C-like programs: a body with branches, loops, assignments and reads, the function it calls, and
 * how it is called. One is a tree of statements, so it can be run, printed and made smaller. */
#ifndef TAPIR_TEST_PROGRAM_H
#define TAPIR_TEST_PROGRAM_H

#include "common/both.h"
#include "tapir/control.h"

typedef enum action {
#define DO(name, weight, ...) DO_##name,
#include "program.def"
    N_DO,
    A_IF = N_DO, /* `what` is the condition; body and other */
    A_FOR,       /* `what` is the number of times; body */
    A_BREAK,     /* of the innermost loop, when `what` */
    A_SCOPE,     /* body in a scope of its own; its slots are kept */
    A_SILENT,    /* body with recording off */
    A_CALL,      /* of the other function */
    B_IF,        /* blocks over all slots; `what` is the condition; body and other */
    B_WHILE,     /* i % 4 turns at most */
    B_FOR        /* over the rows of x; backwards when i is odd; what is stacked becomes m[d] */
} action;

typedef enum condition {
#define WHEN(name, ...) WHEN_##name,
#include "program.def"
    N_WHEN
} condition;

typedef enum times {
#define TIMES(name, ...) TIMES_##name,
#include "program.def"
    N_TIMES
} times;

typedef enum block_condition {
#define PRED(name, ...) PRED_##name,
#include "program.def"
    N_PRED
} block_condition;

enum { MAX_STATEMENTS = 120, NONE = -1 };

typedef struct statement {
    int act, what;
    int d, a, b, c, i;     /* slots, and a small number */
    int next, body, other; /* statements, or NONE */
} statement;

typedef struct program {
    uint64_t seed;
    int n;
    statement all[MAX_STATEMENTS];
    int main, called; /* the first statement of either body, or NONE */
    int calls;
    bool fixed_size;     /* all calls have as many rows */
    bool marks, outside; /* x requires a gradient at times; gradients are asked from outside */
    bool moves;          /* C changes state and draws between calls */
    bool pure;           /* both bodies keep the promise of a pure function */
    bool replays;        /* and do nothing for which one is not replayed */
    int second;          /* what is y: see program_run.c */
} program;

/* The same program for the same seed. */
void program_make(uint64_t seed, program *p);
int program_size(const program *p); /* statements in use */
/* C-like text; those of the caller's functions are left out. */
void program_print(const program *p, FILE *out);
/* Takes statement `at` out, or puts its body in its place. False: it is not in use, or has no such
 * body. */
typedef enum cut { CUT_OUT, CUT_TO_BODY, CUT_TO_OTHER, N_CUTS } cut;
bool program_cut(program *p, int at, cut how);

/* A scenario (see both.h), which is given the program. */
void program_scenario(bed *b);

#endif
