/* The examples' reader of IDX files, packed and plain: whatever the bytes, an array that can be
 * read from end to end, or words that say why not. */
#include "idx_file.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    idx_array a;
    const char *wrong = idx_parse(data, size, &a);
    if (wrong) {
        if (!*wrong || a.data)
            abort();
        return 0;
    }
    if (a.rank < 1 || a.rank > 4)
        abort();
    int64_t count = 1;
    for (int k = 0; k < a.rank; k++)
        count *= a.shape[k];
    volatile uint8_t last = 0; /* so that every element is read */
    for (int64_t i = 0; i < count; i++)
        last = a.data[i];
    (void)last;
    free(a.data);
    return 0;
}
