/* Ctrl-C and what else ends the command: no compiler runs on, and no file stays that is not whole. */
#include "cli.h"

#include <signal.h>
#include <unistd.h>

static tp_ctx *volatile working;
static const int ends[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGXCPU, SIGXFSZ};

static void stop(int sig, siginfo_t *info, void *context)
{
    (void)context;
    if (sig == SIGXFSZ && info->si_pid == getpid())
        return; /* we wrote beyond the limit: the write fails, and a message says so */
    tp_abandon(working);
    signal(sig, SIG_DFL);
    raise(sig); /* as soon as this returns */
}

static sigset_t end_set(void)
{
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        sigaddset(&set, ends[i]);
    return set;
}

void cli_catch_signals(void)
{
    const struct sigaction own = {
        .sa_sigaction = stop, .sa_flags = SA_SIGINFO, .sa_mask = end_set()};
    struct sigaction now;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (sigaction(ends[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN) /* nohup */
            sigaction(ends[i], &own, NULL);
}

tp_ctx *cli_open(const tp_options *opt)
{
    return working = tp_open(opt);
}

void cli_close(tp_ctx *tp)
{
    const sigset_t set = end_set();
    sigset_t before;
    sigprocmask(SIG_BLOCK, &set, &before); /* the handler must not meet a context half closed */
    working = NULL;
    tp_close(tp);
    sigprocmask(SIG_SETMASK, &before, NULL);
}
