-- How much work a job was estimated to be when it was accepted: the short ones go first, after a restart too.
-- SPDX-License-Identifier: GPL-3.0-or-later

ALTER TABLE jobs ADD COLUMN operations REAL; -- NULL: not estimated
