/* What the files share that export blocks: bodies and the outputs of blocks. */
#ifndef TAPIR_ONNX_EXPORT_INNER_H
#define TAPIR_ONNX_EXPORT_INNER_H

#include "ir/body.h"
#include "onnx/export/emit.h"

/* From now on the body is what is being exported; false: the error is set. And back, to where random numbers
 * went on before. */
bool tpi_export_enter(tpi_export *x, const tpi_body *b, tpi_exported *was);
void tpi_export_leave(tpi_export *x, const tpi_exported *was);
/* A value that the open block gives as output n: computed in it, and no other output. An output of the model may also be an
 * input of its name. */
tpi_val tpi_own_output(tpi_export *x, tpi_val v, int n, const tpi_val *before);

/* The outputs of a block, by index: which are asked for, and their values. */
typedef struct tpi_ports {
    int n;
    bool *used;
    tpi_val *value;
} tpi_ports;

tp_dtype tpi_port_type(const tp_tensor *block, int index);

/* The results of an operator being put, in its order. */
typedef struct tpi_results {
    const char *op;
    int n, n_in;
    const tpi_val *in;
} tpi_results;

tpi_val tpi_next_result(tpi_export *x, tpi_results *r, tp_dtype type);
/* An If of two blocks that give those outputs of a block that are asked for and, when it draws, where random
 * numbers go on. */
void tpi_export_if(tpi_export *x, tpi_val condition, int32_t then, int32_t other,
                   const tp_tensor *block, tpi_ports *p, bool drawn);
/* A loop: those that are asked for get their values (export_loop.c). */
void tpi_export_loop(tpi_export *x, const tp_tensor *t, tpi_ports *p);

#endif
