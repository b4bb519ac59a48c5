/*
 * The table of accountants, and the choice of those that run for a job.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/accountant.h"
#include "lib/base/error.h"
#include "lib/base/members.h"

/* One row per accountant, in the order in which `auto` tries them. */
/* clang-format off */
#define ACCOUNTANTS(row)         \
    row(pld)                     \
    row(quadrature)              \
    row(renyi)                   \
    row(group_privacy)           \
    row(conditional_composition) \
    row(mmcc)                    \
    row(gaussian)                \
    row(monte_carlo)
/* clang-format on */

#define DECLARE(name) extern const struct eps__accountant eps__accountant_##name;
ACCOUNTANTS(DECLARE)

#define ADDRESS(name) &eps__accountant_##name,
const struct eps__accountant *const eps__accountants[] = {ACCOUNTANTS(ADDRESS) NULL};

/* `auto` runs the others. */
static const struct eps__accountant automatic = {.method = EPS_ACCOUNTANT_AUTO, .name = "auto", .curves = true};

_Static_assert(sizeof eps__accountants / sizeof *eps__accountants == EPS_ACCOUNTANT_COUNT,
               "each accountant has one row");

const struct eps__accountant *eps__accountant_find(enum eps_accountant method)
{
    for (size_t i = 0; eps__accountants[i]; i++)
        if (eps__accountants[i]->method == method)
            return eps__accountants[i];
    return method == EPS_ACCOUNTANT_AUTO ? &automatic : NULL;
}

bool eps__accountant_spends(const struct eps__accountant *accountant)
{
    return eps__members_has(&eps__tuning_object, offsetof(struct eps_tuning, bad_event_share), accountant->method);
}

bool eps_serves_accountant(enum eps_accountant method)
{
    const struct eps__accountant *accountant = eps__accountant_find(method);
    return accountant && (accountant->open || accountant->solve || method == EPS_ACCOUNTANT_AUTO);
}

const char *eps_accountant_name(enum eps_accountant method)
{
    const struct eps__accountant *accountant = eps__accountant_find(method);
    return accountant ? accountant->name : NULL;
}

/* The names of the accountants that are served or have curves, in the order of the enum, cyclically from `first`. */
static void list_names(char *text, size_t size, int first, bool curves)
{
    const char *names[EPS_ACCOUNTANT_COUNT];
    size_t names_len = 0;
    for (int i = 0; i < EPS_ACCOUNTANT_COUNT; i++) {
        enum eps_accountant method = (enum eps_accountant)((first + i) % EPS_ACCOUNTANT_COUNT);
        if (curves ? eps__accountant_find(method)->curves : eps_serves_accountant(method))
            names[names_len++] = eps_accountant_name(method);
    }
    eps__list(text, size, names, names_len);
}

void eps__accountant_names_served(char *text, size_t size)
{
    list_names(text, size, EPS_ACCOUNTANT_AUTO, false);
}

void eps__accountant_names_curves(char *text, size_t size)
{
    list_names(text, size, EPS_ACCOUNTANT_AUTO + 1, true);
}

/* If an accountant is tight, removes the other amplifying ones, which cannot be better. Returns how many remain. */
static size_t leave_out(const struct eps__setting *setting, const struct eps__accountant **serving, size_t count)
{
    const struct eps__accountant *tight = NULL;
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (!tight && serving[i]->tight && serving[i]->tight(setting))
            tight = serving[i];
    for (size_t i = 0; i < count; i++)
        if (!tight || serving[i] == tight || !serving[i]->amplifies)
            serving[kept++] = serving[i];
    return kept;
}

size_t eps__setting_accountants(const struct eps__setting *setting, const struct eps__accountant **serving,
                                struct eps_error *error)
{
    enum eps_accountant wanted = setting->job->query.accountant.method;
    struct eps_error why = {0}, reason = {0};
    size_t count = 0;
    uint32_t others = 0;
    for (size_t i = 0; eps__accountants[i]; i++) {
        const struct eps__accountant *accountant = eps__accountants[i];
        bool serves = accountant->serves(setting, &why);
        if (wanted == EPS_ACCOUNTANT_AUTO && accountant->solve) /* monte_carlo runs only if it is named */
            continue;
        if (serves && wanted == EPS_ACCOUNTANT_AUTO && accountant->exact(setting)) {
            serving[0] = accountant;
            return 1;
        }
        if (serves && (wanted == EPS_ACCOUNTANT_AUTO || wanted == accountant->method))
            serving[count++] = accountant;
        else if (serves)
            others |= 1u << accountant->method;
        else if (!reason.message[0] || wanted == EPS_ACCOUNTANT_AUTO || wanted == accountant->method)
            reason = why; /* with `auto` the reason of the last one, which requires the least */
    }
    if (count == 0) {
        eps__error(error, EPS_UNSUPPORTED, reason.pointer, "%s", reason.message);
        if (error)
            error->accountants = others;
    }
    return wanted == EPS_ACCOUNTANT_AUTO ? leave_out(setting, serving, count) : count;
}
