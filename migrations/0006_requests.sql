-- The request that submitted a job, for the log line of its end, also after a restart.
--
-- SPDX-License-Identifier: GPL-3.0-or-later

ALTER TABLE jobs ADD COLUMN request TEXT; -- X-Request-Id. Not part of what was accepted, so no digest covers it
