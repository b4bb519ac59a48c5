/*
 * Quotas as text, and the accounts of keys at given times.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <string.h>

#include "server/ops/ledger.h"
#include "tests/unit/test.h"

/* ---------------------------------------------------------------- text */

TEST(a_list_is_read_and_written)
{
    struct quota quota, again;
    char text[QUOTA_TEXT_SIZE];
    assert_null(quota_read(&quota, "requests=50/s,queued=100,seconds=3600/h,streams=8,bytes=2GiB"));
    assert_int_equal(quota.most[QUOTA_REQUESTS], 50);
    assert_int_equal(quota.most[QUOTA_QUEUED], 100);
    assert_int_equal(quota.most[QUOTA_SECONDS], 3600);
    assert_int_equal(quota.most[QUOTA_STREAMS], 8);
    assert_int_equal(quota.most[QUOTA_BYTES], UINT64_C(2) << 30);
    quota_write(text, &quota);
    assert_string_equal(text, "requests=50/s queued=100 seconds=3600/h streams=8 bytes=2147483648");
    assert_null(quota_read(&again, "bytes=1000000000000000"));
    assert_int_equal(again.most[QUOTA_BYTES], QUOTA_MOST);
    assert_int_equal(again.most[QUOTA_QUEUED], 0);
    for (enum quota_kind kind = QUOTA_REQUESTS; kind < QUOTA_KINDS; kind++)
        again.most[kind] = QUOTA_MOST;
    quota_write(text, &again);
    assert_non_null(strstr(text, "bytes=1000000000000000"));
}

TEST(what_is_wrong_is_refused)
{
    static const char *const wrong[] = {"",
                                        ",",
                                        "requests",
                                        "requests=",
                                        "requests=50",
                                        "requests=50/h",
                                        "requests=0/s",
                                        "requests=-1/s",
                                        "requests=+1/s",
                                        "requests= 1/s",
                                        "requests=1/s ",
                                        "requests=1.5/s",
                                        "requests=1e3/s",
                                        "Requests=1/s",
                                        "queued=1/s",
                                        "queued=1KiB",
                                        "queued=0",
                                        "queued=00",
                                        "queued=1,queued=1",
                                        "queued=1,",
                                        ",queued=1",
                                        "seconds=3600",
                                        "streams=x",
                                        "bytes=1G",
                                        "bytes=1 GiB",
                                        "bytes=1000TiB",
                                        "bytes=1000000000000001",
                                        "bytes=18446744073709551617",
                                        "bytes=99999999999999999999999999999999",
                                        "memory=1",
                                        "=1",
                                        "queued=1;streams=1"};
    struct quota quota;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        if (!quota_read(&quota, wrong[i]))
            fail_msg("\"%s\" was accepted", wrong[i]);
}

/* ---------------------------------------------------------------- levels */

TEST(requests_come_back_with_time)
{
    struct ledger *ledger = ledger_create();
    struct account *account = ledger_account(ledger, "01234567");
    struct quota quota = {.most = {[QUOTA_REQUESTS] = 5}};
    struct quota_refusal refusal;
    for (int i = 0; i < 5; i++)
        assert_true(account_request(account, &quota, 100, &refusal));
    for (int i = 0; i < 3; i++)
        assert_false(account_request(account, &quota, 100.1, &refusal));
    assert_int_equal(refusal.kind, QUOTA_REQUESTS);
    assert_int_equal(refusal.most, 5);
    assert_int_equal(refusal.left, 0);
    assert_int_equal(refusal.seconds, 1);
    assert_true(account_request(account, &quota, 100.201, &refusal)); /* a fifth of a second for one */
    assert_false(account_request(account, &quota, 100.3, &refusal));
    for (int i = 0; i < 5; i++) /* no more than five are saved */
        assert_true(account_request(account, &quota, 200, &refusal));
    assert_false(account_request(account, &quota, 200, &refusal));
    assert_false(account_request(account, &quota, 199, &refusal)); /* another thread has read the clock before */
    struct account *other = ledger_account(ledger, "76543210");
    assert_true(account_request(other, &quota, 200, &refusal));
    assert_ptr_equal(ledger_account(ledger, "01234567"), account);
    ledger_destroy(ledger);
}

/* A quota that changes keeps what was used. Without one nothing is held against the key later. */
TEST(another_quota_loses_no_count)
{
    struct ledger *ledger = ledger_create();
    struct account *account = ledger_account(ledger, "01234567");
    struct quota ten = {.most = {[QUOTA_REQUESTS] = 10}}, two = {.most = {[QUOTA_REQUESTS] = 2}}, none = {{0}};
    struct quota_refusal refusal;
    for (int i = 0; i < 6; i++)
        assert_true(account_request(account, &ten, 50, &refusal));
    assert_false(account_request(account, &two, 50, &refusal));
    assert_int_equal(refusal.most, 2);
    assert_int_equal(refusal.seconds, 3); /* from 6 to 1 at 2 a second */
    assert_true(account_request(account, &ten, 50, &refusal));
    assert_false(account_request(account, &two, 50, &refusal));
    for (int i = 0; i < 100; i++)
        assert_true(account_request(account, &none, 50, &refusal));
    assert_true(account_request(account, &two, 50, &refusal));
    assert_true(account_request(account, &two, 50, &refusal));
    assert_false(account_request(account, &two, 50, &refusal));
    struct account_usage usage;
    account_read(account, &two, 50, &usage);
    assert_int_equal(usage.requests, 109);
    assert_true(usage.used[QUOTA_REQUESTS] == 2);
    ledger_destroy(ledger);
}

static bool may(struct account *account, const struct quota *quota, double seconds, double now,
                struct quota_refusal *refusal)
{
    struct ledger_place place = {.seconds = seconds, .free_places = 1000, .free_bytes = 1000};
    return account_may_wait(account, quota, &place, now, refusal);
}

TEST(seconds_are_estimated_and_then_counted)
{
    struct ledger *ledger = ledger_create();
    struct account *account = ledger_account(ledger, "01234567");
    struct quota quota = {.most = {[QUOTA_SECONDS] = 3600}};
    struct quota_refusal refusal;
    struct account_usage usage;
    assert_true(may(account, &quota, 9000, 0, &refusal)); /* alone, it may exceed the quota */
    account_hold(account, 1, 3000);
    assert_true(may(account, &quota, 600, 0, &refusal));
    assert_false(may(account, &quota, 601, 0, &refusal));
    assert_int_equal(refusal.kind, QUOTA_SECONDS);
    assert_int_equal(refusal.most, 3600);
    account_hold(account, -1, -3000);
    account_compute(account, 7200, 0); /* an hour of debt */
    assert_false(may(account, &quota, 1, 0, &refusal));
    assert_int_equal(refusal.left, 0);
    assert_int_equal(refusal.seconds, 3600);
    assert_false(may(account, &quota, 1, 3599, &refusal));
    assert_int_equal(refusal.seconds, 1);
    assert_true(may(account, &quota, 1, 3600, &refusal));
    account_read(account, &quota, 3600, &usage);
    assert_true(fabs(usage.used[QUOTA_SECONDS] - 3600) < 1e-6);
    assert_true(usage.seconds == 7200);
    ledger_destroy(ledger);
}

/* ---------------------------------------------------------------- the queue and streams */

/* Keys that take what they may leave each other room; requests without a key share no queue with anybody. */
TEST(a_key_has_as_much_of_the_queue_as_it_leaves_free)
{
    enum { PLACES = 100 };
    struct ledger *ledger = ledger_create();
    struct quota none = {{0}};
    struct quota_refusal refusal;
    uint64_t free = PLACES;
    for (int key = 0; key < 5; key++) {
        char id[] = {'0', '0', '0', '0', '0', '0', '0', (char)('0' + key), '\0'};
        uint64_t own = 0;
        struct account *account = ledger_account(ledger, id);
        for (;;) {
            struct ledger_place place = {.free_places = free, .free_bytes = UINT64_MAX};
            if (!account_may_wait(account, &none, &place, 0, &refusal))
                break;
            account_wait(account, 1);
            own++;
            free--;
        }
        assert_int_equal(refusal.kind, QUOTA_QUEUED);
        assert_int_equal(refusal.most, own);
        assert_true(own > 0 && own <= free && own + 2 >= free); /* all that it may have */
    }
    struct account *nobody = ledger_account(ledger, "");
    struct ledger_place last = {.free_places = 1};
    account_wait(nobody, 1000);
    account_hold(nobody, 1000, 0);
    assert_true(account_may_wait(nobody, &none, &last, 0, &refusal));
    ledger_destroy(ledger);
}

TEST(memory_is_shared_like_places)
{
    struct ledger *ledger = ledger_create();
    struct account *account = ledger_account(ledger, "01234567");
    struct quota none = {{0}};
    struct quota_refusal refusal;
    struct ledger_place place = {.free_places = 1000, .free_bytes = 10};
    assert_true(account_may_wait(account, &none, &place, 0, &refusal)); /* however large the first one is */
    account_hold(account, 10, 0);
    account_wait(account, 1);
    assert_true(account_may_wait(account, &none, &place, 0, &refusal));
    account_hold(account, 1, 0);
    assert_false(account_may_wait(account, &none, &place, 0, &refusal));
    assert_int_equal(refusal.kind, QUOTA_QUEUED);
    ledger_destroy(ledger);
}

TEST(streams_are_counted_while_they_are_open)
{
    struct ledger *ledger = ledger_create();
    struct account *account = ledger_account(ledger, "01234567");
    struct quota two = {.most = {[QUOTA_STREAMS] = 2}}, none = {{0}};
    struct quota_refusal refusal;
    assert_true(account_open_stream(account, &two, &refusal));
    assert_true(account_open_stream(account, &two, &refusal));
    assert_false(account_open_stream(account, &two, &refusal));
    assert_int_equal(refusal.kind, QUOTA_STREAMS);
    assert_int_equal(refusal.most, 2);
    assert_true(account_open_stream(account, &none, &refusal));
    account_close_stream(account);
    assert_false(account_open_stream(account, &two, &refusal));
    account_close_stream(account);
    assert_true(account_open_stream(account, &two, &refusal));
    ledger_destroy(ledger);
}
