-- The estimated work of a job when it was accepted: short jobs go first, also after a restart.
--
-- SPDX-License-Identifier: GPL-3.0-or-later

ALTER TABLE jobs ADD COLUMN operations REAL; -- NULL: no estimate
