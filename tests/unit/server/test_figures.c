/*
 * Compares the table of figures (api/codec/figures.h) with everything that shows or stores figures: the result
 * object, the columns of a migrated database, the points of a sweep in JSON and CSV, the candidates of a plan, and
 * the schemas of api/openapi.yaml. The test fails if one of them lacks a figure of the table, or has one that the
 * table lacks.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/codec/codec.h"
#include "server/ops/log.h"
#include "server/routes/groups/figures.h"
#include "server/store/internal.h"
#include "tests/unit/test.h"

/* ---------------------------------------------------------------- lists of names */

enum { NAMES_MAX = 64 };

struct names {
    char name[NAMES_MAX][48];
    size_t len;
};

static void add(struct names *names, const char *name, size_t len)
{
    assert_true(names->len < NAMES_MAX && len < sizeof names->name[0]);
    snprintf(names->name[names->len++], sizeof names->name[0], "%.*s", (int)len, name);
}

static bool has(const struct names *names, const char *name)
{
    for (size_t i = 0; i < names->len; i++) {
        if (strcmp(names->name[i], name) == 0)
            return true;
    }
    return false;
}

/* Adds the names of a list that is separated by commas; ignores empty names. */
static void add_all(struct names *names, const char *list)
{
    for (size_t len; *list; list += len + (list[len] == ',')) {
        len = strcspn(list, ",");
        if (len > 0)
            add(names, list, len);
    }
}

static void assert_same(const char *what, const struct names *found, const struct names *wanted)
{
    for (size_t i = 0; i < wanted->len; i++) {
        if (!has(found, wanted->name[i]))
            fail_msg("%s lacks %s", what, wanted->name[i]);
    }
    for (size_t i = 0; i < found->len; i++) {
        if (!has(wanted, found->name[i]))
            fail_msg("%s has %s, which the table of figures does not", what, found->name[i]);
    }
}

/* ---------------------------------------------------------------- the contract */

static char *read_contract(void)
{
    FILE *file = fopen("api/openapi.yaml", "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    long len = ftell(file);
    char *text = calloc(1, (size_t)len + 1);
    assert_non_null(text);
    rewind(file);
    assert_int_equal(fread(text, 1, (size_t)len, file), (size_t)len);
    fclose(file);
    return text;
}

/* Adds the properties of a schema: keys indented by eight, below its line "properties:". */
static void add_properties(struct names *names, const char *contract, const char *schema)
{
    char head[64];
    snprintf(head, sizeof head, "\n    %s:\n", schema);
    const char *line = strstr(contract, head);
    if (!line)
        fail_msg("api/openapi.yaml has no schema %s", schema);
    line += strlen(head);
    bool inside = false;
    for (; strncmp(line, "     ", 5) == 0; line = strchr(line, '\n') + 1) {
        if (line[6] != ' ')
            inside = strncmp(line + 6, "properties:\n", 12) == 0;
        else if (inside && strncmp(line, "        ", 8) == 0 && line[8] != ' ')
            add(names, line + 8, strcspn(line + 8, ":"));
    }
}

/* The objects of a result, with their members that are not figures. */
static const struct {
    const char *schema;
    enum api_place places[3];
    size_t len;
    const char *others;
} answers[] = {
    {"Result",
     {API_VALUES, API_SOURCE, API_BASIS},
     3,
     "n,count,bracket,directions,candidates,monte_carlo,audit,unproven_estimate,sampling,sensitivity,factorization,"
     "error,assumptions,hints,phases,curve,cache,version,accounting_version,compute_seconds,elapsed_seconds"},
    {"Bracket", {API_BRACKET}, 1, ""},
    {"DerivedSampling", {API_SAMPLING}, 1, ""},
    {"Sensitivity", {API_SENSITIVITY}, 1, ""},
    {"UsedFactorization", {API_FACTORIZATION}, 1, "blt"},
    {"ErrorFigures", {API_ERROR}, 1, ""},
};

/* The places that show figures of a child. */
static const struct {
    const char *schema;
    unsigned shown;
    const char *others;
} children[] = {
    {"Point", API_IN_POINT, "job,status,detail"},
    {"PlanError", API_IN_CANDIDATE_ERROR, ""},
    {"PlanBest", API_IN_BEST, "rank,family,bands,scheme,n,batch_size,error,verified,estimate,gain,buffers"},
    {"PlanCandidate", API_IN_BEST | API_IN_CANDIDATE,
     "rank,family,bands,scheme,n,batch_size,error,verified,estimate,gain,guarantee,buffers,status,reason,proven,"
     "verification,job"},
};

#define LENGTH(array) (sizeof(array) / sizeof(array)[0])

TEST(the_contract_has_the_figures_of_an_answer)
{
    char *contract = read_contract();
    size_t seen = 0, rows = 0;

    for (size_t i = 0; i < LENGTH(answers); i++) {
        struct names described = {0}, wanted = {0};
        add_properties(&described, contract, answers[i].schema);
        add_all(&wanted, answers[i].others);
        for (const struct api_figure *figure = api_figures; figure->name; figure++) {
            for (size_t k = 0; k < answers[i].len; k++) {
                if (figure->place == answers[i].places[k]) {
                    add(&wanted, figure->name, strlen(figure->name));
                    seen++;
                }
            }
        }
        assert_same(answers[i].schema, &described, &wanted);
    }
    for (const struct api_figure *figure = api_figures; figure->name; figure++)
        rows++;
    assert_int_equal(seen, rows); /* every place has a schema */
    free(contract);
}

TEST(the_contract_has_the_figures_of_children)
{
    char *contract = read_contract();
    unsigned seen = 0;

    for (size_t i = 0; i < LENGTH(children); i++) {
        struct names described = {0}, wanted = {0};
        add_properties(&described, contract, children[i].schema);
        add_all(&wanted, children[i].others);
        for (const struct api_figure *figure = api_figures; figure->name; figure++) {
            if (figure->shown & children[i].shown)
                add(&wanted, figure->column, strlen(figure->column));
        }
        assert_same(children[i].schema, &described, &wanted);
        seen |= children[i].shown;
    }
    for (const struct api_figure *figure = api_figures; figure->name; figure++)
        assert_true((figure->shown & ~seen) == 0 && (!figure->shown || figure->listed));
    free(contract);
}

/* ---------------------------------------------------------------- children */

/* Gives each figure a different value. */
static void fill(struct api_figures *figures)
{
    double number = 1;
    api_figures_none(figures);
    for (const struct api_figure *figure = api_figures; figure->name; figure++, number++) {
        char text[32];
        snprintf(text, sizeof text, "text%g", number);
        if (figure->column && api_figure_is_number(figure))
            api_figure_set_number(figure, figures, number);
        else if (figure->column)
            api_figure_set_text(figure, figures, text);
    }
}

TEST(a_point_is_the_same_in_json_and_csv)
{
    struct api_figures figures, none;
    struct text json = {0}, header = {0}, cells = {0}, nulls = {0};
    struct names columns = {0}, values = {0};
    char message[64];

    fill(&figures);
    api_figures_none(&none);
    figures_write(&json, &figures, API_IN_POINT, "{");
    text_puts(&json, "}");
    figures_write_header(&header, API_IN_POINT);
    figures_write_cells(&cells, &figures, API_IN_POINT);
    figures_write_cells(&nulls, &none, API_IN_POINT);
    add_all(&columns, header.data);
    add_all(&values, cells.data);
    assert_int_equal(strspn(nulls.data, ","), nulls.len);
    assert_int_equal(nulls.len, columns.len);
    assert_int_equal(values.len, columns.len);

    json_t *object = api_json_parse(json.data, json.len, message, sizeof message), *value;
    const char *name;
    size_t i = 0;
    assert_int_equal(json_object_size(object), columns.len);
    json_object_foreach (object, name, value) {
        assert_string_equal(name, columns.name[i]);
        if (json_is_string(value))
            assert_string_equal(json_string_value(value), values.name[i]);
        else
            assert_true(json_number_value(value) == strtod(values.name[i], NULL));
        i++;
    }
    json_decref(object);
    text_clear(&json);
    text_clear(&header);
    text_clear(&cells);
    text_clear(&nulls);
}

/* ---------------------------------------------------------------- the database */

/* A database that the migrations have created. */
static sqlite3 *migrated(char folder[64])
{
    char message[256] = "", path[96];
    struct store_options options = {.path = path, .cache_bytes = 1 << 20, .chunk_bytes = 1 << 20};
    sqlite3 *db = NULL;
    snprintf(folder, 64, "/tmp/epsilond-figures.XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/test.db", folder);
    struct store *store = store_open(&options, message, sizeof message);
    if (!store)
        fail_msg("%s", message);
    store_close(store);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    return db;
}

static void gone(sqlite3 *db, const char *folder)
{
    static const char *const tails[] = {"", "-wal", "-shm", "-lock"};
    sqlite3_close(db);
    for (size_t i = 0; i < LENGTH(tails); i++) {
        char path[112];
        snprintf(path, sizeof path, "%s/test.db%s", folder, tails[i]);
        unlink(path);
    }
    rmdir(folder);
}

static void add_column(struct names *columns, sqlite3_stmt *row)
{
    const char *name = (const char *)sqlite3_column_text(row, 0);
    add(columns, name, strlen(name));
    for (const struct api_figure *figure = api_figures; figure->name; figure++) {
        if (figure->column && strcmp(figure->column, name) == 0)
            assert_string_equal((const char *)sqlite3_column_text(row, 1),
                                api_figure_is_number(figure) ? "REAL" : "TEXT");
    }
}

static void check_columns(sqlite3 *db, const char *table, bool listed, const char *others)
{
    struct names columns = {0}, wanted = {0};
    char sql[96];
    sqlite3_stmt *row = NULL;
    snprintf(sql, sizeof sql, "SELECT name, type FROM pragma_table_info('%s')", table);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &row, NULL), SQLITE_OK);
    while (sqlite3_step(row) == SQLITE_ROW)
        add_column(&columns, row);
    sqlite3_finalize(row);
    add_all(&wanted, others);
    for (const struct api_figure *figure = api_figures; figure->name; figure++) {
        if (listed ? figure->listed : figure->column != NULL)
            add(&wanted, figure->column, strlen(figure->column));
    }
    assert_same(table, &columns, &wanted);
}

TEST(the_database_has_a_column_for_each_figure_that_is_kept)
{
    char folder[64];
    sqlite3 *db = migrated(folder);

    check_columns(db, "results", false,
                  "hash,version,finished_at,core,cache,elapsed_seconds,curve,note,points,checksum,figures_checksum");
    check_columns(db, "children", true, "parent,number,job,status,ended,detail,checksum");
    gone(db, folder);
}

/* ---------------------------------------------------------------- an answer */

static struct eps_result answer(void)
{
    struct eps_result result = {.solved_for = EPS_SOLVE_EPSILON,
                                .guarantee = EPS_GUARANTEE_DETERMINISTIC,
                                .accountant = EPS_ACCOUNTANT_PLD,
                                .sensitivity_rule = "nonnegative_gram"};
    double number = 1;
    for (const struct api_figure *figure = api_figures; figure->name; figure++, number++) {
        char *member = (char *)&result + figure->offset;
        size_t count = (size_t)number;
        bool truth = true;
        if (api_figure_is_number(figure))
            memcpy(member, &number, sizeof number);
        else if (figure->type == API_FIGURE_COUNT || figure->type == API_FIGURE_POSITIVE)
            memcpy(member, &count, sizeof count);
        else if (figure->type == API_FIGURE_TRUTH)
            memcpy(member, &truth, sizeof truth);
        else if (figure->type == API_FIGURE_ID)
            snprintf(member, 65, "%064x", 0x1234);
    }
    for (int direction = 0; direction < EPS_DIRECTIONS; direction++)
        result.directions[direction].bad_event_share = NAN;
    return result;
}

/* Compares figure(core, ...), as a migration calls it, with the kept figure. */
static void assert_read_from_text(sqlite3 *db, const char *core, const struct api_figure *figure,
                                  const struct api_figures *kept)
{
    const char *object = api_place_name(figure->place);
    sqlite3_stmt *row = NULL;
    const char *sql = object ? "SELECT figure(?1, ?3, ?2)" : "SELECT figure(?1, ?2)";
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &row, NULL), SQLITE_OK);
    sqlite3_bind_text(row, 1, core, -1, SQLITE_STATIC);
    sqlite3_bind_text(row, 2, figure->name, -1, SQLITE_STATIC);
    if (object)
        sqlite3_bind_text(row, 3, object, -1, SQLITE_STATIC);
    assert_int_equal(sqlite3_step(row), SQLITE_ROW);
    if (sqlite3_column_type(row, 0) == SQLITE_NULL)
        fail_msg("the answer has no %s", figure->name);
    if (api_figure_is_number(figure))
        assert_true(sqlite3_column_double(row, 0) == api_figure_number(figure, kept));
    else
        assert_string_equal((const char *)sqlite3_column_text(row, 0), api_figure_text(figure, kept));
    sqlite3_finalize(row);
}

/* The kept figures equal those that the SQL function of the migrations reads from the result object. */
TEST(the_answer_says_what_is_kept)
{
    struct eps_result result = answer();
    struct api_figures kept;
    json_t *json = api_result_encode(&result);
    char *core = api_json_text(json);
    sqlite3 *db = NULL;

    assert_non_null(core);
    core[strlen(core) - 1] = '\0'; /* the stored form */
    api_figures_fill(&kept, &result);
    assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
    assert_true(store__figure_register(db));
    for (const struct api_figure *figure = api_figures; figure->name; figure++) {
        const char *object = api_place_name(figure->place);
        const json_t *place = object ? json_object_get(json, object) : json;
        if (!json_object_get(place, figure->name))
            fail_msg("the answer has no %s", figure->name);
        if (figure->column)
            assert_read_from_text(db, core, figure, &kept);
    }
    sqlite3_close(db);
    free(core);
    json_decref(json);
}

/* For a curve the values are null, and absent among the kept figures; the other figures are unaffected. */
TEST(a_curve_has_no_values)
{
    struct eps_result result = answer();
    struct api_figures kept;

    result.solved_for = EPS_SOLVE_CURVE;
    json_t *json = api_result_encode(&result);
    api_figures_fill(&kept, &result);
    assert_true(json_is_null(json_object_get(json, "bracket")));
    for (const struct api_figure *figure = api_figures; figure->name; figure++) {
        if (figure->place != API_BRACKET && !api_place_name(figure->place))
            assert_int_equal(json_is_null(json_object_get(json, figure->name)), figure->type == API_FIGURE_VALUE);
        if (figure->column && api_figure_is_number(figure))
            assert_int_equal(isnan(api_figure_number(figure, &kept)), figure->type == API_FIGURE_VALUE);
    }
    json_decref(json);
}

BEFORE_TESTS
{
    log_start(LOG_LEVEL_ERROR + 1);
}
