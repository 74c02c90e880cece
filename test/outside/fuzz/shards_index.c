/* The index of shards, two of which lie beside it: one.safetensors has a and b, two.safetensors b and c. */
#include "archive_target.h"

#include <stdio.h>
#include <sys/stat.h>

#define FOLDER "shards_index.files/"

static void write_shard(const char *path, const char *first, const char *second)
{
    char header[200];
    const int n = snprintf(header, sizeof header,
                           "{\"%s\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]},"
                           "\"%s\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[1,2]}}",
                           first, second);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite((char[8]){(char)n}, 1, 8, f) != 8 || fprintf(f, "%sxy", header) < n ||
        fclose(f) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool there;
    if (!there) {
        mkdir(FOLDER, 0777);
        write_shard(FOLDER "one.safetensors", "a", "b");
        write_shard(FOLDER "two.safetensors", "b", "c");
        there = true;
    }
    archive_read(FOLDER "model.safetensors.index.json", data, size);
    return 0;
}
