/* Texts of graphs from anyone: refused with an error, or read as a graph that keeps every rule
 * and prints as a text that prints the same again. */
#include "ir/graph_def.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void *alloc(void *user, size_t size)
{
    (void)user;
    void *p = NULL;
    if (size > (size_t)64 << 20 || posix_memalign(&p, 64, size ? size : 1) != 0)
        return NULL;
    return p;
}

static void release(void *user, void *p, size_t size)
{
    (void)user, (void)size;
    free(p);
}

static void check_text(tp_ctx *tp, const tp_graph *g, const char *expected)
{
    char *text = tp_graph_text(g);
    if (tp_graph_verify(g) != TP_OK || !text || (expected && strcmp(text, expected) != 0))
        abort();
    if (!expected) {
        tp_graph *again = tp_graph_parse(tp, text, strlen(text));
        if (!again)
            abort();
        check_text(tp, again, text);
        tp_graph_free(again);
    }
    char *dot = tp_graph_dot(g);
    if (!dot)
        abort();
    tp_free(tp, dot);
    tp_free(tp, text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const tp_allocator a = {alloc, release, NULL};
    tp_ctx *tp = tp_open(&(tp_options){.allocator = &a});
    tp_graph *g = tp_graph_parse(tp, (const char *)data, size);
    if (g)
        check_text(tp, g, NULL);
    else if (tp_error(tp) == TP_OK)
        abort();
    tp_close(tp);
    return 0;
}
