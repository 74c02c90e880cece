#include "render/render_alike.h"

#include "base/hash.h"
#include "ir/notation.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOT_BEGIN '\x01' /* "\1<number>\2" stands for a slot */
#define SLOT_END '\x02'

bool tpi_alike_begin(tpi_alike *s, tpi_mem *mem, int n_kernels)
{
    *s = (tpi_alike){.mem = mem, .n_rows = n_kernels, .comments = TPI_STR(mem)};
    s->n_buckets = 64;
    while (s->n_buckets < n_kernels)
        s->n_buckets *= 2;
    s->rows = tpi_take(mem, ((size_t)n_kernels + 1) * sizeof *s->rows);
    s->buckets = tpi_take(mem, (size_t)s->n_buckets * sizeof *s->buckets);
    s->failed = !s->rows || !s->buckets;
    for (int i = 0; i < n_kernels && s->rows; i++)
        s->rows[i] = (tpi_alike_row){.function = -1, .next = -1};
    for (int i = 0; i < s->n_buckets && s->buckets; i++)
        s->buckets[i] = -1;
    return !s->failed;
}

void tpi_alike_end(tpi_alike *s)
{
    for (int i = 0; i < s->n_functions; i++) {
        tpi_alike_function *f = &s->functions[i];
        tpi_give_back(s->mem, f->text, f->len);
        tpi_give_back(s->mem, f->place, ((size_t)f->n_slots + 1) * sizeof *f->place);
    }
    tpi_give_back(s->mem, s->functions, (size_t)s->functions_size * sizeof *s->functions);
    tpi_give_back(s->mem, s->slots, (size_t)s->slots_size * sizeof *s->slots);
    tpi_give_back(s->mem, s->rows, ((size_t)s->n_rows + 1) * sizeof *s->rows);
    tpi_give_back(s->mem, s->buckets, (size_t)s->n_buckets * sizeof *s->buckets);
    tpi_str_free(&s->comments);
}

/* ---- kernels ----------------------------------------------------------------------------------- */

const char *tpi_alike_slot(tpi_alike *s, tpi_slot_kind kind, int64_t value,
                           char mark[TPI_SLOT_MARK])
{
    tpi_slot *v = tpi_grow(s->mem, s->slots, s->n_slots, &s->slots_size, sizeof *v);
    snprintf(mark, TPI_SLOT_MARK, "%c%d%c", SLOT_BEGIN, s->n_slots - s->first_slot, SLOT_END);
    s->failed |= !v;
    if (v) {
        s->slots = v;
        s->slots[s->n_slots++] = (tpi_slot){kind, value};
    }
    return mark;
}

static bool same_function(const tpi_alike *s, const tpi_alike_function *f, uint64_t hash,
                          const tpi_str *text, int n_slots)
{
    if (f->hash != hash || f->len != text->len || f->n_slots != n_slots ||
        memcmp(f->text, text->text, text->len) != 0)
        return false;
    const tpi_slot *theirs = s->slots + s->rows[f->first_row].slots;
    for (int i = 0; i < n_slots; i++)
        if (theirs[i].kind != s->slots[s->first_slot + i].kind)
            return false;
    return true;
}

/* A function of this text; NULL: no memory. */
static tpi_alike_function *add_function(tpi_alike *s, uint64_t hash, const tpi_str *text,
                                        int n_slots)
{
    tpi_alike_function *v =
        tpi_grow(s->mem, s->functions, s->n_functions, &s->functions_size, sizeof *v);
    if (!v)
        return NULL;
    s->functions = v;
    tpi_alike_function *f = &s->functions[s->n_functions];
    int *bucket = &s->buckets[hash & (uint64_t)(s->n_buckets - 1)];
    *f = (tpi_alike_function){.text = tpi_take(s->mem, text->len),
                              .len = text->len,
                              .hash = hash,
                              .next = *bucket,
                              .first_row = -1,
                              .n_slots = n_slots,
                              .place =
                                  tpi_take(s->mem, ((size_t)n_slots + 1) * sizeof *f->place)};
    if (!f->text || !f->place) {
        tpi_give_back(s->mem, f->text, f->len);
        tpi_give_back(s->mem, f->place, ((size_t)n_slots + 1) * sizeof *f->place);
        return NULL;
    }
    memcpy(f->text, text->text, text->len);
    *bucket = s->n_functions++;
    return f;
}

void tpi_alike_kernel(tpi_alike *s, int kernel, const tpi_str *text, const char *comment,
                      size_t comment_len)
{
    s->failed |= text->failed || !text->text;
    if (s->failed)
        return;
    const uint64_t hash = tpi_hash64(text->text, text->len);
    const int n_slots = s->n_slots - s->first_slot;
    int found = s->buckets[hash & (uint64_t)(s->n_buckets - 1)];
    while (found >= 0 && !same_function(s, &s->functions[found], hash, text, n_slots))
        found = s->functions[found].next;
    tpi_alike_function *f =
        found < 0 ? add_function(s, hash, text, n_slots) : &s->functions[found];
    s->failed |= !f;
    if (!f)
        return;
    s->rows[kernel] = (tpi_alike_row){.function = (int)(f - s->functions),
                                      .next = f->first_row,
                                      .slots = s->first_slot,
                                      .comment = s->comments.len,
                                      .comment_len = comment_len};
    f->first_row = kernel; /* the newest one comes first */
    f->n_rows++;
    s->first_slot = s->n_slots;
    tpi_str_add(&s->comments, comment, comment_len);
}

/* ---- arguments --------------------------------------------------------------------------------- */

/* What a slot is for this kernel. */
static int64_t value_of(const tpi_alike *s, int kernel, int slot)
{
    const tpi_slot *v = &s->slots[s->rows[kernel].slots + slot];
    return v->kind == TPI_SLOT_ROW ? s->rows[v->value].at : v->value;
}

/* Functions that are called by others come before them, so their arguments have places already. */
bool tpi_alike_settle(tpi_alike *s)
{
    int64_t at = 0;
    s->failed |= s->comments.failed;
    for (int i = 0; i < s->n_functions && !s->failed; i++) {
        tpi_alike_function *f = &s->functions[i];
        int n = 0;
        for (int k = 0; k < f->n_slots; k++) {
            bool differs = false;
            const int64_t first = value_of(s, f->first_row, k);
            for (int row = s->rows[f->first_row].next; row >= 0 && !differs;
                 row = s->rows[row].next)
                differs = value_of(s, row, k) != first;
            f->place[k] = differs ? n++ : -1;
        }
        for (int row = f->first_row; row >= 0; row = s->rows[row].next, at += n)
            s->rows[row].at = n ? at : 0;
    }
    return !s->failed;
}

void tpi_alike_put_arguments(const tpi_alike *s, tpi_str *out)
{
    int n = 0;
    for (int i = 0; i < s->n_functions; i++) {
        const tpi_alike_function *f = &s->functions[i];
        for (int row = f->first_row; row >= 0; row = s->rows[row].next)
            for (int k = 0; k < f->n_slots; k++)
                if (f->place[k] >= 0)
                    tpi_str_printf(out, "%s%lld,", n++ % 16 ? " " : "\n    ",
                                   (long long)value_of(s, row, k));
    }
}

static void put_constant(tpi_str *out, tpi_slot_kind kind, int64_t value)
{
    const char *type = kind == TPI_SLOT_F32 ? "f32" : "f64";
    const uint32_t low = (uint32_t)value;
    double x;
    float narrow;
    memcpy(&x, &value, sizeof x);
    memcpy(&narrow, &low, sizeof narrow);
    if (kind == TPI_SLOT_F32)
        x = (double)narrow;
    if (!isfinite(x) || (x == 0 && signbit(x))) {
        tpi_str_printf(out, "tpk_from_bits_%s(0x%llxull)", type, (unsigned long long)value);
        return;
    }
    tpi_str_printf(out, "(tpk_%s)", type);
    const size_t at = out->len;
    tpi_put_f64(out, x);
    if (!out->failed && !strpbrk(out->text + at, ".e"))
        tpi_str_put(out, ".0");
}

static void put_slot(const tpi_alike *s, const tpi_alike_function *f, int slot, tpi_str *out)
{
    const tpi_slot_kind kind = s->slots[s->rows[f->first_row].slots + slot].kind;
    const bool constant = kind == TPI_SLOT_F32 || kind == TPI_SLOT_F64;
    if (f->place[slot] >= 0)
        tpi_str_printf(out, constant ? "c%d" : "a[%d]", f->place[slot]);
    else if (constant)
        put_constant(out, kind, value_of(s, f->first_row, slot));
    else
        tpi_str_printf(out, "%lld", (long long)value_of(s, f->first_row, slot));
}

/* The constants that are arguments. */
static void put_head(const tpi_alike *s, const tpi_alike_function *f, tpi_str *out)
{
    for (int k = 0; k < f->n_slots; k++) {
        const tpi_slot_kind kind = s->slots[s->rows[f->first_row].slots + k].kind;
        const int place = f->place[k];
        if (place >= 0 && kind == TPI_SLOT_F32)
            tpi_str_printf(out, "    const tpk_f32 c%d = tpk_from_bits_f32((uint32_t)a[%d]);\n",
                           place, place);
        else if (place >= 0 && kind == TPI_SLOT_F64)
            tpi_str_printf(out, "    const tpk_f64 c%d = tpk_from_bits_f64((uint64_t)a[%d]);\n",
                           place, place);
    }
}

static void put_comment(const tpi_alike *s, int kernel, tpi_str *out)
{
    const tpi_alike_row *row = &s->rows[kernel];
    tpi_str_add(out, s->comments.text + row->comment, row->comment_len);
}

void tpi_alike_put_function(const tpi_alike *s, int number, const char *linkage, tpi_str *out)
{
    const tpi_alike_function *f = &s->functions[number];
    int oldest = f->first_row;
    while (s->rows[oldest].next >= 0)
        oldest = s->rows[oldest].next;
    tpi_str_put(out, "\n/* ");
    put_comment(s, oldest, out);
    if (f->n_rows > 1)
        tpi_str_printf(out, "; and %d like it", f->n_rows - 1);
    tpi_str_printf(out, " */\n%s int64_t k%d", linkage, number);
    const char *end = f->text + f->len;
    for (const char *c = f->text; c < end;) {
        const char *mark = c;
        while (mark < end && *mark != SLOT_BEGIN && *mark != TPI_ALIKE_HEAD[0] &&
               *mark != TPI_ALIKE_SELF[0])
            mark++;
        tpi_str_add(out, c, (size_t)(mark - c));
        c = mark;
        if (c < end && *c == SLOT_BEGIN) {
            put_slot(s, f, atoi(c + 1), out);
            c = (const char *)memchr(c, SLOT_END, (size_t)(end - c)) + 1;
        } else if (c < end && *c == TPI_ALIKE_SELF[0]) {
            tpi_str_printf(out, "k%d", number);
            c++;
        } else if (c < end) {
            put_head(s, f, out);
            c++;
        }
    }
}

void tpi_alike_put_row(const tpi_alike *s, int kernel, tpi_str *out)
{
    tpi_str_printf(out, "\n    {k%d, %lld}, /* ", s->rows[kernel].function,
                   (long long)s->rows[kernel].at);
    put_comment(s, kernel, out);
    tpi_str_put(out, " */");
}
