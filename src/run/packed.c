/* Constants in the layout of contractions. When a large one that nothing else reads has been packed,
 * the elements as they were are let go, one constant after the other: so a program has its weights
 * once. They come back from the packed ones where they are needed again: for sizes at which they are
 * packed in another way, and for a run node by node. */
#include "ir/body.h"
#include "op/contractions.h"
#include "run/program.h"

#include <string.h>

enum { LEAST_BYTES = 256 << 10 };

/* ---- which constants ----------------------------------------------------------------------------- */

/* What is packed for Winograd's tiles is sums of elements, from which these would not come back. */
static void note_reads(const tp_program *p, bool *read)
{
    const tpi_value *values = p->plan->values;
    for (int i = 0; i < p->plan->n_values; i++) {
        const tp_tensor *t = values[i].node;
        const int kernel = values[i].kernel;
        const bool call = kernel >= 0 && p->plan->kernels[kernel].kind == TPI_KERNEL_CALL;
        const int packed = call ? tpi_packed_operand(p->plan, t) : -1;
        for (int k = 0; k < t->n_in && kernel >= 0; k++) {
            const int buffer = values[values[t->in[k]->index].layout.root].buffer;
            if (buffer >= 0 && (k != packed || tpi_contraction_may_be_tiled(t)))
                read[buffer] = true;
        }
    }
    for (int i = 0; i < p->n_roots; i++) {
        const int buffer = values[values[p->roots[i]->index].layout.root].buffer;
        if (buffer >= 0)
            read[buffer] = true;
    }
}

/* The constant that buffer i is; NULL. */
static tp_tensor *constant_of(const tp_program *p, int i)
{
    const tpi_buffer *b = &p->plan->buffers[i];
    const bool is = b->storage == TPI_IN_SOURCE && tpi_constant_of(b->like);
    return is ? b->like->in[0] : NULL;
}

/* Nobody but the program has it. */
static bool may_go(const tp_program *p, int i, const bool *read)
{
    const tp_tensor *t = read[i] ? NULL : constant_of(p, i);
    return t && t->refs == 1 + (tpi_graph_lifted(p->graph, t) != NULL) && t->buf &&
           t->buf->refs == 1 && t->buf->size && t->flags & TPI_CONTIGUOUS &&
           t->dtype == TP_F32 && tpi_bytes(t) >= LEAST_BYTES;
}

/* ---- packing ------------------------------------------------------------------------------------- */

static void let_go(tp_program *p, int i)
{
    tp_tensor *t = constant_of(p, i);
    tpi_give_away(&p->ctx->mem, t->buf, t->buf->size);
    t->buf = NULL;
    t->data = NULL;
    p->pointers[i] = NULL;
    p->constants.n_gone++;
}

/* Those that go one by one; what they leave room for serves the next. False: no memory for lists. */
static bool pack_and_let_go(tp_program *p, char *scratch)
{
    tpi_bump memory = TPI_BUMP(&p->ctx->mem);
    void **of = tpi_bump_take(&memory, (size_t)p->plan->all_buffers, sizeof *of);
    bool *read = tpi_bump_take(&memory, (size_t)p->plan->n_buffers, sizeof *read);
    const bool ok = read;
    if (ok) {
        note_reads(p, read);
        int64_t numbers = UINT32_MAX - 1; /* that number_elements has */
        for (int i = 0; i < p->plan->n_buffers; i++) {
            if (!may_go(p, i, read) || tpi_count(constant_of(p, i)) > numbers)
                continue;
            numbers -= tpi_count(constant_of(p, i));
            of[i] = p->pointers[i];
            p->c.pack(of, p->constants.sizes, p->constants.packed->data, scratch, &p->library);
            of[i] = NULL;
            let_go(p, i);
        }
    }
    tpi_bump_free(&memory);
    return ok;
}

void tpi_program_pack(tp_program *p, char *scratch)
{
    if (p->constants.is_packed)
        return;
    memcpy(p->constants.sizes, p->symbols, (size_t)p->n_symbols * sizeof *p->constants.sizes);
    if (!p->constants.keeps)
        pack_and_let_go(p, scratch);
    p->c.pack(p->pointers, p->constants.sizes, p->constants.packed->data, scratch, &p->library);
    p->constants.is_packed = true;
}

/* ---- the elements again ------------------------------------------------------------------------------ */

/* Numbers in place of the elements of those that are gone, from 1 on; what is there is left. */
static bool number_elements(tp_program *p, void **of)
{
    uint32_t number = 1;
    for (int i = 0; i < p->plan->n_buffers; i++) {
        tp_tensor *t = constant_of(p, i);
        if (!t || t->buf)
            continue;
        const int64_t n = tpi_count(t);
        if (!tpi_tensor_alloc(t))
            return false;
        of[i] = t->data;
        for (int64_t k = 0; k < n; k++, number++)
            memcpy(t->data + 4 * k, &number, sizeof number);
    }
    return true;
}

/* Each packed element goes where the number in its place says. */
static void unpack(const tp_program *p, void *const *of, const char *numbers)
{
    const int64_t *at = p->constants.packed->data;
    const char *packed = p->constants.packed->data;
    const size_t end = (size_t)p->stats.packed_bytes;
    uint32_t first = 1, last = 1; /* of the constant that is being filled */
    char *to = NULL;
    for (size_t i = (size_t)at[0]; i < end; i += 4) {
        uint32_t number;
        memcpy(&number, numbers + i, sizeof number);
        if (number == 0)
            continue;
        if (number < first || number >= last) {
            last = 1;
            for (int k = 0; k < p->plan->n_buffers && number >= last; k++)
                if (of[k]) {
                    first = last;
                    last += (uint32_t)tpi_count(constant_of(p, k));
                    to = of[k];
                }
        }
        memcpy(to + 4 * (size_t)(number - first), packed + i, 4);
    }
}

bool tpi_program_unpack(tp_program *p)
{
    tpi_mem *m = &p->ctx->mem;
    if (!p->constants.n_gone)
        return true;
    const size_t all = (size_t)p->plan->all_buffers, size = (size_t)p->stats.packed_bytes;
    const size_t room = (size_t)p->c.scratch_bytes(p->constants.sizes, &p->library);
    void **of = tpi_take(m, all * sizeof *of);
    char *numbers = tpi_take(m, size), *scratch = tpi_take(m, room);
    bool ok = of && numbers && scratch;
    if (ok) {
        memset(of, 0, all * sizeof *of);
        memset(numbers, 0, size);
        ok = number_elements(p, of);
    }
    if (ok) {
        p->c.pack(of, p->constants.sizes, numbers, scratch, &p->library);
        unpack(p, of, numbers);
        p->constants.n_gone = 0;
    }
    for (int i = 0; i < p->plan->n_buffers && of && !ok; i++)
        if (of[i]) {
            tp_tensor *t = constant_of(p, i);
            tpi_buf_unref(p->ctx, t->buf);
            t->buf = NULL;
            t->data = NULL;
        }
    tpi_give_back(m, of, all * sizeof *of);
    tpi_give_back(m, numbers, size);
    tpi_give_back(m, scratch, room);
    return ok;
}

/* ---- at other sizes -------------------------------------------------------------------------------- */

/* Would they be packed as they are? */
static bool is_same(const tp_program *p, size_t need, bool *same)
{
    tpi_mem *m = &p->ctx->mem;
    *same = p->constants.is_packed && need == (size_t)p->stats.packed_bytes;
    if (!*same || !need)
        return true;
    const size_t bytes = (size_t) * (const int64_t *)p->constants.packed->data;
    int64_t *at = tpi_take(m, bytes);
    if (!at)
        return false;
    memcpy(at, p->constants.packed->data,
           bytes); /* for what lies between its numbers and the first one */
    p->c.pack_layout(p->symbols, at, &p->library);
    *same = memcmp(at, p->constants.packed->data, bytes) == 0;
    tpi_give_back(m, at, bytes);
    return true;
}

bool tpi_program_pack_room(tp_program *p)
{
    const size_t need = (size_t)p->c.packed_bytes(p->symbols, &p->library);
    bool same;
    if (!is_same(p, need, &same))
        return false;
    if (same)
        return true;
    if (!tpi_program_unpack(p))
        return false;
    tpi_buf_unref(p->ctx, p->constants.packed);
    p->constants.is_packed = false;
    p->constants.packed = tpi_buf_new(p->ctx, need);
    p->stats.packed_bytes = p->constants.packed ? (int64_t)need : 0;
    return p->constants.packed;
}
