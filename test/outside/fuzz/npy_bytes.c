/* .npy files from memory: whatever the bytes, a tensor or an error. A tensor that comes out is
 * written to a text, and its elements are all read. */
#include "tapir/tensor.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tp_ctx *tp = tp_open(NULL);
    const tp_tensor *t = tp_npy_parse(tp, data, size);
    char text[500];
    tp_format(t, text, sizeof text);
    if (tp_failed(t)) {
        if (tp_error(tp) == TP_OK || !tp_error_message(tp)[0])
            abort();
    } else {
        const size_t bytes = (size_t)tp_count(t) * tp_dtype_size(tp_dtype_of(t));
        void *out = malloc(bytes + 1);
        if (bytes > size || (out && tp_read(t, out, bytes) != TP_OK))
            abort();
        free(out);
    }
    tp_close(tp);
    return 0;
}
