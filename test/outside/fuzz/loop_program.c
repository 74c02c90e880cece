/* Texts of loop programs: refused with a reason, or read as a program that prints as a text that is read as the same.
 * The verifier looks at any program that can be read. */
#include "common/loop_read.h"
#include "lower/loop_text.h"
#include "lower/loop_verify.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The text as it is printed; freed by the caller. */
static char *print(tp_ctx *tp, const tpi_loop *l)
{
    tpi_str s = TPI_STR(&tp->mem);
    tpi_loop_print(l, 0, &s);
    char *text = s.failed ? NULL : strdup(s.text);
    tpi_str_free(&s);
    if (!text)
        abort();
    return text;
}

static void check_program(tp_ctx *tp, tp_graph *g, const tpi_loop *l)
{
    char read_why[LOOP_READ_WHY], why[TPI_LOOP_WHY] = "";
    tpi_bump memory = TPI_BUMP(&tp->mem);
    tpi_loop again;
    char *text = print(tp, l);
    if ((tpi_loop_verify(tp, l, why) >= 0) != (*why != 0) ||
        !loop_read(&memory, g, text, &again, read_why))
        abort();
    char *second = print(tp, &again);
    if (strcmp(text, second) != 0)
        abort();
    free(second);
    free(text);
    tpi_bump_free(&memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char why[LOOP_READ_WHY] = "";
    tpi_loop l;
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = 0;
    tp_ctx *tp = tp_open(NULL);
    tp_graph *g = tp_graph_new(tp);
    tpi_bump memory = TPI_BUMP(&tp->mem);
    if (loop_read(&memory, g, text, &l, why))
        check_program(tp, g, &l);
    else if (!*why)
        abort();
    tpi_bump_free(&memory);
    tp_close(tp);
    free(text);
    return 0;
}
