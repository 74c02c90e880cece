/* What tests of tp_batch share: trees that are all different, parameters, and what is equal. */
#ifndef TEST_FOREST_H
#define TEST_FOREST_H

#include "common/unit.h"
#include "tapir/tapir.h"

enum { WIDTH = 6, WORDS = 11, CLASSES = 3 };

typedef struct tree {
    struct tree *left, *right; /* NULL: a leaf */
    int64_t word, label;
} tree;

/* Of random numbers in [-0.5, 0.5). */
static inline tp_tensor *parameter(tp_ctx *tp, uint64_t *seed, const char *name, int rank,
                                   const int64_t *shape)
{
    float v[1000];
    int64_t n = 1;
    for (int i = 0; i < rank; i++)
        n *= shape[i];
    assert_true(n <= (int64_t)(sizeof v / sizeof *v));
    for (int64_t i = 0; i < n; i++)
        v[i] = (float)(unit_random(seed) >> 40) * 0x1p-24f - 0.5f;
    return tp_param(tp_tensor_new(tp, TP_F32, rank, shape, v), name);
}

/* Of at most that depth, in memory that begins at *free_node. */
static inline tree *grow(uint64_t *seed, int depth, tree **free_node)
{
    tree *t = (*free_node)++;
    const uint64_t r = unit_random(seed) >> 20;
    *t = (tree){.word = (int64_t)(r % WORDS), .label = (int64_t)(r / WORDS % CLASSES)};
    if (depth > 0 && (r >> 12) % 4) {
        t->left = grow(seed, depth - 1, free_node);
        t->right = grow(seed, depth - 1, free_node);
    }
    return t;
}

static inline void expect_equal(const float *got, const float *want, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(got + i, want + i, sizeof *got) != 0)
            fail_msg("number %zu is %.9g, not %.9g", i, (double)got[i], (double)want[i]);
}

#endif
