/*
 * Draws for a computation in another process: the law is opened as that computation has opened it, from the same job
 * and a few numbers, and the hash of all that the draws depend on says whether it is the same one.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/monte_carlo/portion.h"
#include "lib/accountants/monte_carlo/search.h"
#include "lib/base/error.h"
#include "lib/job/setting.h"
#include "lib/tuned/tuned.h"

static const char other[] = "these are no draws of this job; run the same version of epsilond on both sides";

bool eps_job_draws(const struct eps_job *job)
{
    const struct eps__accountant *named = eps__accountant_find(job->query.accountant.method);
    return named && named->draws && job->phases_len == 0 && !eps__is_tuned(job) && eps_job_unknown(job) != EPS_SOLVE_N;
}

static enum eps_status draw(struct eps_error *error, const struct eps__setting *setting,
                            const struct eps__mc_portion *portion)
{
    const struct eps__mc_law_class *class = eps__mc_law_class_of(&setting->job->mechanism);
    struct eps__mc_law *law = NULL;
    if (!eps__mc_serves(setting, error))
        return EPS_UNSUPPORTED;
    enum eps_status status = class->open(&law, setting, &portion->aim);
    if (status == EPS_OK) {
        status = eps__mc_draw_portion(portion, setting, law);
        class->destroy(law);
    }
    if (status != EPS_OK)
        eps__error(error, status, "", "%s",
                   status == EPS_INVALID     ? other
                   : status == EPS_NO_MEMORY ? "out of memory"
                                             : "the draws did not finish");
    return status;
}

enum eps_status eps_draw(const struct eps_context *context, struct eps_error *error, const struct eps_job *job,
                         const uint8_t bytes[EPS_PORTION_BYTES])
{
    struct eps__mc_portion portion;
    struct eps__setting setting;
    if (!eps_job_draws(job) || !eps__mc_portion_read(&portion, bytes))
        return eps__error(error, EPS_INVALID, "", "%s", other);
    enum eps_status status = eps__setting_open(&setting, error, context, job);
    if (status != EPS_OK)
        return status;
    status = draw(error, &setting, &portion);
    eps__setting_close(&setting);
    return status;
}
