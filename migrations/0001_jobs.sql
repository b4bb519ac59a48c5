-- Jobs, their results, the caches and the idempotency keys.
-- SPDX-License-Identifier: GPL-3.0-or-later

-- One row per job. Ids are UUIDv7, so their order is that of creation. Times are milliseconds since 1970. status: 0
-- queued, 1 running, 2 succeeded, 3 failed, 4 canceled.
CREATE TABLE jobs (
    id TEXT NOT NULL PRIMARY KEY,
    hash TEXT NOT NULL,              -- of the canonical job: the key of its result
    label TEXT,
    status INTEGER NOT NULL CHECK (status BETWEEN 0 AND 4),
    attempts INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    started_at INTEGER,
    finished_at INTEGER,
    from_cache INTEGER NOT NULL DEFAULT 0,
    version INTEGER,                 -- accounting version of the result
    job TEXT NOT NULL,               -- canonical JSON
    brief TEXT,                      -- the same without long arrays, for lists; NULL: the job has none
    error TEXT                       -- problem document of a failed job
);
CREATE INDEX jobs_by_status ON jobs (status, id);
CREATE INDEX jobs_by_label ON jobs (label, id) WHERE label IS NOT NULL;
CREATE INDEX jobs_by_hash ON jobs (hash, version);

-- One row per computed result; kept while a job refers to it, and afterwards as a cache.
CREATE TABLE results (
    hash TEXT NOT NULL,
    version INTEGER NOT NULL,        -- EPS_ACCOUNTING_VERSION
    finished_at INTEGER NOT NULL,
    core TEXT NOT NULL,              -- the result object without its last brace, curve, cache and elapsed_seconds
    cache TEXT NOT NULL,             -- the cache member of the job that computed it
    elapsed_seconds REAL NOT NULL,
    curve TEXT,                      -- the curve member, if the job asked for a curve
    note TEXT,                       -- why there are no points
    points BLOB,                     -- the privacy curve: five doubles per point
    checksum BLOB NOT NULL,
    PRIMARY KEY (hash, version)
);
CREATE INDEX results_by_age ON results (finished_at);

-- Factorisations (kind 0) and PLDs (kind 1), by a hash of what determines them.
CREATE TABLE blobs (
    kind INTEGER NOT NULL,
    key BLOB NOT NULL,
    version INTEGER NOT NULL,
    size INTEGER NOT NULL,
    used_at INTEGER NOT NULL,
    checksum BLOB NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (kind, key, version)
);
CREATE INDEX blobs_by_use ON blobs (used_at);

-- The factorisations with which a result was computed; they are not evicted while a job refers to the result.
CREATE TABLE uses (
    hash TEXT NOT NULL,
    version INTEGER NOT NULL,
    key BLOB NOT NULL,
    PRIMARY KEY (hash, version, key)
) WITHOUT ROWID;
CREATE INDEX uses_by_key ON uses (key, version);

CREATE TABLE idempotency (
    client TEXT NOT NULL,
    key TEXT NOT NULL,
    request TEXT NOT NULL,           -- hash of the canonical request with its label
    job TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (client, key)
) WITHOUT ROWID;
CREATE INDEX idempotency_by_age ON idempotency (created_at);
