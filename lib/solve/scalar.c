/*
 * Runs each accountant in each direction, keeps the best of each direction, and reports the worse direction.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/solve/scalar.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "lib/accountants/monte_carlo/draws.h"
#include "lib/accountants/monte_carlo/guarantee.h"
#include "lib/base/error.h"
#include "lib/base/progress.h"
#include "lib/solve/answer.h"
#include "lib/solve/search.h"

#define LONG 2e10 /* operations of an accountant that takes long: 20 s */

struct task {
    struct eps__setting setting; /* with its own meter */
    struct eps__meter meter;
    const struct eps__accountant *accountant;
    enum eps_direction direction;
    struct eps__answer answer;
    enum eps_status status;
    double best;   /* what the tasks of the batches before proved in this direction */
    bool late;     /* one of the batch that takes long, and that may be left out */
    bool left_out; /* skipped because its answer would not improve the result */
    struct eps_error error;
};

struct tasks {
    struct task items[EPS__ACCOUNTANTS_MAX * EPS_DIRECTIONS];
    size_t len, first; /* first: index of the first task of the current batch; all before it are done */
    struct eps__meters meters;
    struct eps__proven proven; /* for the task that draws */
};

/* The least value that the tasks before `end` found in this direction. */
static double proven_before(const struct tasks *tasks, size_t end, enum eps_direction direction)
{
    double least = INFINITY;
    for (size_t i = 0; i < end; i++)
        if (tasks->items[i].status == EPS_OK && !tasks->items[i].left_out && tasks->items[i].direction == direction)
            least = fmin(least, tasks->items[i].answer.value);
    return least;
}

static void run_task(void *arg, size_t index)
{
    struct tasks *tasks = arg;
    struct task *task = &tasks->items[tasks->first + index];
    const struct eps__accountant *accountant = task->accountant;
    task->status =
        accountant->solve
            ? accountant->solve(&task->answer, &task->error, &task->setting, task->direction, &tasks->proven)
            : eps__search(&task->answer, &task->error, &task->setting, accountant, task->direction, task->best);
    task->left_out = task->status == EPS_OK && task->answer.left_out;
    eps__meter_end(&task->meter);
}

/*
 * If monte_carlo verified no candidate of its ladder, the noise multiplier falls back to a proven one. That one must
 * have a smaller delta: what the ladder's failure probability leaves of the job's. The proven answers are recomputed
 * for it. Their lower ends, which are for the job's delta, stay.
 */
static void fall_back(struct tasks *tasks, size_t proving, const struct task *drawn)
{
    const struct eps_job *job = drawn->setting.job;
    if (drawn->status != EPS_UNATTAINABLE || eps_job_unknown(job) != EPS_SOLVE_NOISE_MULTIPLIER)
        return;
    struct eps_job left = *job;
    left.query.delta = eps__mc_left(job->query.delta, job->query.accountant.threshold_share); /* (A42) */
    for (size_t i = 0; i < proving; i++) {
        struct task *task = &tasks->items[i];
        if (task->direction != drawn->direction || task->status != EPS_OK || task->left_out)
            continue;
        struct eps__setting setting = task->setting;
        struct eps__answer before = task->answer;
        setting.job = &left;
        setting.meter = NULL;
        task->status = eps__search(&task->answer, &task->error, &setting, task->accountant, task->direction, INFINITY);
        task->answer.value = fmax(task->answer.value, before.value);
        task->answer.lower = before.lower;
    }
}

/* Runs the deterministic accountants: those that take long and foretell how good they are after all others. */
static void prove(const struct eps_context *context, struct tasks *tasks, size_t proving)
{
    size_t early = 0;
    while (early < proving && !tasks->items[early].late)
        early++;
    eps__for_all(context, early, run_task, tasks);
    for (size_t i = early; i < proving; i++)
        tasks->items[i].best = proven_before(tasks, early, tasks->items[i].direction);
    tasks->first = early;
    eps__for_all(context, proving - early, run_task, tasks);
}

/*
 * Runs the deterministic accountants, then the sampling one, whose two tasks are last. It first samples the direction
 * whose proven bound is worse. The other direction is skipped if its proven bound is at most the sampled value, or the
 * proven one where no value was sampled.
 */
static void run_tasks(const struct eps_context *context, struct tasks *tasks)
{
    size_t proving = 0;
    while (proving < tasks->len && !tasks->items[proving].accountant->solve)
        proving++;
    prove(context, tasks, proving);
    tasks->first = proving;
    if (proving == tasks->len)
        return;
    assert(tasks->len - proving == EPS_DIRECTIONS);
    bool add_first = proven_before(tasks, proving, EPS_ADD) > proven_before(tasks, proving, EPS_REMOVE);
    struct task *first = &tasks->items[proving + add_first], *second = &tasks->items[proving + !add_first];
    double limit = first->setting.job->query.accountant.max_seconds, begun = eps__mc_now();
    tasks->proven = (struct eps__proven){.value = proven_before(tasks, proving, first->direction),
                                         .other = proven_before(tasks, proving, second->direction),
                                         .seconds = isnan(limit) ? INFINITY : limit};
    run_task(tasks, add_first);
    fall_back(tasks, proving, first);
    double value = first->status == EPS_OK             ? first->answer.value
                   : first->status == EPS_UNATTAINABLE ? proven_before(tasks, proving, first->direction)
                                                       : -INFINITY;
    second->left_out = proven_before(tasks, proving, second->direction) <= value;
    if (second->left_out) {
        eps__meter_end(&second->meter);
    } else {
        double left = tasks->proven.seconds - (eps__mc_now() - begun);
        tasks->proven = (struct eps__proven){tasks->proven.other, -INFINITY, fmax(left, 0)};
        run_task(tasks, !add_first);
        fall_back(tasks, proving, second);
    }
}

/* Failures that may not happen next time. They fail the whole job: an answer without this candidate might be cached
 * for ever. */
static bool is_passing(enum eps_status status)
{
    return status == EPS_CANCELED || status == EPS_TIMEOUT || status == EPS_NO_MEMORY;
}

static bool is_attained(const struct task *task)
{
    return task->accountant->attained && task->accountant->attained(&task->setting);
}

/*
 * Sets `least` and `bracket_exact`. least: the largest lower end among accountants whose pairs the mechanism attains
 * (A49). The bracket is exact if there is one in each direction, because the answer is the larger direction.
 */
static void set_least(struct eps_result *result, const struct tasks *tasks)
{
    bool attained[EPS_DIRECTIONS] = {false, false};
    for (size_t i = 0; i < tasks->len; i++) {
        const struct task *task = &tasks->items[i];
        if (task->left_out || task->status != EPS_OK || !is_attained(task))
            continue;
        attained[task->direction] = true;
        result->least = fmax(result->least, task->answer.lower); /* fmax() ignores the initial NAN */
    }
    if (!isnan(result->least))
        result->least = fmin(result->least, result->bracket_upper);
    result->bracket_exact = attained[EPS_REMOVE] && attained[EPS_ADD] && !isnan(result->bracket_lower);
    if (result->bracket_exact)
        result->bracket_lower = result->least;
}

/*
 * Writes the best candidate of each direction to the result. If a direction has none, returns the failure of the first
 * task that failed. The lower end of the bracket: the bounds may be of different pairs, so that only the least of their
 * lower ends is below the value of each; it is unknown if an accountant failed or was not tried (A5).
 */
static enum eps_status gather(struct eps_result *result, struct eps_error *error, const struct tasks *tasks,
                              bool complete)
{
    double lower[EPS_DIRECTIONS] = {INFINITY, INFINITY};
    bool found[EPS_DIRECTIONS] = {false, false};
    enum eps_guarantee guarantee[EPS_DIRECTIONS] = {EPS_GUARANTEE_DETERMINISTIC, EPS_GUARANTEE_DETERMINISTIC};
    const struct task *failed = NULL;
    result->candidates = calloc(tasks->len, sizeof *result->candidates);
    if (!result->candidates)
        return eps__error(error, EPS_NO_MEMORY, "", "out of memory");
    for (size_t i = 0; i < tasks->len; i++)
        complete = complete && !(tasks->items[i].late && tasks->items[i].left_out);
    for (size_t i = 0; i < tasks->len; i++) {
        const struct task *task = &tasks->items[i];
        if (task->left_out)
            continue;
        bool drawn = task->accountant->solve; /* sampling has no numerical bracket */
        if (task->status != EPS_OK) {
            lower[task->direction] = drawn ? lower[task->direction] : 0;
            if (!failed || is_passing(task->status))
                failed = task;
            continue;
        }
        struct eps_candidate candidate = {.accountant = task->accountant->method,
                                          .direction = task->direction,
                                          .value = task->answer.value,
                                          .order = task->answer.order,
                                          .moments = task->answer.moments,
                                          .bad_event_share = task->answer.bad_event_share};
        result->candidates[result->candidates_len++] = candidate;
        result->cut_short |= task->answer.cut_short;
        if (!drawn)
            lower[task->direction] = complete ? fmin(lower[task->direction], task->answer.lower) : 0;
        if (!found[task->direction] || candidate.value < result->directions[task->direction].value) {
            result->directions[task->direction] = candidate;
            guarantee[task->direction] = task->answer.guarantee;
            result->draws[task->direction] = task->answer.draws;
            found[task->direction] = true;
        }
    }
    if ((failed && is_passing(failed->status)) || !found[EPS_REMOVE] || !found[EPS_ADD]) {
        if (error)
            *error = failed->error;
        return failed->status;
    }
    result->guarantee = guarantee[EPS_REMOVE] > guarantee[EPS_ADD] ? guarantee[EPS_REMOVE] : guarantee[EPS_ADD];
    eps__result_settle(result, lower);
    bool drawn = result->draws[eps__result_worse(result)->direction].samples > 0;
    if (drawn) /* the uncertainty is not numerical */
        result->bracket_lower = NAN;
    set_least(result, tasks);
    if (drawn)
        result->bracket_upper = NAN;
    return EPS_OK;
}

/* Adds a hint for each candidate that failed or was skipped while another one answered. */
static bool add_failures(struct eps_result *result, const struct tasks *tasks)
{
    struct eps__sentences list = {&result->hints, &result->hints_len, false};
    for (size_t i = 0; i < tasks->len; i++)
        if (tasks->items[i].left_out && tasks->items[i].late)
            eps__sentence(&list,
                          "%s was left out for %s, because by its own approximation it proves less than the others; "
                          "name it as the accountant to have its value",
                          tasks->items[i].accountant->name, eps_direction_name(tasks->items[i].direction));
        else if (tasks->items[i].left_out)
            eps__sentence(&list,
                          "%s drew no samples for %s, because the proven bound of that direction is at most the answer",
                          tasks->items[i].accountant->name, eps_direction_name(tasks->items[i].direction));
        else if (tasks->items[i].status != EPS_OK)
            eps__sentence(&list, "%s gave no answer for %s: %s", tasks->items[i].accountant->name,
                          eps_direction_name(tasks->items[i].direction), tasks->items[i].error.message);
    return !list.failed;
}

/* Adds the tasks of an accountant, one for each direction. */
static void add_tasks(struct tasks *tasks, const struct eps__setting *setting, const struct eps__accountant *accountant,
                      double operations, bool late)
{
    for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++) {
        struct task *task = &tasks->items[tasks->len++];
        *task = (struct task){
            .setting = *setting, .accountant = accountant, .direction = direction, .best = INFINITY, .late = late};
        task->meter.all = &tasks->meters;
        task->meter.expected = fmax(operations / EPS_DIRECTIONS, 1);
        task->setting.meter = &task->meter;
    }
}

enum eps_status eps__scalar(struct eps_result *result, struct eps_error *error, const struct eps__setting *setting,
                            const struct eps__accountant *const *accountants, size_t len, bool complete)
{
    struct tasks tasks = {.len = 0};
    tasks.meters = (struct eps__meters){
        .context = setting->context, .items = &tasks.items[0].meter, .stride = sizeof tasks.items[0]};
    for (int pass = 0; pass < 3; pass++) /* drawing accountants last, late ones before them */
        for (size_t i = 0; i < len; i++) {
            double operations, bytes;
            accountants[i]->cost(setting, &operations, &bytes);
            bool late = accountants[i]->foretells && len > 1 && operations > LONG;
            if (pass == (accountants[i]->solve ? 2 : late))
                add_tasks(&tasks, setting, accountants[i], operations, late);
        }
    tasks.meters.len = tasks.len;
    run_tasks(setting->context, &tasks);
    enum eps_status status = gather(result, error, &tasks, complete);
    if (status == EPS_OK && !add_failures(result, &tasks))
        status = eps__error(error, EPS_NO_MEMORY, "", "out of memory");
    return status;
}
