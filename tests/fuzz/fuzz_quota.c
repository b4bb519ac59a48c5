/*
 * Lists of quotas from arbitrary bytes: what is refused has a reason; what is read can be written, and reads the same.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/ops/quota.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    char *list = fuzz_text(data, len), written[QUOTA_TEXT_SIZE];
    struct quota quota, again;
    const char *wrong = quota_read(&quota, list);
    DEMAND(!wrong || wrong[0]);
    if (!wrong) {
        size_t words = 1, quotas = 0;
        for (const char *at = list; (at = strchr(at, ',')); at++)
            words++;
        for (enum quota_kind kind = QUOTA_REQUESTS; kind < QUOTA_KINDS; kind++) {
            DEMAND(quota.most[kind] <= QUOTA_MOST);
            quotas += quota.most[kind] > 0;
        }
        DEMAND(quotas == words); /* none is ignored */
        quota_write(written, &quota);
        for (char *blank = written; (blank = strchr(blank, ' '));)
            *blank = ',';
        DEMAND(!quota_read(&again, written) && memcmp(&quota, &again, sizeof quota) == 0);
    }
    free(list);
    return 0;
}
