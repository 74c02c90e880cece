/* A body gone through node by node, each of which becomes something else: the op on many samples (many.c), or the op and
 * its derivative along a direction (tangent.c). Bodies are those of functions of the user's (one_body.h). */
#ifndef TAPIR_TRANSFORM_RULES_H
#define TAPIR_TRANSFORM_RULES_H

#include "ir/body.h"

/* What stands for a node of the body. A marked one is not just the node's value: the samples lie along its first axis,
 * or it has a tangent. */
typedef struct tpi_image tpi_image;
struct tpi_image {
    tp_tensor *t;       /* NULL: none yet */
    tp_tensor *tangent; /* of a marked one, where images have tangents */
    tpi_image *outputs; /* of a block */
    bool marked;
};

typedef struct tpi_transform tpi_transform;
typedef struct tpi_transform_rules {
    const char *what; /* in messages */
    bool tangents;    /* a marked image has one; else it has an axis in front */
    /* Is the node's image marked when one of an operand is? */
    bool (*shows)(const tp_tensor *node);
    /* The node's image; x: those of its operands, some of which are marked. Failed when its tensor is. */
    tpi_image (*node)(const tpi_transform *f, const tp_tensor *node, tpi_at at,
                      const tpi_image *x);
    /* v as a marked image. */
    tpi_image (*mark)(const tpi_transform *f, tpi_image v);
} tpi_transform_rules;

/* By how many positions one sample moves each stream that the function draws from. */
typedef struct tpi_sample_draws {
    int n;
    struct tpi_sample_stream {
        int64_t stream, positions; /* a size */
    } * v;
} tpi_sample_draws;

struct tpi_transform {
    const tpi_transform_rules *rules;
    tp_ctx *ctx;
    tpi_at at;        /* of the call */
    tp_graph *around; /* in which nodes are put; NULL: all is concrete */
    tpi_bump *memory; /* of what lives as long as the call */
    int64_t samples;  /* of tp_vmap: how many; a size */
    bool draws_once;  /* what the function draws serves for all; */
    tpi_sample_draws draws; /* else of all that it draws */
};

/* All that outputs of the body need, from the images of its params, by node. NULL, or the failed tensor. */
tp_tensor *tpi_transform_body(const tpi_transform *f, const tpi_body *body, tpi_image *image);
/* A block: sets image[].outputs. NULL, or the failed tensor (transform_block.c). */
tp_tensor *tpi_transform_block(const tpi_transform *f, const tp_tensor *block,
                               tpi_image *image);
/* Sets f->draws; NULL, or the failed tensor: values decide how many there are (sample_draws.c). */
tp_tensor *tpi_sample_draws_find(tpi_transform *f, const tpi_body *body);
/* A random node for all samples; unless draws are done once it is marked. Never NULL. */
tp_tensor *tpi_sample_draw(const tpi_transform *f, const tp_tensor *node, tpi_at at);
/* After all of them: moves the streams on. NULL, or the failed tensor. */
tp_tensor *tpi_sample_draws_end(const tpi_transform *f);

/* As an operand of what is computed now: in a graph a node of it. */
tp_tensor *tpi_transform_here(const tpi_transform *f, tpi_at at, tp_tensor *t);
/* The node's op on x[], which are like its operands. */
tp_tensor *tpi_transform_same(const tp_tensor *node, tpi_at at, tp_tensor *const *x);
static inline tpi_image tpi_marked(const tpi_transform *f, tpi_image v, bool marked)
{
    return marked && !v.marked ? f->rules->mark(f, v) : v;
}

extern const tpi_transform_rules tpi_many_rules, tpi_tangent_rules;

#endif
