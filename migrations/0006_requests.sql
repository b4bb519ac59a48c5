-- By which request a job came, so that the line that tells of its end names it, after a restart too.
-- SPDX-License-Identifier: GPL-3.0-or-later

ALTER TABLE jobs ADD COLUMN request TEXT; -- X-Request-Id. No part of what was accepted: no digest covers it
