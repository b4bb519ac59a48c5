-- Which key of its group posted a resource, and the bytes that it counts for; `kept` has the sums by key.
--
-- SPDX-License-Identifier: GPL-3.0-or-later

ALTER TABLE owners ADD COLUMN key TEXT NOT NULL DEFAULT '';
ALTER TABLE owners ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
UPDATE owners SET checksum = digest(id, owner, key, bytes) WHERE checksum = digest(id, owner);

CREATE TABLE kept (
    key TEXT NOT NULL PRIMARY KEY,
    items INTEGER NOT NULL,
    bytes INTEGER NOT NULL
) WITHOUT ROWID;

INSERT INTO kept (key, items, bytes) SELECT key, count(*), sum(bytes) FROM owners GROUP BY key;

CREATE TRIGGER owners_kept AFTER INSERT ON owners BEGIN
    INSERT INTO kept (key, items, bytes) VALUES (new.key, 1, new.bytes)
        ON CONFLICT (key) DO UPDATE SET items = items + 1, bytes = bytes + new.bytes;
END;
CREATE TRIGGER owners_gone AFTER DELETE ON owners BEGIN
    UPDATE kept SET items = items - 1, bytes = bytes - old.bytes WHERE key = old.key;
    DELETE FROM kept WHERE key = old.key AND items <= 0;
END;
