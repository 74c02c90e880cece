/* Runs the instructions of a loop nest, tile by tile. Threads take tiles of their own. */
#include "core/copy.h"
#include "kernel/text/reduce.h"
#include "run/tiles.h"

#include <string.h>

/* ---- moves ------------------------------------------------------------------------------------------- */

/* Memory of tensors is aligned for its type. */
#define FILL(bits)                                                                             \
    {                                                                                          \
        typedef uint##bits##_t __attribute__((may_alias)) word;                                \
        word *y = (void *)to;                                                                  \
        const word x = *(const word *)(const void *)from;                                      \
        for (int64_t i = 0; i < n; i++)                                                        \
            y[i] = x;                                                                          \
        break;                                                                                 \
    }

static void fill(size_t size, int64_t n, char *to, const char *from)
{
    switch (size) {
    case 1:
        memset(to, *from, (size_t)n);
        break;
    case 2:
        FILL(16)
    case 4:
        FILL(32)
    default:
        FILL(64)
    }
}

/* The box at `from` to memory without gaps. Where the last axis is broadcast its elements are
 * filled. */
static void gather(size_t size, const tpi_tile_box *b, const int64_t *stride, char *to,
                   const char *from)
{
    int64_t flat[TP_MAX_RANK], at[TP_MAX_RANK] = {0}, step = 1, rows = 1;
    for (int i = b->rank - 1; i >= 0; i--) {
        flat[i] = step;
        step *= b->n[i];
    }
    const int last = b->rank - 1;
    if (last < 0 || stride[last] != 0) {
        tpi_copy_strided(size, b->rank, b->n, to, flat, from, stride);
        return;
    }
    for (int i = 0; i < last; i++)
        rows *= b->n[i];
    for (int64_t r = 0; r < rows; r++, to += (size_t)b->n[last] * size) {
        fill(size, b->n[last], to, from);
        for (int i = last - 1; i >= 0; i--) {
            from += stride[i] * (int64_t)size;
            if (++at[i] < b->n[i])
                break;
            at[i] = 0;
            from -= stride[i] * b->n[i] * (int64_t)size;
        }
    }
}

static void scatter(size_t size, const tpi_tile_box *b, const int64_t *stride, char *to,
                    const char *from)
{
    int64_t flat[TP_MAX_RANK], step = 1;
    for (int i = b->rank - 1; i >= 0; i--) {
        flat[i] = step;
        step *= b->n[i];
    }
    tpi_copy_strided(size, b->rank, b->n, to, stride, from, flat);
}

/* ---- instructions ------------------------------------------------------------------------------------- */

static void each(const tpi_tile_op *op, int64_t n, char *y, const char *a, const char *b,
                 const char *c)
{
    for (int64_t i = 0; i < n; i++) {
        op->scalar(y, a, b, c);
        y += op->pitch[0], a += op->pitch[1], b += op->pitch[2], c += op->pitch[3];
    }
}

/* How much of the chunked axis, and of the one in parts, there is now. */
typedef struct extent {
    int64_t chunk, part;
} extent;

static void reduce(const tpi_nest *n, const tpi_tile_op *op, int64_t cells, int64_t per,
                   char *y, const char *a)
{
    const bool compact = op->stride == TPI_TILE_COMPACT;
    const int64_t rows = op->rows == TPI_TILE_ALL_ROWS    ? n->per_full
                         : op->rows == TPI_TILE_PART_ROWS ? per
                                                          : op->rows;
    if (n->columns)
        op->reduce(rows, cells, a, compact ? cells : op->stride, y);
    else
        op->reduce(cells, n->per_full, a, compact ? n->per_full : op->stride, y);
}

/* `cells`: elements of a row value; `per`: full ones for each. */
static void run_op(const tpi_nest *n, const tpi_tile_op *op, int64_t cells, int64_t per)
{
    const tpi_tile_slot *s = n->slots;
    char *y = s[op->y].at;
    const char *a = s[op->a].at;
    const int64_t count = op->wide ? cells * per : cells;
    switch (op->kind) {
    case TPI_TILE_ROW:
        op->row(count, y, a, s[op->b].at, s[op->c].at);
        break;
    case TPI_TILE_EACH:
        each(op, count, y, a, s[op->b].at, s[op->c].at);
        break;
    case TPI_TILE_FILL:
        fill(op->size, count, y, a);
        break;
    case TPI_TILE_SPREAD:
        for (int64_t i = 0; i < cells; i++, a += op->size, y += (int64_t)op->size * per)
            fill(op->size, per, y, a);
        break;
    case TPI_TILE_GATHER:
        gather(op->size, &n->box[op->wide], n->boxes[op->box], y, a);
        break;
    case TPI_TILE_SCATTER:
        scatter(op->size, &n->box[op->wide], n->boxes[op->box], y, a);
        break;
    case TPI_TILE_REDUCE:
        reduce(n, op, cells, per, y, a);
        break;
    }
}

static void run_moment(tpi_nest *n, tpi_tile_moment moment, extent e)
{
    const int64_t cells = e.chunk * n->per_chunk, per = e.part * n->per_part;
    for (int i = 0; i < 2; i++) {
        if (n->box[i].chunked >= 0)
            n->box[i].n[n->box[i].chunked] = e.chunk;
        if (n->box[i].parted >= 0)
            n->box[i].n[n->box[i].parted] = e.part;
    }
    for (int i = moment ? n->end[moment - 1] : 0; i < n->end[moment]; i++)
        run_op(n, &n->ops[i], cells, per);
}

static void move_to(tpi_nest *n, int64_t chunk, int64_t part)
{
    for (int k = 0; k < n->n_moving; k++) {
        tpi_tile_slot *s = &n->slots[n->moving[k]];
        s->at = s->line + chunk * s->chunk + part * s->part;
    }
}

/* One tile, part by part: most have one. */
static void run_parts(tpi_nest *n, int64_t at, extent e)
{
    int64_t rows = 0;
    for (int64_t i = 0; i < n->n_part && n->end[TPI_TILE_PART] > n->end[TPI_TILE_BEFORE];
         i += n->part) {
        e.part = n->n_part - i < n->part ? n->n_part - i : n->part;
        if (i > 0)
            move_to(n, at, i);
        run_moment(n, TPI_TILE_PART, e);
        rows += e.part;
        if (n->folds && (rows == TPK_BLOCK || i + e.part == n->n_part)) {
            run_moment(n, TPI_TILE_FOLD, e);
            rows = 0;
        }
    }
    run_moment(n, TPI_TILE_AFTER, e);
}

/* ---- tiles -------------------------------------------------------------------------------------------- */

static bool step_outer(tpi_nest *n, int64_t *at)
{
    for (int a = n->n_outer - 1; a >= 0; a--) {
        const bool more = ++at[a] < n->outer[a];
        const int64_t steps = more ? 1 : 1 - n->outer[a];
        for (int k = 0; k < n->n_moving; k++)
            n->slots[n->moving[k]].line += steps * n->slots[n->moving[k]].step[a];
        if (more)
            return true;
        at[a] = 0;
    }
    return false;
}

/* Where everything is at step `line` of the outer axes, which counts all of them. */
static void begin_line(tpi_nest *n, void *const *buffers, char *scratch, int64_t line,
                       int64_t *at)
{
    for (int i = 0; i < n->n_slots; i++) {
        tpi_tile_slot *s = &n->slots[i];
        if (s->buffer == TPI_TILE_FIXED)
            s->line = (char *)(intptr_t)s->fixed;
        else
            s->line = (s->buffer >= 0 ? (char *)buffers[s->buffer] : scratch) + s->offset;
        s->at = s->line;
    }
    for (int a = n->n_outer - 1; a >= 0; a--) {
        at[a] = line % n->outer[a];
        line /= n->outer[a];
        for (int k = 0; k < n->n_moving; k++)
            n->slots[n->moving[k]].line += at[a] * n->slots[n->moving[k]].step[a];
    }
}

static int64_t tiles_of_line(const tpi_nest *n)
{
    return (n->n_chunk + n->chunk - 1) / n->chunk;
}

/* The tiles from `first` to before `end`. */
static void run_tiles(tpi_nest *n, void *const *buffers, char *scratch, int64_t first,
                      int64_t end)
{
    int64_t at[TP_MAX_RANK] = {0};
    const int64_t per_line = tiles_of_line(n);
    begin_line(n, buffers, scratch, first / per_line, at);
    run_moment(n, TPI_TILE_ONCE, (extent){n->chunk, n->part});
    for (int64_t tile = first; tile < end; tile++) {
        const int64_t i = tile % per_line * n->chunk;
        const extent e = {n->n_chunk - i < n->chunk ? n->n_chunk - i : n->chunk, n->part};
        if (i == 0 && tile > first)
            step_outer(n, at);
        move_to(n, i, 0);
        run_moment(n, TPI_TILE_BEFORE, e);
        run_parts(n, i, e);
    }
}

/* ---- threads ------------------------------------------------------------------------------------------ */

typedef struct team_run {
    const tpi_nest *n;
    void *const *buffers;
    char *scratch;
    int64_t n_tiles, each;
} team_run;

/* Bytes of scratch memory of one thread: its own slots, and what they point to. */
static size_t slot_bytes(const tpi_nest *n)
{
    return ((size_t)n->n_slots * sizeof *n->slots + 63) / 64 * 64;
}

size_t tpi_nest_scratch(const tpi_nest *n, int threads)
{
    return threads > 1 ? (size_t)threads * (slot_bytes(n) + n->scratch) : n->scratch;
}

static void run_some(void *env, size_t part)
{
    const team_run *r = env;
    tpi_nest own = *r->n;
    char *memory = r->scratch + part * (slot_bytes(r->n) + r->n->scratch);
    const int64_t first = (int64_t)part * r->each, end = first + r->each;
    own.slots = (tpi_tile_slot *)(void *)memory;
    memcpy(own.slots, r->n->slots, (size_t)own.n_slots * sizeof *own.slots);
    if (first < r->n_tiles)
        run_tiles(&own, r->buffers, memory + slot_bytes(r->n), first,
                  end < r->n_tiles ? end : r->n_tiles);
}

void tpi_nest_run(tpi_nest *n, const tpi_team *team, void *const *buffers, char *scratch)
{
    if (n->empty)
        return;
    team_run r = {.n = n, .buffers = buffers, .scratch = scratch, .n_tiles = tiles_of_line(n)};
    for (int a = 0; a < n->n_outer; a++)
        r.n_tiles *= n->outer[a];
    int64_t parts = tpi_team_parts(team, n->work);
    parts = parts < r.n_tiles ? parts : r.n_tiles;
    if (parts <= 1) {
        run_tiles(n, buffers, scratch, 0, r.n_tiles);
        return;
    }
    r.each = (r.n_tiles + parts - 1) / parts;
    tpi_pool_run(team->pool, run_some, &r, (size_t)parts);
}
