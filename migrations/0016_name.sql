-- The name of the database, by which its server is known to a broker.
--
-- SPDX-License-Identifier: GPL-3.0-or-later

CREATE TABLE name (
    id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    name TEXT NOT NULL
);

INSERT INTO name (id, name) VALUES (1, lower(hex(randomblob(16))));
