/* Includes TPI_TEXT, a file of src/kernel, once per type of number, with T, S and FN as the text
 * expects them; with TPI_TEXT_BOOL defined, for bool too. FN(name) is tpk_name_type. Included
 * once per text: no guard. */
#define FN(name) TPK_CAT(tpk_##name##_, S)
#ifdef TPI_TEXT_BOOL
#pragma push_macro("bool") /* S is the word, not what stdbool.h makes of it */
#undef bool
#define T tpk_bool
#define S bool
#include TPI_TEXT
#undef T
#undef S
#pragma pop_macro("bool")
#endif
#define T tpk_i8
#define S i8
#include TPI_TEXT
#undef T
#undef S
#define T tpk_i16
#define S i16
#include TPI_TEXT
#undef T
#undef S
#define T tpk_i32
#define S i32
#include TPI_TEXT
#undef T
#undef S
#define T tpk_i64
#define S i64
#include TPI_TEXT
#undef T
#undef S
#define T tpk_u8
#define S u8
#include TPI_TEXT
#undef T
#undef S
#define T tpk_u16
#define S u16
#include TPI_TEXT
#undef T
#undef S
#define T tpk_u32
#define S u32
#include TPI_TEXT
#undef T
#undef S
#define T tpk_u64
#define S u64
#include TPI_TEXT
#undef T
#undef S
#define T tpk_f32
#define S f32
#include TPI_TEXT
#undef T
#undef S
#define T tpk_f64
#define S f64
#include TPI_TEXT
#undef T
#undef S
#undef FN
#undef TPI_TEXT
#undef TPI_TEXT_BOOL
