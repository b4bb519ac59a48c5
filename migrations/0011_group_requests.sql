-- By which request a group came, so that the lines that tell of its jobs' ends name it, after a restart too.
-- SPDX-License-Identifier: GPL-3.0-or-later

ALTER TABLE job_groups ADD COLUMN request_id TEXT; -- X-Request-Id. No part of what was accepted: no digest covers it
