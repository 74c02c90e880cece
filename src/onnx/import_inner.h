/* The importer's own state. Operator functions have no need of it: import.h. */
#ifndef TAPIR_ONNX_IMPORT_INNER_H
#define TAPIR_ONNX_IMPORT_INNER_H

#include "onnx/import.h"

enum {
    TPI_ONNX_MAX_OPS = 1 << 20,     /* of one model, functions and branches written out */
    TPI_ONNX_MAX_DEPTH = 64,        /* functions in functions, branches in branches */
    TPI_ONNX_FOLD_WORK = 1 << 20,   /* products of the operands' elements: computed at once */
    TPI_ONNX_FOLD_RESULT = 1 << 16, /* elements of a result that is computed at once */
    TPI_ONNX_FOLD_TOTAL = 1 << 26,  /* of all of them */
    TPI_ONNX_OLDEST = 6,            /* operator sets */
    TPI_ONNX_NEWEST = 28
};

/* What a name stands for. */
struct tpi_onnx_value {
    tpi_span name;
    tp_tensor *tensor;           /* concrete, or of the graph; NULL: not made yet */
    const tpi_onnx_tensor *data; /* an initializer */
    tp_tensor *constant;         /* its value, when it was read */
    tpi_onnx_ints *ints;         /* known integers, some of them symbolic */
};

/* Names and what they stand for: of the model's graph, of a branch, or of a call of a function. */
struct tpi_onnx_frame {
    tpi_onnx_frame *outer;     /* whose names are seen too; NULL: none */
    const tpi_onnx_op *caller; /* of a function */
    const tpi_onnx_function *function;
    int opset;
    tpi_onnx_value **slots; /* open addressing, a power of two */
    size_t n_slots;
};

typedef struct tpi_onnx_symbol {
    struct tpi_onnx_symbol *next;
    tpi_span param;
    int64_t handle;
} tpi_onnx_symbol;

struct tpi_import {
    tp_ctx *ctx;
    tp_graph *g;
    tpi_at at;
    tpi_onnx_model *m;
    const tpi_onnx_function **functions; /* of the model, sorted */
    const tp_onnx_load_options *opt;
    bool *fixed;      /* of opt->values: those that are constants */
    tpi_span *offers; /* and the input that each is for */
    int n_inputs;     /* so far, without those that have an initializer */
    bool again;       /* one more has to be one */
    int64_t n_ops, folded;
    int depth;
    tpi_onnx_symbol *symbols;
};

/* The whole model into im->g; false: see im->m. */
bool tpi_onnx_import_model(tpi_import *im);

tpi_onnx_value *tpi_onnx_find(const tpi_onnx_frame *f, tpi_span name);
/* A new value in the frame; NULL when memory is out or the name is taken (m->status). */
tpi_onnx_value *tpi_onnx_define(tpi_import *im, tpi_onnx_frame *f, tpi_span name);
/* The tensor a value stands for, made if need be; NULL after an error. */
tp_tensor *tpi_onnx_tensor_of(tpi_import *im, tpi_onnx_value *v, bool param);
tp_tensor *tpi_onnx_constant_of(tpi_import *im,
                                tpi_onnx_value *v); /* NULL: not known, or error */
/* Which inputs of the model does operand i depend on? When values for them were
 * offered, they become constants, and the import begins again: true. */
bool tpi_onnx_ask(tpi_onnx_op *o, int i);
/* A NUL-terminated copy that lives as long as the model. */
const char *tpi_onnx_cstring(tpi_onnx_model *m, tpi_span s);
/* The text of a context's error without the place it begins with. */
const char *tpi_onnx_error_text(const tpi_import *im);

#endif
