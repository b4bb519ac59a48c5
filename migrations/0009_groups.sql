-- Groups: what is made of many jobs and ends with them. kind: 0 a sweep, 1 a plan. status as that of jobs.
-- SPDX-License-Identifier: GPL-3.0-or-later

CREATE TABLE job_groups (
    id TEXT NOT NULL PRIMARY KEY,
    kind INTEGER NOT NULL,
    label TEXT,
    status INTEGER NOT NULL,
    total INTEGER NOT NULL,          -- children
    done INTEGER NOT NULL,           -- of these, those that are final
    failed INTEGER NOT NULL,         -- of these, those that failed
    created_at INTEGER NOT NULL,
    finished_at INTEGER,
    request TEXT NOT NULL,           -- JSON: what was asked
    checksum BLOB NOT NULL,          -- of what never changes
    state_checksum BLOB NOT NULL     -- of what changes
);
CREATE INDEX job_groups_by_status ON job_groups (kind, status, id);
CREATE INDEX job_groups_by_label ON job_groups (kind, label, id) WHERE label IS NOT NULL;

-- One row a child, from when its turn has come. It outlives its job's row, so it has the figures that tables show.
CREATE TABLE children (
    parent TEXT NOT NULL,
    number INTEGER NOT NULL,         -- from 0
    job TEXT,                        -- NULL: it came to no job
    status INTEGER NOT NULL,
    ended INTEGER,                   -- the how manieth of its group it was, from 1; NULL: it is not final
    epsilon REAL,
    delta REAL,
    noise_multiplier REAL,
    mean_squared REAL,
    accountant TEXT,
    detail TEXT,                     -- why it failed, or came to no job
    checksum BLOB NOT NULL,
    PRIMARY KEY (parent, number)
) WITHOUT ROWID;
CREATE INDEX children_by_end ON children (parent, ended) WHERE ended IS NOT NULL;

ALTER TABLE jobs ADD COLUMN parent TEXT;   -- whose child the job is; NULL: it was posted
ALTER TABLE jobs ADD COLUMN child INTEGER; -- its number there
CREATE INDEX jobs_posted ON jobs (id) WHERE parent IS NULL;
CREATE INDEX jobs_by_parent ON jobs (parent, child) WHERE parent IS NOT NULL;
