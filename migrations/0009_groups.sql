-- Groups of jobs that are submitted and end together. kind: 0 a sweep, 1 a plan. status: as for jobs.
--
-- SPDX-License-Identifier: GPL-3.0-or-later

CREATE TABLE job_groups (
    id TEXT NOT NULL PRIMARY KEY,
    kind INTEGER NOT NULL,
    label TEXT,
    status INTEGER NOT NULL,
    total INTEGER NOT NULL,          -- number of children
    done INTEGER NOT NULL,           -- number of final children
    failed INTEGER NOT NULL,         -- number of failed children
    created_at INTEGER NOT NULL,
    finished_at INTEGER,
    request TEXT NOT NULL,           -- JSON: the request
    checksum BLOB NOT NULL,          -- of the constant columns
    state_checksum BLOB NOT NULL     -- of the columns that change
);
CREATE INDEX job_groups_by_status ON job_groups (kind, status, id);
CREATE INDEX job_groups_by_label ON job_groups (kind, label, id) WHERE label IS NOT NULL;

-- One row per child, from its turn on. It outlives the row of its job, so it contains the figures that tables show.
CREATE TABLE children (
    parent TEXT NOT NULL,
    number INTEGER NOT NULL,         -- from 0
    job TEXT,                        -- NULL: it has no job
    status INTEGER NOT NULL,
    ended INTEGER,                   -- its position in the order in which the children ended, from 1; NULL: not final
    epsilon REAL,
    delta REAL,
    noise_multiplier REAL,
    mean_squared REAL,
    accountant TEXT,
    detail TEXT,                     -- why it failed or has no job
    checksum BLOB NOT NULL,
    PRIMARY KEY (parent, number)
) WITHOUT ROWID;
CREATE INDEX children_by_end ON children (parent, ended) WHERE ended IS NOT NULL;

ALTER TABLE jobs ADD COLUMN parent TEXT;   -- the group to which the job belongs; NULL: the job was posted
ALTER TABLE jobs ADD COLUMN child INTEGER; -- its number in the group
CREATE INDEX jobs_by_parent ON jobs (parent, child) WHERE parent IS NOT NULL;

-- Lists contain only posted jobs; with this index they need not scan the children.
CREATE INDEX jobs_posted ON jobs (id) WHERE parent IS NULL;
CREATE INDEX jobs_posted_by_status ON jobs (status, id) WHERE parent IS NULL;
DROP INDEX jobs_by_label;
CREATE INDEX jobs_by_label ON jobs (label, id) WHERE label IS NOT NULL AND parent IS NULL;

-- Groups that were deleted while some of their children or jobs still exist.
CREATE TABLE orphans (
    parent TEXT NOT NULL PRIMARY KEY
) WITHOUT ROWID;
CREATE TRIGGER job_groups_gone AFTER DELETE ON job_groups BEGIN
    INSERT OR IGNORE INTO orphans (parent) VALUES (old.id);
END;
