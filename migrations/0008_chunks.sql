-- Chunks of draws, which Monte Carlo jobs store by the thousand, are blobs of kind 2 with a separate limit: with this
-- index, the search for the next one to evict scans no others. A result that was cut short belongs only to the jobs
-- that it answered: its version, and theirs, is a negative number that no other result of the hash has
-- (server/store/records.c).
--
-- SPDX-License-Identifier: GPL-3.0-or-later

DROP INDEX blobs_by_use;
CREATE INDEX blobs_by_use ON blobs (kind DESC, used_at) WHERE kind <> 2;
CREATE INDEX chunks_by_use ON blobs (used_at) WHERE kind = 2;
