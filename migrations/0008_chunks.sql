-- Chunks of draws, which Monte Carlo jobs keep by the thousand, are blobs of kind 2 with a bound of their own: the search for
-- the next to go passes over none of the others.
-- A result that was cut short is of the jobs that it answered alone: its version, and theirs, is a negative number that
-- no other result of the hash has (server/store/records.c).
-- SPDX-License-Identifier: GPL-3.0-or-later

DROP INDEX blobs_by_use;
CREATE INDEX blobs_by_use ON blobs (kind DESC, used_at) WHERE kind <> 2;
CREATE INDEX chunks_by_use ON blobs (used_at) WHERE kind = 2;
