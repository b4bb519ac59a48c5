-- The figures of a result in columns in addition to its text, so that no number has to be read from the text. For
-- existing rows, figure() fills them here once (server/store/figures.c). The digest covers these columns as `checksum`
-- covers the others; a row whose text was damaged before stays damaged.
--
-- SPDX-License-Identifier: GPL-3.0-or-later

ALTER TABLE results ADD COLUMN solved_for TEXT;
ALTER TABLE results ADD COLUMN epsilon REAL; -- these three are NULL for a job that asks for a curve
ALTER TABLE results ADD COLUMN delta REAL;
ALTER TABLE results ADD COLUMN noise_multiplier REAL;
ALTER TABLE results ADD COLUMN lower REAL;   -- the bracket of the unknown
ALTER TABLE results ADD COLUMN upper REAL;
ALTER TABLE results ADD COLUMN mean_squared REAL; -- of its error figures
ALTER TABLE results ADD COLUMN accountant TEXT;
ALTER TABLE results ADD COLUMN factorization TEXT; -- its id
ALTER TABLE results ADD COLUMN figures_checksum BLOB;

UPDATE results SET
    solved_for = figure(core, 'solved_for'),
    epsilon = figure(core, 'epsilon'),
    delta = figure(core, 'delta'),
    noise_multiplier = figure(core, 'noise_multiplier'),
    lower = figure(core, 'bracket', 'lower'),
    upper = figure(core, 'bracket', 'upper'),
    mean_squared = figure(core, 'error', 'mean_squared'),
    accountant = figure(core, 'accountant'),
    factorization = figure(core, 'factorization', 'id');
UPDATE results SET figures_checksum =
    digest(hash, version, solved_for, epsilon, delta, noise_multiplier, lower, upper, mean_squared, accountant,
           factorization);
