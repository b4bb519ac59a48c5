-- Loss distributions, which take milliseconds to compute, go before factorisations, which take up to minutes; and
-- the search for the next to go need not pass over all the factorisations that kept jobs hold.
-- SPDX-License-Identifier: GPL-3.0-or-later

DROP INDEX blobs_by_use;
CREATE INDEX blobs_by_use ON blobs (kind DESC, used_at);
