/* The text of an equation: "ij,jk->ik", "...ij->...ji", "bi,bi". */
#include "composite/einsum.h"

#include <string.h>

enum { FIRST_DOT = 52, N_LABELS = FIRST_DOT + TP_MAX_RANK };

typedef struct reader {
    const char *at;
    const char *why;
    int n_dots; /* of the longest ellipsis so far */
} reader;

static bool refuse(reader *r, const char *why)
{
    r->why = why;
    return false;
}

static int label_of(char c)
{
    return c >= 'a' && c <= 'z' ? c - 'a' + 26 : c >= 'A' && c <= 'Z' ? c - 'A' : -1;
}

static bool ends_term(char c)
{
    return c == '\0' || c == ',' || c == '-';
}

static int letters_of(const char *at)
{
    int n = 0;
    for (; !ends_term(*at); at++)
        n += label_of(*at) >= 0;
    return n;
}

/* `many` labels that count down from `label`. */
static bool add_labels(reader *r, tpi_labels *t, int label, int many)
{
    if (t->n + many > TP_MAX_RANK)
        return refuse(r, "a term has too many axes");
    for (int k = 0; k < many; k++)
        t->of[t->n++] = (char)(label - k);
    return true;
}

/* `rank`: of the operand; below 0: the result's term, whose ellipsis is the longest of the operands'. */
static bool read_term(reader *r, int rank, tpi_labels *t)
{
    const int rest = rank - letters_of(r->at);
    bool dots = false;
    t->n = 0;
    for (; !ends_term(*r->at); r->at++) {
        const int label = label_of(*r->at);
        if (*r->at == ' ')
            continue;
        if (label >= 0) {
            if (!add_labels(r, t, label, 1))
                return false;
            continue;
        }
        if (dots || strncmp(r->at, "...", 3) != 0)
            return refuse(r, "the equation has a character that is no label");
        const int many = rank < 0 ? r->n_dots : rest;
        if (many < 0)
            return refuse(r, "the equation does not fit an operand");
        if (!add_labels(r, t, FIRST_DOT + many - 1, many))
            return false;
        r->n_dots = many > r->n_dots ? many : r->n_dots;
        dots = true;
        r->at += 2;
    }
    return rank < 0 || t->n == rank || refuse(r, "the equation does not fit an operand");
}

static void count_labels(const tpi_einsum *e, int n, int *seen)
{
    for (int i = 0; i < n; i++)
        for (int k = 0; k < e->in[i].n; k++)
            seen[(int)e->in[i].of[k]]++;
}

/* Without an arrow: what an ellipsis stands for, then the labels that occur once. */
static bool implied_result(reader *r, tpi_einsum *e, const int *seen)
{
    bool fits = add_labels(r, &e->out, FIRST_DOT + r->n_dots - 1, r->n_dots);
    for (int k = 0; k < FIRST_DOT && fits; k++)
        fits = seen[k] != 1 || add_labels(r, &e->out, k, 1);
    return fits;
}

static bool check_result(reader *r, const tpi_einsum *e, int *seen)
{
    for (int k = 0; k < e->out.n; k++) {
        int *of = &seen[(int)e->out.of[k]];
        if (*of == 0)
            return refuse(r, "the result has a label that no operand has, or one twice");
        *of = 0;
    }
    return true;
}

static bool read_all(reader *r, tpi_einsum *e, int n, tp_tensor *const *xs)
{
    int seen[N_LABELS] = {0};
    for (int i = 0; i < n; i++) {
        if (!read_term(r, xs[i]->rank, &e->in[i]))
            return false;
        if (i < n - 1 && *r->at++ != ',')
            return refuse(r, "the equation has fewer terms than there are operands");
    }
    if (*r->at == ',')
        return refuse(r, "the equation has more terms than there are operands");
    count_labels(e, n, seen);
    if (*r->at == '\0')
        return implied_result(r, e, seen);
    if (r->at[1] != '>')
        return refuse(r, "the equation has no arrow where one begins");
    r->at += 2;
    if (!read_term(r, -1, &e->out))
        return false;
    return *r->at ? refuse(r, "the equation goes on behind the result")
                  : check_result(r, e, seen);
}

bool tpi_einsum_read(tpi_einsum *e, const char *equation, int n, tp_tensor *const *xs)
{
    reader r = {.at = equation};
    *e = (tpi_einsum){.out = {0}};
    const bool good = read_all(&r, e, n, xs);
    e->why = r.why;
    return good;
}
