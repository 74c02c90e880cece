/* A CPU that runs OpenCL C, as far as tests need one. */
#ifndef TAPIR_TEST_OPENCL_DEVICE_H
#define TAPIR_TEST_OPENCL_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { OPENCL_WHY = 4000 };

typedef struct opencl_device opencl_device;

/* A CPU on which floats are those of docs/numerics.md: f32 and f64 with subnormals, divided and square roots rounded
 * once. NULL: `why` says what is missing. */
opencl_device *opencl_open(char why[OPENCL_WHY]);
void opencl_close(opencl_device *d);
/* The device's name and version. */
void opencl_name(const opencl_device *d, char *name, size_t size);

/* Adds kernels, which a run finds by name. False: `why` says what does not compile. */
bool opencl_add(opencl_device *d, const char *source, char why[OPENCL_WHY]);

/* Memory that goes to a kernel: `bytes` at `data`, which come back; NULL: whatever is there. */
typedef struct opencl_memory {
    void *data;
    size_t bytes;
} opencl_memory;

/* Runs a kernel that takes memories, then numbers, in so many work-items. */
bool opencl_run(opencl_device *d, const char *kernel, size_t items, int n_memories,
                const opencl_memory *memory, int n_numbers, const int64_t *number,
                char why[OPENCL_WHY]);

#endif
