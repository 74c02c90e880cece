/* Formulas of places.
 *
 * Which of two buffers that live at the same time lies below the other is settled once, by placing
 * them at sizes taken as an example (place.c); then each lies where the highest of those below it
 * ends, whatever the sizes are. That takes what the placement at the example's sizes takes, or
 * less. Of some examples the one is taken whose order costs the least at the sizes of all. */
#include "plan/arena.h"

#include <stdlib.h>
#include <string.h>

enum { N_EXAMPLES = 3 };

/* What is above what, and what is known so far. */
typedef struct making {
    tpi_arena *a;
    tpi_bump room; /* of all that is only for making it, and of its lists until it is made */
    tpi_dims *dims;
    int n_symbols;
    int64_t *example; /* the symbols' values, by example */
    tpi_amount *list; /* of which the greatest is looked for: none is at least another one */
    int n_list, list_size, maxima_size, parts_size;
} making;

static tpi_amount amount_of(int64_t size)
{
    return (tpi_amount){
        size, {-1, -1}
    };
}

/* Room for one more; false: no memory. */
static bool make_room(making *k, void *array, int n, int *size, size_t elem)
{
    void **v = array;
    void *larger = k->room.failed ? NULL : tpi_bump_grow(&k->room, *v, n, size, elem);
    if (larger)
        *v = larger;
    return larger;
}

/* ---- which is greater ---------------------------------------------------------------------------- */

/* Is no part of an expression subtracted? Steps of tpi_dim_build, of 1 and 0. */
static int number_rises(void *user, int64_t n)
{
    (void)user;
    return n >= 0;
}

static int symbol_rises(void *user, int i)
{
    (void)user, (void)i;
    return 1;
}

static int step_rises(void *user, char op, int a, int b)
{
    (void)user;
    return op != '-' && a && b;
}

static bool is_least(const making *k, int64_t a, int64_t b)
{
    static const tpi_dim_steps rises = {number_rises, symbol_rises, step_rises};
    if (a == b)
        return true;
    const int64_t more = tpi_dim_sub(k->dims, a, b);
    return tpi_dim_is_symbolic(more) ? tpi_dim_build(k->dims, more, &rises, NULL) == 1
                                     : more != TPI_NO_DIM && more >= 0;
}

/* Are b's maxima among a's, each as often? */
static bool has_maxima(const tpi_amount *a, const tpi_amount *b)
{
    const int *const x = a->maximum, *const y = b->maximum;
    return ((y[0] < 0 || y[0] == x[0]) && (y[1] < 0 || y[1] == x[1])) ||
           ((y[0] < 0 || y[0] == x[1]) && (y[1] < 0 || y[1] == x[0]));
}

/* Is a at least b, whatever the sizes are? False also when that is not seen within `depth` maxima. */
static bool covers(const making *k, const tpi_amount *a, const tpi_amount *b, int depth)
{
    enum { FEW = 8 };
    if (has_maxima(a, b) && is_least(k, a->size, b->size))
        return true;
    for (int i = 0; i < 2 && depth; i++) {
        const tpi_maximum *m = a->maximum[i] < 0 ? NULL : &k->a->maxima[a->maximum[i]];
        for (int j = 0; m && j < m->n && j < FEW; j++) {
            tpi_amount v = k->a->parts[m->first + j];
            v.size = tpi_dim_add(k->dims, v.size, a->size);
            if (v.size == TPI_NO_DIM || (v.maximum[1] >= 0 && a->maximum[1 - i] >= 0))
                continue;
            v.maximum[v.maximum[0] >= 0] =
                a->maximum[1 - i] >= 0 ? a->maximum[1 - i] : v.maximum[v.maximum[0] >= 0];
            if (covers(k, &v, b, depth - 1))
                return true;
        }
    }
    return false;
}

/* ---- amounts --------------------------------------------------------------------------------------- */

static void begin_list(making *k)
{
    k->n_list = 0;
}

/* It is compared with the last ones only, so that long lists take no longer than their length. */
static void add_to_list(making *k, tpi_amount v)
{
    enum { DEPTH = 2, LAST = 24 };
    const int from = k->n_list > LAST ? k->n_list - LAST : 0;
    int kept = from;
    for (int i = from; i < k->n_list; i++)
        if (covers(k, &k->list[i], &v, DEPTH))
            return;
    for (int i = from; i < k->n_list; i++)
        if (!covers(k, &v, &k->list[i], DEPTH))
            k->list[kept++] = k->list[i];
    k->n_list = kept;
    if (make_room(k, &k->list, k->n_list, &k->list_size, sizeof *k->list))
        k->list[k->n_list++] = v;
}

/* A maximum of n amounts, or an equal one. */
static tpi_amount maximum(making *k, int n, const tpi_amount *v)
{
    tpi_arena *a = k->a;
    const tpi_maximum m = {a->n_parts, n};
    for (int i = 0; i < a->n_maxima; i++)
        if (a->maxima[i].n == n &&
            memcmp(a->parts + a->maxima[i].first, v, (size_t)n * sizeof *v) == 0)
            return (tpi_amount){
                0, {i, -1}
            };
    for (int i = 0; i < n; i++)
        if (make_room(k, &a->parts, a->n_parts, &k->parts_size, sizeof *a->parts))
            a->parts[a->n_parts++] = v[i];
    if (!make_room(k, &a->maxima, a->n_maxima, &k->maxima_size, sizeof *a->maxima))
        return amount_of(0);
    a->maxima[a->n_maxima] = m;
    return (tpi_amount){
        0, {a->n_maxima++, -1}
    };
}

/* With one maximum at most, so that two of these can be added. */
static tpi_amount end_list(making *k)
{
    if (k->n_list == 0)
        return amount_of(0);
    if (k->n_list == 1 && k->list[0].maximum[1] < 0)
        return k->list[0];
    return maximum(k, k->n_list, k->list);
}

static tpi_amount add(making *k, tpi_amount x, tpi_amount y)
{
    int64_t size = tpi_dim_add(k->dims, x.size, y.size);
    if (size == TPI_NO_DIM && tpi_dim_is_symbolic(x.size)) { /* too long: in two parts */
        x = maximum(k, 1, &x);
        size = y.size;
    }
    k->a->too_large |= size == TPI_NO_DIM;
    tpi_amount sum = {
        size, {x.maximum[0], y.maximum[0]}
    };
    if (sum.maximum[0] < 0) {
        sum.maximum[0] = sum.maximum[1];
        sum.maximum[1] = -1;
    }
    return sum;
}

/* The next multiple of 64. */
static tpi_amount up(const making *k, const tpi_amount *v)
{
    enum { ALIGN = 64 };
    tpi_amount to = *v;
    if (v->maximum[0] < 0)
        to.size = tpi_dim_mul(
            k->dims, tpi_dim_div(k->dims, tpi_dim_add(k->dims, v->size, ALIGN - 1), ALIGN),
            ALIGN);
    return to;
}

/* ---- values ---------------------------------------------------------------------------------------- */

/* The value, with the maxima's; -1: none. */
static int64_t value_of(const tpi_arena *a, const tpi_amount *v, const int64_t *symbols,
                        const int64_t *maxima)
{
    int64_t value = tpi_dim_eval(a->dims, v->size, symbols);
    if (value == TPI_NO_DIM)
        return -1;
    for (int i = 0; i < 2 && v->maximum[i] >= 0; i++)
        if (maxima[v->maximum[i]] < 0 ||
            __builtin_add_overflow(value, maxima[v->maximum[i]], &value))
            return -1;
    return value;
}

static void find_maxima(const tpi_arena *a, const int64_t *symbols, int64_t *maxima)
{
    for (int i = 0; i < a->n_maxima; i++) {
        const tpi_maximum *m = &a->maxima[i];
        maxima[i] = 0;
        for (int j = 0; j < m->n && maxima[i] >= 0; j++) {
            const int64_t v = value_of(a, &a->parts[m->first + j], symbols, maxima);
            maxima[i] = v < 0 || v > maxima[i] ? v : maxima[i];
        }
    }
}

bool tpi_arena_at(const tpi_arena *a, const int64_t *symbols, int64_t *bytes, int64_t *offset,
                  int64_t *total)
{
    const size_t n = (size_t)a->n_maxima * sizeof(int64_t);
    int64_t *maxima = tpi_take(a->m, n);
    if (!maxima)
        return false;
    find_maxima(a, symbols, maxima);
    *total = value_of(a, &a->total, symbols, maxima);
    bool ok = !a->too_large && *total >= 0;
    for (int i = 0; i < a->n_buffers && ok && bytes; i++) {
        bytes[i] = value_of(a, &a->bytes[i], symbols, maxima);
        ok = bytes[i] >= 0;
    }
    for (int i = 0; i < a->n_buffers && ok && offset; i++)
        offset[i] = value_of(a, &a->offset[i], symbols, maxima);
    tpi_give_back(a->m, maxima, n);
    return ok;
}

/* ---- one plan -------------------------------------------------------------------------------------- */

typedef struct spot {
    int64_t at;
    int buffer;
} spot;

typedef struct placing {
    making *k;
    int n,
        n_kernels; /* buffers, those that are elsewhere among them; kernels of all their lives */
    const tpi_buffer *buffers;
    tpi_amount *bytes, *offset; /* what each takes, a multiple of 64; where it lies */
    tpi_amount *taken;          /* the same at an example, as numbers */
    int64_t *size, *at;
    int *top;                /* by kernel: the highest buffer so far; -1 */
    spot *order[N_EXAMPLES]; /* of those in the arena, the lowest first */
    int n_order;
} placing;

static void add_end(const placing *p, int buffer, const tpi_amount *bytes)
{
    add_to_list(p->k, add(p->k, p->offset[buffer], bytes[buffer]));
}

/* Each buffer lies above the topmost of those that come before it in the order, at every kernel of its life: these
 * lie above the others. */
static tpi_amount stack(const placing *p, const spot *order, const tpi_amount *bytes)
{
    for (int t = 0; t < p->n_kernels; t++)
        p->top[t] = -1;
    for (int i = 0; i < p->n_order; i++) {
        const int mine = order[i].buffer;
        begin_list(p->k);
        for (int t = p->buffers[mine].first, last = -1; t <= p->buffers[mine].last; t++) {
            if (p->top[t] >= 0 && p->top[t] != last)
                add_end(p, p->top[t], bytes);
            last = p->top[t];
            p->top[t] = mine;
        }
        p->offset[mine] = end_list(p->k);
    }
    begin_list(p->k);
    for (int t = 0, last = -1; t < p->n_kernels; t++) {
        if (p->top[t] >= 0 && p->top[t] != last)
            add_end(p, p->top[t], bytes);
        last = p->top[t];
    }
    return end_list(p->k);
}

static int by_spot(const void *a, const void *b)
{
    const spot *x = a, *y = b;
    return x->at != y->at ? (x->at < y->at ? -1 : 1) : x->buffer - y->buffer;
}

/* p->size: of all buffers; 0 where there is none at these sizes. False: one has none at any, or together
 * they are too many bytes for a number. */
static bool find_sizes(const placing *p, const int64_t *symbols)
{
    const tpi_arena *a = p->k->a;
    const tpi_bump mark = p->k->room;
    int64_t *maxima = tpi_bump_take(&p->k->room, (size_t)a->n_maxima, sizeof *maxima), all = 0;
    if (maxima)
        find_maxima(a, symbols, maxima);
    bool fits = maxima;
    for (int i = 0; i < p->n && fits; i++) {
        p->size[i] = 0;
        if (p->buffers[i].storage != TPI_IN_ARENA)
            continue;
        const int64_t size = value_of(a, &p->bytes[i], symbols, maxima);
        p->size[i] = size < 0 ? 0 : size;
        fits = p->bytes[i].size != TPI_NO_DIM && !__builtin_add_overflow(all, p->size[i], &all);
    }
    tpi_bump_release(&p->k->room, &mark);
    return fits;
}

/* Where they lie at p->size; what they take. */
static int64_t place_numbers(const placing *p)
{
    const int64_t all = tpi_place_buffers(p->k->a->m, p->n, p->buffers, p->size, p->at);
    p->k->room.failed |= all < 0;
    return all;
}

/* The order of places at an example. False: there is none. */
static bool find_order(const placing *p, int example)
{
    spot *order = p->order[example];
    if (!find_sizes(p, p->k->example + example * p->k->n_symbols) || place_numbers(p) < 0)
        return false;
    for (int i = 0, n = 0; i < p->n; i++)
        if (p->buffers[i].storage == TPI_IN_ARENA)
            order[n++] = (spot){p->at[i], i};
    qsort(order, (size_t)p->n_order, sizeof *order, by_spot);
    return true;
}

/* The example whose order takes least, by the most that it takes more than another one at any of them. */
static int best_order(const placing *p, int n)
{
    double takes[N_EXAMPLES][N_EXAMPLES], most[N_EXAMPLES] = {0};
    int best = 0;
    for (int at = 0; at < n; at++) {
        double least = 0;
        if (!find_sizes(p, p->k->example + at * p->k->n_symbols))
            continue;
        for (int i = 0; i < p->n; i++)
            p->taken[i] = amount_of(p->size[i]);
        for (int i = 0; i < n; i++) {
            takes[i][at] = (double)stack(p, p->order[i], p->taken).size + 1;
            least = i && least < takes[i][at] ? least : takes[i][at];
        }
        for (int i = 0; i < n; i++)
            most[i] = takes[i][at] > most[i] * least ? takes[i][at] / least : most[i];
    }
    for (int i = 1; i < n; i++)
        best = most[i] < most[best] ? i : best;
    return best;
}

static tpi_amount place_all(const placing *p)
{
    making *k = p->k;
    bool known = true;
    int n = 0;
    for (int i = 0; i < p->n; i++)
        if (p->buffers[i].storage == TPI_IN_ARENA)
            known &= tpi_amount_is_number(&p->bytes[i]);
    if (known) {
        k->a->too_large |= !find_sizes(p, k->example); /* none of them counts */
        if (k->a->too_large)
            return amount_of(0);
        const int64_t all = place_numbers(p);
        for (int i = 0; i < p->n && all >= 0; i++)
            p->offset[i] = amount_of(p->at[i]);
        return amount_of(all);
    }
    for (int i = 0; i < N_EXAMPLES; i++)
        n += n == i && find_order(p, i);
    k->a->too_large |= n == 0;
    return n ? stack(p, p->order[best_order(p, n)], p->bytes) : amount_of(0);
}

static tpi_amount place_plan(making *k, const tpi_plan *plan, const tpi_buffer *buffers);

static tpi_amount bytes_of(making *k, const tpi_buffer *b)
{
    if (b->section) { /* the bodies of a cond have one place */
        tpi_amount body[2];
        for (int i = 0; i < b->section->n_bodies; i++)
            body[i] = place_plan(k, b->section->plan[i], b->section->plan[i]->buffers);
        begin_list(k);
        for (int i = 0; i < b->section->n_bodies; i++)
            add_to_list(k, body[i]);
        return end_list(k);
    }
    int64_t bytes = (int64_t)tp_dtype_size((tp_dtype)b->like->dtype);
    for (int i = 0; i < b->like->rank; i++)
        bytes = tpi_dim_mul(k->dims, bytes, b->like->shape[i]);
    return amount_of(bytes);
}

static tpi_amount place_plan(making *k, const tpi_plan *plan, const tpi_buffer *buffers)
{
    const size_t n = (size_t)plan->n_buffers, n_kernels = (size_t)plan->n_kernels + 1;
    tpi_arena *a = k->a;
    placing p = {.k = k,
                 .n = plan->n_buffers,
                 .n_kernels = plan->n_kernels + 1,
                 .buffers = buffers,
                 .bytes = tpi_bump_take(&k->room, n, sizeof *p.bytes),
                 .taken = tpi_bump_take(&k->room, n, sizeof *p.taken),
                 .size = tpi_bump_take(&k->room, n, sizeof *p.size),
                 .at = tpi_bump_take(&k->room, n, sizeof *p.at),
                 .top = tpi_bump_take(&k->room, n_kernels, sizeof *p.top),
                 .offset = a->offset + plan->first_buffer};
    for (int i = 0; i < N_EXAMPLES; i++)
        p.order[i] = tpi_bump_take(&k->room, n, sizeof *p.order[i]);
    for (int i = 0; i < p.n && !k->room.failed; i++) {
        tpi_amount *bytes = &a->bytes[plan->first_buffer + i];
        *bytes = bytes_of(k, &buffers[i]);
        p.bytes[i] = up(k, bytes);
        p.offset[i] = amount_of(TPI_NO_DIM);
        p.n_order += buffers[i].storage == TPI_IN_ARENA;
    }
    return k->room.failed ? amount_of(0) : place_all(&p);
}

/* ---- examples -------------------------------------------------------------------------------------- */

/* Does every op take these sizes? */
static bool is_sized(const making *k, const tpi_plan *plan, const int64_t *symbols)
{
    bool ok = true;
    for (int i = 0; i < plan->n_buffers && ok; i++) {
        const tpi_buffer *b = &plan->buffers[i];
        for (int a = 0; b->like && a < b->like->rank; a++)
            ok &= tpi_dim_eval(k->dims, b->like->shape[a], symbols) != TPI_NO_DIM;
        for (int n = 0; b->section && n < b->section->n_bodies; n++)
            ok &= is_sized(k, b->section->plan[n], symbols);
    }
    return ok;
}

/* All sizes alike, the first one larger, and the others. */
static void find_examples(const making *k, const tpi_plan *plan)
{
    static const int64_t tries[] = {16, 64, 256, 1024, 1 << 14, 8, 4, 2, 1, 0};
    enum { N_TRIES = sizeof tries / sizeof *tries, LARGER = 16 };
    const int n = k->n_symbols;
    for (int i = 0, found = 0; i < N_TRIES && !found; i++) {
        for (int s = 0; s < n; s++) {
            k->example[s] = tries[i];
            k->example[n + s] = s ? tries[i] : LARGER * tries[i];
            k->example[2 * n + s] = s ? LARGER * tries[i] : 1;
        }
        found = is_sized(k, plan, k->example);
    }
}

/* ---- all ------------------------------------------------------------------------------------------- */

tpi_arena *tpi_arena_new(tpi_bump *memory, const tpi_plan *plan, const tpi_buffer *buffers)
{
    const size_t n = (size_t)plan->all_buffers;
    tpi_arena *a = tpi_bump_take(memory, 1, sizeof *a);
    tpi_amount *bytes = tpi_bump_take(memory, n, sizeof *bytes);
    tpi_amount *offset = tpi_bump_take(memory, n, sizeof *offset);
    if (!offset)
        return NULL;
    *a = (tpi_arena){.m = memory->mem,
                     .dims = plan->graph->dims,
                     .n_buffers = plan->all_buffers,
                     .bytes = bytes,
                     .offset = offset};
    making k = {.a = a, .room = TPI_BUMP(memory->mem), .dims = plan->graph->dims};
    k.n_symbols = tpi_dim_n_symbols(k.dims);
    k.example = tpi_bump_take(&k.room, N_EXAMPLES * (size_t)k.n_symbols, sizeof *k.example);
    if (k.example) {
        find_examples(&k, plan);
        a->total = place_plan(&k, plan, buffers);
    }
    a->maxima = tpi_bump_copy(memory, a->maxima, (size_t)a->n_maxima, sizeof *a->maxima);
    a->parts = tpi_bump_copy(memory, a->parts, (size_t)a->n_parts, sizeof *a->parts);
    memory->failed |= k.room.failed;
    tpi_bump_free(&k.room);
    return memory->failed ? NULL : a;
}

void tpi_put_amount(tpi_str *out, const tpi_arena *a, const tpi_amount *v, bool c)
{
    const bool bare = v->maximum[0] < 0;
    for (int i = 0; i < 2 && v->maximum[i] >= 0; i++)
        tpi_str_printf(out, i ? "+m%d" : "m%d", v->maximum[i]);
    if (!bare && v->size == 0)
        return;
    tpi_str_put(out, bare ? "" : "+");
    if (c)
        tpi_dim_print_c(a->dims, v->size, "s", out);
    else
        tpi_dim_print(a->dims, v->size, out);
}
