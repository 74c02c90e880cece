/* Calls of layers, optimisers and what is around them. */
#include "monkey.h"

#include <string.h>

/* A tree of few names, so that some are taken. */
static tp_params *tree(monkey *m)
{
    tp_params *p = rarely(m) ? NULL : tp_params_new(ctx(m));
    if (p && below(m, 2))
        tp_params_add(p, "w", tensor(m));
    return p && below(m, 3) == 0 ? tp_params_part(p, name(m)) : p;
}

CALL(tp_params_new)
{
    tp_params *p = tp_params_new(ctx(m));
    if (below(m, 2))
        tp_params_free(p);
    return p != NULL;
}

CALL(tp_params_free)
{
    tp_params_free(tree(m));
    return 1;
}

CALL(tp_params_part)
{
    tp_params *p = tree(m);
    return tp_params_part(p, name(m)) != NULL;
}

CALL(tp_params_nth)
{
    tp_params *p = tree(m);
    return tp_params_nth(p, name(m), (int)below(m, 9) - 2) != NULL;
}

CALL(tp_params_ctx)
{
    return tp_params_ctx(tree(m)) != NULL;
}

#define ADDS(add)                                                                              \
    CALL(add)                                                                                  \
    {                                                                                          \
        tp_params *p = tree(m);                                                                \
        const char *of = name(m);                                                              \
        return put(m, add(p, of, tensor(m)));                                                  \
    }
ADDS(tp_params_add)
ADDS(tp_params_add_state)

/* Seldom of the tree by chance. */
CALL(tp_params_share)
{
    tp_params *p = tree(m);
    const char *of = name(m);
    tp_tensor *t = below(m, 4) ? tensor(m) : tp_params_add(p, "own", number_like(m));
    return put(m, tp_params_share(p, of, t));
}

/* What is asked of a tree. */
#define ASKED(f, ask)                                                                          \
    CALL(f)                                                                                    \
    {                                                                                          \
        tp_params *p = tree(m);                                                                \
        ask;                                                                                   \
        return 1;                                                                              \
    }
ASKED(tp_params_freeze, tp_params_freeze(p, below(m, 2)))
ASKED(tp_params_n_trained, tp_params_n_trained(p))
ASKED(tp_params_trained, tp_params_trained(p))
ASKED(tp_params_n, tp_params_n(p))
ASKED(tp_params_tensor, tp_params_tensor(p, (int)below(m, 4) - 1))
ASKED(tp_params_name, tp_params_name(p, (int)below(m, 4) - 1))
ASKED(tp_params_find, tp_params_find(p, name(m)))
ASKED(tp_params_count, tp_params_count(p))
ASKED(tp_params_text, tp_free(m->tp, tp_params_text(p)))

CALL(tp_summary)
{
    const tp_tensor *x = tensor(m);
    char *s = tp_summary(below(m, 2) ? tree(m) : NULL, x);
    tp_free(tp_ctx_of(x), s);
    return s != NULL;
}

CALL(tp_initial)
{
    tp_ctx *tp = ctx(m);
    const double gain = number(m);
    const int64_t n = size(m), k = size(m), n_in = size(m);
    return put(m,
               tp_initial(tp, (tp_init)(below(m, 11) - 1), gain, TP_DIMS(n, k), n_in, size(m)));
}

CALL(tp_embedding_new)
{
    tp_params *p = tree(m);
    const char *of = name(m);
    const int64_t n = size(m), width = size(m);
    return put(m, tp_embedding_new(p, of, n, width, (int64_t)below(m, 4) - 1).table);
}

CALL(tp_embedding_apply)
{
    const bool fits = below(m, 8) == 0;
    const tp_embedding l = {fits ? fresh(m, TP_F32, TP_DIMS(3, 2)) : tensor(m),
                            (int64_t)below(m, 3) - 1};
    tp_tensor *index = fits ? fresh(m, TP_I64, TP_DIMS(2)) : tensor(m);
    return put(m, tp_embedding_apply(rarely(m) ? NULL : &l, index));
}

CALL(tp_layer_norm_new)
{
    tp_params *p = tree(m);
    const char *of = name(m);
    const tp_norm_layer l = tp_layer_norm_new(p, of, size(m), number(m));
    return put_both(m, l.scale, l.shift);
}

CALL(tp_rms_norm_new)
{
    tp_params *p = tree(m);
    const char *of = name(m);
    return put(m, tp_rms_norm_new(p, of, size(m), number(m)).scale);
}

CALL(tp_group_norm_new)
{
    tp_params *p = tree(m);
    const char *of = name(m);
    const int64_t c = size(m), groups = below(m, 2) ? 1 : size(m);
    const tp_norm_layer l = tp_group_norm_new(p, of, c, groups, number(m));
    return put_both(m, l.scale, l.shift);
}

CALL(tp_batch_norm_new)
{
    tp_params *p = tree(m);
    const char *of = name(m);
    const int64_t c = size(m);
    const double momentum = number(m);
    const tp_norm_layer l = tp_batch_norm_new(p, of, c, momentum, number(m));
    return put_both(m, l.mean, l.var);
}

CALL(tp_norm_layer_apply)
{
    tp_tensor *x = tensor(m);
    tp_norm_layer l = {.scale = fellow(m, x),
                       .shift = fellow(m, x),
                       .eps = number(m),
                       .kind = (tp_norm_kind)below(m, 5),
                       .groups = size(m)};
    if (below(m, 2) && m->depth == 0)
        l.mean = l.var = variable(m);
    if (below(m, 4) == 0) {
        x = fresh(m, TP_F32, TP_DIMS(2, 3));
        l.scale = l.shift = fresh(m, TP_F32, TP_DIMS(3));
        l.groups = below(m, 2) ? 1 : 3;
    }
    return put(m, tp_norm_layer_apply(rarely(m) ? NULL : &l, x));
}

static tp_recurrent_layer_options recurrent_options(monkey *m)
{
    return (tp_recurrent_layer_options){.layers = rarely(m) ? -1 : below(m, 3),
                                        .both = below(m, 2),
                                        .batch_first = below(m, 2),
                                        .no_bias = below(m, 2),
                                        .dropout = below(m, 2) ? 0 : number(m)};
}

#define RECURRENT(make)                                                                        \
    CALL(make)                                                                                 \
    {                                                                                          \
        tp_params *p = tree(m);                                                                \
        const char *of = name(m);                                                              \
        const tp_recurrent_layer_options opt = recurrent_options(m);                           \
        const int64_t k = size(m);                                                             \
        const tp_recurrent_layer l = make(p, of, k, size(m), below(m, 2) ? &opt : NULL);       \
        return put_both(m, l.w[0][0].w, l.w[0][0].r);                                          \
    }
RECURRENT(tp_lstm_new)
RECURRENT(tp_gru_new)
RECURRENT(tp_rnn_new)

/* Of weights that fit what is fresh, or of any. */
static tp_recurrent recurrent_weights(monkey *m, int n_gates)
{
    if (below(m, 3) == 0)
        return (tp_recurrent){.w = tensor(m), .r = tensor(m), .wb = tensor(m)};
    return (tp_recurrent){.w = fresh(m, TP_F32, TP_DIMS(3, n_gates * 2)),
                          .r = fresh(m, TP_F32, TP_DIMS(2, n_gates * 2))};
}

CALL(tp_recurrent_layer_apply)
{
    static const int gates[] = {1, 3, 4, 2};
    tp_recurrent_layer l = {.n_gates = gates[rarely(m) ? 3 : below(m, 3)],
                            .options = recurrent_options(m)};
    l.options.layers = rarely(m) ? 2 : 1;
    for (int d = 0; d < 2; d++)
        l.w[0][d] = recurrent_weights(m, l.n_gates);
    tp_tensor *x = below(m, 3) ? fresh(m, TP_F32, TP_DIMS(2, 2, 3)) : tensor(m);
    tp_tensor *lengths = below(m, 5) ? NULL : integers(m);
    tp_tensor *h = below(m, 5) ? NULL : tensor(m), *c = below(m, 5) ? NULL : tensor(m);
    tp_tensor *y = tp_recurrent_layer_apply(rarely(m) ? NULL : &l, x, lengths,
                                            below(m, 2) ? &h : NULL, below(m, 2) ? &c : NULL);
    return put(m, y);
}

CALL(tp_attention_layer_new)
{
    tp_params *p = tree(m);
    const char *of = name(m);
    const int64_t heads = below(m, 2) ? 1 : size(m), kv_heads = below(m, 2) ? 0 : size(m);
    const tp_attention_layer l = tp_attention_layer_new(p, of, size(m), heads, kv_heads, NULL);
    return put_both(m, l.q.w, l.out.b);
}

CALL(tp_attention_layer_apply)
{
    tp_attention_layer l = {.heads = 1 + below(m, 2), .kv_heads = 1};
    tp_dense *const all[] = {&l.q, &l.k, &l.v, &l.out};
    for (int i = 0; i < 4; i++) {
        const int64_t keys = i == 1 || i == 2 ? 4 / l.heads : 4;
        all[i]->w = rarely(m) ? tensor(m) : fresh(m, TP_F32, TP_DIMS(4, keys));
    }
    const tp_attention_options options = {.causal = below(m, 2),
                                          .mask = rarely(m) ? tensor(m) : NULL};
    tp_tensor *x = below(m, 3) ? fresh(m, TP_F32, TP_DIMS(2, 2, 4)) : tensor(m);
    tp_tensor *memory = below(m, 5) ? NULL : tensor(m), *present[2];
    return put(m, tp_attention_layer_apply(rarely(m) ? NULL : &l, x, memory,
                                           below(m, 2) ? &options : NULL,
                                           below(m, 2) ? present : NULL));
}

CALL(tp_transformer_block_new)
{
    tp_params *p = tree(m);
    const char *of = name(m);
    const int64_t heads = below(m, 2) ? 1 : size(m);
    const tp_transformer_options opt = {.hidden = below(m, 2) ? 0 : size(m),
                                        .rms = below(m, 2)};
    const tp_transformer_block l =
        tp_transformer_block_new(p, of, size(m), heads, below(m, 2) ? &opt : NULL);
    return put_both(m, l.attention.q.w, l.down.b);
}

CALL(tp_transformer_block_apply)
{
    tp_transformer_block l = {
        .attention = {.heads = 1 + below(m, 2), .kv_heads = 1}
    };
    l.options = (tp_transformer_options){.post_norm = below(m, 2),
                                         .dropout = below(m, 2) ? 0 : number(m)};
    tp_dense *const all[] = {&l.attention.q,   &l.attention.k, &l.attention.v,
                             &l.attention.out, &l.up,          &l.down};
    for (int i = 0; i < 6; i++) {
        const int64_t keys = i == 1 || i == 2 ? 4 / l.attention.heads : 4;
        all[i]->w = rarely(m) ? tensor(m) : fresh(m, TP_F32, TP_DIMS(4, keys));
    }
    tp_tensor *x = below(m, 3) ? fresh(m, TP_F32, TP_DIMS(2, 2, 4)) : tensor(m),
              *cache[2] = {NULL, NULL};
    return put(m, tp_transformer_block_apply(rarely(m) ? NULL : &l, x, NULL,
                                             below(m, 2) ? cache : NULL));
}

CALL(tp_pool_layer_apply)
{
    tp_pool_layer l = {
        .kind = (tp_pool_kind)below(m, 7), .sizes = {1, 1, 1}
    };
    const tp_window *w = window(m, &l.window, true);
    tp_tensor *x = below(m, 2) ? fresh(m, TP_F32, TP_DIMS(2, 3, 4)) : tensor(m);
    return put(m, tp_pool_layer_apply(w ? &l : NULL, x));
}

CALL(tp_sequential_apply)
{
    static const tp_layer_function relu = tp_relu_at;
    const tp_dense l = {.w = rarely(m) ? tensor(m) : fresh(m, TP_F32, TP_DIMS(3, 3))};
    const tp_layer layers[] = {tp_layer_of_dense(rarely(m) ? NULL : &l),
                               tp_layer_of_function(&relu)};
    const tp_sequential all = {below(m, 3), layers};
    return put(m, tp_sequential_apply(rarely(m) ? NULL : &all, tensor(m)));
}

/* What each makes of no layer fails. */
#define OF_NOTHING(name)                                                                       \
    CALL(name)                                                                                 \
    {                                                                                          \
        const tp_layer l = name(NULL);                                                         \
        tp_tensor *y = l.apply(NULL, 0, l.of, tensor(m));                                      \
        return !put(m, y);                                                                     \
    }
OF_NOTHING(tp_layer_of_dense)
OF_NOTHING(tp_layer_of_conv)
OF_NOTHING(tp_layer_of_embedding)
OF_NOTHING(tp_layer_of_norm)
OF_NOTHING(tp_layer_of_recurrent)
OF_NOTHING(tp_layer_of_attention)
OF_NOTHING(tp_layer_of_transformer)
OF_NOTHING(tp_layer_of_pool)
OF_NOTHING(tp_layer_of_dropout)
OF_NOTHING(tp_layer_of_sequential)
OF_NOTHING(tp_layer_of_function)

CALL(tp_dropout_apply)
{
    tp_tensor *x = tensor(m);
    return put(m, tp_dropout_apply(x, number(m)));
}

CALL(tp_dense_new)
{
    tp_ctx *tp = ctx(m);
    const char *of = name(m);
    const int64_t n_in = size(m);
    const tp_dense l = tp_dense_new(tp_params_new(tp), of, n_in, size(m), NULL);
    return put_both(m, l.w, l.b);
}

CALL(tp_dense_apply)
{
    tp_tensor *x = tensor(m);
    tp_dense l = {fellow(m, x), tensor(m)};
    if (below(m, 8) == 0) {
        x = fresh(m, TP_F32, TP_DIMS(2, 3));
        l = (tp_dense){fresh(m, TP_F32, TP_DIMS(3, 2)), NULL};
    }
    return put(m, tp_dense_apply(rarely(m) ? NULL : &l, x));
}

CALL(tp_conv_layer_new)
{
    tp_ctx *tp = ctx(m);
    const char *of = name(m);
    const int64_t c = size(m), oc = size(m), k = size(m), stride = size(m);
    const tp_conv_layer l = tp_conv_layer_new(tp_params_new(tp), of, c, oc,
                                              TP_SQUARE(k, stride, below(m, 2)), NULL);
    return put_both(m, l.w, l.b);
}

CALL(tp_conv_transpose_new)
{
    tp_ctx *tp = ctx(m);
    const char *of = name(m);
    const int64_t c = size(m), oc = size(m), k = size(m), stride = size(m);
    const int64_t more[2] = {below(m, 2), below(m, 3) - 1};
    const tp_conv_layer l = tp_conv_transpose_new(
        tp_params_new(tp), of, c, oc, TP_SQUARE(k, stride, below(m, 2)), more, NULL);
    return put_both(m, l.w, l.b);
}

CALL(tp_conv_layer_apply)
{
    tp_tensor *x = tensor(m);
    tp_conv_layer l = {.w = fellow(m, x), .b = tensor(m)};
    window(m, &l.window, false);
    l.transposed = below(m, 3) == 0;
    l.more[0] = below(m, 2);
    if (below(m, 3) == 0) {
        x = fresh(m, TP_F32, TP_DIMS(1, 2, 4, 4));
        l.w = fresh(m, TP_F32, TP_DIMS(2, 2, 3, 3));
        l.b = fresh(m, TP_F32, TP_DIMS(2));
    }
    return put(m, tp_conv_layer_apply(rarely(m) ? NULL : &l, x));
}

/* What could not be made seldom takes the place of one that was. */
static int keep_optimizer(monkey *m, tp_optimizer *o)
{
    tp_optimizer **kept = &m->optimizer[which(m)];
    if (m->depth || (!o && below(m, 4))) {
        tp_optimizer_free(o);
        return o != NULL;
    }
    tp_optimizer_free(*kept);
    *kept = o;
    return o != NULL;
}

static many *parameters(monkey *m, many *l)
{
    tensors(m, l, 1 + below(m, 2));
    for (int i = 0; i < 5 && below(m, 4); i++)
        l->of[i] = variable(m);
    if (l->n > 0 && below(m, 2))
        l->of[0] = tp_param(tp_full(m->tp, TP_F32, TP_DIMS(2, 3), 1), name(m));
    return l;
}

CALL(tp_sgd_new)
{
    many l;
    tp_ctx *tp = ctx(m);
    const double rate = number(m), momentum = below(m, 2) ? 0.5 : number(m);
    parameters(m, &l);
    return keep_optimizer(
        m, tp_sgd_new(tp, rate, &(tp_sgd_options){.momentum = momentum}, l.n, l.in));
}

CALL(tp_adam_new)
{
    many l;
    tp_ctx *tp = ctx(m);
    const double rate = number(m), beta = below(m, 2) ? 0.5 : number(m), eps = number(m);
    parameters(m, &l);
    return keep_optimizer(
        m, tp_adam_new(
               tp, rate,
               &(tp_adam_options){.beta1 = beta, .beta2 = beta, .eps = eps, .decay = number(m)},
               l.n, l.in));
}

#define MAKER(maker, options, ...)                                                             \
    CALL(maker)                                                                                \
    {                                                                                          \
        many l;                                                                                \
        tp_ctx *tp = ctx(m);                                                                   \
        const double rate = number(m), v = below(m, 2) ? 0.5 : number(m);                      \
        parameters(m, &l);                                                                     \
        return keep_optimizer(                                                                 \
            m, maker(tp, rate, below(m, 3) ? &(options){__VA_ARGS__} : NULL, l.n, l.in));      \
    }
MAKER(tp_rmsprop_new, tp_rmsprop_options, .alpha = v, .momentum = v, .centered = m->draws % 2)
MAKER(tp_adagrad_new, tp_adagrad_options, .eps = v)
MAKER(tp_lion_new, tp_lion_options, .beta1 = v, .decay = v)
MAKER(tp_adafactor_new, tp_adafactor_options, .power = v, .clip = v, .absolute = m->draws % 2)

static void descend(const void *options, tp_step *s)
{
    (void)options;
    s->w = tp_sub(s->w, tp_mul(s->rate, s->g));
}

CALL(tp_optimizer_new)
{
    static const tp_optimizer_kind own = {.name = "own", .state = {"v"}, .update = descend};
    many l;
    tp_ctx *tp = ctx(m);
    const double rate = number(m), decay = number(m);
    parameters(m, &l);
    return keep_optimizer(
        m, tp_optimizer_new(tp, rarely(m) ? NULL : &own, NULL, rate, decay, l.n, l.in));
}

/* A parameter and what is held beside it. */
static tp_tensor *held_parameter(monkey *m)
{
    return tp_param(fresh(m, TP_F32, TP_DIMS(3)), name(m));
}

/* Of one that it makes, whose first step is still to come; NULL in a body. */
static tp_optimizer *new_optimizer(monkey *m, tp_tensor **w)
{
    *w = m->depth ? NULL : held_parameter(m);
    return *w ? tp_sgd_new(m->tp, 0.1, NULL, 1, w) : NULL;
}

CALL(tp_optimizer_apply)
{
    tp_tensor *g[8]; /* more than parameters() gives */
    for (int i = 0; i < 8; i++)
        g[i] = tensor(m);
    for (int i = 0, own = below(m, 2); own && i < 8; i++)
        g[i] = fresh(m, TP_F32, TP_DIMS(3));
    return put(m, tp_optimizer_apply(m->optimizer[which(m)], rarely(m) ? NULL : g));
}

CALL(tp_optimizer_rate)
{
    tp_optimizer_rate(m->optimizer[which(m)]);
    return 1;
}

CALL(tp_optimizer_step_rate)
{
    tp_optimizer_step_rate(m->optimizer[which(m)]);
    return 1;
}

CALL(tp_optimizer_group)
{
    many l;
    parameters(m, &l);
    const double scale = number(m), decay = number(m);
    if (below(m, 3))
        return done(tp_optimizer_group(m->optimizer[which(m)], scale, decay, l.n, l.in));
    tp_tensor *w;
    tp_optimizer *o = new_optimizer(m, &w);
    const int ok = done(tp_optimizer_group(o, scale, decay, 1, &w));
    tp_optimizer_free(o);
    return ok;
}

CALL(tp_optimizer_schedule)
{
    const tp_schedule s = {(tp_schedule_kind)(below(m, 7) - 1), below(m, 5) - 1, below(m, 9),
                           number(m)};
    return done(tp_optimizer_schedule(m->optimizer[which(m)], rarely(m) ? NULL : &s));
}

CALL(tp_optimizer_n_state)
{
    tp_optimizer_n_state(m->optimizer[which(m)]);
    return 1;
}

CALL(tp_optimizer_state)
{
    tp_name_of(tp_optimizer_state(m->optimizer[which(m)], (int)below(m, 9) - 1));
    return 1;
}

CALL(tp_clip_norm)
{
    many l;
    tp_tensor *out[16];
    tensors(m, &l, 1 + below(m, 3));
    return put(m, tp_clip_norm(l.n < 16 ? l.n : 16, l.in, number(m), rarely(m) ? NULL : out));
}

CALL(tp_clip_value)
{
    many l;
    tp_tensor *out[16];
    tensors(m, &l, 1 + below(m, 3));
    return done(tp_clip_value(l.n < 16 ? l.n : 16, l.in, number(m), rarely(m) ? NULL : out));
}

CALL(tp_gradient_sum_new)
{
    many l;
    parameters(m, &l);
    tp_gradient_sum *s = tp_gradient_sum_new(ctx(m), l.n, l.in);
    tp_gradient_sum_free(s);
    return s != NULL;
}

CALL(tp_gradient_sum_free)
{
    (void)m;
    tp_gradient_sum_free(NULL);
    return 1;
}

CALL(tp_gradient_sum_add)
{
    tp_tensor *w = m->depth ? NULL : held_parameter(m);
    tp_gradient_sum *s = w ? tp_gradient_sum_new(m->tp, 1, &w) : NULL;
    const int ok =
        put(m, tp_gradient_sum_add(s, below(m, 2) && w ? tp_sum(w, TP_ALL, false) : tensor(m),
                                   number(m)));
    tp_gradient_sum_free(s);
    return ok;
}

CALL(tp_gradient_sum_take)
{
    tp_tensor *w = m->depth ? NULL : held_parameter(m), *out[1];
    tp_gradient_sum *s = w ? tp_gradient_sum_new(m->tp, 1, &w) : NULL;
    const int ok =
        put(m, tp_gradient_sum_take(s, below(m, 2) ? NULL : tensor(m), rarely(m) ? NULL : out));
    tp_gradient_sum_free(s);
    return ok;
}

CALL(tp_optimizer_apply_when)
{
    tp_tensor *w = m->depth ? NULL : held_parameter(m), *when = tensor(m);
    tp_optimizer *o = w ? tp_sgd_new(m->tp, 0.5, NULL, 1, &w) : NULL;
    tp_tensor *g = rarely(m) ? tensor(m) : w ? tp_mul(w, 2) : NULL;
    when = below(m, 3) ? tp_any(tp_gt(when, 0), TP_ALL, false) : when;
    const int ok = put(m, tp_optimizer_apply_when(o, &g, when));
    tp_optimizer_free(o);
    return ok;
}

CALL(tp_lbfgs_new)
{
    many l;
    parameters(m, &l);
    tp_lbfgs_options opt = {.history = below(m, 4), .turns = below(m, 3)};
    double *const all[] = {&opt.rate, &opt.gradient, &opt.change};
    if (below(m, 2))
        *all[below(m, 3)] = number(m);
    tp_lbfgs *b = tp_lbfgs_new(ctx(m), below(m, 3) ? &opt : NULL, l.n, l.in);
    tp_lbfgs_free(b);
    return b != NULL;
}

CALL(tp_lbfgs_free)
{
    (void)m;
    tp_lbfgs_free(NULL);
    return 1;
}

static tp_tensor *squares(void *user)
{
    return tp_square(user);
}

CALL(tp_lbfgs_step)
{
    tp_tensor *w = m->depth ? NULL : held_parameter(m);
    const tp_lbfgs_options opt = {.history = 2, .turns = 2};
    tp_lbfgs *l = w ? tp_lbfgs_new(m->tp, &opt, 1, &w) : NULL;
    const int ok =
        put(m, tp_lbfgs_step(l, rarely(m) ? NULL : squares, rarely(m) ? tensor(m) : w));
    tp_lbfgs_free(l);
    return ok;
}

CALL(tp_lbfgs_n_state)
{
    (void)m;
    tp_lbfgs_n_state(NULL);
    return 1;
}

CALL(tp_lbfgs_state)
{
    tp_tensor *w = m->depth ? NULL : held_parameter(m);
    tp_lbfgs *l = w ? tp_lbfgs_new(m->tp, NULL, 1, &w) : NULL;
    tp_name_of(tp_lbfgs_state(l, below(m, 7) - 1));
    tp_lbfgs_free(l);
    return 1;
}

CALL(tp_loss_scale_new)
{
    tp_loss_scale_options opt = {.turns = below(m, 3)};
    double *const all[] = {&opt.first, &opt.growth, &opt.backoff};
    if (below(m, 2))
        *all[below(m, 3)] = number(m);
    tp_loss_scale *s = tp_loss_scale_new(ctx(m), below(m, 3) ? &opt : NULL);
    tp_loss_scale_free(s);
    return s != NULL;
}

CALL(tp_loss_scale_free)
{
    (void)m;
    tp_loss_scale_free(NULL);
    return 1;
}

CALL(tp_loss_scale_apply)
{
    tp_loss_scale *s = m->depth || rarely(m) ? NULL : tp_loss_scale_new(m->tp, NULL);
    const int ok = put(m, tp_loss_scale_apply(s, tensor(m)));
    tp_loss_scale_free(s);
    return ok;
}

CALL(tp_loss_scale_unscale)
{
    many l;
    tp_tensor *out[16];
    tp_loss_scale *s = m->depth || rarely(m) ? NULL : tp_loss_scale_new(m->tp, NULL);
    tensors(m, &l, 1 + below(m, 3));
    const int ok =
        put(m, tp_loss_scale_unscale(s, l.n < 16 ? l.n : 16, l.in, rarely(m) ? NULL : out));
    tp_loss_scale_free(s);
    return ok;
}

CALL(tp_loss_scale_update)
{
    tp_loss_scale *s = m->depth || rarely(m) ? NULL : tp_loss_scale_new(m->tp, NULL);
    tp_tensor *finite = tensor(m);
    if (below(m, 3))
        finite = tp_any(tp_gt(finite, 0), TP_ALL, false);
    const int ok = put(m, tp_loss_scale_update(s, finite));
    tp_loss_scale_free(s);
    return ok;
}

CALL(tp_loss_scale_state)
{
    tp_loss_scale *s = m->depth ? NULL : tp_loss_scale_new(m->tp, NULL);
    tp_name_of(tp_loss_scale_state(s, below(m, 4) - 1));
    tp_loss_scale_free(s);
    return 1;
}

CALL(tp_average_new)
{
    many l;
    parameters(m, &l);
    tp_average *a = tp_average_new(ctx(m), below(m, 2) ? 0.5 : number(m), l.n, l.in);
    tp_average_free(a);
    return a != NULL;
}

CALL(tp_average_free)
{
    (void)m;
    tp_average_free(NULL);
    return 1;
}

CALL(tp_average_update)
{
    tp_tensor *w = m->depth ? NULL : held_parameter(m);
    tp_average *a = w && !rarely(m) ? tp_average_new(m->tp, 0.5, 1, &w) : NULL;
    const int ok = put(m, tp_average_update(a, below(m, 2) ? NULL : tensor(m)));
    tp_average_free(a);
    return ok;
}

CALL(tp_average_swap)
{
    tp_tensor *w = m->depth ? NULL : held_parameter(m);
    tp_average *a = w && !rarely(m) ? tp_average_new(m->tp, 0.5, 1, &w) : NULL;
    const int ok = done(tp_average_swap(a));
    tp_average_free(a);
    return ok;
}

CALL(tp_patience_over)
{
    tp_patience p = {.turns = below(m, 3)};
    tp_patience_over(rarely(m) ? NULL : &p, number(m));
    return 1;
}

CALL(tp_optimizer_free)
{
    tp_optimizer **kept = &m->optimizer[which(m)];
    if (m->depth || below(m, 6))
        return NOT_MADE;
    tp_optimizer_free(*kept);
    *kept = NULL;
    return 1;
}

CALL(tp_optimizer_set_rate)
{
    tp_optimizer *o = m->optimizer[which(m)];
    return done(tp_optimizer_set_rate(o, number(m)));
}

/* A parameter, an optimiser of it and a loss that fit together. */
static int good_step(monkey *m)
{
    tp_tensor *w;
    tp_optimizer *o = new_optimizer(m, &w);
    const int ok = put(m, tp_optimizer_step(o, tp_sum(tp_mul(w, w), TP_ALL, false)));
    tp_optimizer_free(o);
    return ok;
}

CALL(tp_optimizer_step)
{
    tp_optimizer *o = m->optimizer[which(m)];
    if (below(m, 3) == 0 && m->depth == 0)
        return good_step(m);
    return put(m, tp_optimizer_step(o, number_like(m)));
}

/* ---- state ------------------------------------------------------------------------------------------ */

/* With something in it, that may be spoiled. */
static tp_state *filled(monkey *m, int64_t *counter)
{
    tp_state *s = rarely(m) ? NULL : tp_state_new(ctx(m));
    if (s && below(m, 2))
        tp_state_add_counter(s, "n", counter);
    if (s && below(m, 2))
        tp_state_add_random(s);
    if (s && below(m, 2))
        tp_state_add(s, rarely(m) ? NULL : "v", variable(m));
    return s;
}

/* `call` for a state s, which is there for that. */
#define FOR_STATE(f, call)                                                                     \
    CALL(f)                                                                                    \
    {                                                                                          \
        int64_t n = 1;                                                                         \
        tp_state *s = filled(m, &n);                                                           \
        const int r = done(call);                                                              \
        tp_state_free(s);                                                                      \
        return r;                                                                              \
    }
FOR_STATE(tp_state_add,
          tp_state_add(s, below(m, 2) ? name(m) : NULL, below(m, 2) ? variable(m) : tensor(m)))
FOR_STATE(tp_state_add_counter, tp_state_add_counter(s, name(m), rarely(m) ? NULL : &n))
FOR_STATE(tp_state_add_random, tp_state_add_random(s))
FOR_STATE(tp_state_add_params, tp_state_add_params(s, below(m, 2) ? name(m) : NULL, tree(m)))
FOR_STATE(tp_state_add_optimizer,
          tp_state_add_optimizer(s, below(m, 2) ? name(m) : NULL, m->optimizer[which(m)]))
/* Some variables, or what is none. */
static tp_status add_some(monkey *m, tp_state *s)
{
    tp_tensor *v[2] = {variable(m), below(m, 2) ? variable(m) : tensor(m)};
    return tp_state_add_variables(s, below(m, 2) ? name(m) : NULL, (int)below(m, 4) - 1,
                                  rarely(m) ? NULL : v);
}
FOR_STATE(tp_state_add_variables, add_some(m, s))

static tp_status add_average(monkey *m, tp_state *s)
{
    tp_tensor *v = variable(m);
    tp_average *a = rarely(m) ? NULL : tp_average_new(ctx(m), 0.5, 1, &v);
    const tp_status status = tp_state_add_average(s, below(m, 2) ? name(m) : NULL, a);
    tp_average_free(a);
    return status;
}
FOR_STATE(tp_state_add_average, add_average(m, s))

static tp_status add_sum(monkey *m, tp_state *s)
{
    tp_tensor *v = variable(m);
    tp_gradient_sum *sum = rarely(m) ? NULL : tp_gradient_sum_new(ctx(m), 1, &v);
    const tp_status status = tp_state_add_gradient_sum(s, below(m, 2) ? name(m) : NULL, sum);
    tp_gradient_sum_free(sum);
    return status;
}
FOR_STATE(tp_state_add_gradient_sum, add_sum(m, s))

static tp_status add_lbfgs(monkey *m, tp_state *s)
{
    tp_tensor *v = variable(m);
    tp_lbfgs *l = rarely(m) ? NULL : tp_lbfgs_new(ctx(m), NULL, 1, &v);
    const tp_status status = tp_state_add_lbfgs(s, below(m, 2) ? name(m) : NULL, l);
    tp_lbfgs_free(l);
    return status;
}
FOR_STATE(tp_state_add_lbfgs, add_lbfgs(m, s))

static tp_status add_loss_scale(monkey *m, tp_state *s)
{
    tp_loss_scale *l = rarely(m) ? NULL : tp_loss_scale_new(ctx(m), NULL);
    const tp_status status = tp_state_add_loss_scale(s, below(m, 2) ? name(m) : NULL, l);
    tp_loss_scale_free(l);
    return status;
}
FOR_STATE(tp_state_add_loss_scale, add_loss_scale(m, s))

FOR_STATE(tp_state_save, tp_state_save(s, path_of(m, below(m, 2) ? "st" : "npz")))

/* A file, which is that state's as often as not. */
static const char *file_of(monkey *m, tp_state *s)
{
    const char *of = path_of(m, below(m, 2) ? "st" : "npz");
    if (below(m, 2))
        tp_state_save(s, of);
    return of;
}

static tp_status load(monkey *m, tp_state *s)
{
    const char *of = file_of(m, s);
    return tp_state_load(s, of, below(m, 2) ? name(m) : NULL);
}
FOR_STATE(tp_state_load, load(m, s))

static tp_status transfer(monkey *m, tp_state *s)
{
    static const char *const patterns[] = {"*", "v", "x", "*.w", "**", "", NULL, "********* *"};
    static const char *const takes[] = {NULL, "0", "1 0", "0-1", "2", "0 x", ""};
    tp_transfer table[3];
    for (int i = 0; i < 3; i++)
        table[i] =
            (tp_transfer){patterns[below(m, rarely(m) ? 8 : 4)], patterns[below(m, 7)],
                          below(m, 2), (int)below(m, 3), takes[rarely(m) ? below(m, 7) : 0]};
    if (below(m, 3) == 0) /* all as it is */
        table[0] = (tp_transfer){.from = "*", .to = "*"};
    const char *of = file_of(m, s);
    return tp_state_transfer(s, of, (int)below(m, 4), table);
}
FOR_STATE(tp_state_transfer, transfer(m, s))

CALL(tp_state_new)
{
    tp_state *s = tp_state_new(ctx(m));
    const bool is = s != NULL;
    tp_state_free(s);
    return is;
}

CALL(tp_state_free)
{
    int64_t n = 1;
    tp_state_free(filled(m, &n));
    return 1;
}

/* ---- archives ---------------------------------------------------------------------------------------- */

/* A file of something, or of nothing. */
static tp_status save_archive(monkey *m)
{
    const tp_archive_item items[] = {
        {"v",                      tensor(m),      NULL   },
        {name(m),                  number_like(m), NULL   },
        {rarely(m) ? "v" : "note", NULL,           name(m)}
    };
    return tp_archive_save(ctx(m), path_of(m, below(m, 2) ? "st" : "npz"),
                           rarely(m) ? -1 : (int)below(m, 4), items);
}

static tp_archive *archive(monkey *m)
{
    if (below(m, 2)) {
        const tp_archive_item items[] = {
            {"v",    number_like(m), NULL        },
            {"note", NULL,           "the monkey"}
        };
        tp_archive_save(m->tp, "a.npz", 2, items);
    }
    return rarely(m) ? NULL : tp_archive_open(ctx(m), path_of(m, below(m, 2) ? "st" : "npz"));
}

CALL(tp_archive_save)
{
    return done(save_archive(m));
}

CALL(tp_archive_open)
{
    tp_archive *a = archive(m);
    if (below(m, 2))
        tp_archive_free(a);
    return a != NULL;
}

CALL(tp_archive_free)
{
    tp_archive_free(archive(m));
    return 1;
}

/* `ask` of an archive a; did it answer? */
#define OF_ARCHIVE(f, ask)                                                                     \
    CALL(f)                                                                                    \
    {                                                                                          \
        tp_archive *a = archive(m);                                                            \
        const int r = (ask);                                                                   \
        tp_archive_free(a);                                                                    \
        return r;                                                                              \
    }
OF_ARCHIVE(tp_archive_n, tp_archive_n(a) > 0)
OF_ARCHIVE(tp_archive_entry_of, tp_archive_entry_of(a, (int)below(m, 3) - 1) != NULL)
OF_ARCHIVE(tp_archive_find, tp_archive_find(a, name(m)) != NULL)
OF_ARCHIVE(tp_archive_key, tp_archive_key(a, (int)below(m, 3) - 1) != NULL)
OF_ARCHIVE(tp_archive_text, tp_archive_text(a, below(m, 2) ? "note" : name(m)) != NULL)
OF_ARCHIVE(tp_archive_tensor, put(m, tp_archive_tensor(a, name(m))))
