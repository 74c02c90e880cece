#include "render/standalone/c_name.h"

#include <stdio.h>
#include <string.h>

/* Keywords of C and C++, and what compilers define without being asked. */
static const char reserved[] =
    "|EOF|FALSE|I|NULL|TRUE|alignas|alignof|and|and_eq|arm|asm|auto|bitand|bitor|bool|break|"
    "case|catch|char|char16_t"
    "|char32_t|char8_t|class|co_await|co_return|co_yield|compl|complex|concept|const|const_cast"
    "|consteval|constexpr|constinit|continue|decltype|default|delete|do|double|dynamic_cast|"
    "else"
    "|enum|errno|explicit|export|extern|false|far|float|for|friend|goto|huge|i386|if|imaginary"
    "|inline|int|interrupt|linux|long|mips|mutable|namespace|near|new|noexcept|not|not_eq"
    "|nullptr|offsetof|operator|or|or_eq|pascal|pixel|private|protected|public|register"
    "|reinterpret_cast|requires|restrict|return|short|signed|sizeof|sparc|static|static_assert"
    "|static_cast|struct|sun|switch|template|this|thread_local|throw|true|try|typedef|typeid"
    "|typename|typeof|typeof_unqual|union|unix|unsigned|using|vax|vector|virtual|void|volatile"
    "|wchar_t|while|xor|xor_eq|";

static bool is_among(const char *list, const char *name)
{
    char word[TPI_C_NAME + 2];
    snprintf(word, sizeof word, "|%s|", name);
    return list && strstr(list, word);
}

/* INT64_MAX and the like. */
static bool is_limit(const char *name)
{
    const char *last = strrchr(name, '_');
    return last && (strcmp(last, "_MAX") == 0 || strcmp(last, "_MIN") == 0 ||
                    strcmp(last, "_C") == 0 || strcmp(last, "_WIDTH") == 0);
}

void tpi_c_name_of(tpi_c_name *out, const char *wanted, const char *otherwise)
{
    enum { MOST = TPI_C_NAME - 12 }; /* room for what makes it unique */
    int n = 0;
    for (const char *c = wanted ? wanted : ""; *c && n < MOST; c++) {
        const bool letter = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z');
        if (letter || (n && *c >= '0' && *c <= '9'))
            out->text[n++] = *c;
        else if (n && out->text[n - 1] != '_')
            out->text[n++] = '_';
    }
    while (n && out->text[n - 1] == '_')
        n--;
    out->text[n] = 0;
    if (!n)
        snprintf(out->text, sizeof out->text, "%s", otherwise);
    else if (is_among(reserved, out->text) || is_limit(out->text) ||
             strncmp(out->text, "TPK_", 4) == 0)
        snprintf(out->text + n, sizeof out->text - (size_t)n, "_v");
}

void tpi_c_name_new(tpi_c_name *out, tpi_str *taken, const char *wanted, const char *otherwise)
{
    tpi_c_name_of(out, wanted, otherwise);
    const size_t n = strlen(out->text);
    for (int i = 2; is_among(taken->text, out->text); i++)
        snprintf(out->text + n, sizeof out->text - n, "_%d", i);
    tpi_str_printf(taken, taken->len ? "%s|" : "|%s|", out->text);
}
