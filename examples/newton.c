/* Where is a planet? Kepler's equation z - e sin(z) = M gives its angle z from the time M and the
 * eccentricity e of its orbit. Newton's method finds the root of one orbit in a tp_while; tp_vmap runs
 * it on many, of which each stops when its own root is found. The gradient of the roots by M and e
 * goes back through the loop, and is compared with that of the implicit function theorem.
 *
 *     newton [--orbits N]
 *         --check   compares with the same function in a loop over the orbits */
#include "dice.h"
#include "sample_loop.h"

#include <math.h>
#include <stdio.h>

enum { CLASSES = 5, MOST_TURNS = 100 };

static const double close_enough = 1e-13;

static tp_tensor *kepler(tp_tensor *z, tp_tensor *m, tp_tensor *e)
{
    return tp_sub(tp_sub(z, tp_mul(e, tp_sin(z))), m);
}

/* M [], e [] -> the root [], the number of turns []. */
static void newton(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)user, (void)n_in, (void)n_out;
    tp_tensor *m = in[0], *e = in[1];
    tp_tensor *z = tp_scalar_like(m, acos(-1)); /* from where it finds every root */
    tp_tensor *wrong = kepler(z, m, e), *turns = tp_scalar_like(m, 0);
    tp_while (tp_gt(tp_abs(wrong), close_enough), &z, &wrong, &turns) {
        tp_tensor *slope = tp_sub(1, tp_mul(e, tp_cos(z)));
        z = tp_sub(z, tp_div(wrong, slope));
        wrong = kepler(z, m, e);
        turns = tp_add(turns, 1);
    }
    out[0] = z;
    out[1] = turns;
}

/* At the root (1 - e cos z) dz = dM + sin(z) de. */
static void implicit(tp_tensor *z, tp_tensor *e, tp_tensor **dz)
{
    tp_tensor *slope = tp_sub(1, tp_mul(e, tp_cos(z)));
    dz[0] = tp_div(1, slope);
    dz[1] = tp_div(tp_sin(z), slope);
}

/* Orbits with M from 0 to pi and e from 0 to 0.99. */
static void draw(tp_ctx *tp, int64_t n, tp_tensor **in)
{
    double *v[2] = {tp_alloc(tp, (size_t)n * sizeof **v), tp_alloc(tp, (size_t)n * sizeof **v)};
    uint64_t state = 1;
    for (int64_t i = 0; i < n && v[0] && v[1]; i++) {
        v[0][i] = dice_between(&state, 0, acos(-1));
        v[1][i] = dice_between(&state, 0, 0.99);
    }
    for (int k = 0; k < 2; k++) {
        in[k] = tp_require_grad(tp_tensor_new(tp, TP_F64, TP_DIMS(n), v[k]));
        tp_free(tp, v[k]);
    }
}

static void show_turns(int64_t n, const double *e, const double *turns)
{
    printf("  eccentricity   orbits   turns: fewest   mean    most\n");
    for (int c = 0; c < CLASSES && e && turns; c++) {
        const double lo = 0.99 * c / CLASSES, hi = 0.99 * (c + 1) / CLASSES;
        double sum = 0, fewest = INFINITY, most = 0;
        int64_t orbits = 0;
        for (int64_t i = 0; i < n; i++) {
            if (e[i] < lo || e[i] >= hi)
                continue;
            orbits++;
            sum += turns[i];
            fewest = fmin(fewest, turns[i]);
            most = fmax(most, turns[i]);
        }
        printf("  %.2f to %.2f   %6lld   %13.0f   %4.1f   %5.0f\n", lo, hi, (long long)orbits,
               fewest, sum / (double)orbits, most);
    }
}

static void show_difference(const char *by, tp_tensor *through, tp_tensor *formula)
{
    tp_tensor *d = tp_div(tp_abs(tp_sub(through, formula)), tp_max(tp_abs(formula), 1));
    printf("  by %s: %.1e\n", by, tp_item(tp_reduce_max(d, TP_ALL, false)));
}

/* The same of the loop over the orbits: roots, turns, gradients. */
static bool check_bits(tp_tensor *const *in)
{
    tp_tensor *together[4], *alone[4];
    tp_vmap(newton, NULL, 2, in, 2, together, NULL);
    tp_grads(together[0], NULL, 2, in, together + 2);
    loop_over_samples(newton, NULL, 2, in, 2, alone);
    tp_grads(alone[0], NULL, 2, in, alone + 2);
    return show_bits_equal(4, together, alone);
}

int main(int argc, char **argv)
{
    bool check;
    int64_t n = 2000;
    const argument arguments[] = {
        {"--orbits", &n}
    };
    if (!read_arguments(argc, argv, 1, arguments, &check, NULL))
        return 2;
    tp_ctx *tp = tp_open(&(tp_options){.max_turns = MOST_TURNS});
    tp_tensor *in[2], *out[2], *through[2], *formula[2], *few[2];
    draw(tp, n, in);
    printf("The angles of %lld orbits by Newton's method, until |z - e sin(z) - M| is at most "
           "%g.\n",
           (long long)n, close_enough);
    tp_vmap(newton, NULL, 2, in, 2, out, NULL);
    show_turns(n, tp_data(in[1]), tp_data(out[1]));

    tp_grads(out[0], NULL, 2, in, through);
    implicit(out[0], in[1], formula);
    printf(
        "The gradient of the angles through the loop differs from the implicit one at most\n");
    show_difference("M", through[0], formula[0]);
    show_difference("e", through[1], formula[1]);

    first_samples(n < 200 ? n : 200, 2, in, few);
    const bool good = !check || check_bits(few);
    return close_and_tell(tp, "newton", good);
}
