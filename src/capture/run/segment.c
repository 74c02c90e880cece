/* Programs for segments.
 *
 * Before a run the pending steps are compared with what the program was made for. A size that
 * differs from all earlier runs becomes a symbol, a number in C an input; a value that is wanted
 * and was not so far, an output: then the program is made anew. It is never used for anything
 * but what it was made for; when in doubt the steps are computed one by one. */
#include "base/float_mode.h"
#include "capture/record/launches.h"
#include "capture/run/direct.h"
#include "op/call.h"

#include <string.h>

/* ---- memory ------------------------------------------------------------------------------------- */

static tpi_segment *segment_new(tp_ctx *ctx, tpi_step *step, int n_steps)
{
    tpi_segment *s = tpi_take(&ctx->mem, sizeof *s);
    if (!s)
        return NULL;
    *s = (tpi_segment){.step = step,
                       .n_steps = n_steps,
                       .n_seen = 1,
                       .why_new = "it runs again",
                       .why_eager = step->any_number ? TPI_WHY_operands : TPI_WHY_none};
    const size_t n = (size_t)n_steps;
    s->given = tpi_take(&ctx->mem, n * sizeof *s->given);
    s->output_of = tpi_take(&ctx->mem, n * sizeof *s->output_of);
    s->outputs = tpi_take(&ctx->mem, n * sizeof *s->outputs);
    if (!s->given || !s->output_of || !s->outputs) {
        tpi_segment_free(ctx, s);
        return NULL;
    }
    memset(s->given, 0, n * sizeof *s->given);
    for (int i = 0; i < n_steps; i++, step = step->first) { /* the only ones that follow */
        s->output_of[i] = -1;
        s->has_numbers |= step->kind == TPI_STEP_SCALAR;
        s->n_draws += tpi_is_draw(step->op);
    }
    return s;
}

/* Grows three lists at once that have one size in common; false when out of memory. */
static bool reserve_varying(tp_ctx *ctx, tpi_segment *s)
{
    if (s->n_varying < s->varying_size)
        return true;
    const size_t old = (size_t)s->varying_size, size = old ? old * 2 : 8;
    tpi_varying *v = tpi_take(&ctx->mem, size * sizeof *v);
    tpi_quantity *q = tpi_take(&ctx->mem, size * sizeof *q);
    int64_t *values = tpi_take(&ctx->mem, size * sizeof *values);
    if (!v || !q || !values) {
        tpi_give_back(&ctx->mem, v, size * sizeof *v);
        tpi_give_back(&ctx->mem, q, size * sizeof *q);
        tpi_give_back(&ctx->mem, values, size * sizeof *values);
        return false;
    }
    if (old) {
        memcpy(v, s->varying, old * sizeof *v);
        memcpy(q, s->quantities, old * sizeof *q);
    }
    tpi_give_back(&ctx->mem, s->varying, old * sizeof *v);
    tpi_give_back(&ctx->mem, s->quantities, old * sizeof *q);
    tpi_give_back(&ctx->mem, s->values, old * sizeof *values);
    s->varying = v;
    s->quantities = q;
    s->values = values;
    s->varying_size = (int)size;
    return true;
}

/* ---- what comes in ---------------------------------------------------------------------------------- */

static tp_tensor *tensor_of(const tpi_frame *fr, int from, const tpi_input *x)
{
    const tpi_pending *p = &fr->pending[from + x->step];
    return x->operand < 0 ? p->value : tpi_operand(fr, p, x->operand);
}

int tpi_segment_input(const tpi_segment *s, int32_t code)
{
    for (int i = 0; i < s->n_inputs; i++)
        if (s->inputs[i].code == code)
            return i;
    return -1;
}

/* The shape that what comes in, or a step's value, had when the segment was recorded. */
static const int64_t *recorded_shape(const tpi_segment *s, int32_t code)
{
    const tpi_step *t = s->step;
    if (code >= 0) {
        while (code-- > 0)
            t = t->first;
        return t->shape;
    }
    for (code = ~code; code >= t->n_new; t = t->first)
        code -= t->n_new;
    return t->new[code].shape;
}

static bool add_input(tpi_segment *s, const tpi_frame *fr, int from, tpi_input x)
{
    if (tpi_segment_input(s, x.code) >= 0)
        return true;
    tpi_input *v = tpi_grow(&fr->ctx->mem, s->inputs, s->n_inputs, &s->inputs_size, sizeof *v);
    if (!v)
        return false;
    s->inputs = v;
    const tp_tensor *t = tensor_of(fr, from, &x);
    x.dtype = t->dtype;
    x.rank = t->rank;
    if (x.rank)
        memcpy(x.shape, recorded_shape(s, x.code), sizeof x.shape);
    s->inputs[s->n_inputs++] = x;
    return true;
}

int tpi_segment_maker(const tpi_segment *s, int32_t code)
{
    return code >= 0 && !s->given[code] ? code : -1;
}

static bool find_inputs(tpi_segment *s, const tpi_frame *fr, int from)
{
    s->n_inputs = 0;
    for (int i = 0; i < s->n_steps; i++) {
        const tpi_step *t = fr->pending[from + i].step;
        if (s->given[i]) {
            if (!add_input(s, fr, from, (tpi_input){.code = i, .step = i, .operand = -1}))
                return false;
            continue;
        }
        const int first = t->kind == TPI_STEP_ASSIGN; /* not the variable */
        for (int k = first; k < t->n_in; k++)
            if (tpi_segment_maker(s, t->in[k]) < 0 &&
                !add_input(s, fr, from, (tpi_input){.code = t->in[k], .step = i, .operand = k}))
                return false;
    }
    return true;
}

/* ---- sizes ------------------------------------------------------------------------------------------------ */

int tpi_size_axis(const tpi_op *op, const int64_t *flat, int at)
{
    if (op->code == TPI_OP_slice && at == TPI_SLICE_HI)
        return (int)flat[TPI_SLICE_AXIS];
    if (op->code == TPI_OP_pad && at > TPI_PAD_HI && at <= TPI_PAD_HI + TP_MAX_RANK)
        return at - TPI_PAD_HI - 1;
    return -1;
}

bool tpi_is_size(const tpi_op *op, const int64_t *flat, int at)
{
    if (!tpi_attr_is_size(op, at))
        return false;
    int n = 0;
    for (const tpi_attr *a = op->attrs; a && a->name; a++) {
        const bool list = a->type == TPI_ATTR_LIST || a->type == TPI_ATTR_DIMS;
        const int count = list ? 1 + TP_MAX_RANK : 1;
        if (at < n + count)
            return !list || at - n - 1 < flat[n];
        n += count;
    }
    return false;
}

int tpi_varying_order(const tpi_varying *a, const tpi_varying *b)
{
    const int32_t x[] = {a->step, a->index, a->at}, y[] = {b->step, b->index, b->at};
    for (int i = 0; i < 3; i++)
        if (x[i] != y[i])
            return x[i] < y[i] ? -1 : 1;
    return 0;
}

/* Takes note of a size that varies, which was `first` in all runs so far; in an order that is the
 * same for equal segments. */
static bool add_varying(tp_ctx *ctx, tpi_segment *s, tpi_varying v, int64_t first,
                        bool *changed)
{
    int at = 0;
    while (at < s->n_varying && tpi_varying_order(&s->varying[at], &v) < 0)
        at++;
    if (at < s->n_varying && tpi_varying_order(&s->varying[at], &v) == 0)
        return true;
    if (!reserve_varying(ctx, s))
        return false;
    const size_t behind = (size_t)(s->n_varying - at);
    memmove(&s->varying[at + 1], &s->varying[at], behind * sizeof *s->varying);
    memmove(&s->quantities[at + 1], &s->quantities[at], behind * sizeof *s->quantities);
    s->varying[at] = v;
    s->quantities[at] = (tpi_quantity){.symbol = -1};
    for (int i = 0; i < TPI_MAX_OBSERVED; i++)
        s->quantities[at].seen[i] = first;
    s->n_varying++;
    *changed = true;
    return true;
}

static bool compare_inputs(tpi_segment *s, const tpi_frame *fr, int from, bool *changed)
{
    for (int i = 0; i < s->n_inputs; i++) {
        const tpi_input *x = &s->inputs[i];
        const tp_tensor *t = tensor_of(fr, from, x);
        if (t->dtype != x->dtype || t->rank != x->rank)
            return false;
        for (int a = 0; a < x->rank; a++)
            if (t->shape[a] != x->shape[a] &&
                !add_varying(fr->ctx, s, (tpi_varying){-1, i, a}, x->shape[a], changed))
                return false;
    }
    return true;
}

/* Sizes among attributes, and where they are; how many. */
static int sizes_of(const tpi_op *op, const void *attrs, const int64_t *shape, int64_t *out,
                    int32_t *at)
{
    int64_t flat[TPI_MAX_FLAT_ATTRS];
    const int n = tpi_flatten_attrs(op, attrs, flat);
    int count = 0;
    for (int k = 0; k < n; k++)
        if (tpi_is_size(op, flat, k)) {
            out[count] = tpi_size_value(op, flat, shape, k);
            at[count++] = k;
        }
    return count;
}

static bool compare_sizes(tpi_segment *s, const tpi_frame *fr, int from, bool *changed)
{
    int64_t now[TPI_MAX_FLAT_ATTRS], was[TPI_MAX_FLAT_ATTRS];
    int32_t at[TPI_MAX_FLAT_ATTRS];
    for (int i = 0; i < s->n_steps; i++) {
        const tpi_pending *p = &fr->pending[from + i];
        const tpi_step *t = p->step;
        if ((!p->attrs && !p->resized) || !t->op->attrs_size || s->given[i])
            continue;
        sizes_of(t->op, t->attrs, t->shape, was, at);
        const int n = sizes_of(t->op, tpi_attrs_of(p), p->value->shape, now, at);
        for (int k = 0; k < n; k++)
            if (now[k] != was[k] &&
                !add_varying(fr->ctx, s, (tpi_varying){i, 0, at[k]}, was[k], changed))
                return false;
    }
    return true;
}

static void compare_numbers(tpi_segment *s, const tpi_frame *fr, int from, bool *changed)
{
    for (int i = 0; i < s->n_steps && s->has_numbers; i++) {
        const tpi_pending *p = &fr->pending[from + i];
        const tpi_step *t = p->step;
        if (t->kind != TPI_STEP_SCALAR || s->given[i] || p->value == t->scalar)
            continue;
        char cast[8] = {0};
        tpi_store_f64((tp_dtype)t->dtype, cast, t->value);
        if (memcmp(cast, p->value->data, tp_dtype_size((tp_dtype)t->dtype)) != 0)
            *changed = s->given[i] = true;
    }
}

/* What a turn of a loop reads at another place in another turn is given to its program: its sizes stay, and so does
 * where things lie. */
static void compare_places(tpi_segment *s, const tpi_frame *fr, int from, bool *changed)
{
    if (fr->as_recorded || !fr->pending[from + s->n_steps - 1].step->again)
        return;
    for (int i = 0; i < s->n_steps; i++) {
        const tpi_pending *p = &fr->pending[from + i];
        const tpi_step *t = p->step;
        if (!p->attrs || !p->view || p->resized || s->given[i] || s->output_of[i] >= 0 ||
            !(p->value->flags & TPI_CONTIGUOUS) || tpi_segment_maker(s, t->in[0]) >= 0 ||
            memcmp(p->attrs, t->attrs, t->op->attrs_size) == 0)
            continue;
        *changed = s->given[i] = s->has_given = true;
    }
}

/* Views that are given have the elements of what they are of. False: one cannot. */
static bool share_given(const tpi_segment *s, const tpi_frame *fr, int from)
{
    bool ok = true;
    for (int i = 0; i < s->n_steps && s->has_given && ok; i++) {
        const tpi_pending *p = &fr->pending[from + i];
        if (s->given[i] && p->step->kind == TPI_STEP_OP && p->value->flags & TPI_LAZY)
            ok = tpi_pending_share(fr, p);
    }
    return ok;
}

/* Those that nobody else needs let go of them: a variable among them may be assigned. */
static void let_go_given(const tpi_segment *s, tpi_frame *fr, int from)
{
    for (int i = 0; i < s->n_steps && s->has_given; i++) {
        const tpi_pending *p = &fr->pending[from + i];
        tp_tensor *y = p->value;
        if (!s->given[i] || p->need || !p->view || y->flags & TPI_LAZY)
            continue;
        tpi_buf_unref(fr->ctx, y->buf);
        y->buf = NULL;
        y->data = NULL;
        y->flags |= TPI_LAZY;
    }
}

static void take_values(tpi_segment *s, const tpi_frame *fr, int from)
{
    int64_t flat[TPI_MAX_FLAT_ATTRS];
    for (int i = 0; i < s->n_varying; i++) {
        const tpi_varying *v = &s->varying[i];
        if (v->step < 0) {
            s->values[i] = tensor_of(fr, from, &s->inputs[v->index])->shape[v->at];
            continue;
        }
        const tpi_pending *p = &fr->pending[from + v->step];
        tpi_flatten_attrs(p->step->op, tpi_attrs_of(p), flat);
        s->values[i] = tpi_size_value(p->step->op, flat, p->value->shape, v->at);
    }
}

/* One observation more when something is new, or does not follow the rules. */
static void observe(tpi_segment *s, bool *changed)
{
    bool hold = true;
    for (int i = 0; i < s->n_varying && hold && !*changed; i++)
        hold = tpi_rule_holds(s->quantities, i, s->values);
    if (hold && !*changed)
        return;
    if (s->n_varying) {
        if (s->n_seen < TPI_MAX_OBSERVED)
            s->n_seen++;
        for (int i = 0; i < s->n_varying; i++)
            s->quantities[i].seen[s->n_seen - 1] = s->values[i];
        s->n_symbols = tpi_find_rules(s->n_varying, s->quantities, s->n_seen);
    }
    *changed = true;
}

/* ---- what goes out --------------------------------------------------------------------------------------- */

static bool is_output(const tpi_pending *p)
{
    return p->step->kind == TPI_STEP_OP && p->need && !p->view && p->value->flags & TPI_LAZY &&
           p->step->op != &tpi_op_call;
}

static void compare_outputs(tpi_segment *s, const tpi_frame *fr, int from, bool *changed)
{
    for (int i = 0; i < s->n_steps; i++)
        if (s->output_of[i] < 0 && is_output(&fr->pending[from + i])) {
            s->outputs[s->n_outputs] = i;
            s->output_of[i] = s->n_outputs++;
            *changed = true;
        }
}

/* ---- running ------------------------------------------------------------------------------------------------ */

/* So many compilers at most, or the machine does nothing else. */
static bool may_compile(tp_function *f)
{
    int running = 0;
    for (const tpi_shared *p = f->programs; p; p = p->next)
        running += !p->ready && !p->failed && !p->waits && !tpi_program_has_c(p->program, 0) &&
                   !tpi_program_broken(p->program);
    return f->options.engine != TP_ENGINE_AUTO || running < TPI_MAX_COMPILERS;
}

/* Starts the compiler of one that waits for it. */
static void start(tp_function *f, tpi_shared *p)
{
    p->waits = false;
    f->stats.compilations++;
    p->failed = !tpi_program_start_c(p->program);
}

/* Looks whether its compiler has ended, or waits until it has. */
static void settle(tp_function *f, tpi_shared *p, bool wait)
{
    if (!tpi_has_compiler(f)) {
        p->ready = true;
    } else if (tpi_program_has_c(p->program, wait ? -1 : 0)) {
        p->ready = true;
        tpi_capture_log(f, f->at, "a program of %d kernels is ready: %s, %.0f ms",
                        p->program->stats.kernels,
                        p->program->stats.from_cache ? "from the cache" : "compiled",
                        p->program->stats.compile_ms);
    } else if ((wait && !tpi_is_interrupted(f->ctx)) || tpi_program_broken(p->program)) {
        p->failed = true;
        tpi_capture_log(f, f->at, "no program: %s", tpi_build_message(p->program->c.build));
    }
}

bool tpi_shared_ready(tp_function *f, tpi_shared *p)
{
    if (p->ready || p->failed)
        return p->ready;
    if (p->waits && may_compile(f))
        start(f, p);
    if (p->failed)
        return false;
    const bool tiles = f->options.engine == TP_ENGINE_AUTO && p->program->tiles;
    if (p->waits)
        return tiles;
    settle(f, p, f->options.engine == TP_ENGINE_C);
    return p->ready || (tiles && !p->failed);
}

static bool take_result(tp_tensor *y, const tp_tensor *v)
{
    if (!tpi_same_shape(y, v))
        return false;
    if (!(v->flags & TPI_CONTIGUOUS)) {
        if (!tpi_tensor_alloc(y))
            return false;
        tpi_copy_out(v, y->data);
    } else {
        y->buf = v->buf;
        y->buf->refs++;
        y->data = v->data;
    }
    y->flags &= (uint8_t)~TPI_LAZY;
    return true;
}

static bool take_results(const tpi_segment *s, tpi_frame *fr, int from, tp_tensor **values)
{
    bool ok = true;
    for (int i = 0; i < s->n_outputs; i++) {
        const tpi_pending *p = &fr->pending[from + s->outputs[i]];
        if (is_output(p))
            ok = ok && take_result(p->value, values[i]);
        tpi_unref(values[i]);
    }
    return ok;
}

/* What a run of the program takes and gives. */
typedef struct run_room {
    tp_tensor *few_feeds[48], **feeds, **values; /* the results behind the feeds */
    struct tpi_draw few_drawn[8], *drawn;
    int64_t few_symbols[16], *symbols;
} run_room;

static size_t n_tensors(const tpi_segment *s)
{
    return (size_t)(s->n_inputs + s->n_outputs);
}

static void *few_or(tpi_mem *m, size_t n, size_t most, size_t each, void *few)
{
    return n > most ? tpi_take(m, n * each) : few;
}

static bool take_room(run_room *r, const tpi_segment *s, tpi_mem *m)
{
    const int n_symbols = s->program->program->n_symbols;
    r->feeds = few_or(m, n_tensors(s), 48, sizeof *r->feeds, r->few_feeds);
    r->drawn = few_or(m, (size_t)s->n_draws, 8, sizeof *r->drawn, r->few_drawn);
    r->symbols = few_or(m, (size_t)n_symbols, 16, sizeof *r->symbols, r->few_symbols);
    r->values = r->feeds + s->n_inputs;
    return r->feeds && r->drawn && r->symbols;
}

static void give_room(run_room *r, const tpi_segment *s, tpi_mem *m)
{
    if (r->feeds != r->few_feeds)
        tpi_give_back(m, r->feeds, n_tensors(s) * sizeof *r->feeds);
    if (r->drawn != r->few_drawn)
        tpi_give_back(m, r->drawn, (size_t)s->n_draws * sizeof *r->drawn);
    if (r->symbols != r->few_symbols)
        tpi_give_back(m, r->symbols,
                      (size_t)s->program->program->n_symbols * sizeof *r->symbols);
}

static void fill_room(run_room *r, const tpi_segment *s, const tpi_frame *fr, int from)
{
    const tp_program *p = s->program->program;
    for (int i = 0; i < s->n_inputs; i++)
        r->feeds[i] = tensor_of(fr, from, &s->inputs[i]);
    for (int i = 0; i < p->n_symbols; i++)
        for (int k = 0; k < s->n_varying; k++)
            if (s->quantities[k].symbol == s->program->symbol_of[i])
                r->symbols[i] = s->values[k];
    for (int i = 0, d = 0; i < s->n_steps && s->n_draws; i++)
        if (tpi_is_draw(fr->pending[from + i].step->op)) {
            const tpi_random_attrs *a = tpi_attrs_of(&fr->pending[from + i]);
            r->drawn[d++] = (struct tpi_draw){-1 - i, a->seed, a->at};
        }
}

/* Can the C program be entered at once: sizes are those of its last run, all lies without gaps? */
static bool is_direct(const run_room *r, const tpi_segment *s, const tpi_frame *fr, int from)
{
    const tp_program *p = s->program->program;
    bool is = tpi_is_direct(s->program);
    for (int i = 0; i < p->n_symbols && is; i++)
        is = p->symbols[i] == r->symbols[i];
    for (int i = 0; i < s->n_inputs && is; i++)
        is = r->feeds[i]->flags & TPI_CONTIGUOUS;
    for (int i = 0; i < s->n_outputs && is; i++) {
        const tpi_pending *y = &fr->pending[from + s->outputs[i]];
        is = !y->view && y->value->flags & TPI_LAZY;
    }
    return is;
}

static void take_back_results(const tpi_segment *s, tpi_frame *fr, int from, int n)
{
    for (int i = 0; i < n; i++) {
        tp_tensor *y = fr->pending[from + s->outputs[i]].value;
        tpi_buf_unref(fr->ctx, y->buf);
        y->buf = NULL;
        y->data = NULL;
    }
}

static bool run_direct(const run_room *r, const tpi_segment *s, tpi_frame *fr, int from)
{
    TPI_DEFAULT_FLOAT_MODE;
    int n = 0;
    for (int i = 0; i < s->n_inputs; i++)
        tpi_direct_feed(s->program, i, r->feeds[i]->data);
    for (; n < s->n_outputs; n++) {
        tp_tensor *y = fr->pending[from + s->outputs[n]].value;
        if (!tpi_tensor_alloc(y))
            break;
        tpi_direct_result(s->program, n, y->data);
    }
    if (n < s->n_outputs || !tpi_direct_enter(s->program)) {
        take_back_results(s, fr, from, n);
        return false;
    }
    for (int i = 0; i < n; i++)
        fr->pending[from + s->outputs[i]].value->flags &= (uint8_t)~TPI_LAZY;
    return true;
}

static bool run_otherwise(const run_room *r, const tpi_segment *s, tpi_frame *fr, int from)
{
    tp_ctx *ctx = fr->ctx;
    const bool by_c = s->program->program->c.entry;
    tpi_aside earlier; /* what fails here is computed one by one, and told then */
    tpi_error_aside(ctx, &earlier);
    const bool ok =
        tpi_program_run_sized(s->program->program, s->step->at, r->symbols, r->feeds,
                              &(tpi_draws){s->n_draws, r->drawn}, r->values) &&
        take_results(s, fr, from, r->values);
    if (!ok)
        tpi_forget_error(ctx);
    tpi_error_back(ctx, &earlier);
    if (ok && by_c)
        tpi_direct_find(ctx, s->program, s->n_inputs, s->n_outputs);
    return ok;
}

static void note_launch(run_room *r, const tpi_segment *s, tpi_frame *fr, int from)
{
    if (!fr->trace)
        return;
    for (int i = 0; i < s->n_outputs; i++)
        r->values[i] = fr->pending[from + s->outputs[i]].value;
    tpi_launched_program(fr, s->program, r->symbols, s->n_inputs, r->feeds, s->n_outputs,
                         r->values);
}

static bool run_program(tpi_segment *s, tpi_frame *fr, int from)
{
    run_room r;
    bool ok = take_room(&r, s, &fr->ctx->mem);
    if (ok) {
        fill_room(&r, s, fr, from);
        ok = (is_direct(&r, s, fr, from) && run_direct(&r, s, fr, from)) ||
             run_otherwise(&r, s, fr, from);
    }
    fr->launches &= ok && s->program->direct == TPI_DIRECT;
    if (ok)
        note_launch(&r, s, fr, from);
    give_room(&r, s, &fr->ctx->mem);
    s->program_runs += ok;
    return ok;
}

/* Operands failed, or steps were taken away: the program says nothing about that. */
static bool all_good(const tpi_segment *s, const tpi_frame *fr, int from)
{
    for (int i = 0; i < s->n_inputs; i++) {
        const tp_tensor *t = tensor_of(fr, from, &s->inputs[i]);
        if (t->status != TP_OK || !t->buf)
            return false;
    }
    return true;
}

/* Is what is pending of a kind with what came before? What differs is taken note of. */
static bool compare(tpi_segment *s, tpi_frame *fr, int from)
{
    bool numbers = false, changed = !s->known;
    if (!s->known && !find_inputs(s, fr, from))
        return false;
    s->known = true;
    compare_numbers(s, fr, from, &numbers);
    compare_places(s, fr, from, &numbers);
    if (numbers) { /* more comes in: sizes are observed anew */
        s->n_varying = 0;
        s->n_seen = 1;
        changed = true;
        if (!find_inputs(s, fr, from))
            return false;
    }
    if (!fr->as_recorded &&
        (!compare_inputs(s, fr, from, &changed) || !compare_sizes(s, fr, from, &changed)))
        return false;
    if (changed && s->program)
        s->why_new = numbers ? "a number varies, or a place" : "a size varies";
    bool more = false;
    compare_outputs(s, fr, from, &more);
    if (more && s->program)
        s->why_new = "one more of its values is used";
    changed |= more;
    if (s->n_varying || changed) {
        take_values(s, fr, from);
        const bool was = changed;
        observe(s, &changed);
        if (changed && !was)
            s->why_new = "a size broke its rule";
    }
    if (changed && s->program) {
        s->program = NULL;
        tpi_capture_log(fr->f, s->step->at, "more general: %s", s->why_new);
    }
    return true;
}

static bool prepare(tpi_segment *s, tpi_frame *fr, int from)
{
    if (s->known && !(share_given(s, fr, from) && all_good(s, fr, from)))
        return false;
    if (compare(s, fr, from))
        return share_given(s, fr, from) && all_good(s, fr, from);
    s->known = false; /* memory is out: the next run learns it all anew */
    s->program = NULL;
    s->n_inputs = s->n_varying = 0;
    s->n_seen = 1;
    memset(s->given, 0, (size_t)s->n_steps * sizeof *s->given);
    s->has_given = false;
    return false;
}

static bool may_fail(const tpi_frame *fr, int from, int to)
{
    for (int i = from; i < to; i++)
        if (fr->pending[i].step->op && tpi_may_refuse(fr->pending[i].step->op))
            return true;
    return false;
}

/* Counts a run. Is it time for a program? */
static bool count_run(tpi_segment *s, int64_t call)
{
    const bool again = s->call == call - 1; /* calls are alike */
    s->call = call;
    return ++s->runs > (again ? 1 : 1 + s->n_steps / TPI_STEPS_PER_RUN);
}

/* Is there a program, and can it run by now? */
static bool has_program(tpi_segment *s, tpi_frame *fr, int from, bool due)
{
    if (!s->program && due) {
        if (s->programs >= TPI_MAX_REBUILDS)
            s->why_eager = TPI_WHY_changes;
        else if (s->n_steps > TPI_MAX_PROGRAM_STEPS)
            s->why_eager = TPI_WHY_length;
        else if (may_compile(fr->f))
            tpi_segment_build(s, fr, from);
    }
    return s->program && tpi_shared_ready(fr->f, s->program);
}

static bool run(tpi_segment *s, tpi_frame *fr, int from, bool due)
{
    if (!prepare(s, fr, from))
        return false;
    if (s->n_outputs == 0)
        return !may_fail(fr, from, from + s->n_steps);
    return has_program(s, fr, from, due) && run_program(s, fr, from);
}

bool tpi_segment_run(tpi_frame *fr, int from, int to)
{
    tpi_step *first = fr->pending[from].step;
    if (!first->segment)
        first->segment = segment_new(fr->ctx, first, to - from);
    tpi_segment *s = first->segment;
    if (!s || s->n_steps != to - from)
        return false;
    const bool due = count_run(s, fr->f->stats.user_calls);
    /* a trap set by the body: the first NaN is looked for op by op */
    if (fr->ctx->trap_nan || s->why_eager)
        return false;
    const bool done = run(s, fr, from, due);
    let_go_given(s, fr, from);
    return done;
}

tpi_segment_state tpi_segment_state_of(const tpi_segment *s)
{
    tpi_segment_state state = {.program = "none before it has run"};
    if (!s)
        return state;
    state = (tpi_segment_state){.runs = s->runs,
                                .program_runs = s->program_runs,
                                .programs = s->programs,
                                .program = "none yet"};
    const tpi_shared *p = s->program;
    if (s->why_eager)
        state.program = tpi_why_text(s->why_eager);
    else if (s->known && s->n_outputs == 0)
        state.program = "none: nothing of it is used";
    else if (p && p->failed)
        state.program = p->program && p->program->c.build
                            ? tpi_build_message(p->program->c.build)
                            : "the graph was not taken";
    else if (p)
        state.program = p->ready ? "ready" : "is being compiled";
    if (p && p->ready) {
        state.kernels = p->program->stats.kernels;
        state.compile_ms = p->program->stats.compile_ms;
    }
    return state;
}

bool tpi_shared_done(const tp_function *f)
{
    bool done = true;
    for (const tpi_shared *p = f->programs; p; p = p->next)
        done &= p->ready || p->failed || p->waits;
    return done;
}

bool tpi_shared_wait(tp_function *f)
{
    bool ok = true;
    for (tpi_shared *p = f->programs; p; p = p->next) {
        if (p->waits && !p->failed)
            start(f, p);
        if (!p->ready && !p->failed)
            settle(f, p, true);
        ok &= !p->failed;
    }
    return ok;
}
