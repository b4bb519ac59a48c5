/*
 * What gcov counts is written at exit(). The daemon and its cells leave by _exit() while other threads are busy, so the
 * linker redirects that call to here (-Wl,--wrap=_exit), in the flavour `coverage` alone.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <gcov.h>
#include <unistd.h>

_Noreturn void __real__exit(int status);
_Noreturn void __wrap__exit(int status);

_Noreturn void __wrap__exit(int status)
{
    __gcov_dump();
    __real__exit(status);
}
