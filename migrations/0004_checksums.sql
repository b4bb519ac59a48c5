-- Rows carry digests of what they say (server/store/digest.c): what was accepted is not changed by a damaged disk without
-- a word. NULL: the row was written before there were any. Rows of final jobs get theirs here. Those of jobs that are
-- still to run do not: before they run, their hash is compared with what their text decodes to, which a digest made of
-- a text that is damaged already would make believe.
-- SPDX-License-Identifier: GPL-3.0-or-later

ALTER TABLE jobs ADD COLUMN checksum BLOB;       -- of what never changes, as far as lists show it
ALTER TABLE jobs ADD COLUMN job_checksum BLOB;   -- of the canonical JSON
ALTER TABLE jobs ADD COLUMN state_checksum BLOB; -- of what changes
ALTER TABLE idempotency ADD COLUMN checksum BLOB;

UPDATE jobs SET
    checksum = digest(id, hash, label, created_at, operations, coalesce(brief, job)),
    job_checksum = digest(id, job),
    state_checksum = digest(id, status, attempts, started_at, finished_at, from_cache, version, error)
WHERE status IN (2, 3, 4);
UPDATE idempotency SET checksum = digest(client, key, request, job);
