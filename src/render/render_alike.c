#include "render/render_alike.h"

#include "base/hash.h"
#include "ir/notation.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOT_BEGIN '\x01' /* "\1<number>\2" stands for a slot */
#define SLOT_END '\x02'

void tpi_alike_begin(tpi_alike *s, tpi_bump *memory, int n_kernels)
{
    *s = (tpi_alike){.memory = memory, .n_rows = n_kernels};
    s->n_buckets = 64;
    while (s->n_buckets < n_kernels)
        s->n_buckets *= 2;
    s->rows = tpi_bump_take(memory, (size_t)n_kernels, sizeof *s->rows);
    s->buckets = tpi_bump_take(memory, (size_t)s->n_buckets, sizeof *s->buckets);
    for (int i = 0; i < n_kernels && s->rows; i++)
        s->rows[i] = (tpi_alike_row){.function = -1, .next = -1};
    for (int i = 0; i < s->n_buckets && s->buckets; i++)
        s->buckets[i] = -1;
}

/* ---- kernels ----------------------------------------------------------------------------------- */

const char *tpi_alike_slot(tpi_alike *s, tpi_slot_kind kind, int64_t value,
                           char mark[TPI_SLOT_MARK])
{
    tpi_slot *v = tpi_bump_grow(s->memory, s->slots, s->n_slots, &s->slots_size, sizeof *v);
    snprintf(mark, TPI_SLOT_MARK, "%c%d%c", SLOT_BEGIN, s->n_slots, SLOT_END);
    if (v) {
        s->slots = v;
        s->slots[s->n_slots++] = (tpi_slot){kind, value};
    }
    return mark;
}

static bool same_function(const tpi_alike *s, const tpi_alike_function *f, uint64_t hash,
                          const tpi_str *text)
{
    if (f->hash != hash || f->len != text->len || f->n_slots != s->n_slots ||
        memcmp(f->text, text->text, text->len) != 0)
        return false;
    const tpi_slot *theirs = s->rows[f->first_row].slots;
    for (int i = 0; i < s->n_slots; i++)
        if (theirs[i].kind != s->slots[i].kind)
            return false;
    return true;
}

/* A function of this text; NULL: no memory. */
static tpi_alike_function *add_function(tpi_alike *s, uint64_t hash, const tpi_str *text)
{
    tpi_alike_function *f =
        tpi_bump_grow(s->memory, s->functions, s->n_functions, &s->functions_size, sizeof *f);
    char *own = tpi_bump_copy(s->memory, text->text, text->len, 1);
    int *place = tpi_bump_take(s->memory, (size_t)s->n_slots, sizeof *place);
    if (!place)
        return NULL;
    int *bucket = &s->buckets[hash & (uint64_t)(s->n_buckets - 1)];
    s->functions = f;
    f += s->n_functions;
    *f = (tpi_alike_function){.text = own,
                              .len = text->len,
                              .hash = hash,
                              .next = *bucket,
                              .first_row = -1,
                              .n_slots = s->n_slots,
                              .place = place};
    *bucket = s->n_functions++;
    return f;
}

void tpi_alike_kernel(tpi_alike *s, int kernel, const tpi_str *text, const char *comment)
{
    const char *own = tpi_bump_copy(s->memory, comment, strlen(comment) + 1, 1);
    const tpi_slot *slots =
        tpi_bump_copy(s->memory, s->slots, (size_t)s->n_slots, sizeof *slots);
    s->memory->failed |= text->failed || !text->text;
    if (s->memory->failed)
        return;
    const uint64_t hash = tpi_hash64(text->text, text->len);
    int found = s->buckets[hash & (uint64_t)(s->n_buckets - 1)];
    while (found >= 0 && !same_function(s, &s->functions[found], hash, text))
        found = s->functions[found].next;
    tpi_alike_function *f = found < 0 ? add_function(s, hash, text) : &s->functions[found];
    if (!f)
        return;
    s->rows[kernel] = (tpi_alike_row){.function = (int)(f - s->functions),
                                      .next = f->first_row,
                                      .slots = slots,
                                      .comment = own};
    f->first_row = kernel; /* the newest one comes first */
    f->n_rows++;
    s->n_slots = 0;
}

/* ---- arguments --------------------------------------------------------------------------------- */

/* What a slot is for this kernel. */
static int64_t value_of(const tpi_alike *s, int kernel, int slot)
{
    const tpi_slot *v = &s->rows[kernel].slots[slot];
    return v->kind == TPI_SLOT_ROW ? s->rows[v->value].at : v->value;
}

/* Functions that are called by others come before them, so their arguments have places already. */
void tpi_alike_settle(tpi_alike *s)
{
    int64_t at = 0;
    for (int i = 0; i < s->n_functions; i++) {
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
    const tpi_slot_kind kind = s->rows[f->first_row].slots[slot].kind;
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
        const tpi_slot_kind kind = s->rows[f->first_row].slots[k].kind;
        const int place = f->place[k];
        if (place >= 0 && kind == TPI_SLOT_F32)
            tpi_str_printf(out, "    const tpk_f32 c%d = tpk_from_bits_f32((uint32_t)a[%d]);\n",
                           place, place);
        else if (place >= 0 && kind == TPI_SLOT_F64)
            tpi_str_printf(out, "    const tpk_f64 c%d = tpk_from_bits_f64((uint64_t)a[%d]);\n",
                           place, place);
    }
}

void tpi_alike_put_function(const tpi_alike *s, int number, const char *linkage, tpi_str *out)
{
    const tpi_alike_function *f = &s->functions[number];
    int oldest = f->first_row;
    while (s->rows[oldest].next >= 0)
        oldest = s->rows[oldest].next;
    tpi_str_put(out, "\n/* ");
    tpi_str_put(out, s->rows[oldest].comment);
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
    tpi_str_put(out, s->rows[kernel].comment);
    tpi_str_put(out, " */");
}
