/* Safetensors files from memory. */
#include "archive_target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    archive_read("", data, size);
    return 0;
}
