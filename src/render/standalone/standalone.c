#include "render/standalone/standalone.h"

#include "core/copy.h"
#include "ir/notation.h"
#include "op/random_position.h"
#include "render/render.h"
#include "render/standalone/standalone_def.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- weights --------------------------------------------------------------------------------------- */

/* Exactly, and in few characters: "-0x1.8p-3f". */
static void put_hex(tpi_str *out, tp_dtype type, double x)
{
    static const char digits[] = "0123456789abcdef";
    const char *suffix = type == TP_F32 ? "f" : "";
    if (!isfinite(x)) {
        const char *name = type == TP_F32 ? "F32" : "F64";
        tpi_str_printf(out,
                       isnan(x) ? "TPK_NAN_%s"
                       : x < 0  ? "-TPK_INF_%s"
                                : "TPK_INF_%s",
                       name);
        return;
    }
    int e;
    double m = frexp(fabs(x), &e) * 2; /* 1 <= m < 2, or 0 */
    char text[40];
    int n = 0;
    if (signbit(x))
        text[n++] = '-';
    text[n++] = '0', text[n++] = 'x', text[n++] = m != 0 ? '1' : '0';
    m -= m != 0;
    text[n++] = '.';
    do {
        m *= 16;
        text[n++] = digits[(int)m];
        m -= (int)m;
    } while (m != 0);
    tpi_str_add(out, text, (size_t)n);
    tpi_str_printf(out, "p%d%s", x == 0 ? 0 : e - 1, suffix);
}

static void put_element(tpi_str *out, tp_dtype type, const char *p)
{
    if (type >= TP_F32) {
        put_hex(out, type, tpi_load_f64(type, p));
    } else if (type == TP_U64) {
        uint64_t x;
        memcpy(&x, p, sizeof x);
        tpi_str_printf(out, "%lluu", (unsigned long long)x);
    } else {
        const int64_t x = tpi_load_i64(type, p);
        if (x == INT64_MIN)
            tpi_str_put(out, "INT64_MIN");
        else
            tpi_str_printf(out, "%lld", (long long)x);
    }
}

static bool put_weight(tpi_alone *a, int number, tpi_str *out)
{
    enum { WIDTH = 96 };
    const tpi_alone_weight *w = &a->weights[number];
    const tp_dtype type = (tp_dtype)w->t->dtype;
    const size_t bytes = tpi_bytes(w->t), size = tp_dtype_size(type);
    char *flat = tpi_take(&a->ctx->mem, bytes);
    if (!flat)
        return false;
    tpi_copy_out(w->t, flat);
    tpi_str_put(out, "\n/* ");
    tpi_render_quoted(out, SHAPE(w->t));
    tpi_str_put(out, w->name ? "  " : "");
    tpi_render_quoted(out, w->name ? w->name : "");
    tpi_str_printf(out, " */\nstatic const tpk_%s w%d[%lld] __attribute__((aligned(64))) = {",
                   tp_dtype_name(type), number, (long long)(bytes ? bytes / size : 1));
    size_t line = out->len - WIDTH;
    for (size_t i = 0; i < bytes; i += size) {
        if (out->len - line >= WIDTH) {
            tpi_str_put(out, "\n    ");
            line = out->len - 4;
        }
        put_element(out, type, flat + i);
        tpi_str_put(out, i + size < bytes ? ", " : "");
    }
    tpi_str_put(out, bytes ? "\n};\n" : "0};\n");
    tpi_give_back(&a->ctx->mem, flat, bytes);
    return true;
}

static bool put_weights(tpi_alone *a, tpi_str *source, tpi_str *beside)
{
    bool ok = true;
    for (int i = 0; i < a->n_weights && ok; i++) {
        if (!a->q->beside) {
            ok = put_weight(a, i, source);
            continue;
        }
        static const char zeros[64];
        const tpi_alone_weight *w = &a->weights[i];
        const size_t bytes = tpi_bytes(w->t);
        tpi_str_add(beside, zeros, (size_t)w->offset - beside->len);
        char *flat = tpi_take(&a->ctx->mem, bytes);
        ok = flat;
        if (flat) {
            tpi_copy_out(w->t, flat);
            if (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__)
                tpi_swap_bytes(flat, bytes, tp_dtype_size((tp_dtype)w->t->dtype));
            tpi_str_add(beside, flat, bytes);
        }
        tpi_give_back(&a->ctx->mem, flat, bytes);
    }
    return ok;
}

/* "(const char *)weights + 64" or "w3" */
static void put_weight_address(const tpi_alone *a, int number, tpi_str *out)
{
    if (a->q->beside)
        tpi_str_printf(out, "(const char *)weights + %lld",
                       (long long)a->weights[number].offset);
    else
        tpi_str_printf(out, "w%d", number);
}

/* ---- memory ------------------------------------------------------------------------------------------ */

/* All that a run needs, in the memory that the caller gives. */
static void put_head(const tpi_alone *a, tpi_str *out)
{
    tpi_str_printf(out,
                   "\n/* What memory begins with, at a multiple of 64. */\n"
                   "typedef struct head {\n"
                   "    const void *made_by; /* a function of this file */\n"
                   "    char *packed, *scratch;\n"
                   "    int64_t s[%d]; /* sizes, and the most turns of loops */\n"
                   "    void *p[%d];\n} head;\n"
                   "\nstatic head *head_of(void *memory)\n{\n"
                   "    return (head *)(((uintptr_t)memory + 63) & ~(uintptr_t)63);\n}\n",
                   2 * a->n_symbols + 1, a->plan->all_buffers + 1);
    tpi_str_printf(out,
                   "\nstatic int64_t all_bytes(const int64_t *s)\n{\n"
                   "    return 63 + up((int64_t)sizeof(head)) + up(" TPI_PACKED_SYMBOL
                   "(s)) + up(place(s, 0, 0)) +\n           " TPI_SCRATCH_SYMBOL "(s);\n}\n");
    if (!a->sized)
        return;
    tpi_str_printf(out, "\nstatic void read_sizes(const %s_sizes *sizes, int64_t *s)\n{\n",
                   a->prefix);
    for (int i = 0; i < a->n_symbols; i++) {
        const tpi_alone_symbol *s = &a->symbols[i];
        if (s->used)
            tpi_str_printf(out, "    s[%d] = s[%d] = sizes->%s;\n", i, a->n_symbols + i,
                           s->name.text);
        else
            tpi_str_printf(out, "    s[%d] = s[%d] = 0;\n", i, a->n_symbols + i);
    }
    tpi_str_put(out, "}\n");
}

static void put_memory_bytes(const tpi_alone *a, tpi_str *out)
{
    tpi_str_put(out, "\n");
    tpi_alone_declare(a, TPI_ALONE_BYTES, out);
    if (a->sized)
        tpi_str_printf(out,
                       "\n{\n    int64_t s[%d];\n    read_sizes(sizes, s);\n"
                       "    return misfit(s) ? -1 : all_bytes(s);\n}\n",
                       2 * a->n_symbols);
    else
        tpi_str_put(out, "\n{\n    const int64_t s[1] = {0};\n    return all_bytes(s);\n}\n");
}

static void put_constants(const tpi_alone *a, tpi_str *out)
{
    for (int i = 0; i < a->plan->all_buffers; i++)
        if (a->weight_of[i] >= 0) {
            tpi_str_printf(out, "    h->p[%d] = (void *)(", i);
            put_weight_address(a, a->weight_of[i], out);
            tpi_str_put(out, ");\n");
        }
}

static void put_prepare(const tpi_alone *a, tpi_str *out)
{
    const char *p = a->prefix;
    tpi_str_printf(out,
                   "\nstatic int fail_with(int code, int64_t op, int64_t position, "
                   "%s_fault *fault)\n{\n    if (fault)\n"
                   "        fault->op = op, fault->position = position;\n"
                   "    return code;\n}\n\n",
                   p);
    tpi_alone_declare(a, TPI_ALONE_PREPARE, out);
    tpi_str_printf(out, "\n{\n    int64_t s[%d] = {0};\n", 2 * a->n_symbols + 1);
    tpi_str_printf(out,
                   "    if (!tpk_rounds_f32() || !tpk_rounds_f64())\n"
                   "        return fail_with(%s_e_rounding, -1, 0, fault);\n",
                   p);
    if (a->sized)
        tpi_str_printf(out,
                       "    read_sizes(sizes, s);\n"
                       "    const int64_t e = misfit(s);\n    if (e)\n"
                       "        return fail_with(%s_e_sizes, e - 2, 0, fault);\n",
                       p);
    if (a->q->beside && a->n_weights)
        tpi_str_put(out, "    (void)weights;\n");
    tpi_str_printf(out,
                   "    if (!memory || bytes < all_bytes(s))\n"
                   "        return fail_with(%s_e_memory, -1, 0, fault);\n"
                   "    head *const h = head_of(memory);\n"
                   "    h->packed = (char *)h + up((int64_t)sizeof(head));\n"
                   "    char *const base = h->packed + up(" TPI_PACKED_SYMBOL "(s));\n"
                   "    h->scratch = base + up(place(s, base, h->p));\n"
                   "    __builtin_memcpy(h->s, s, sizeof h->s);\n",
                   p);
    put_constants(a, out);
    tpi_str_printf(out,
                   "    " TPI_PACK_SYMBOL "(h->p, h->s, h->packed, h->scratch);\n"
                   "    h->made_by = kernels;\n    return %s_ok;\n}\n",
                   p);
}

/* ---- state ------------------------------------------------------------------------------------------ */

static bool draws(const tpi_alone *a)
{
    return a->n_random || a->plan->draws;
}

static void put_init(const tpi_alone *a, tpi_str *out)
{
    if (!a->state)
        return;
    tpi_str_put(out, "\n");
    tpi_alone_declare(a, TPI_ALONE_INIT, out);
    tpi_str_put(out, "\n{\n");
    char name[TPI_STREAM_NAME];
    if (draws(a))
        tpi_str_printf(out, "    state->seed = 0x%llxu;\n", (unsigned long long)a->q->seed);
    for (int i = 0; i < a->plan->n_streams; i++)
        tpi_str_printf(out, "    state->%s = 0x%" PRIx64 "u;\n",
                       tpi_alone_position(a->plan->streams[i], name),
                       *tpi_stream_position(a->ctx, a->plan->streams[i]));
    for (int i = 0; i < a->n_variables; i++) {
        tpi_str_printf(out, "    __builtin_memcpy(state->%s, ", a->variables[i].name.text);
        put_weight_address(a, a->variables[i].weight, out);
        tpi_str_printf(out, ", %lld);\n", (long long)tpi_bytes(a->variables[i].t));
    }
    tpi_str_put(out, "}\n");
}

static int variable_of(const tpi_alone *a, const tp_tensor *t)
{
    int i = 0;
    while (a->variables[i].t != t)
        i++;
    return i;
}

/* Seed and position of each node that draws: as many positions behind the one before of its stream as that took. */
static void put_random(const tpi_alone *a, tpi_str *out)
{
    char name[TPI_STREAM_NAME];
    const int n_streams = a->plan->n_streams;
    tpi_str_printf(out, "    int64_t random[%d] = {0};\n", 2 * a->n_random + 1 + n_streams);
    for (int i = 0; i < n_streams && !a->plan->draws; i++) {
        const char *position = tpi_alone_position(a->plan->streams[i], name);
        tpi_str_printf(out, "    int64_t %s = (int64_t)state->%s;\n", position, position);
    }
    for (int i = 0; i < n_streams && a->plan->draws; i++)
        tpi_str_printf(out, "    random[%d] = (int64_t)state->%s;\n", 1 + i,
                       tpi_alone_position(a->plan->streams[i], name));
    if (a->plan->draws)
        tpi_str_put(out, "    random[0] = (int64_t)state->seed;\n");
    if (a->plan->draws || !draws(a))
        return;
    for (int i = 0; i < a->n_symbols; i++)
        tpi_str_printf(out, "    const int64_t s%d = h->s[%d];\n    (void)s%d;\n", i, i, i);
    for (int i = 0, n = 0; i < a->plan->n_kernels; i++) {
        const tp_tensor *t = a->plan->graph->nodes[a->plan->kernels[i].root];
        if (!t->op->draws)
            continue;
        int64_t count = 1;
        for (int k = 0; k < t->rank; k++)
            count = tpi_dim_mul(a->dims, count, t->shape[k]);
        const uint64_t stream = a->plan->streams[tpi_plan_stream(a->plan, t)];
        const char *position = tpi_alone_position(stream, name);
        tpi_str_printf(out,
                       "    random[%d] = (int64_t)state->seed;\n"
                       "    random[%d] = %s;\n    %s += (",
                       2 * n, 2 * n + 1, position, position);
        tpi_dim_print_c(a->dims, count, "s", out);
        const int per = tpi_random_per(t->attrs);
        tpi_str_printf(out, " + %d) / %d;\n", per - 1, per);
        n++;
    }
}

/* ---- ops by number --------------------------------------------------------------------------------- */

/* Is it a guard of a function's way that no call took (capture/lift/seen.c)? It reads element 0 of 1, or none. */
static bool is_unseen(const tp_tensor *t)
{
    return tpi_reads_slices(t->op) && t->in[0]->dtype == TP_I64 && t->in[0]->rank == 1 &&
           t->in[0]->shape[0] == 1 && t->in[1]->rank == 0 && tpi_retypes(t->in[1]->op) &&
           t->in[1]->in[0]->dtype == TP_BOOL;
}

/* Their numbers. */
static int put_unseen(const tpi_plan *plan, int n, tpi_str *out)
{
    for (int i = 0; i < plan->n_kernels; i++) {
        const tp_tensor *t = plan->graph->nodes[plan->kernels[i].root];
        const tpi_section *s = plan->sections ? plan->sections[t->index] : NULL;
        for (int k = 0; s && k < s->n_bodies; k++)
            n = put_unseen(s->plan[k], n, out);
        if (is_unseen(t))
            tpi_str_printf(out, n++ ? ", %d" : "%d", plan->first_kernel + i);
    }
    return n;
}

/* Those that a fault may name: an index out of range, a loop that takes too many turns, sizes. */
static void put_ops(const tpi_alone *a, const tpi_plan *plan, tpi_str *out)
{
    for (int i = 0; i < plan->n_kernels; i++) {
        const tp_tensor *t = plan->graph->nodes[plan->kernels[i].root];
        const tpi_section *s = plan->sections ? plan->sections[t->index] : NULL;
        for (int k = 0; s && k < s->n_bodies; k++)
            put_ops(a, s->plan[k], out);
        if (!tpi_may_refuse(t->op) && !tpi_loop_of(t) && !a->refuses[plan->first_kernel + i])
            continue;
        tpi_str_printf(out, " *   %d: %s  ", plan->first_kernel + i,
                       is_unseen(t) ? "tp_truth" : t->op->name);
        tpi_render_quoted(out, SHAPE(t));
        tpi_render_at(out, t);
        tpi_str_put(out, "\n");
    }
}

typedef struct listing {
    const tpi_alone *a;
    tpi_str *out;
} listing;

/* "2*(n/2) = n (skip sizes 0)" */
static void put_equation(void *user, int number, const tpi_equation *e)
{
    const listing *l = user;
    tpi_str_printf(l->out, " *   %d: assume  ", number);
    tpi_dim_print(l->a->dims, e->a, l->out);
    tpi_str_put(l->out, " = ");
    tpi_dim_print(l->a->dims, e->b, l->out);
    if (e->name) {
        tpi_str_put(l->out, " ");
        tpi_render_quoted(l->out, e->name);
    }
    tpi_str_put(l->out, "\n");
}

/* ---- a run ----------------------------------------------------------------------------------------- */

/* Sources and outputs of the outer plan. */
static void put_memory_of_caller(const tpi_alone *a, tpi_str *out)
{
    const tpi_standalone *q = a->q;
    for (int i = 0; i < q->n_in; i++) {
        const int buffer = a->plan->values[q->in[i]->index].buffer;
        if (buffer >= 0)
            tpi_str_printf(out, "    h->p[%d] = (void *)in->%s;\n", buffer, a->in[i].text);
    }
    for (int i = 0; i < q->n_out; i++)
        tpi_str_printf(out, "    h->p[%d] = out->%s;\n",
                       a->plan->values[q->roots[i]->index].buffer, a->out[i].text);
    for (int i = 0; i < a->plan->n_buffers; i++) {
        const tpi_buffer *b = &a->plan->buffers[i];
        if (b->storage == TPI_IN_SOURCE && b->like && tpi_variable_of(b->like))
            tpi_str_printf(out, "    h->p[%d] = state->%s;\n", i,
                           a->variables[variable_of(a, b->like->in[0])].name.text);
    }
}

static void put_failing(const tpi_alone *a, tpi_str *out)
{
    bool late = false;
    tpi_str unseen = TPI_STR(&a->ctx->mem);
    const int n_unseen = put_unseen(a->plan, 0, &unseen);
    if (n_unseen)
        tpi_str_printf(out,
                       "    static const int64_t unseen[] = {%s};\n"
                       "    for (int i = 0; i < %d; i++)\n"
                       "        if (e == %d && fail[0] == unseen[i])\n"
                       "            return fail_with(%s_e_unseen, fail[0], 0, fault);\n",
                       unseen.text ? unseen.text : "", n_unseen, TPI_RUN_INDEX, a->prefix);
    out->failed |= unseen.failed;
    tpi_str_free(&unseen);
    for (int i = 0; i < a->n_symbols; i++)
        late |= a->symbols[i].used && a->symbols[i].late;
    tpi_str_printf(out,
                   "    if (e == %d)\n"
                   "        return fail_with(%s_e_index, fail[0], fail[1] - 1, fault);\n",
                   TPI_RUN_INDEX, a->prefix);
    if (!late)
        return;
    tpi_str_printf(out, "    if (e == %d) {\n        static const int64_t loop[] = {",
                   TPI_RUN_CAPACITY);
    for (int i = 0; i < a->n_symbols; i++)
        tpi_str_printf(out, i ? ", %d" : "%d", a->symbols[i].loop);
    tpi_str_printf(
        out, "};\n        return fail_with(%s_e_turns, loop[fail[0]], 0, fault);\n    }\n",
        a->prefix);
}

/* What changes when all has succeeded. */
static void put_writes(const tpi_alone *a, tpi_str *out)
{
    const tpi_standalone *q = a->q;
    for (int i = 0; i < q->n_writes; i++)
        tpi_str_printf(out, "    __builtin_memcpy(state->%s, h->p[%d], %lld);\n",
                       a->variables[variable_of(a, q->written[i])].name.text,
                       a->plan->values[q->roots[q->n_out + i]->index].buffer,
                       (long long)tpi_bytes(q->written[i]));
    char name[TPI_STREAM_NAME];
    for (int i = 0; i < a->plan->n_streams; i++) {
        const char *position = tpi_alone_position(a->plan->streams[i], name);
        tpi_str_printf(out, "    state->%s = (uint64_t)", position);
        if (a->plan->draws)
            tpi_str_printf(out, "random[%d];\n", 1 + i);
        else
            tpi_str_printf(out, "%s;\n", position);
    }
    for (int i = 0; i < a->n_symbols; i++)
        if (a->symbols[i].used && a->symbols[i].late)
            tpi_str_printf(out, "    out->%s = h->s[%d];\n", a->symbols[i].count.text, i);
}

static void put_run(const tpi_alone *a, tpi_str *out)
{
    tpi_str_put(out, "\n");
    tpi_alone_declare(a, TPI_ALONE_RUN, out);
    tpi_str_printf(out,
                   "\n{\n    head *const h = head_of(memory);\n"
                   "    int64_t fail[3] = {0, 0, 0};\n"
                   "    if (!memory || h->made_by != kernels)\n"
                   "        return fail_with(%s_e_prepared, -1, 0, fault);\n",
                   a->prefix);
    for (int i = 0; i < a->n_symbols; i++)
        if (a->symbols[i].late)
            tpi_str_printf(out, "    h->s[%d] = h->s[%d];\n", i, a->n_symbols + i);
    put_random(a, out);
    put_memory_of_caller(a, out);
    tpi_str_put(out, "    const int64_t e = " TPI_ENTRY_SYMBOL
                     "(h->p, h->s, random, h->packed, h->scratch, fail);\n");
    put_failing(a, out);
    put_writes(a, out);
    tpi_str_printf(out, "    return %s_ok;\n}\n", a->prefix);
}

/* ---- all ------------------------------------------------------------------------------------------- */

/* What becomes the value of a variable lies in the arena until the run has succeeded. */
static void keep_writes(tpi_alone *a)
{
    for (int i = 0; i < a->plan->n_buffers; i++) {
        tpi_buffer *b = &a->plan->buffers[i];
        bool fetched = false;
        for (int k = 0; k < a->q->n_out; k++)
            fetched |= a->plan->values[a->q->roots[k]->index].buffer == i;
        if (b->storage != TPI_IN_OUTPUT || fetched)
            continue;
        b->storage = TPI_IN_ARENA;
        b->last = a->plan->n_kernels;
    }
}

static bool put_source(tpi_alone *a, tpi_str *source, tpi_str *weights)
{
    tpi_str_printf(source,
                   "/* Made by tapir %s; %s says how it is used. */\n#include \"%s\"\n\n",
                   tp_version(), a->q->header, a->q->header);
    if (a->q->beside && a->n_weights)
        tpi_str_put(source, "#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__\n"
                            "#error \"the weights beside this source are little-endian: have "
                            "them written into the source\"\n#endif\n\n");
    tpi_str_put(source,
                "/* -O2 of gcc leaves most loops as they are. */\n"
                "#if defined(__OPTIMIZE__) && !defined(__OPTIMIZE_SIZE__) && "
                "!defined(__clang__)\n"
                "#pragma GCC optimize(\"tree-vectorize\", \"vect-cost-model=dynamic\")\n"
                "#endif\n\n");
    if (!tpi_render_program(a->plan, true, 1, source) || !put_weights(a, source, weights) ||
        !tpi_alone_places(a, source))
        return false;
    if (a->sized && !tpi_alone_sizes(a, source))
        return false;
    put_head(a, source);
    put_memory_bytes(a, source);
    put_prepare(a, source);
    put_init(a, source);
    put_run(a, source);
    tpi_str_put(source, "\n/* Ops that a run may fail in, by number:\n");
    put_ops(a, a->plan, source);
    int number = a->plan->all_kernels;
    tpi_alone_equations(a, a->plan, &number, put_equation, &(listing){a, source});
    tpi_str_put(source, " */\n");
    return true;
}

bool tpi_standalone_write(const tpi_standalone *q, tpi_str *header, tpi_str *source,
                          tpi_str *weights)
{
    const tpi_roots roots = {.n = q->n_out + q->n_writes, .v = q->roots};
    tpi_alone a = {.q = q,
                   .prefix = q->prefix,
                   .ctx = q->ctx,
                   .dims = q->graph->dims,
                   .memory = TPI_BUMP(&q->ctx->mem)};
    bool ok = tpi_plan_copies(q->graph, roots.n, q->roots);
    a.plan = ok ? tpi_plan_new(q->graph, &roots, TPI_FUSE_ALL) : NULL;
    if (!a.plan)
        return false;
    keep_writes(&a);
    ok = tpi_alone_find(&a) && put_source(&a, source, weights);
    if (ok)
        tpi_alone_header(&a, header);
    ok = ok && !header->failed && !source->failed && !weights->failed;
    if (!ok && q->ctx->status == TP_OK)
        tpi_no_memory(q->ctx, q->at, q->what);
    tpi_bump_free(&a.memory);
    tpi_plan_free(a.plan);
    return ok;
}
