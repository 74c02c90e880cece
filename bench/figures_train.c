/* Steps of training, compiled and captured. */
#include "bench.h"
#include "train_nets.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_BATCHES = 8, NAME = 48, CHECKED = 3 };

typedef struct training {
    tp_ctx *tp;
    const net_kind *kind;
    net m;
    tp_tensor *x[N_BATCHES], *y[N_BATCHES];
    int64_t next;
    double loss; /* of the last step of which it was read */
    tp_program *program;
    tp_function *function;
    char names[2][NAME], workload[NAME];
} training;

static void make(training *t, tp_ctx *tp, const net_kind *kind)
{
    *t = (training){.tp = tp, .kind = kind};
    kind->make(tp, &t->m);
    for (int i = 0; i < N_BATCHES; i++) {
        const double most = kind->type == TP_F32 ? 1 : (double)kind->classes;
        t->x[i] = tp_cast(tp_uniform(tp, TP_F32, TP_DIMS(kind->batch, kind->width), 0, most),
                          kind->type);
        t->y[i] = tp_cast(tp_uniform(tp, TP_F32, TP_DIMS(kind->batch, kind->answers), 0,
                                     (double)kind->classes),
                          TP_I64);
    }
}

/* ---- a step --------------------------------------------------------------------------------------- */

static void body(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)n_in, (void)n_out;
    const training *t = user;
    tp_tensor *loss = t->kind->loss(&t->m, in[0], in[1]);
    tp_optimizer_step(t->m.adam, loss);
    out[0] = tp_detach(loss);
}

static void capture(training *t, bool eager)
{
    t->function =
        tp_function_new(t->tp, "step", body, t, &(tp_function_options){.eager = eager});
}

static void compile(training *t, tp_engine engine)
{
    tp_graph *g = tp_graph_new(t->tp);
    const int64_t batch = tp_symbol(g, "batch");
    tp_tensor *x = tp_placeholder(g, "x", t->kind->type, TP_DIMS(batch, t->kind->width));
    tp_tensor *y = tp_placeholder(g, "y", TP_I64, TP_DIMS(batch, t->kind->answers));
    tp_tensor *loss = t->kind->loss(&t->m, x, y);
    tp_name(loss, "loss");
    tp_name(tp_optimizer_step(t->m.adam, loss), "step");
    t->program = tp_graph_compile(g, TP_NAMES("x", "y"), TP_NAMES("loss", "step"),
                                  &(tp_compile_options){.engine = engine});
    if (t->program && engine == TP_ENGINE_C)
        tp_program_wait(t->program);
}

static void run(void *arg, int64_t n)
{
    training *t = arg;
    for (; n > 0; n--, t->next++) {
        tp_scope_begin(t->tp);
        tp_tensor *in[2] = {t->x[t->next % N_BATCHES], t->y[t->next % N_BATCHES]}, *out[2];
        if (!t->program || tp_program_run(t->program, in, out) != TP_OK)
            out[0] = NULL;
        if (n == 1 && out[0])
            t->loss = tp_item(out[0]);
        tp_scope_end(t->tp);
    }
}

static void call(void *arg, int64_t n)
{
    training *t = arg;
    for (; n > 0; n--, t->next++) {
        tp_scope_begin(t->tp);
        tp_tensor *loss = tp_function_apply(
            t->function, TP_TENSORS(t->x[t->next % N_BATCHES], t->y[t->next % N_BATCHES]));
        if (n == 1)
            t->loss = tp_item(loss);
        tp_scope_end(t->tp);
    }
}

/* ---- what is checked before ------------------------------------------------------------------------ */

typedef enum way { EAGER, CAPTURED, TILES, COMPILED } way;

/* All parameters after some steps from the same seed; to be freed. */
static float *train(const bench *b, const net_kind *kind, way how, int64_t *n)
{
    tp_ctx *tp = tp_open(&(tp_options){.seed = 7, .cache_dir = b->cache});
    training *t = tp_alloc(tp, sizeof *t);
    float *all = NULL;
    if (t) {
        make(t, tp, kind);
        if (how == TILES || how == COMPILED)
            compile(t, how == TILES ? TP_ENGINE_TILES : TP_ENGINE_C);
        else
            capture(t, how == EAGER);
        (t->function ? call : run)(t, 1);
        if (how == CAPTURED)
            tp_function_wait(t->function);
        (t->function ? call : run)(t, CHECKED - 1);
        *n = 0;
        for (int i = 0; i < t->m.n_params; i++)
            *n += tp_count(t->m.params[i]);
        all = malloc((size_t)*n * sizeof *all);
        float *at = all;
        for (int i = 0; i < t->m.n_params && at; i++) {
            const int64_t count = tp_count(t->m.params[i]);
            tp_read(t->m.params[i], at, (size_t)count * sizeof *at);
            at += count;
        }
        tp_optimizer_free(t->m.adam);
    }
    if (tp_error(tp) != TP_OK)
        tp_fail(b->tp, tp_error(tp), tp_error_message(tp));
    tp_close(tp);
    return all;
}

static void check_bits(const bench *b, const net_kind *kind)
{
    static const char *const wrong[] = {"", "captured steps have other bits than eager ones",
                                        "tiles have other bits than eager steps",
                                        "compiled steps have other bits than eager ones"};
    int64_t n = 0;
    float *eager = train(b, kind, EAGER, &n);
    for (way how = CAPTURED; how <= COMPILED; how++) {
        float *other = train(b, kind, how, &n);
        if (eager && other && memcmp(eager, other, (size_t)n * sizeof *eager) != 0)
            tp_fail(b->tp, TP_E_BUG, wrong[how]);
        free(other);
    }
    free(eager);
}

/* It learns its few batches by heart. */
static void check_learning(training *t)
{
    run(t, 1);
    const double first = t->loss;
    run(t, 5 * N_BATCHES);
    if (!(t->loss < first))
        tp_fail(t->tp, TP_E_BUG, "the loss does not fall");
}

/* ---- the figures ------------------------------------------------------------------------------------- */

static void add(bench *b, training *t, const net_kind *kind)
{
    const bool wanted[2] = {bench_wants(b, t->names[0]), bench_wants(b, t->names[1])};
    if (!wanted[0] && !wanted[1])
        return;
    check_bits(b, kind);
    char names[2][NAME];
    memcpy(names, t->names, sizeof names);
    make(t, b->tp, kind);
    memcpy(t->names, names, sizeof names);
    snprintf(t->workload, NAME, "train/%s/b%d", kind->name, (int)kind->batch);
    compile(t, TP_ENGINE_C);
    check_learning(t);
    figure f = {.unit = "ms",
                .arg = t,
                .scale = 1e3,
                .spreads = true,
                .gflop = 1e-9 * (double)kind->batch * kind->flops,
                .peer_workload = t->workload,
                .peer_metric = "step"};
    f.name = t->names[0], f.run = run;
    bench_add(b, f);
    if (wanted[1]) {
        capture(t, false);
        call(t, 2);
        tp_function_wait(t->function);
    }
    f.name = t->names[1], f.run = call;
    bench_add(b, f);
}

void bench_add_train(bench *b)
{
    training *all = tp_alloc(b->tp, NET_KINDS * sizeof *all);
    for (int i = 0; i < NET_KINDS && all; i++) {
        static const char *const how[] = {"compiled", "captured"};
        for (int k = 0; k < 2; k++)
            snprintf(all[i].names[k], NAME, "%s step at %d, %s", net_kinds[i].name,
                     (int)net_kinds[i].batch, how[k]);
        add(b, &all[i], &net_kinds[i]);
    }
}
