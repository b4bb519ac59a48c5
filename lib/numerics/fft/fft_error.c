/*
 * The rounding error of an FFTW transform, computed from its plan. fftw_sprint_plan() prints a tree of solvers, which
 * organise the work, and the names of codelets, generated straight-line code that does all the arithmetic. The error of
 * each codelet was computed from its source, operation by operation (tests/fftw/codelets.py, which also checks this
 * table). LEMMAS.md, N4, proves that the sum over a plan is a bound. For an unknown word the bound is INFINITY.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "lib/numerics/fft/fft.h"
#include "lib/numerics/normal.h"

/* Errors in units of roundoff, of multiplying by a twiddle factor from a table; by a product of up to four, or six,
 * such factors; by a product from two tables of FFTW's generic solver. */
#define TWIDDLE 5.6
#define TWIDDLE_OF_FOUR 22.2
#define TWIDDLE_OF_SIX 33.3
#define TWIDDLE_OF_TABLES 11.1

/* The error of a DFT of r numbers inside a codelet, in units of roundoff, without the twiddle factors. */
static const struct {
    unsigned long r;
    double error;
} transforms[] = {{2, 1.1},  {3, 4.6},   {4, 4.1},   {5, 8.3},   {6, 5.6},   {8, 7.5},   {10, 9.2},
                  {12, 8.5}, {16, 10.1}, {20, 13.5}, {32, 15.0}, {64, 17.1}, {128, 23.0}};

/* Codelets by the part of their name before the radix. twice: separates two numbers of a complex transform that holds
 * two real ones, so that the error counts for both. halves: is part of such a complex transform, whose error reaches
 * the result multiplied by sqrt 2. */
static const struct {
    double twiddle;
    bool twice, halves;
    const char *names;
} codelets[] = {
    {0, false, false, " r2cf r2cfII r2cb r2cbIII "},
    {TWIDDLE, false, false, " hf hb hc2cf hc2cb "},
    {TWIDDLE_OF_SIX, false, false, " hf2 hb2 hc2cf2 hc2cb2 "},
    {TWIDDLE, true, false, " hc2cfdft hc2cbdft hc2cfdftv hc2cbdftv "},
    {TWIDDLE_OF_SIX, true, false, " hc2cfdft2 hc2cbdft2 "},
    {0, false, true, " n1 n1fv n1bv n2fv n2bv n2sv "},
    {TWIDDLE, false, true, " t1 t1sv t1fv t1bv t1fuv t1buv t2fv t2bv "},
    {TWIDDLE_OF_FOUR, false, true, " t3fv t3bv "},
    {TWIDDLE_OF_SIX, false, true, " t2 t2sv "},
};

/* Solvers that do no arithmetic, by the part of their name before its numbers. */
static const char solvers[] =
    " dft-buffered dft-ct-dif dft-ct-dit dft-direct dft-directbuf dft-indirect-after dft-indirect-before dft-nop"
    " dft-r2hc-0 dft-vrank dftw-direct dftw-directbuf hc2c-direct hc2c-directbuf hc2hc-direct hc2hc-directbuf"
    " rdft-buffered rdft-ct-dif rdft-ct-dit rdft-hc2r-direct rdft-hc2r-directbuf rdft-hc2r10-direct"
    " rdft-hc2r10-directbuf rdft-nop rdft-r2hc-direct rdft-r2hc-directbuf rdft-r2hc01-direct rdft-r2hc01-directbuf"
    " rdft-rank0 rdft-vrank rdft2-ct-dif rdft2-ct-dit rdft2-hc2r-direct rdft2-hc2r10-direct rdft2-nop"
    " rdft2-r2hc-direct rdft2-r2hc01-direct rdft2-vrank ";

/* Whether the word is in the list, which has a space before and after each word. */
static bool listed(const char *list, const char *word, size_t len)
{
    for (const char *at = list; (at = strchr(at, ' ')); at++)
        if (strncmp(at + 1, word, len) == 0 && at[1 + len] == ' ')
            return true;
    return false;
}

/* The error of a codelet. Its name is kind_radix, and a suffix for the instruction set. */
static double codelet_error(const char *word, size_t len)
{
    size_t stem = strcspn(word, "_");
    double transform = INFINITY;
    if (stem == 0 || stem >= len)
        return INFINITY;
    unsigned long radix = strtoul(word + stem + 1, NULL, 10);
    for (size_t i = 0; i < sizeof transforms / sizeof *transforms; i++)
        if (transforms[i].r == radix)
            transform = transforms[i].error;
    for (size_t i = 0; i < sizeof codelets / sizeof *codelets; i++)
        if (listed(codelets[i].names, word, stem))
            return (codelets[i].twice ? 2 * (transform + codelets[i].twiddle) + 2 : transform + codelets[i].twiddle) *
                   (codelets[i].halves ? M_SQRT2 : 1);
    return INFINITY;
}

static double solver_error(const char *word, size_t len)
{
    static const char generic[] = "dftw-genericbuf/";
    if (strncmp(word, generic, sizeof generic - 1) == 0)
        return TWIDDLE_OF_TABLES * M_SQRT2;
    /* The numbers begin after a '-', '/' or '>': -8, /16, >=1-x8/1, -r2c-32-x2. */
    for (size_t end = len; end > 0; end--)
        if ((end == len || strchr("-/>", word[end])) && listed(solvers, word, end))
            return 0;
    return INFINITY;
}

double eps__fft_printed_error(const char *text)
{
    double error = 0;
    for (const char *at = text; *at;) {
        at += strspn(at, "() \n");
        size_t len = strcspn(at, "() \n");
        if (len && at[0] == '"')
            error += codelet_error(at + 1, len - 1);
        else if (len)
            error += solver_error(at, len);
        at += len;
    }
    /* Covers products of rounding errors. */
    return eps__raise(error * EPS__UNIT_ROUNDOFF, 1e7);
}
