-- Rows carry digests of their content (server/store/digest.c), so that damage on the disk is detected. NULL: the row
-- was written before digests existed. Rows of final jobs get theirs here. Rows of jobs that are still to run do not:
-- before they run, their hash is compared with that of their decoded text, and a digest of a text that is already
-- damaged would defeat this check.
--
-- SPDX-License-Identifier: GPL-3.0-or-later

ALTER TABLE jobs ADD COLUMN checksum BLOB;       -- of the constant columns that lists show
ALTER TABLE jobs ADD COLUMN job_checksum BLOB;   -- of the canonical JSON
ALTER TABLE jobs ADD COLUMN state_checksum BLOB; -- of the columns that change
ALTER TABLE idempotency ADD COLUMN checksum BLOB;

UPDATE jobs SET
    checksum = digest(id, hash, label, created_at, operations, coalesce(brief, job)),
    job_checksum = digest(id, job),
    state_checksum = digest(id, status, attempts, started_at, finished_at, from_cache, version, error)
WHERE status IN (2, 3, 4);
UPDATE idempotency SET checksum = digest(client, key, request, job);
