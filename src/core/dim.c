/* Symbolic sizes.
 *
 * An expression is a sum of terms; a term is an integer times a product of atoms; an atom is a
 * symbol, a division that does not come out even, or the lesser of two. Atoms are ordered by what they are, not by
 * when they were made, terms by degree and then by their atoms, so an expression has one form
 * and prints the same in every table. That order is one that products keep, which is what the
 * exact division of sums below relies on.
 *
 * Division by a number leaves only coefficients from 0 to divisor - 1 in the numerator:
 *     (n-3)/2  ->  (n+1)/2-2       (2*n+1)/4  ->  n/2       ((n+1)/2+1)/2  ->  (n+3)/4
 * so such a numerator is never negative, and floor is C's division. */
#include "core/dim_table.h"

#include <string.h>

enum {
    MAX_TERMS = 64,
    MAX_WEIGHT = 1000, /* terms and atoms of an expression written out: bounds every walk */
    MAX_EXPRS = 1 << 20,
    MAX_TABLE_ATOMS = 4096, /* they are found by walking */
    MAX_NAME = 100,
    INDEX_BITS = 20,
    CHECK_BITS = 16,
    TAG_BITS = 24,
    TAG = 0x5a5a5a,
    INDEX_AT = TAG_BITS + CHECK_BITS + 1 /* handles of one table differ by 2^40 and more */
};
/* Twice the first one is not yet near INT64_MIN, which is "to the end". */
static const int64_t handle_base = -((int64_t)1 << 62) + ((int64_t)1 << 45);

typedef struct poly { /* an expression in the making */
    int n;
    term t[MAX_TERMS];
} poly;

/* ---- the table ------------------------------------------------------------------------------ */

tpi_dims *tpi_dims_new(tp_ctx *ctx)
{
    tpi_dims *d = tpi_take(&ctx->mem, sizeof *d);
    if (!d)
        return NULL;
    *d = (tpi_dims){.ctx = ctx, .salt = ctx->caller.seq++};
    return d;
}

void tpi_dims_free(tpi_dims *d)
{
    if (!d)
        return;
    tpi_mem *mem = &d->ctx->mem;
    for (int i = 0; i < d->n_atoms; i++)
        tpi_strfree(&d->ctx->mem, d->atoms[i].name);
    for (int i = 0; i < d->n_exprs; i++)
        tpi_give_back(mem, d->exprs[i].terms, (size_t)d->exprs[i].n * sizeof(term));
    tpi_give_back(mem, d->atoms, (size_t)d->atoms_size * sizeof *d->atoms);
    tpi_give_back(mem, d->exprs, (size_t)d->exprs_size * sizeof *d->exprs);
    tpi_give_back(mem, d->slots, (size_t)d->n_slots * sizeof *d->slots);
    tpi_give_back(mem, d->symbols, (size_t)d->symbols_size * sizeof *d->symbols);
    tpi_give_back(mem, d, sizeof *d);
}

/* Room for one more element; the array is a power of two long. */
static bool grow(tpi_dims *d, void *array_ptr, int32_t n, int32_t *size, size_t elem)
{
    void **array = array_ptr;
    if (n < *size)
        return true;
    const int32_t new_size = *size ? *size * 2 : 16;
    void *p = tpi_resize(&d->ctx->mem, *array, (size_t)*size * elem, (size_t)new_size * elem);
    if (!p)
        return false;
    *array = p;
    *size = new_size;
    return true;
}

static uint64_t mix(uint64_t h, uint64_t v)
{
    h ^= v;
    h *= UINT64_C(0x9e3779b97f4a7c15);
    return h ^ (h >> 29);
}

static int64_t handle_of(const tpi_dims *d, int32_t i)
{
    const uint64_t check = mix(mix(d->salt, 0x5a), (uint64_t)i) & ((1u << CHECK_BITS) - 1);
    return handle_base + (int64_t)(((uint64_t)i << INDEX_AT) | (check << TAG_BITS) | TAG);
}

const expr *tpi_dim_expr(const tpi_dims *d, int64_t dim)
{
    if (!d || !tpi_dim_is_symbolic(dim) || dim < handle_base)
        return NULL;
    const uint64_t bits = (uint64_t)(dim - handle_base);
    const uint64_t i = bits >> INDEX_AT;
    if (i >= (uint64_t)d->n_exprs || handle_of(d, (int32_t)i) != dim)
        return NULL;
    return &d->exprs[i];
}

bool tpi_dim_is_size(const tpi_dims *table, int64_t d)
{
    return d >= 0 || tpi_dim_expr(table, d);
}

/* ---- order ---------------------------------------------------------------------------------- */

static int compare_dims(const tpi_dims *d, int64_t a, int64_t b);

static int compare_atoms(const tpi_dims *d, int32_t i, int32_t j)
{
    if (i == j)
        return 0;
    const atom *a = &d->atoms[i], *b = &d->atoms[j];
    if (!a->name != !b->name)
        return a->name ? -1 : 1;
    if (a->name)
        return strcmp(a->name, b->name);
    if (a->least != b->least)
        return a->least ? 1 : -1;
    const int den = compare_dims(d, a->den, b->den);
    return den ? den : compare_dims(d, a->num, b->num);
}

static int compare_products(const tpi_dims *d, const term *a, const term *b)
{
    if (a->n != b->n)
        return a->n > b->n ? -1 : 1;
    for (int i = 0; i < a->n; i++) {
        const int c = compare_atoms(d, a->atom[i], b->atom[i]);
        if (c)
            return c;
    }
    return 0;
}

static int compare_dims(const tpi_dims *d, int64_t a, int64_t b)
{
    if (a == b)
        return 0;
    const expr *x = tpi_dim_expr(d, a), *y = tpi_dim_expr(d, b);
    if (!x && !y)
        return a < b ? -1 : 1;
    if (!x || !y)
        return x ? 1 : -1;
    for (int i = 0; i < x->n && i < y->n; i++) {
        const int c = compare_products(d, &x->terms[i], &y->terms[i]);
        if (c)
            return c;
        if (x->terms[i].coef != y->terms[i].coef)
            return x->terms[i].coef < y->terms[i].coef ? -1 : 1;
    }
    return x->n < y->n ? -1 : 1;
}

/* ---- sums of terms -------------------------------------------------------------------------- */

static bool poly_load(const tpi_dims *d, int64_t dim, poly *p)
{
    if (dim >= 0) {
        p->n = dim > 0;
        p->t[0] = (term){.coef = dim};
        return true;
    }
    const expr *e = tpi_dim_expr(d, dim);
    if (!e)
        return false;
    p->n = e->n;
    memcpy(p->t, e->terms, (size_t)e->n * sizeof(term));
    return true;
}

/* coef * product of the atoms of x and y. */
static bool term_mul(const tpi_dims *d, const term *x, const term *y, term *out)
{
    if (x->n + y->n > MAX_ATOMS || __builtin_mul_overflow(x->coef, y->coef, &out->coef) ||
        out->coef == INT64_MIN)
        return false;
    out->n = x->n + y->n;
    for (int i = 0, j = 0, k = 0; k < out->n; k++) {
        if (j == y->n || (i < x->n && compare_atoms(d, x->atom[i], y->atom[j]) <= 0))
            out->atom[k] = x->atom[i++];
        else
            out->atom[k] = y->atom[j++];
    }
    return true;
}

/* x / y when that is a whole term: y's atoms are among x's, and the coefficients divide. */
static bool term_div(const term *x, const term *y, term *out)
{
    if (x->coef % y->coef)
        return false;
    out->coef = x->coef / y->coef;
    out->n = 0;
    int j = 0;
    for (int i = 0; i < x->n; i++) {
        if (j < y->n && x->atom[i] == y->atom[j])
            j++;
        else
            out->atom[out->n++] = x->atom[i];
    }
    return j == y->n;
}

/* p += k * q, where the terms of k * q keep the order of q's. */
static bool poly_add(const tpi_dims *d, poly *p, const poly *q, const term *k)
{
    poly sum;
    sum.n = 0;
    int i = 0, j = 0;
    term t = {0};
    while (i < p->n || j < q->n) {
        int c = -1;
        if (j < q->n) {
            if (!term_mul(d, &q->t[j], k, &t))
                return false;
            c = i < p->n ? compare_products(d, &p->t[i], &t) : 1;
        }
        if (c < 0) {
            t = p->t[i++];
        } else {
            j++;
            if (c == 0 && (__builtin_add_overflow(p->t[i++].coef, t.coef, &t.coef) ||
                           t.coef == INT64_MIN))
                return false;
        }
        if (!t.coef)
            continue;
        if (sum.n == MAX_TERMS)
            return false;
        sum.t[sum.n++] = t;
    }
    p->n = sum.n;
    memcpy(p->t, sum.t, (size_t)sum.n * sizeof(term));
    return true;
}

static const term one = {.coef = 1}, minus_one = {.coef = -1};

static bool same_terms(const expr *e, const poly *p)
{
    if (e->n != p->n)
        return false;
    for (int i = 0; i < e->n; i++) {
        const term *a = &e->terms[i], *b = &p->t[i];
        if (a->coef != b->coef || a->n != b->n ||
            memcmp(a->atom, b->atom, (size_t)a->n * sizeof a->atom[0]) != 0)
            return false;
    }
    return true;
}

static bool rehash(tpi_dims *d)
{
    if (d->n_exprs * 2 < d->n_slots)
        return true;
    const int32_t n = d->n_slots ? d->n_slots * 2 : 64;
    int32_t *slots = tpi_take(&d->ctx->mem, (size_t)n * sizeof *slots);
    if (!slots)
        return false;
    memset(slots, 0, (size_t)n * sizeof *slots);
    for (int32_t i = 0; i < d->n_exprs; i++) {
        uint64_t s = d->exprs[i].hash;
        while (slots[s & (uint64_t)(n - 1)])
            s++;
        slots[s & (uint64_t)(n - 1)] = i + 1;
    }
    tpi_give_back(&d->ctx->mem, d->slots, (size_t)d->n_slots * sizeof *slots);
    d->slots = slots;
    d->n_slots = n;
    return true;
}

/* The number or handle that a sum is. */
static int64_t intern(tpi_dims *d, const poly *p)
{
    if (p->n == 0)
        return 0;
    if (p->n == 1 && p->t[0].n == 0)
        return p->t[0].coef >= 0 ? p->t[0].coef : TPI_NO_DIM;

    uint64_t hash = 0;
    int weight = 0;
    for (int i = 0; i < p->n; i++) {
        hash = mix(hash, (uint64_t)p->t[i].coef);
        weight++;
        for (int j = 0; j < p->t[i].n; j++) {
            hash = mix(hash, (uint64_t)p->t[i].atom[j] + 1);
            weight += d->atoms[p->t[i].atom[j]].weight;
        }
    }
    if (weight > MAX_WEIGHT || !rehash(d))
        return TPI_NO_DIM;
    const uint64_t mask = (uint64_t)d->n_slots - 1;
    uint64_t s = hash;
    for (int32_t e; (e = d->slots[s & mask]) != 0; s++) {
        if (d->exprs[e - 1].hash == hash && same_terms(&d->exprs[e - 1], p))
            return handle_of(d, e - 1);
    }

    if (d->n_exprs == MAX_EXPRS ||
        !grow(d, &d->exprs, d->n_exprs, &d->exprs_size, sizeof *d->exprs))
        return TPI_NO_DIM;
    term *terms = tpi_take(&d->ctx->mem, (size_t)p->n * sizeof(term));
    if (!terms)
        return TPI_NO_DIM;
    memcpy(terms, p->t, (size_t)p->n * sizeof(term));
    d->exprs[d->n_exprs] = (expr){.hash = hash, .n = p->n, .weight = weight, .terms = terms};
    d->slots[s & mask] = d->n_exprs + 1;
    return handle_of(d, d->n_exprs++);
}

static int64_t intern_atom(tpi_dims *d, int32_t a)
{
    const poly p = {.n = 1, .t = {{.coef = 1, .n = 1, .atom = {a}}}};
    return intern(d, &p);
}

/* ---- symbols -------------------------------------------------------------------------------- */

int64_t tpi_dim_symbol_of(tpi_dims *d, const char *name, size_t len)
{
    if (!d || len == 0 || len > MAX_NAME)
        return TPI_NO_DIM;
    for (int i = 0; i < d->n_symbols; i++) {
        const char *known = d->atoms[d->symbols[i]].name;
        if (strncmp(known, name, len) == 0 && !known[len])
            return intern_atom(d, d->symbols[i]);
    }
    if (d->n_atoms == MAX_TABLE_ATOMS ||
        !grow(d, &d->atoms, d->n_atoms, &d->atoms_size, sizeof *d->atoms) ||
        !grow(d, &d->symbols, d->n_symbols, &d->symbols_size, sizeof *d->symbols))
        return TPI_NO_DIM;
    char copy[MAX_NAME + 1];
    memcpy(copy, name, len);
    copy[len] = 0;
    char *kept = tpi_strdup(&d->ctx->mem, copy);
    if (!kept)
        return TPI_NO_DIM;
    d->atoms[d->n_atoms] = (atom){.name = kept, .symbol = d->n_symbols, .weight = 1};
    d->symbols[d->n_symbols++] = d->n_atoms++;
    d->ctx->has_symbols = true;
    return intern_atom(d, d->n_atoms - 1);
}

int64_t tpi_dim_symbol(tpi_dims *table, const char *name)
{
    if (!name)
        return TPI_NO_DIM;
    const size_t len = strlen(name);
    return tpi_dim_name_length(name, name + len) == len ? tpi_dim_symbol_of(table, name, len)
                                                        : TPI_NO_DIM;
}

int tpi_dim_n_symbols(const tpi_dims *table)
{
    return table ? table->n_symbols : 0;
}

const char *tpi_dim_symbol_name(const tpi_dims *table, int i)
{
    return table->atoms[table->symbols[i]].name;
}

bool tpi_dim_as_symbol(const tpi_dims *table, int64_t d, int *i)
{
    const expr *e = tpi_dim_expr(table, d);
    if (!e || e->n != 1 || e->terms[0].coef != 1 || e->terms[0].n != 1)
        return false;
    const atom *a = &table->atoms[e->terms[0].atom[0]];
    if (!a->name)
        return false;
    *i = a->symbol;
    return true;
}

int64_t tpi_dim_factor(const tpi_dims *table, int64_t d)
{
    const expr *e = tpi_dim_expr(table, d);
    return e && e->n == 1 ? e->terms[0].coef : 0;
}

int tpi_dim_weight(const tpi_dims *table, int64_t d)
{
    const expr *e = tpi_dim_expr(table, d);
    return e ? e->weight : 0;
}

/* ---- arithmetic ----------------------------------------------------------------------------- */

static int64_t add_scaled(tpi_dims *table, int64_t a, int64_t b, const term *k)
{
    poly p, q;
    if (!poly_load(table, a, &p) || !poly_load(table, b, &q) || !poly_add(table, &p, &q, k))
        return TPI_NO_DIM;
    return intern(table, &p);
}

int64_t tpi_dim_add(tpi_dims *table, int64_t a, int64_t b)
{
    if (a >= 0 && b >= 0) {
        int64_t sum;
        return __builtin_add_overflow(a, b, &sum) ? TPI_NO_DIM : sum;
    }
    return add_scaled(table, a, b, &one);
}

int64_t tpi_dim_sub(tpi_dims *table, int64_t a, int64_t b)
{
    if (a >= 0 && b >= 0)
        return a >= b ? a - b : TPI_NO_DIM;
    const int64_t left = add_scaled(table, a, b, &minus_one);
    if (table && table->note && tpi_dim_is_symbolic(left))
        table->note(table->note_user, left);
    return left;
}

void tpi_dim_watch(tpi_dims *table, void (*note)(void *user, int64_t d), void *user)
{
    table->note = note;
    table->note_user = user;
}

int64_t tpi_dim_mul(tpi_dims *table, int64_t a, int64_t b)
{
    if (a >= 0 && b >= 0) {
        int64_t product;
        return __builtin_mul_overflow(a, b, &product) ? TPI_NO_DIM : product;
    }
    poly p, q, sum;
    if (!poly_load(table, a, &p) || !poly_load(table, b, &q))
        return TPI_NO_DIM;
    sum.n = 0;
    for (int i = 0; i < p.n; i++) {
        if (!poly_add(table, &sum, &q, &p.t[i]))
            return TPI_NO_DIM;
    }
    return intern(table, &sum);
}

/* A division, or a minimum, as an atom. */
static int64_t opaque(tpi_dims *d, int64_t num, int64_t den, bool least)
{
    for (int32_t i = 0; i < d->n_atoms; i++) {
        const atom *a = &d->atoms[i];
        if (!a->name && a->num == num && a->den == den && a->least == least)
            return intern_atom(d, i);
    }
    const expr *n = tpi_dim_expr(d, num), *m = tpi_dim_expr(d, den);
    const int weight = 1 + (n ? n->weight : 1) + (m ? m->weight : 1);
    if (weight > MAX_WEIGHT || d->n_atoms == MAX_TABLE_ATOMS ||
        !grow(d, &d->atoms, d->n_atoms, &d->atoms_size, sizeof *d->atoms))
        return TPI_NO_DIM;
    d->atoms[d->n_atoms] =
        (atom){.symbol = -1, .weight = weight, .num = num, .den = den, .least = least};
    return intern_atom(d, d->n_atoms++);
}

static int64_t opaque_div(tpi_dims *d, int64_t num, int64_t den)
{
    return num == 0 ? 0 : opaque(d, num, den, false);
}

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

static int64_t gcd(int64_t a, int64_t b)
{
    while (b) {
        const int64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

/* p / den, den > 1: what comes out even goes to `whole`. */
static int64_t div_by_number(tpi_dims *d, const poly *p, int64_t den)
{
    poly whole, rest;
    whole.n = rest.n = 0;
    int64_t g = den, constant = 0;
    for (int i = 0; i < p->n; i++) {
        term t = p->t[i];
        const int64_t quotient = floor_div(t.coef, den);
        const int64_t left = t.coef - quotient * den;
        if (quotient) {
            whole.t[whole.n] = t;
            whole.t[whole.n++].coef = quotient;
        }
        if (t.n == 0) {
            constant = left;
        } else if (left) {
            g = gcd(g, left);
            rest.t[rest.n] = t;
            rest.t[rest.n++].coef = left;
        }
    }
    if (rest.n == 0) /* constant < den */
        return intern(d, &whole);

    for (int i = 0; i < rest.n; i++)
        rest.t[i].coef /= g;
    constant /= g;
    den /= g;
    const term *t = &rest.t[0];
    const atom *inner = &d->atoms[t->atom[0]];
    int64_t shift, both, fraction;
    if (rest.n == 1 && t->n == 1 && t->coef == 1 && !inner->name && !inner->least &&
        inner->den >= 0 && !__builtin_mul_overflow(constant, inner->den, &shift) &&
        !__builtin_mul_overflow(den, inner->den, &both)) {
        fraction = tpi_dim_div(d, tpi_dim_add(d, inner->num, shift), both);
    } else {
        if (constant) {
            if (rest.n == MAX_TERMS)
                return TPI_NO_DIM;
            rest.t[rest.n++] = (term){.coef = constant};
        }
        const int64_t num = intern(d, &rest);
        fraction = num == TPI_NO_DIM ? TPI_NO_DIM : opaque_div(d, num, den);
    }
    poly q;
    if (!poly_load(d, fraction, &q) || !poly_add(d, &whole, &q, &one))
        return TPI_NO_DIM;
    return intern(d, &whole);
}

/* p / q when q is one term: the terms of p that it divides come out. */
static int64_t div_by_term(tpi_dims *d, const poly *p, const poly *q, int64_t den)
{
    poly whole, rest;
    whole.n = rest.n = 0;
    for (int i = 0; i < p->n; i++) {
        if (term_div(&p->t[i], &q->t[0], &whole.t[whole.n]))
            whole.n++;
        else if (p->t[i].coef > 0)
            rest.t[rest.n++] = p->t[i];
        else /* what is left could be negative where p is not */
            return opaque_div(d, intern(d, p), den);
    }
    if (rest.n == 0)
        return intern(d, &whole);
    const int64_t num = intern(d, &rest);
    const int64_t fraction = num == TPI_NO_DIM ? TPI_NO_DIM : opaque_div(d, num, den);
    poly f;
    if (!poly_load(d, fraction, &f) || !poly_add(d, &whole, &f, &one))
        return TPI_NO_DIM;
    return intern(d, &whole);
}

/* p / q by long division; false unless it comes out even. */
static bool div_exactly(tpi_dims *d, const poly *p, const poly *q, poly *quotient)
{
    poly rest;
    rest.n = p->n;
    memcpy(rest.t, p->t, (size_t)p->n * sizeof(term));
    quotient->n = 0;
    while (rest.n) {
        term t;
        if (quotient->n == MAX_TERMS || !term_div(&rest.t[0], &q->t[0], &t))
            return false;
        quotient->t[quotient->n++] = t;
        t.coef = -t.coef;
        if (!poly_add(d, &rest, q, &t))
            return false;
    }
    return true;
}

int64_t tpi_dim_div(tpi_dims *table, int64_t a, int64_t b)
{
    if (b == 0 || a == TPI_NO_DIM)
        return TPI_NO_DIM;
    if (a >= 0 && b >= 0)
        return a / b;
    poly p, q, quotient;
    if (!poly_load(table, a, &p) || !poly_load(table, b, &q))
        return TPI_NO_DIM;
    if (b == 1)
        return a;
    if (b > 0)
        return div_by_number(table, &p, b);
    if (q.n == 1)
        return div_by_term(table, &p, &q, b);
    if (div_exactly(table, &p, &q, &quotient))
        return intern(table, &quotient);
    return opaque_div(table, a, b);
}

/* Then nothing of b - a is negative. */
/* A division in t that is multiplied by its divisor: t is *k times *num if it comes out even. */
static bool find_even(const tpi_dims *d, const term *t, term *k, int64_t *num)
{
    for (int j = 0; j < t->n; j++) {
        const atom *a = &d->atoms[t->atom[j]];
        if (a->name || a->least)
            continue;
        const expr *by = tpi_dim_expr(d, a->den);
        if (by && by->n != 1)
            continue;
        const term divisor = by ? by->terms[0] : (term){.coef = a->den};
        term rest = *t;
        rest.n--;
        memmove(rest.atom + j, rest.atom + j + 1, (size_t)(rest.n - j) * sizeof *rest.atom);
        *num = a->num;
        if (term_div(&rest, &divisor, k))
            return true;
    }
    return false;
}

int64_t tpi_dim_even(tpi_dims *table, int64_t d)
{
    poly p, q, sum;
    bool more = true;
    for (int i = 0; i < MAX_ATOMS && more && tpi_dim_is_symbolic(d); i++) {
        more = false;
        sum.n = 0;
        bool ok = poly_load(table, d, &p);
        for (int t = 0; ok && t < p.n; t++) {
            term k = one;
            int64_t num;
            if (find_even(table, &p.t[t], &k, &num)) {
                more = true;
                ok = poly_load(table, num, &q);
            } else {
                k = one;
                q.n = 1;
                q.t[0] = p.t[t];
            }
            ok = ok && poly_add(table, &sum, &q, &k);
        }
        d = ok ? intern(table, &sum) : TPI_NO_DIM;
    }
    return d;
}

bool tpi_dim_at_most(const tpi_dims *table, int64_t a, int64_t b)
{
    poly p, q;
    if (!poly_load(table, b, &p) || !poly_load(table, a, &q) ||
        !poly_add(table, &p, &q, &minus_one))
        return false;
    for (int i = 0; i < p.n; i++)
        if (p.t[i].coef < 0)
            return false;
    return true;
}

/* An expression that is nothing but a minimum, as such; else NULL. */
static const atom *lone_minimum(const tpi_dims *d, int64_t dim)
{
    const expr *e = tpi_dim_expr(d, dim);
    if (!e || e->n != 1 || e->terms[0].coef != 1 || e->terms[0].n != 1)
        return NULL;
    const atom *a = &d->atoms[e->terms[0].atom[0]];
    return a->least ? a : NULL;
}

int64_t tpi_dim_min(tpi_dims *table, int64_t a, int64_t b)
{
    if (a == TPI_NO_DIM || b == TPI_NO_DIM)
        return TPI_NO_DIM;
    if (a >= 0 && b >= 0)
        return a < b ? a : b;
    if (!tpi_dim_is_size(table, a) || !tpi_dim_is_size(table, b))
        return TPI_NO_DIM;
    if (tpi_dim_at_most(table, a, b))
        return a;
    if (tpi_dim_at_most(table, b, a))
        return b;
    const bool turned = a >= 0 || (b < 0 && compare_dims(table, a, b) > 0);
    const int64_t first = turned ? b : a, second = turned ? a : b;
    const atom *inner = lone_minimum(table, first);
    if (second >= 0 && inner && inner->den >= 0)
        return tpi_dim_min(table, inner->num, inner->den < second ? inner->den : second);
    return opaque(table, first, second, true);
}

/* ---- values --------------------------------------------------------------------------------- */

/* The value may be negative. */
static bool eval(const tpi_dims *d, int64_t dim, const int64_t *symbols, int64_t *out)
{
    if (dim >= 0) {
        *out = dim;
        return true;
    }
    const expr *e = tpi_dim_expr(d, dim);
    if (!e)
        return false;
    int64_t sum = 0;
    for (int i = 0; i < e->n; i++) {
        int64_t product = e->terms[i].coef;
        for (int j = 0; j < e->terms[i].n; j++) {
            const atom *a = &d->atoms[e->terms[i].atom[j]];
            int64_t v;
            if (a->name) {
                v = symbols[a->symbol];
                if (v < 0)
                    return false;
            } else {
                int64_t num, den;
                if (!eval(d, a->num, symbols, &num) || !eval(d, a->den, symbols, &den) ||
                    num < 0 || den < 0 || (den == 0 && !a->least))
                    return false;
                v = !a->least ? num / den : num < den ? num : den;
            }
            if (__builtin_mul_overflow(product, v, &product))
                return false;
        }
        if (__builtin_add_overflow(sum, product, &sum))
            return false;
    }
    *out = sum;
    return true;
}

int64_t tpi_dim_eval(const tpi_dims *table, int64_t d, const int64_t *symbols)
{
    int64_t v;
    return eval(table, d, symbols, &v) && v >= 0 ? v : TPI_NO_DIM;
}

int64_t tpi_dim_eval_stride(const tpi_dims *table, int64_t d, const int64_t *symbols)
{
    int64_t v;
    if (!tpi_dim_is_symbolic(d))
        return d;
    return eval(table, d, symbols, &v) ? v : TPI_NO_DIM;
}

/* ---- steps ---------------------------------------------------------------------------------- */

static int build_term(const tpi_dims *d, const term *t, const tpi_dim_steps *steps, void *user)
{
    const int64_t size = t->coef < 0 ? -t->coef : t->coef;
    int product = -1;
    for (int i = 0; i < t->n; i++) {
        const atom *a = &d->atoms[t->atom[i]];
        int factor;
        if (a->name) {
            factor = steps->symbol(user, a->symbol);
        } else {
            const int num = tpi_dim_build(d, a->num, steps, user);
            factor = steps->apply(user, a->least ? '<' : '/', num,
                                  tpi_dim_build(d, a->den, steps, user));
        }
        product = i ? steps->apply(user, '*', product, factor) : factor;
    }
    if (t->n == 0)
        return steps->number(user, size);
    return size == 1 ? product : steps->apply(user, '*', product, steps->number(user, size));
}

int tpi_dim_build(const tpi_dims *table, int64_t d, const tpi_dim_steps *steps, void *user)
{
    const expr *e = tpi_dim_expr(table, d);
    if (!e)
        return steps->number(user, d);
    int sum = -1;
    for (int pass = 0; pass < 2; pass++) /* what is added first, so that a sum begins with it */
        for (int i = 0; i < e->n; i++) {
            const bool minus = e->terms[i].coef < 0;
            if (minus != (pass == 1))
                continue;
            const int term_value = build_term(table, &e->terms[i], steps, user);
            if (sum < 0 && minus)
                sum = steps->number(user, 0);
            sum = sum < 0 ? term_value : steps->apply(user, minus ? '-' : '+', sum, term_value);
        }
    return sum;
}

typedef struct asking {
    int (*of)(void *user, int symbol);
    void *user;
} asking;

static int ask_number(void *user, int64_t n)
{
    (void)user, (void)n;
    return 0;
}

static int ask_symbol(void *user, int i)
{
    const asking *a = user;
    return a->of(a->user, i);
}

static int first_said(void *user, char op, int a, int b)
{
    (void)user, (void)op;
    return a ? a : b;
}

int tpi_dim_ask(const tpi_dims *table, int64_t d, int (*of)(void *user, int symbol), void *user)
{
    static const tpi_dim_steps steps = {ask_number, ask_symbol, first_said};
    asking a = {of, user};
    return tpi_dim_is_symbolic(d) ? tpi_dim_build(table, d, &steps, &a) : 0;
}

/* ---- other tables --------------------------------------------------------------------------- */

static int64_t import_atom(tpi_dims *to, const tpi_dims *from, const atom *a)
{
    if (a->name)
        return tpi_dim_symbol(to, a->name);
    const int64_t num = tpi_dim_import(to, from, a->num),
                  den = tpi_dim_import(to, from, a->den);
    return a->least ? tpi_dim_min(to, num, den) : tpi_dim_div(to, num, den);
}

int64_t tpi_dim_import(tpi_dims *to, const tpi_dims *from, int64_t d)
{
    if (d >= 0 || to == from)
        return tpi_dim_is_size(to, d) ? d : TPI_NO_DIM;
    const expr *e = tpi_dim_expr(from, d);
    if (!e)
        return TPI_NO_DIM;
    int64_t sums[2] = {0, 0};
    for (int i = 0; i < e->n; i++) {
        const term *t = &e->terms[i];
        int64_t product = t->coef < 0 ? -t->coef : t->coef;
        for (int j = 0; j < t->n; j++) {
            const atom *a = &from->atoms[t->atom[j]];
            product = tpi_dim_mul(to, product, import_atom(to, from, a));
        }
        sums[t->coef < 0] = tpi_dim_add(to, sums[t->coef < 0], product);
    }
    return tpi_dim_sub(to, sums[0], sums[1]);
}
