/* Branches that depend on values: three nested ones, and four in a row, each written as a plain C
 * `if` and as a tp_if.
 *
 *     plain C if    eagerly; captured, where the C code runs on every call; and declared pure, where
 *                   it runs only for outcomes that were never seen: 4 and 5 times
 *     tp_if         eagerly; in a captured function; in a static graph, where both sides are there
 *
 * All give the same bits.
 *
 *     branch [--engine reference|tiles|auto|c] [--times] */
#include "forms.h"

#include <stdio.h>
#include <string.h>

enum { WIDTH = 8, ROWS = 4, CALLS = 400, FURTHER = 100000 };

typedef struct model {
    tp_dense first, high, low, last;
} model;

static void *model_new(tp_ctx *tp)
{
    model *m = tp_alloc(tp, sizeof *m);
    if (!m)
        return NULL;
    tp_params *params = tp_params_new(tp);
    m->first = tp_dense_new(params, "first", WIDTH, WIDTH, NULL);
    m->high = tp_dense_new(params, "high", WIDTH, WIDTH, NULL);
    m->low = tp_dense_new(params, "low", WIDTH, WIDTH, NULL);
    m->last = tp_dense_new(params, "last", WIDTH, 1, NULL);
    return m;
}

static void inputs(tp_ctx *tp, int64_t call, tp_tensor **in)
{
    in[0] = drawn(tp, (uint64_t)call, TP_F32, TP_DIMS(ROWS, WIDTH), -2, 2);
}

/* Is column `column` of h [ROWS, WIDTH] positive on average? */
static tp_tensor *is_high(tp_tensor *h, int64_t column)
{
    tp_tensor *mean = tp_mean(tp_select(h, 1, column), TP_ALL, false);
    return tp_gt(mean, 0);
}

static tp_tensor *layer(const tp_dense *l, tp_tensor *h)
{
    return tp_tanh(tp_dense_apply(l, h));
}

/* ---- three nested branches ---------------------------------------------------------------- */

static tp_tensor *nested_plain(const model *m, tp_tensor *x)
{
    tp_tensor *h = layer(&m->first, x);
    if (tp_truth(is_high(h, 0))) {
        h = layer(&m->high, h);
        if (tp_truth(is_high(h, 1))) {
            h = tp_sub(h, x);
            if (tp_truth(is_high(h, 2)))
                h = tp_relu(h);
            else
                h = tp_square(h);
        } else {
            h = tp_add(h, x);
        }
    } else {
        h = layer(&m->low, h);
    }
    return tp_dense_apply(&m->last, h);
}

static tp_tensor *nested_blocks(const model *m, tp_tensor *x)
{
    tp_tensor *h = layer(&m->first, x);
    tp_if (is_high(h, 0), &h) {
        h = layer(&m->high, h);
        tp_if (is_high(h, 1), &h) {
            h = tp_sub(h, x);
            tp_if (is_high(h, 2), &h) {
                h = tp_relu(h);
            }
            tp_else
            {
                h = tp_square(h);
            }
        }
        tp_else
        {
            h = tp_add(h, x);
        }
    }
    tp_else
    {
        h = layer(&m->low, h);
    }
    return tp_dense_apply(&m->last, h);
}

/* ---- four in a row ------------------------------------------------------------------------ */

static tp_tensor *row_plain(const model *m, tp_tensor *x)
{
    tp_tensor *h = layer(&m->first, x);
    for (int i = 0; i < 4; i++) {
        if (tp_truth(is_high(h, i)))
            h = layer(&m->high, h);
        else
            h = tp_sub(layer(&m->low, h), x);
    }
    return tp_dense_apply(&m->last, h);
}

static tp_tensor *row_blocks(const model *m, tp_tensor *x)
{
    tp_tensor *h = layer(&m->first, x);
    for (int i = 0; i < 4; i++) {
        tp_if (is_high(h, i), &h) {
            h = layer(&m->high, h);
        }
        tp_else
        {
            h = tp_sub(layer(&m->low, h), x);
        }
    }
    return tp_dense_apply(&m->last, h);
}

/* ---- as bodies: y alone, and with the gradient of its sum to the first layer --------------- */

#define BODIES(name)                                                                           \
    static void name##_body(void *user, int n_in, tp_tensor *const *in, int n_out,             \
                            tp_tensor **out)                                                   \
    {                                                                                          \
        (void)n_in;                                                                            \
        model *m = user;                                                                       \
        out[0] = name(m, in[0]);                                                               \
        if (n_out > 1)                                                                         \
            out[1] = tp_grad(out[0], m->first.w);                                              \
    }
BODIES(nested_plain)
BODIES(nested_blocks)
BODIES(row_plain)
BODIES(row_blocks)

static work work_of(const char *name, tp_body body, int n_out, int64_t calls)
{
    return (work){.name = name,
                  .body = body,
                  .n_in = 1,
                  .n_out = n_out,
                  .calls = calls,
                  .make = model_new,
                  .inputs = inputs};
}

/* Plain and with blocks, eagerly: the values have the same bits. (Those of gradients need not: the side
 * of a block is one node, whose contributions are added up first.) */
static bool same_values(const char *what, tp_body plain, tp_body blocks)
{
    const work a = work_of(what, plain, 1, CALLS), b = work_of(what, blocks, 1, CALLS);
    outcome x = work_run(&a, FORM_EAGER, TP_ENGINE_AUTO),
            y = work_run(&b, FORM_EAGER, TP_ENGINE_AUTO);
    const bool same =
        x.good && y.good && x.n_bytes == y.n_bytes && memcmp(x.bytes, y.bytes, x.n_bytes) == 0;
    printf("%s, plain C and blocks: %s values\n", what, same ? "equal" : "DIFFERENT");
    outcome_free(&x);
    outcome_free(&y);
    return same;
}

static bool run(const char *what, tp_body plain, tp_body blocks, int outcomes,
                const options *how)
{
    static const form matched[] = {FORM_MATCHED}, pure[] = {FORM_PURE},
                      block_forms[] = {FORM_MATCHED, FORM_PURE, FORM_GRAPH};
    char names[3][100];
    snprintf(names[0], sizeof names[0], "%s, plain C if", what);
    snprintf(names[1], sizeof names[1], "%s, tp_if", what);
    snprintf(names[2], sizeof names[2], "%s, tp_if with a gradient", what);
    const work a = work_of(names[0], plain, 1, CALLS),
               b = work_of(names[0], plain, 1, outcomes + FURTHER),
               c = work_of(names[1], blocks, 1, CALLS), d = work_of(names[2], blocks, 2, CALLS);
    bool good = same_values(what, plain, blocks);
    good = work_show(&a, 1, matched, how, NULL) && good;
    good = work_show(&b, 1, pure, how, NULL) && good;
    good = work_show(&c, 3, block_forms, how, NULL) && good;
    return work_show(&d, 3, block_forms, how, NULL) && good;
}

int main(int argc, char **argv)
{
    options how;
    if (!parse_options(argc, argv, &how))
        return 2;
    bool good = run("three nested branches", nested_plain_body, nested_blocks_body, 4, &how);
    return !(run("four branches in a row", row_plain_body, row_blocks_body, 5, &how) && good);
}
