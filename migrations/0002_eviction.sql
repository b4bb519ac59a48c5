-- Loss distributions, which take milliseconds to compute, are evicted before factorisations, which take up to minutes.
-- With this index, the search for the next one need not scan all factorisations that stored jobs use.
--
-- SPDX-License-Identifier: GPL-3.0-or-later

DROP INDEX blobs_by_use;
CREATE INDEX blobs_by_use ON blobs (kind DESC, used_at);
