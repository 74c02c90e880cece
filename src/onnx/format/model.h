/* A model as its file says it: structs that point into the file's bytes. Nothing here knows what
 * operators mean. Names are UTF-8 without NUL, not terminated. */
#ifndef TAPIR_ONNX_MODEL_H
#define TAPIR_ONNX_MODEL_H

#include "base/bump.h"
#include "base/file.h"
#include "core/core.h"
#include "onnx/format/external.h"
#include "onnx/format/wire.h"

typedef struct tpi_onnx_tensor { /* TensorProto */
    tpi_span name, message;
    int type; /* tpi_pb_data_type, or a number beyond it */
    int rank;
    int64_t dims[TP_MAX_RANK], count;
    tpi_span raw;
    int where; /* the elements are: TPI_PB_LOCATION_ */
    bool has_raw, external;
    tpi_span location;      /* of external data, in the folder of the model */
    int64_t offset, length; /* length -1: to be told from the shape */
} tpi_onnx_tensor;

typedef struct tpi_onnx_sub tpi_onnx_sub;

typedef struct tpi_onnx_attr {
    tpi_span name, ref; /* ref: the attribute of the function around it that it is */
    tpi_span message;   /* lists are read from here */
    int type;           /* tpi_pb_attribute_type */
    int64_t i;
    float f;
    tpi_span s, t, g;   /* text; messages of a tensor and of a graph */
    tpi_onnx_sub **sub; /* of a graph: where the importer keeps what it made of it */
} tpi_onnx_attr;

typedef struct tpi_onnx_node {
    tpi_span name, op, domain, overload; /* the default domain is empty */
    int n_in, n_out, n_attrs;
    tpi_span *in, *out; /* empty: left out */
    tpi_onnx_attr *attrs;
} tpi_onnx_node;

typedef struct tpi_onnx_size {
    int64_t value;  /* -1: not known */
    tpi_span param; /* its name; empty: it has none */
} tpi_onnx_size;

typedef struct tpi_onnx_info { /* ValueInfoProto */
    tpi_span name;
    int kind; /* TPI_PB_TYPE_TENSOR, ...; 0: not said */
    bool optional,
        sequence; /* of an optional, or a sequence, the kind is that of what is in it */
    int type;     /* of elements */
    bool has_shape;
    int rank; /* may be beyond TP_MAX_RANK: then dims are not there */
    tpi_onnx_size dims[TP_MAX_RANK];
} tpi_onnx_info;

typedef struct tpi_onnx_graph {
    int n_nodes, n_inits, n_inputs, n_outputs, n_sparse;
    tpi_onnx_node *nodes;
    tpi_onnx_tensor *inits;
    tpi_onnx_info *inputs, *outputs;
} tpi_onnx_graph;

typedef struct tpi_onnx_opset {
    tpi_span domain;
    int64_t version;
} tpi_onnx_opset;

typedef struct tpi_onnx_function {
    tpi_span name, domain, overload;
    int n_in, n_out, n_names, n_attrs, n_nodes, n_opsets;
    tpi_span *in, *out;
    tpi_span *names;      /* of attributes without a default */
    tpi_onnx_attr *attrs; /* those with one */
    tpi_onnx_node *nodes;
    tpi_onnx_opset *opsets;
} tpi_onnx_function;

typedef struct tpi_onnx_model {
    tp_ctx *ctx;
    tpi_bump memory;  /* of all that is below, and of what the importer notes */
    uint64_t refused; /* of the context's memory, when it began */
    tpi_external external;
    const tpi_file_map *map; /* NULL, or the file that its bytes are in */
    size_t own_bytes;        /* of the file, and of what was read beside it so far */
    size_t read_bytes;       /* of the elements that were read so far */
    int64_t ir_version;
    int n_opsets, n_functions;
    tpi_onnx_opset *opsets;
    tpi_onnx_function *functions;
    bool has_graph;
    tpi_onnx_graph graph;
    tp_status status; /* of the first thing that is wrong */
    char why[300];
} tpi_onnx_model;

/* `folder` is where external data lies; NULL: there is none. The bytes and the folder's name
 * stay where they are until the model is freed. False: m->status and m->why; free it then too. */
bool tpi_onnx_model_read(tpi_onnx_model *m, tp_ctx *ctx, tpi_span bytes, const char *folder);
/* One without a graph, for what is in files by itself. */
tpi_onnx_model tpi_onnx_model_begin(tp_ctx *ctx, const char *folder);
void tpi_onnx_model_free(tpi_onnx_model *m);
/* The graph in an attribute, and a tensor by itself. */
bool tpi_onnx_graph_read(tpi_onnx_model *m, tpi_span message, tpi_onnx_graph *g);
bool tpi_onnx_tensor_read(tpi_onnx_model *m, tpi_span message, tpi_onnx_tensor *t);
/* Memory that lives as long as the model, zeroed; NULL when there is none (m->status). */
void *tpi_onnx_take(tpi_onnx_model *m, size_t count, size_t size);
/* The check at the end of a stage: was there memory for all that was asked for since the model began, here or in
 * the ops that are called? What lacks it may look like something else, or, as a name that a node did not get, like
 * nothing. So nobody has to tell before. False: that is what is wrong with the model. */
bool tpi_onnx_had_memory(tpi_onnx_model *m);
/* Notes what is wrong, when it is the first; false. */
bool tpi_onnx_bad(tpi_onnx_model *m, tp_status status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Elements of a list attribute; they are read one after the other with tpi_onnx_next. */
typedef struct tpi_onnx_list {
    tpi_wire fields;
    tpi_numbers numbers;
    uint32_t number;
} tpi_onnx_list;
tpi_onnx_list tpi_onnx_list_open(const tpi_onnx_attr *a);
bool tpi_onnx_next_int(tpi_onnx_list *l, int64_t *value);
bool tpi_onnx_next_float(tpi_onnx_list *l, float *value);
bool tpi_onnx_next_text(tpi_onnx_list *l, tpi_span *value);

/* ---- element types and values (onnx_values.c) ------------------------------------------------ */

/* TP_N_DTYPES: tapir has none such. float16 and bfloat16 are f32, to which they are widened. */
tp_dtype tpi_onnx_dtype(int type);
const char *tpi_onnx_type_name(int type); /* "float16"; "?" */
/* A concrete tensor with memory of its own; NULL: m->status and m->why. */
tp_tensor *tpi_onnx_tensor_make(tpi_onnx_model *m, const tpi_onnx_tensor *t, tpi_at at);

/* A path for a message: its end, at most 60 bytes of it and whole characters. */
typedef struct tpi_onnx_path {
    char text[64];
} tpi_onnx_path;
tpi_onnx_path tpi_onnx_shown(const char *path);

/* ---- text ---------------------------------------------------------------------------------- */

bool tpi_span_is(tpi_span s, const char *text);
bool tpi_span_same(tpi_span a, tpi_span b);
/* An order: shorter ones first. */
int tpi_span_compare(tpi_span a, tpi_span b);
/* For "%.*s" in messages: a name's beginning, whole characters. */
int tpi_span_shown(tpi_span s);
#define TPI_SPAN(s) tpi_span_shown(s), (s).size ? (s).at : ""

#endif
