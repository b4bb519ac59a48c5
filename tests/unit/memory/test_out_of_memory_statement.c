/*
 * A statement without memory is the complete one or none. A card that omits a caveat would be worse than no card.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/codec/codec.h"
#include "server/routes/jobs/statement.h"
#include "tests/unit/memory/scarcity.h"
#include "tests/unit/test.h"

static char job[] = "{\"n\":4,\"matrix\":{\"family\":\"stored\",\"id\":\"00\",\"stamps\":1},\"sampling\":{\"scheme\":"
                    "\"poisson\",\"p\":0.5,\"last_iterate\":true,\"truncation\":{\"max_batch_size\":3}},"
                    "\"noise_multiplier\":2,\"label\":\"a *b*\"}";
static char label[] = "a *b*";
static char core[] =
    "{\"solved_for\":\"epsilon\",\"epsilon\":1.23456,\"delta\":1e-5,\"noise_multiplier\":2,\"bracket\":{\"lower\":1.2,"
    "\"upper\":1.23456},\"guarantee\":\"high_probability\",\"accountant\":\"pld\",\"directions\":{\"remove\":{"
    "\"value\":"
    "1.23456,\"accountant\":\"pld\"},\"add\":{\"value\":1,\"accountant\":\"pld\"}},\"monte_carlo\":{\"remove\":{"
    "\"failure_probability\":1e-3},\"add\":null},\"adjacency\":\"replace_one\",\"adaptive\":false,\"sampling\":{\"p\":"
    "0.5,"
    "\"expected_batch_size\":null},\"sensitivity\":{\"value\":1,\"rule\":\"column_norm\",\"exact\":true},"
    "\"factorization\":{\"id\":\"00\",\"iterations\":0,\"optimality_gap\":null},\"assumptions\":[\"one\",\"two\"],"
    "\"hints\":["
    "\"three\"],\"version\":\"0.1.0\",\"accounting_version\":7";
static char curve_core[] =
    "{\"solved_for\":\"curve\",\"epsilon\":null,\"delta\":null,\"noise_multiplier\":null,\"bracket\":null,"
    "\"guarantee\":"
    "\"deterministic\",\"accountant\":\"pld\",\"directions\":{\"remove\":{\"value\":null,\"accountant\":\"pld\"},"
    "\"add\":{"
    "\"value\":null,\"accountant\":\"pld\"}},\"adjacency\":\"zero_out\",\"adaptive\":true,\"sampling\":{\"p\":0.5,"
    "\"expected_batch_size\":null},\"sensitivity\":null,\"factorization\":null,\"assumptions\":[\"one\"],\"hints\":[],"
    "\"version\":\"0.1.0\",\"accounting_version\":7";

static char phases[] =
    "{\"phases\":[{\"n\":4,\"matrix\":{\"family\":\"identity\"},\"sampling\":{\"scheme\":\"poisson\",\"p\":0.5,"
    "\"examples_per_user\":3},\"count\":1,\"noise_scale\":1},{\"n\":5,\"matrix\":{\"family\":\"stored\",\"id\":\"01\"},"
    "\"sampling\":{\"scheme\":\"none\",\"examples_per_user\":3},\"count\":7,\"noise_scale\":1.5}],\"noise_multiplier\":"
    "2}";
static char phases_core[] =
    "{\"solved_for\":\"epsilon\",\"epsilon\":1,\"delta\":1e-5,\"noise_multiplier\":2,\"bracket\":null,\"guarantee\":"
    "\"deterministic\",\"accountant\":\"pld\",\"directions\":{\"remove\":{\"value\":1,\"accountant\":\"pld\"},\"add\":{"
    "\"value\":1,\"accountant\":\"pld\"}},\"adjacency\":\"zero_out\",\"adaptive\":true,\"phases\":[{},{"
    "\"factorization\":{"
    "\"id\":\"01\"}}],\"assumptions\":[\"one\"],\"hints\":[],\"version\":\"0.1.0\",\"accounting_version\":7";

static char largest[] = "{\"n\":\"max\",\"matrix\":{\"family\":\"identity\"},\"sampling\":{\"scheme\":\"none\"},"
                        "\"examples_per_user\":3}";
static char largest_core[] =
    "{\"solved_for\":\"n\",\"n\":123,\"epsilon\":1,\"delta\":1e-5,\"noise_multiplier\":2,\"bracket\":{\"lower\":123,"
    "\"upper\":124},\"guarantee\":\"deterministic\",\"accountant\":\"pld\",\"directions\":{\"remove\":{\"value\":123,"
    "\"accountant\":\"pld\"},\"add\":{\"value\":124,\"accountant\":\"pld\"}},\"adjacency\":\"zero_out\",\"adaptive\":"
    "true,"
    "\"assumptions\":[\"one\"],\"hints\":[],\"version\":\"0.1.0\",\"accounting_version\":7";

struct stated {
    char *job;
    const char *core;
    char *facts, *page; /* of this run; NULL where there was no memory for them */
    char *whole_facts, *whole_page;
};

static void state(void *user)
{
    static struct eps_curve_point points[] = {
        {0, 0.5, 0.5, 0.5, 0.5}, {1, 1e-5, 1e-5, 1e-5, 1e-5}, {2, 1e-9, 1e-9, 1e-9, 1e-9}};
    struct stated *stated = user;
    struct text text = {0};
    struct job_record record = {
        .id = "id", .status = JOB_SUCCEEDED, .label = label, .job = stated->job, .finished_at = 1};
    struct result_record result = {.points = points, .points_len = 3};
    char parsed[sizeof core];
    snprintf(parsed, sizeof parsed, "%s", stated->core);
    result.core = parsed;
    json_t *facts = statement_facts(&record, &result);
    if (facts) {
        stated->facts = api_json_text(facts);
        statement_markdown(&text, facts, "{}", false);
        stated->page = text_steal(&text);
    }
    json_decref(facts);
}

/* The first runs have sufficient memory: later runs may give no other text. */
static void check(void *user, bool struck)
{
    struct stated *stated = user;
    if (!struck) {
        assert_non_null(stated->facts);
        assert_non_null(stated->page);
    }
    if (!stated->whole_facts) {
        stated->whole_facts = stated->facts;
        stated->whole_page = stated->page;
        stated->facts = stated->page = NULL;
        return;
    }
    if (stated->facts) {
        assert_string_equal(stated->facts, stated->whole_facts);
    }
    if (stated->page) {
        assert_string_equal(stated->page, stated->whole_page);
    }
    free(stated->facts);
    free(stated->page);
    stated->facts = stated->page = NULL;
}

TEST(a_statement_is_whole_or_none)
{
    static const char unit[] = "One user, with at most 3 examples";
    const struct {
        char *job, *core;
        const char *says[3];
    } rows[] = {
        {largest, largest_core, {unit, "- **Steps.** 123.\n", "| solved for | n |"}},
        {job,
         core,
         {"epsilon = 1.235 and delta = 1e-05. Only the last", "wrong with probability at most 0.001.", "`--db`"}},
        {job, curve_core, {"| 1e-06 | 2 |", "One example", "every pair"}},
        {phases,
         phases_core,
         {unit, "Phase 0:\n\n- **Steps.** 4.\n", "5, number of runs: 7, with the noise multiplier times 1.5."}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct stated stated = {.job = rows[i].job, .core = rows[i].core};
        assert_true(scarcity_each(state, check, &stated, SCARCITY_WHOLE) > 100);
        assert_non_null(strstr(stated.whole_page, "## Not covered"));
        for (size_t j = 0; j < 3; j++) {
            assert_non_null(strstr(stated.whole_page, rows[i].says[j]));
        }
        free(stated.whole_facts);
        free(stated.whole_page);
    }
}
