/* The kernel text that a program is made with. */
#include "base/squeeze.h"
#include "kernel/kernel_text.h"
#include "render/render.h"

#include <string.h>

typedef struct text {
    const unsigned char *text; /* squeezed */
    unsigned needs;            /* texts before it */
    const char *before, *after;
} text;

#define NEEDS(id) (1u << TPI_TEXT_##id)
#define TEXT(id, name, ...) [TPI_TEXT_##id] = {tpi_text_##name, __VA_ARGS__}
#define BITS(n) "#define TPK_BITS " #n "\n", "#undef TPK_BITS\n"

/* A loop over elements stays one over numbers, however much text there is: gcc stops inlining in
 * large units. */
#define SCALARS                                                                                \
    "#pragma push_macro(\"TPK_INLINE\")\n#undef TPK_INLINE\n"                                  \
    "#define TPK_INLINE static inline __attribute__((unused, always_inline))\n",               \
        "#pragma pop_macro(\"TPK_INLINE\")\n"

static const text texts[] = {
    TEXT(target, target, 0, "", ""),
    TEXT(rounding, rounding, NEEDS(target), "", ""),
    TEXT(math_f32, math_f32, NEEDS(target), SCALARS),
    TEXT(math_f64, math_f64, NEEDS(math_f32), SCALARS),
    TEXT(elem, elem, NEEDS(math_f32) | NEEDS(math_f64), SCALARS),
    TEXT(reduce, reduce, NEEDS(elem), "", ""),
    TEXT(reduce_int, reduce_int, NEEDS(reduce), "", ""),
    TEXT(view, view, NEEDS(target), "", ""),
    TEXT(library, library, NEEDS(view), "", ""),
    TEXT(vec, vec, NEEDS(target), "", ""),
    TEXT(philox, philox, NEEDS(elem), "", ""),
    TEXT(convspec, convspec, NEEDS(vec) | NEEDS(view), "", ""),
    TEXT(gemm_32, gemm, NEEDS(vec), BITS(32)),
    TEXT(gemm_64, gemm, NEEDS(vec), BITS(64)),
    TEXT(stencil_32, stencil, NEEDS(gemm_32) | NEEDS(convspec), BITS(32)),
    TEXT(stencil_64, stencil, NEEDS(gemm_64) | NEEDS(convspec), BITS(64)),
    TEXT(convout_32, convout, NEEDS(gemm_32) | NEEDS(convspec), BITS(32)),
    TEXT(convout_64, convout, NEEDS(gemm_64) | NEEDS(convspec), BITS(64)),
    TEXT(convblocks_32, convblocks, NEEDS(gemm_32) | NEEDS(convspec), BITS(32)),
    TEXT(conv_32, conv, NEEDS(stencil_32) | NEEDS(convout_32) | NEEDS(convblocks_32), BITS(32)),
    TEXT(conv_64, conv, NEEDS(stencil_64) | NEEDS(convout_64), BITS(64)),
    TEXT(convtaps_32, convtaps, NEEDS(conv_32), BITS(32)),
    TEXT(convdw_32, convdw, NEEDS(convtaps_32), BITS(32)),
    TEXT(convdw_64, convdw, NEEDS(conv_64), BITS(64)),
    TEXT(winograd_32, winograd, NEEDS(convtaps_32), BITS(32)),
};
enum { N_TEXTS = sizeof texts / sizeof *texts };

/* Texts that are pasted once per element type, with T, S and FN defined. */
static const struct {
    const char *name;
    const unsigned char *text;
    unsigned needs;
    const char *behind; /* a template before this one, of the same type; NULL: none */
} templates[] = {
#define TEMPLATE(name, needs, behind)                                                          \
    {                                                                                          \
#name, tpi_text_##name, needs, behind                                                  \
    }
    TEMPLATE(arg, NEEDS(view) | NEEDS(elem) | NEEDS(vec), NULL),
    TEMPLATE(sort, NEEDS(view) | NEEDS(elem) | NEEDS(vec), NULL),
    TEMPLATE(cumulative, NEEDS(view) | NEEDS(elem) | NEEDS(vec), NULL),
    TEMPLATE(index, NEEDS(view) | NEEDS(elem) | NEEDS(vec), NULL),
    TEMPLATE(move, NEEDS(view) | NEEDS(elem) | NEEDS(vec), NULL),
    TEMPLATE(addrows, NEEDS(view) | NEEDS(elem) | NEEDS(vec), NULL),
    TEMPLATE(products, NEEDS(view), NULL),
    TEMPLATE(matrix, NEEDS(view) | NEEDS(elem) | NEEDS(vec), NULL),
    TEMPLATE(orthogonal, NEEDS(view) | NEEDS(elem) | NEEDS(vec), "matrix"),
    TEMPLATE(fourier, NEEDS(view) | NEEDS(elem) | NEEDS(vec), NULL),
    TEMPLATE(pooling, NEEDS(view) | NEEDS(elem) | NEEDS(vec), NULL),
    TEMPLATE(draws, NEEDS(view) | NEEDS(philox) | NEEDS(vec), NULL),
    TEMPLATE(gamma, NEEDS(view) | NEEDS(philox) | NEEDS(vec), NULL),
};
enum { N_TEMPLATES = sizeof templates / sizeof *templates };

int tpi_template_index(const char *name)
{
    for (int i = 0; i < N_TEMPLATES; i++)
        if (strcmp(templates[i].name, name) == 0)
            return i;
    return -1;
}

static void put_text(tpi_str *out, const unsigned char *from)
{
    char *const room = tpi_str_room(out, tpi_squeezed_size(from));
    if (room)
        tpi_unsqueeze(&tpi_text_codes, from, room);
}

void tpi_render_texts(tpi_render *r, tpi_str *out)
{
    for (int i = 0; i < N_TEMPLATES; i++)
        if (r->instances[i]) {
            r->texts |= templates[i].needs;
            if (templates[i].behind)
                r->instances[tpi_template_index(templates[i].behind)] |= r->instances[i];
        }
    for (int i = N_TEXTS - 1; i >= 0; i--)
        r->texts |= (r->texts >> i) & 1 ? texts[i].needs : 0;
    for (int i = 0; i < N_TEXTS; i++)
        if ((r->texts >> i) & 1) {
            tpi_str_put(out, texts[i].before);
            put_text(out, texts[i].text);
            tpi_str_put(out, texts[i].after);
        }
    tpi_str_put(out, "#define FN(name) TPK_CAT(tpk_##name##_, S)\n");
    for (int i = 0; i < N_TEMPLATES; i++)
        for (int t = 0; t < TP_N_DTYPES; t++)
            if ((r->instances[i] >> t) & 1) {
                const char *name = tp_dtype_name((tp_dtype)t);
                tpi_str_printf(out, "#define T tpk_%s\n#define S %s\n", name, name);
                put_text(out, templates[i].text);
                tpi_str_put(out, "#undef T\n#undef S\n");
            }
}
