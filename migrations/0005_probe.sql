-- The row that /readyz overwrites to test whether the database can be written.
--
-- SPDX-License-Identifier: GPL-3.0-or-later

CREATE TABLE probe (
    id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    written_at INTEGER NOT NULL
);
