/*
 * Monte Carlo draws are the same on every processor. Other numbers may differ in the last bits where OpenBLAS, FFTW or
 * the mathematical functions of libc choose another kernel, so a worker must have what its server has.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/broker/build.h"

#include <cblas.h>
#include <fftw3.h>
#include <gnu/libc-version.h>
#include <gsl/gsl_version.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>

#include "lib/epsilon.h"

static void processor(char *out, size_t out_size)
{
#if defined(__x86_64__)
    snprintf(out, out_size, "x86_64%s%s%s%s%s%s", __builtin_cpu_supports("avx") ? " avx" : "",
             __builtin_cpu_supports("avx2") ? " avx2" : "", __builtin_cpu_supports("fma") ? " fma" : "",
             __builtin_cpu_supports("avx512f") ? " avx512f" : "", __builtin_cpu_supports("avx512dq") ? " avx512dq" : "",
             __builtin_cpu_supports("avx512vl") ? " avx512vl" : "");
#elif defined(__aarch64__)
    snprintf(out, out_size, "aarch64 %lx %lx", getauxval(AT_HWCAP), getauxval(AT_HWCAP2));
#else
    snprintf(out, out_size, "%s", (const char *)getauxval(AT_PLATFORM));
#endif
}

void build_own(struct build *build)
{
    char cpu[64];
    *build = (struct build){.accounting = EPS_ACCOUNTING_VERSION};
    snprintf(build->version, sizeof build->version, "%s", EPS_VERSION);
    processor(cpu, sizeof cpu);
    snprintf(build->numerics, sizeof build->numerics, "%s, OpenBLAS %.24s, %.24s, GSL %.12s, glibc %.12s", cpu,
             openblas_get_corename(), fftw_version, gsl_version, gnu_get_libc_version());
}

void build_key(char key[BUILD_KEY_SIZE], const struct build *build)
{
    char text[sizeof *build + 32];
    unsigned char digest[(BUILD_KEY_SIZE - 1) / 2];
    snprintf(text, sizeof text, "%d|%s|%s", build->accounting, build->version, build->numerics);
    crypto_generichash(digest, sizeof digest, (const unsigned char *)text, strlen(text), NULL, 0);
    sodium_bin2hex(key, BUILD_KEY_SIZE, digest, sizeof digest);
}

bool build_equal(const struct build *a, const struct build *b)
{
    return a->accounting == b->accounting && strcmp(a->version, b->version) == 0 &&
           strcmp(a->numerics, b->numerics) == 0;
}

void build_difference(char *out, size_t out_size, const struct build *worker, const struct build *server)
{
    if (worker->accounting != server->accounting || strcmp(worker->version, server->version) != 0) {
        snprintf(out, out_size,
                 "the worker is epsilond %s (accounting version %d), and the server is epsilond %s (accounting version "
                 "%d): install the same version on both",
                 worker->version, worker->accounting, server->version, server->accounting);
    } else {
        snprintf(out, out_size,
                 "numbers might differ in their last bits: the worker computes with %s, and the server with %s",
                 worker->numerics, server->numerics);
    }
}
