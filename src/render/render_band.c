/* Bands: a table of the kernels that may run together part by part, and of what they make and read, which
 * is handed to the library (kernel/host/band_host.c). */
#include "kernel/host/team_host.h"
#include "op/window.h"
#include "render/render.h"

#define PUT(...) tpi_str_printf(&r->body, __VA_ARGS__)

/* " * (8) * (s0)" */
static void put_times(tpi_render *r, int64_t size)
{
    PUT(" * (double)(");
    tpi_render_any_size(r, size);
    PUT(")");
}

static int size_of(const tp_tensor *t)
{
    return (int)tp_dtype_size((tp_dtype)t->dtype);
}

static const tp_tensor *root_of(const tpi_render *r, const tpi_kernel *k)
{
    return r->plan->values[k->root].node;
}

static bool is_conv(const tp_tensor *t)
{
    return t->op != &tpi_op_matmul;
}

static void put_work(tpi_render *r, const tpi_kernel *k)
{
    const tp_tensor *t = root_of(r, k);
    const bool call = k->kind == TPI_KERNEL_CALL;
    PUT(".work = %d.0", call ? 1 : k->n_nodes * (int)TPI_NEST_OP);
    for (int a = 0; a < (call ? t->rank : k->rank); a++)
        put_times(r, call ? t->shape[a] : k->shape[a]);
    if (!call)
        return;
    if (!is_conv(t)) {
        put_times(r, t->in[0]->shape[t->in[0]->rank - 1]);
        return;
    }
    const tp_tensor *w = t->in[1];
    for (int a = t->op == &tpi_op_conv; a < w->rank; a++)
        if (a != (t->op == &tpi_op_conv ? 0 : 1))
            put_times(r, w->shape[a]);
}

/* Bytes of a row of the result. */
static void put_made(tpi_render *r, const tpi_kernel *k, int n_outer)
{
    const tpi_value *v = &r->plan->values[k->root];
    PUT(", .made = %d.0", size_of(v->node));
    for (int i = 0; i < v->node->rank; i++) {
        const int a = k->kind == TPI_KERNEL_LOOP ? v->axis_of[i] : i;
        if (a >= n_outer && a != k->row)
            put_times(r, v->node->shape[i]);
    }
}

/* Of a kernel of a band: a convolution whose parts are channels? */
static bool by_channels(const tpi_kernel *k, const tp_tensor *t)
{
    return k->kind == TPI_KERNEL_CALL && is_conv(t) && k->row == 1;
}

/* Does each channel read all channels of x? */
static bool reads_all(const tp_tensor *conv)
{
    return conv->in[1]->shape[1] == conv->in[0]->shape[1];
}

/* What every part reads: weights, or a right operand that differs between outer places; channels an image. */
static void put_shared(tpi_render *r, const tpi_kernel *k, int n_outer)
{
    const tp_tensor *t = root_of(r, k), *b = t->in[1];
    if (by_channels(k, t)) {
        PUT(", .per_outer = %d.0", reads_all(t) ? size_of(t) : 0);
        for (int a = 1; a < t->in[0]->rank && reads_all(t); a++)
            put_times(r, t->in[0]->shape[a]);
        return;
    }
    const int64_t *stride = r->plan->values[b->index].layout.stride;
    bool varies = false;
    for (int a = 0; a < n_outer && !is_conv(t); a++)
        varies |= b->shape[a] != 1 && stride[a] != 0;
    PUT(", .%s = %d.0", varies ? "per_outer" : "shared", size_of(t));
    for (int a = 0; a < b->rank; a++)
        if (is_conv(t) || (a >= n_outer && stride[a] != 0))
            put_times(r, b->shape[a]);
}

/* Rows that a part should have: some tiles of a product; of a convolution so many pixels that each channel
 * is a stream, and as many rows as are computed together where windows overlap. */
static void put_least(tpi_render *r, const tpi_kernel *k, int member)
{
    enum { ROWS = 32, PIXELS = 512, TOGETHER = 4 };
    const tp_tensor *t = root_of(r, k);
    if (by_channels(k, t)) {
        if (reads_all(t))
            PUT(", .step = step%d, .least = step%d, .grain = step%d", member, member, member);
        return;
    }
    if (!is_conv(t)) {
        PUT(", .least = %d", ROWS);
        return;
    }
    const bool overlap = t->in[1]->shape[2] != 1;
    PUT(", .step = %d, .least = %d + %d / (1 + ", overlap ? TOGETHER : 1,
        overlap ? TOGETHER : 1, PIXELS);
    tpi_render_any_size(r, t->shape[t->rank - 1]);
    PUT(")");
    if (tpi_is_winograd(t)) /* whole tiles */
        PUT(", .grain = %d", TOGETHER);
}

/* What only the band sees of kernel `at`. */
static void put_near(tpi_render *r, const tpi_plan_step *step, int at)
{
    const tpi_plan *plan = r->plan;
    const tpi_kernel *k = &plan->kernels[at];
    const tpi_value *v = &plan->values[k->root];
    const int since = k->since - step->first;
    const int64_t outer = step->n_outer ? v->layout.stride[step->n_outer - 1] : 0;
    int64_t row = 0;
    if (v->storage != TPI_IN_ARENA || v->over >= 0 || since < 0 ||
        v->last >= step->first + step->n)
        return;
    for (int i = 0; i < v->node->rank; i++) {
        const int a = k->kind == TPI_KERNEL_LOOP ? v->axis_of[i] : i;
        row = a == k->row ? v->layout.stride[i] : row;
    }
    PUT(", .since = %d, .until = %d, .buffer = ", since, v->last - step->first);
    tpi_render_any_size(r, tpi_render_buffer(r, v->buffer));
    PUT(", .outer_step = %d * (", size_of(v->node));
    tpi_render_any_size(r, outer);
    PUT("), .row_step = %d * (", size_of(v->node));
    tpi_render_any_size(r, row);
    PUT(")");
}

/* `calls`: with functions and arguments, which only r->alike knows. Without, bands that are alike have
 * one text. */
static void put_band(tpi_render *r, const tpi_plan_step *step, bool calls)
{
    const tpi_plan *plan = r->plan;
    const tpi_kernel *first = &plan->kernels[step->first];
    for (int i = step->first; i < step->first + step->n; i++) {
        const tpi_kernel *k = &plan->kernels[i];
        if (!by_channels(k, root_of(r, k)) || !reads_all(root_of(r, k)))
            continue;
        PUT("    int64_t step%d = 0;\n", i - step->first);
        tpi_render_conv_query(r, i);
        PUT("        step%d = library->channel_step(library->team, &q);\n    }\n",
            i - step->first);
    }
    PUT("    const tpk_member members[] = {\n");
    for (int i = step->first; i < step->first + step->n; i++) {
        const tpi_kernel *k = &plan->kernels[i];
        const int row = plan->first_kernel + i;
        PUT("        {");
        if (calls)
            PUT(".kernel = k%d, .a = args + %s, ", r->alike.rows[row].function,
                tpi_render_slot(r, TPI_SLOT_ROW, row, (char[TPI_SLOT_MARK]){0}));
        put_work(r, k);
        put_made(r, k, step->n_outer);
        if (k->kind == TPI_KERNEL_CALL) {
            put_shared(r, k, step->n_outer);
            put_least(r, k, i - step->first);
        }
        PUT(", .reads = 0x%x%s", k->reads,
            tpi_lies_under(&plan->values[k->root]) ? ", .under = 1" : "");
        if (calls)
            put_near(r, step, i);
        PUT("},\n");
    }
    const int64_t *shape =
        first->kind == TPI_KERNEL_CALL ? root_of(r, first)->shape : first->shape;
    PUT("    };\n    const tpk_band b = {.n = %d, .v = members, .buffers = ", step->n);
    tpi_render_any_size(r, r->whole->all_buffers);
    if (calls && plan == r->whole) {
        PUT(", .first = ");
        tpi_render_number(r, step->first);
    } else if (calls) {
        PUT(", .first = -1");
    }
    PUT(calls && first->by_place ? ", .outer = part ? part->places : 1" : ", .outer = 1");
    for (int a = 0; a < step->n_outer; a++) {
        PUT(" * (");
        tpi_render_any_size(r, shape[a]);
        PUT(")");
    }
    PUT(", .rows = ");
    tpi_render_any_size(r, shape[first->row]);
    PUT("};\n");
}

static void put_comment(tpi_render *r, const tpi_plan_step *step)
{
    tpi_str_put(&r->comment, "together:");
    for (int i = step->first; i < step->first + step->n; i++)
        tpi_str_printf(&r->comment, "%s %s", i > step->first ? "," : "",
                       root_of(r, &r->plan->kernels[i])->op->name);
}

void tpi_render_band(tpi_render *r, int number)
{
    const tpi_plan_step *step = &r->plan->steps[number];
    put_comment(r, step);
    put_band(r, step, true);
    PUT("    library->band(env, &b, part);\n"
        "    return 0;\n}\n");
    const tpi_str body = r->body;
    r->body = r->scratch;
    r->has_slots = false;
    PUT("    {\n");
    put_band(r, step, false);
    PUT("    int64_t one = 0, each = 0, keeps = 0;\n    (void)one, (void)b;\n");
    tpi_str_add(&r->body, r->near.text ? r->near.text : "", r->near.len);
    PUT("    need = library->threads * (((each + 63) & ~(int64_t)63) + keeps + %d);\n"
        "    most = need > most ? need : most;\n    }\n",
        r->whole->all_buffers * 8 / 64 * 64 + 64);
    r->scratch = r->body;
    r->body = body;
    r->has_slots = true;
}
