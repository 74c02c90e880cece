/* The shared library closed and opened again: it stays where it is, and so contexts, threads and what
 * they compute go on.  reload LIBRARY */
#include "tapir/tapir.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum { N = 300, ROUNDS = 5 };

typedef struct functions {
    __typeof__(tp_open) *open;
    __typeof__(tp_close) *close;
    __typeof__(tp_full) *full;
    __typeof__(tp_matmul) *matmul;
    __typeof__(tp_sum) *sum;
    __typeof__(tp_item) *item;
} functions;

static void *load(const char *path, functions *f)
{
    static const char *const names[] = {"tp_open",   "tp_close", "tp_full",
                                        "tp_matmul", "tp_sum",   "tp_item"};
    _Static_assert(sizeof names == sizeof *f, "a name for each");
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; i < sizeof names / sizeof *names && library; i++) {
        void *at = dlsym(library, names[i]);
        memcpy((char *)f + i * sizeof at, &at, sizeof at);
    }
    return library;
}

static double compute(const functions *f, tp_ctx *tp)
{
    tp_tensor *a = f->full(tp, TP_F32, TP_DIMS(N, N), 0.5);
    return f->item(f->sum(f->matmul(a, a), TP_ALL, false));
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    tp_ctx *kept = NULL;
    functions f;
    for (int i = 0; i < ROUNDS; i++) {
        void *library = load(argv[1], &f);
        if (!library) {
            printf("FAILED: %s\n", dlerror());
            return 1;
        }
        tp_ctx *tp = f.open(&(tp_options){.threads = 3});
        const double got = compute(&f, tp), old = kept ? compute(&f, kept) : got;
        if (got != 0.25 * (double)(N * N * N) || old != got) {
            printf("FAILED: round %d gives %g, and %g in the context of the last one\n", i, got,
                   old);
            return 1;
        }
        f.close(kept);
        kept = tp;
        dlclose(library);
        library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
        if (!library) {
            printf("FAILED: dlclose takes it out of a process that has a context of it\n");
            return 1;
        }
        dlclose(library);
    }
    f.close(kept);
    return 0;
}
