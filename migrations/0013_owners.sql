-- The group of keys to which a posted job, sweep or plan belongs; one that was posted without a key has no row.
--
-- SPDX-License-Identifier: GPL-3.0-or-later

CREATE TABLE owners (
    id TEXT NOT NULL PRIMARY KEY,
    owner TEXT NOT NULL,
    checksum BLOB NOT NULL
) WITHOUT ROWID;

CREATE TRIGGER jobs_gone AFTER DELETE ON jobs BEGIN
    DELETE FROM owners WHERE id = old.id;
END;
CREATE TRIGGER job_groups_owner_gone AFTER DELETE ON job_groups BEGIN
    DELETE FROM owners WHERE id = old.id;
END;
