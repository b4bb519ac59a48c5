-- Migrations 9 and 13 were changed after databases had been written with them. This adds what such a database lacks,
-- and removes what it has too much. Other databases have it already.
--
-- SPDX-License-Identifier: GPL-3.0-or-later

CREATE INDEX IF NOT EXISTS jobs_posted_by_status ON jobs (status, id) WHERE parent IS NULL;
DROP INDEX IF EXISTS jobs_by_label;
CREATE INDEX jobs_by_label ON jobs (label, id) WHERE label IS NOT NULL AND parent IS NULL;
CREATE TABLE IF NOT EXISTS orphans (
    parent TEXT NOT NULL PRIMARY KEY
) WITHOUT ROWID;
CREATE TRIGGER IF NOT EXISTS job_groups_gone AFTER DELETE ON job_groups BEGIN
    INSERT OR IGNORE INTO orphans (parent) VALUES (old.id);
END;
INSERT OR IGNORE INTO orphans (parent)
    SELECT parent FROM children WHERE parent NOT IN (SELECT id FROM job_groups)
    UNION SELECT parent FROM jobs WHERE parent IS NOT NULL AND parent NOT IN (SELECT id FROM job_groups);
DROP INDEX IF EXISTS owners_by_owner;
