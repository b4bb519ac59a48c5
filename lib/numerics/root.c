/*
 * Bisection. Callers do not need the root itself but an end of the bracket at which an inequality holds. The functions
 * are cheap once a panel is composed, and bisection never stalls at the kinks of a piecewise curve. This file is the
 * library's only use of GSL.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/numerics/root.h"

#include <gsl/gsl_errno.h>
#include <gsl/gsl_roots.h>
#include <math.h>
#include <pthread.h>

/*
 * GSL's error handler is global to the process, and the default one aborts. Errors of GSL are handled here as return
 * values, so the default handler is turned off, while a handler that the caller installed is restored. GSL cannot query
 * the handler without replacing it, so for an instant none is installed.
 */
static void tame_gsl(void)
{
    gsl_error_handler_t *callers = gsl_set_error_handler_off();
    if (callers)
        gsl_set_error_handler(callers);
}

int eps__bisect(eps__function *f, void *user, double *low, double *high, double tolerance, double floor)
{
    static pthread_once_t tamed = PTHREAD_ONCE_INIT;
    pthread_once(&tamed, tame_gsl);
    gsl_root_fsolver *solver = gsl_root_fsolver_alloc(gsl_root_fsolver_bisection);
    gsl_function function = {.function = f, .params = user};
    int result = -1;
    if (!solver)
        return EPS__BISECT_NO_MEMORY;
    if (gsl_root_fsolver_set(solver, &function, *low, *high) == GSL_SUCCESS) {
        result = 0;
        for (int i = 0; i < 200; i++) {
            double width = *high - *low;
            if (width <= tolerance * fmax(fabs(*high), floor))
                break;
            if (gsl_root_fsolver_iterate(solver) != GSL_SUCCESS) {
                result = -1;
                break;
            }
            *low = gsl_root_fsolver_x_lower(solver);
            *high = gsl_root_fsolver_x_upper(solver);
            if (*high - *low >= width)
                break;
        }
    }
    gsl_root_fsolver_free(solver);
    return result;
}
