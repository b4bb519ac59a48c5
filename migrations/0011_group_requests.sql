-- The request that submitted a group, for the log lines of the ends of its jobs, also after a restart.
--
-- SPDX-License-Identifier: GPL-3.0-or-later

ALTER TABLE job_groups ADD COLUMN request_id TEXT; -- X-Request-Id. Not part of what was accepted, so no digest covers
                                                   -- it
