-- Of the jobs that were answered from the same cached result, the oldest are deleted to make room for new ones
-- (server/store/jobs.c) with their keys: a key that is used again then starts a new request.
--
-- SPDX-License-Identifier: GPL-3.0-or-later

CREATE INDEX jobs_answered ON jobs (hash, id) WHERE from_cache = 1 AND parent IS NULL AND status = 2;
CREATE INDEX idempotency_by_job ON idempotency (job);
