/* The importer's own state. Operator functions have no need of it: import.h. */
#ifndef TAPIR_ONNX_IMPORT_INNER_H
#define TAPIR_ONNX_IMPORT_INNER_H

#include "ir/body.h"
#include "onnx/import/import.h"

enum {
    TPI_ONNX_MAX_OPS = 1 << 20,     /* of one model, functions and branches written out */
    TPI_ONNX_MAX_DEPTH = 64,        /* functions in functions, branches in branches */
    TPI_ONNX_FOLD_WORK = 1 << 20,   /* products of the operands' elements: computed at once */
    TPI_ONNX_FOLD_RESULT = 1 << 16, /* elements of a result that is computed at once */
    TPI_ONNX_FOLD_TOTAL = 1 << 25,  /* bytes of all of them, beside the model's own */
    TPI_ONNX_OLDEST = 6,            /* operator sets */
    TPI_ONNX_NEWEST = 28
};

typedef struct tpi_onnx_sequence tpi_onnx_sequence;

/* What a name stands for: a tensor, in one of several forms, or a sequence, or nothing. */
struct tpi_onnx_value {
    tpi_span name;
    const tp_graph *graph;         /* that was being made when it got the name */
    tp_tensor *tensor;             /* concrete, or of the graph; NULL: not made yet */
    const tpi_onnx_tensor *data;   /* an initializer */
    tp_tensor *constant;           /* its value, when it was read */
    tpi_onnx_ints *ints;           /* known integers, some of them symbolic */
    const tpi_onnx_sequence *list; /* a sequence, whose elements are values */
    bool absent;                   /* an optional without a value */
    const struct tpi_onnx_value
        *same; /* while a body is looked through: what it is a copy of */
};

/* As long as it is when the model is loaded. */
struct tpi_onnx_sequence {
    int n;
    tp_dtype dtype; /* of elements, as far as is said; else TP_N_DTYPES */
    struct tpi_onnx_value **v;
};

/* Names and what they stand for: of the model's graph, of a branch, or of a call of a function. */
struct tpi_onnx_env {
    tpi_onnx_env *outer;       /* whose names are seen too; NULL: none */
    const tpi_onnx_op *caller; /* of a function */
    const tpi_onnx_function *function;
    int opset;
    tpi_onnx_value **slots; /* open addressing, a power of two */
    size_t n_slots;
};

typedef struct tpi_onnx_symbol {
    struct tpi_onnx_symbol *next;
    tpi_span param;
    bool place; /* the name of an axis that has no text: another one than that text */
    int64_t handle;
} tpi_onnx_symbol;

struct tpi_import {
    tp_ctx *ctx;
    tp_graph *root; /* that is loaded */
    tp_graph *g;    /* that is being made: root, or the body of a block in it */
    tpi_at at;
    tpi_onnx_model *m;
    const tpi_onnx_function **functions; /* of the model, sorted */
    const tp_onnx_load_options *opt;
    bool *fixed;      /* of opt->values: those that are constants */
    tpi_span *offers; /* and the input that each is for */
    int n_inputs;     /* so far, without those that have an initializer */
    bool again;       /* one more has to be one */
    int64_t n_ops;
    size_t folded; /* bytes of what was computed at once */
    int depth;
    int attempt; /* how often it began */
    /* Runs nodes in a frame, those of a branch too: import.c, which knows all operators. */
    bool (*run_nodes)(tpi_import *im, tpi_onnx_env *f, int n, const tpi_onnx_node *nodes);
    tpi_onnx_symbol *symbols;
};

/* Is nothing more computed at once? Then the program does it. */
bool tpi_onnx_folds_no_more(const tpi_import *im);

/* The whole model into im->root; false: see im->m. */
bool tpi_onnx_import_model(tpi_import *im);

/* ---- names (import_names.c) and nodes (import.c) -------------------------------------------------------------- */

tpi_onnx_value *tpi_onnx_find(const tpi_onnx_env *f, tpi_span name);
/* One that has no name yet, of a tensor or NULL; NULL: no memory. */
tpi_onnx_value *tpi_onnx_new_value(tpi_import *im, tp_tensor *tensor);
/* Room for so many names. */
bool tpi_onnx_env_open(tpi_import *im, tpi_onnx_env *f, size_t n_names);
/* A new value in the environment; NULL when memory is out or the name is taken (m->status). */
tpi_onnx_value *tpi_onnx_define(tpi_import *im, tpi_onnx_env *f, tpi_span name);
/* A value of the environment that is another one by a new name. */
bool tpi_onnx_alias(tpi_import *im, tpi_onnx_env *f, tpi_span name, const tpi_onnx_value *is);
/* Result k, as the value of some environment. */
bool tpi_onnx_out_value(tpi_onnx_op *o, int k, const tpi_onnx_value *v);
/* The very value, under its own name. */
bool tpi_onnx_adopt(tpi_import *im, tpi_onnx_env *f, tpi_onnx_value *v);
bool tpi_onnx_run_nodes(tpi_import *im, tpi_onnx_env *f, int n, const tpi_onnx_node *nodes);
bool tpi_onnx_opset_known(tpi_import *im, int64_t opset);
/* Sorts the functions, and refuses operators that are missing, in one message: the first few. */
bool tpi_onnx_check_operators(tpi_import *im, int opset);

/* Are the node's attributes such as the table lists? False after an error. */
bool tpi_onnx_check_attributes(tpi_onnx_op *o);
/* The operands that the table asks for, into o->x. */
bool tpi_onnx_take_operands(tpi_onnx_op *o, const tpi_onnx_operator *row);

/* What was refused is tried in another way. False: nothing else would help. */
bool tpi_onnx_forget(tpi_import *im);
/* An operator that moves elements moves the handles of sizes, too: are its operands lists of sizes and numbers
 * (and what it asks for besides known)? Then those are what it is given, until it gave y: the list of its result.
 * False when that is none, and tensors have to do. */
bool tpi_onnx_begin_moves(tpi_onnx_op *o, const tpi_onnx_operator *row, tp_dtype *dtype);
bool tpi_onnx_end_moves(tpi_onnx_op *o, const tp_tensor *y, tp_dtype dtype);

/* The tensor a value stands for, made if need be; NULL after an error. */
tp_tensor *tpi_onnx_tensor_of(tpi_import *im, tpi_onnx_value *v, bool param);
tp_tensor *tpi_onnx_constant_of(tpi_import *im,
                                tpi_onnx_value *v); /* NULL: not known, or error */
bool tpi_onnx_is_constant(const tpi_onnx_value *v);
/* Which inputs of the model does operand i depend on? When values for them were
 * offered, they become constants, and the import begins again: true. */
bool tpi_onnx_ask(tpi_onnx_op *o, int i);
/* The end of a refusal of a value that is not known: what it depends on, and what would help. */
const char *tpi_onnx_depends(const tpi_import *im, tp_tensor *t);
/* A NUL-terminated copy that lives as long as the model. */
const char *tpi_onnx_cstring(tpi_onnx_model *m, tpi_span s);
/* The text of a context's error without the place it begins with. */
const char *tpi_onnx_error_text(const tpi_import *im);

/* ---- sequences and optionals (import_sequence.c) ----------------------------------------------- */

static inline bool tpi_onnx_is_tensor(const tpi_onnx_value *v)
{
    return !v->list && !v->absent;
}
tpi_onnx_sequence *tpi_onnx_new_sequence(tpi_import *im, int n, tp_dtype dtype);
/* Makes a variable of a weight, so that it is one under all names it gets. */
bool tpi_onnx_settle(tpi_import *im, tpi_onnx_value *v);
/* Do they consist of equally many tensors? */
bool tpi_onnx_same_form(const tpi_onnx_value *a, const tpi_onnx_value *b);
/* The tensors a value consists of as the next outputs of a body. */
bool tpi_onnx_give(tpi_onnx_op *o, tpi_body *b, tpi_onnx_value *v);
/* Result k, of the form of `like`, from the outputs of a block from *index on. */
bool tpi_onnx_out_of(tpi_onnx_op *o, int k, const tpi_onnx_value *like, tp_tensor *block,
                     int *index);

/* ---- graphs in attributes (import_subgraph.c) ----------------------------------------------------- */

/* A branch or a body. It is read once, and its weights are made once, however often it is run. */
struct tpi_onnx_sub {
    tpi_onnx_graph g;
    int attempt; /* of the import that made `weights` */
    tpi_onnx_value **weights;
    int64_t cost; /* of running it, as part of the limit of a model */
};

/* That of an attribute; NULL after an error. */
tpi_onnx_sub *tpi_onnx_sub_of(tpi_onnx_op *o, const char *attr);
/* Its nodes in im->g, of so many values that it takes: in an environment of its own inside o's. */
bool tpi_onnx_sub_run(tpi_onnx_op *o, tpi_onnx_sub *s, tpi_onnx_env *f, int n,
                      tpi_onnx_value *const *in);
/* What it gives; NULL after an error. */
tpi_onnx_value *tpi_onnx_sub_output(tpi_onnx_op *o, const tpi_onnx_sub *s,
                                    const tpi_onnx_env *f, int k);
/* A graph's weights; `inside`: in an environment that is inside another one. */
bool tpi_onnx_begin_graph(tpi_import *im, tpi_onnx_env *f, const tpi_onnx_graph *g);

/* ---- blocks (import_block.c) ------------------------------------------------------------------- */

/* The node of g for a tensor; NULL after an error. */
tp_tensor *tpi_onnx_lifted(tpi_onnx_op *o, tp_graph *g, tp_tensor *t);

/* A body of the graph that is being made; NULL after an error. */
tpi_body *tpi_onnx_new_body(tpi_onnx_op *o);
/* From here on operators go to the body, until they go on in what `was` keeps. */
typedef struct tpi_onnx_outside {
    tp_graph *g, *tracing;
} tpi_onnx_outside;
tpi_onnx_outside tpi_onnx_enter(tpi_import *im, tpi_body *b);
void tpi_onnx_leave(tpi_import *im, tpi_onnx_outside was);

/* ---- what numbers are made of (import_slice_at.c, import_trip_count.c) ---------------------------------- */

/* A number of one element as base + offset. */
typedef struct tpi_onnx_place {
    const tp_tensor *base;
    int64_t offset;
} tpi_onnx_place;
/* `same`: a node that hands its operand on; `number`: whether a value is a number that is known. */
tpi_onnx_place tpi_onnx_place_of(const tp_tensor *t, bool (*same)(const tp_tensor *t),
                                 bool (*number)(const tp_tensor *t, int64_t *v));
/* What a param of a body stands for; NULL: what a turn brings. */
static inline tp_tensor *tpi_onnx_outer_of(const tp_tensor *param)
{
    return param->graph->body->outers[((const tpi_index_attrs *)param->attrs)->index];
}
/* How many turns a loop takes that begins when `first` says so and goes on while `pred` does, with
 * out[n_carried] at the end of a turn: a size or a number; TPI_NO_DIM: that is not known. */
int64_t tpi_onnx_turns(const tpi_import *im, const tpi_onnx_loop *l, const tp_tensor *first,
                       const tp_tensor *pred, tp_tensor *const *out);

/* A cond of two bodies that have their outputs, or NULL after an error. What only one of them takes
 * becomes a param of the other too. */
tp_tensor *tpi_onnx_cond(tpi_onnx_op *o, tp_tensor *pred, tpi_body *then, tpi_body *other);

#endif
