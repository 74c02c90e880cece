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
    tp_ctx *ctx = plan->graph->ctx;
    char why[TPI_LOOP_WHY];
    tpi_loop l;
    if (plan->kernels[i].kind != TPI_KERNEL_LOOP)
        return true;
    tpi_bump room = TPI_BUMP(&ctx->mem);
    bool good = tpi_lower_nest(&room, plan, &plan->kernels[i], NULL, NULL, &l);
    if (good) {
        const int bad = tpi_loop_verify(ctx, &l, why);
        good = bad < 0 || says_bad(ctx, &l, plan->first_kernel + i, bad, why);
    } else {
        tpi_no_memory(ctx, TPI_AT(NULL, 0), "compile");
    }
    tpi_bump_free(&room);
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
