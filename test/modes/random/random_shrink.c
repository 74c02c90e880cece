#include "random_program.h"

#include <string.h>

typedef struct shrink {
    bool (*wrong)(void *user, const program *p);
    void *user;
    int tries; /* that are left: each may run a compiler */
} shrink;

/* Takes `t` for the program when it is still wrong. */
static bool take(shrink *s, program *p, program t)
{
    program_trim(&t);
    if (s->tries <= 0)
        return false;
    s->tries--;
    if (!s->wrong(s->user, &t))
        return false;
    *p = t;
    return true;
}

static void fewer_results(shrink *s, program *p)
{
    while (p->order > 0) {
        program t = *p;
        t.order--;
        if (!take(s, p, t))
            break;
    }
    for (int i = 0; i < p->n_wanted && p->n_wanted > 1; i++) {
        program t = *p;
        t.n_wanted = 1;
        t.wanted[0] = p->wanted[i];
        if (take(s, p, t))
            return;
    }
}

/* The result is a value before it. */
static void earlier_result(shrink *s, program *p)
{
    for (int k = 0; k < p->n_steps - 1 && p->n_wanted == 1; k++) {
        program t = *p;
        t.wanted[0] = p->n_inputs + k;
        if (t.wanted[0] != p->wanted[0] && take(s, p, t))
            return;
    }
}

/* Who reads step k reads one of its operands instead. */
static program without(const program *p, int k, int operand)
{
    program t = *p;
    const step *gone = &p->steps[k];
    const int was = p->n_inputs + k, now = operand == 0   ? gone->a
                                           : operand == 1 ? gone->b
                                                          : gone->c;
    for (int i = k + 1; i < p->n_steps; i++) {
        step *x = &t.steps[i];
        x->a = x->a == was ? now : x->a;
        x->b = x->b == was ? now : x->b;
        x->c = x->c == was ? now : x->c;
    }
    for (int i = 0; i < t.n_wanted; i++)
        t.wanted[i] = t.wanted[i] == was ? now : t.wanted[i];
    return t;
}

static bool fewer_steps(shrink *s, program *p)
{
    bool any = false;
    for (int k = p->n_steps - 1; k >= 0; k--)
        for (int operand = 0; operand < 3 && k < p->n_steps; operand++)
            if (take(s, p, without(p, k, operand))) {
                any = true;
                break;
            }
    return any;
}

static void smaller_sizes(shrink *s, program *p)
{
    static const int64_t smaller[] = {2, 3, 4, 5};
    for (int i = 0; i < p->n_inputs; i++)
        for (int k = 0; k < p->rank[i]; k++)
            for (size_t n = 0; n < sizeof smaller / sizeof *smaller; n++) {
                const int64_t was = p->shape[i][k];
                if (was <= smaller[n])
                    break;
                program t = *p;
                for (int a = 0; a < p->n_inputs; a++)
                    for (int b = 0; b < p->rank[a]; b++)
                        if (t.shape[a][b] == was)
                            t.shape[a][b] = smaller[n];
                if (take(s, p, t))
                    break;
            }
}

void program_shrink(program *p, bool (*wrong)(void *user, const program *p), void *user)
{
    shrink s = {wrong, user, 300};
    fewer_results(&s, p);
    earlier_result(&s, p);
    while (fewer_steps(&s, p))
        ;
    fewer_results(&s, p);
    smaller_sizes(&s, p);
}
