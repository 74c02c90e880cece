/* Tensors as ONNX writes them: what is said of the elements, and their bytes. */
#ifndef TAPIR_ONNX_ELEMENTS_H
#define TAPIR_ONNX_ELEMENTS_H

#include "base/file.h"
#include "core/core.h"
#include "onnx/format/write.h"

typedef struct tpi_elements { /* elements to be written */
    const tp_tensor *t;       /* strided, or NULL */
    const char *bytes;        /* in a row */
    size_t size, element;
    int half; /* TPI_PB_F16 or TPI_PB_BF16: the floats of t become such; 0: they stay */
} tpi_elements;

tpi_elements tpi_elements_of(const tp_tensor *t);
/* Little-endian. False: no memory for a copy. */
bool tpi_put_elements(tpi_mem *mem, tpi_writer *w, const tpi_elements *from);
/* Sizes and type, as the format numbers it. */
void tpi_put_tensor_head(tpi_str *s, int type, int rank, const int64_t *shape);

/* Types as tp_onnx_summary tells them: takes the word from the front, if it is there. */
bool tpi_type_begins(const char **type, const char *word);

#endif
