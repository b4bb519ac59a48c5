/*
 * Decoding a request for batches: the tables of the job's sampling, and the library's rules.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "api/batches.h"

#include "api/codec_rules.h"

/* Every example has a line, where there are any. */
static void check_lists(struct api_decoder *decoder, const struct api_batches *batches, uint64_t lists)
{
    bool inside = batches->dataset_size == 0;
    uint64_t given = inside ? batches->mechanism.sampling.dataset_size : batches->dataset_size;
    if (lists > 0 && given != lists)
        api_errors_add(decoder->errors, inside ? "/sampling/dataset_size" : "/dataset_size",
                       "must be the number of lines of users that follow, %llu: one an example",
                       (unsigned long long)lists);
}

bool api_batches_decode(struct api_batches *batches, struct api_errors *errors, const json_t *json, uint64_t lists,
                        size_t max_n)
{
    struct api_decoder decoder = {
        .errors = errors, .top = &api__batches_object, .root = json, .max_n = max_n > 0 ? max_n : (size_t)1 << 24};
    size_t before = errors->len;
    struct eps_job job;

    eps_job_init(&job);
    *batches = (struct api_batches){.mechanism = job.mechanism, .seed = -1};
    api__read_object(&decoder, "", json, &api__batches_object, batches);
    if (json_is_object(json)) {
        if (batches->dataset_size == 0 && batches->mechanism.sampling.dataset_size == 0)
            batches->dataset_size = lists;
        eps_batches_defaults(&batches->mechanism, batches->dataset_size);
        api__check_warm_start(&decoder, "", json, &batches->mechanism.sampling);
        decoder.read_errors = errors->len;
        eps_batches_check(&batches->mechanism, batches->dataset_size, decoder.max_n, api__report_rule, &decoder);
        check_lists(&decoder, batches, lists);
    }
    return errors->len == before && !errors->out_of_memory;
}
