/* The ops by number: all names of ops.def, and which one a text means. */
#include "op/op.h"

#include <string.h>

const tpi_op *const tpi_ops[TPI_N_OPS] = {
#define OP(name) [TPI_OP_##name] = &tpi_op_##name,
#include "op/ops.def"
#undef OP
};

const tpi_op *tpi_op_find(const char *name, size_t len)
{
    for (int i = 0; i < TPI_N_OPS; i++)
        if (strlen(tpi_ops[i]->name) == len && memcmp(tpi_ops[i]->name, name, len) == 0)
            return tpi_ops[i];
    return NULL;
}
