/*
 * What gcov counts is written at exit(). The daemon and its cells leave by _exit() while other threads are busy, so the
 * linker redirects that call to here (-Wl,--wrap=_exit), in the flavour `coverage` alone. Files of counts may exceed
 * the limit by which tests simulate a full disk, and would be cut; so it is lifted before.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <gcov.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

_Noreturn void __real__exit(int status);
_Noreturn void __wrap__exit(int status);

static void lift_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_FSIZE, &limit);
    }
}

__attribute__((constructor)) static void start(void)
{
    atexit(lift_limit); /* before gcov's, which was registered earlier or is a destructor */
}

_Noreturn void __wrap__exit(int status)
{
    lift_limit();
    __gcov_dump();
    __real__exit(status);
}
