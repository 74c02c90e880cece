#include "lower/loop_text.h"
#include "lower/loop_verify.h"
#include "lower/nest.h"

static bool says_bad(tp_ctx *ctx, const tpi_loop *l, int kernel, int statement, const char *why)
{
    tpi_str s = TPI_STR(&ctx->mem);
    tpi_loop_print(l, 2, &s);
    tpi_fail_status(ctx, TPI_AT(NULL, 0), "compile", TP_E_BUG,
                    "loop program of k%d: statement %d: %s\n%s", kernel, statement, why,
                    s.failed ? "" : s.text);
    tpi_str_free(&s);
    return false;
}

static bool is_good(const tpi_plan *plan, int i)
{
    char why[TPI_LOOP_WHY];
    tpi_loop l;
    if (plan->kernels[i].kind != TPI_KERNEL_LOOP)
        return true;
    if (!tpi_lower_nest(plan, &plan->kernels[i], NULL, NULL, &l)) {
        tpi_no_memory(plan->graph->ctx, TPI_AT(NULL, 0), "compile");
        return false;
    }
    const int bad = tpi_loop_verify(plan->graph->ctx, &l, why);
    const bool good =
        bad < 0 || says_bad(plan->graph->ctx, &l, plan->first_kernel + i, bad, why);
    tpi_loop_free(&l);
    return good;
}

bool tpi_verify_nests(const tpi_plan *plan)
{
    bool good = true;
    for (int i = 0; i < plan->n_kernels && good; i++) {
        const tpi_section *s = plan->sections ? plan->sections[plan->kernels[i].root] : NULL;
        good = is_good(plan, i);
        for (int k = 0; s && k < s->n_bodies && good; k++)
            good = tpi_verify_nests(s->plan[k]);
    }
    return good;
}
