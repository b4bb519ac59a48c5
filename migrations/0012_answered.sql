-- Of the jobs that one cached result answered, the oldest make room for new ones (server/store/jobs.c), and their keys go with
-- them: a key then starts what it was sent with anew.
-- SPDX-License-Identifier: GPL-3.0-or-later

CREATE INDEX jobs_answered ON jobs (hash, id) WHERE from_cache = 1 AND parent IS NULL AND status = 2;
CREATE INDEX idempotency_by_job ON idempotency (job);
