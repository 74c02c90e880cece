/* What a model with its weights inside takes in memory: its bytes once, while it is loaded and after. A
 * process of its own measures it, since a peak is never forgotten. */
#include "tapir/tapir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 2048, LAYERS = 3 }; /* 16 MiB each */

static const char path[] = "onnx_memory.onnx";

static bool save(void)
{
    tp_ctx *tp = tp_open(NULL);
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *y = tp_placeholder(g, "x", TP_F32, TP_DIMS(1, N));
    for (int i = 0; i < LAYERS; i++)
        y = tp_matmul(y, tp_normal(tp, TP_F32, TP_DIMS(N, N), 0, 1));
    tp_name(y, "y");
    const char *const in[] = {"x"}, *const out[] = {"y"};
    const bool ok = tp_onnx_save(g, path, 1, in, 1, out) == TP_OK;
    if (!ok)
        printf("FAILED: %s\n", tp_error_message(tp));
    tp_close(tp);
    return ok;
}

/* The most memory that this process has had, KiB; -1: the system does not tell. */
static long most_memory(void)
{
    char line[200];
    long kib = -1;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && kib < 0 && fgets(line, sizeof line, f))
        if (strncmp(line, "VmHWM:", 6) == 0)
            kib = strtol(line + 6, NULL, 10);
    if (f)
        fclose(f);
    return kib;
}

static int measure(void)
{
    const long weights = (long)LAYERS * N * N * 4 / 1024, before = most_memory();
    if (before < 0) {
        printf("skipped: the system does not tell how much memory a process has had\n");
        return 77;
    }
    tp_ctx *tp = tp_open(NULL);
    tp_graph *g = tp_onnx_load(tp, path, NULL);
    const long took = most_memory() - before;
    const bool ok = g && took < weights / 4 * 7;
    if (!ok)
        printf("FAILED: loading %ld KiB of weights took %ld KiB: %s\n", weights, took,
               tp_error_message(tp));
    tp_close(tp);
    return !ok;
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return measure();
    if (!save())
        return 1;
    char self[4096];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0) {
        printf("skipped: the system has no /proc\n");
        return 77;
    }
    self[n] = 0;
    const pid_t child = fork();
    if (child == 0) {
        execl(self, argv[0], "measure", (char *)NULL);
        _exit(1);
    }
    int status = 0;
    const bool ended = child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status);
    remove(path);
    return ended ? WEXITSTATUS(status) : 1;
}
