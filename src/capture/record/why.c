/* What a captured function reports: why something of it stays eager. */
#include "base/log.h"
#include "capture/capture_def.h"

#include <stdarg.h>
#include <stdio.h>

const char *tpi_why_text(tpi_why why)
{
    static const char *const texts[TPI_N_WHYS] = {
        [TPI_WHY_none] = "",
#define WHY(name, text) [TPI_WHY_##name] = text,
#include "capture/why.def"
#undef WHY
    };
    return texts[why];
}

void tpi_capture_log(const tp_function *f, tpi_at at, const char *fmt, ...)
{
    char text[400];
    va_list ap;
    if (!tpi_log_on(TPI_LOG_capture))
        return;
    va_start(ap, fmt);
    tpi_vprint(text, sizeof text, fmt, ap);
    va_end(ap);
    if (at.file)
        tpi_log(TPI_LOG_capture, "%s: %s:%d: %s", f->name, at.file, at.line, text);
    else
        tpi_log(TPI_LOG_capture, "%s: %s", f->name, text);
}

void tpi_function_lost(tp_function *f, tpi_at at, tpi_why why)
{
    f->lost++;
    f->why_lost = why;
    f->lost_at = at;
    tpi_capture_log(f, at, "eager from here on: %s", tpi_why_text(why));
}
