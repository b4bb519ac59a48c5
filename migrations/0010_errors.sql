-- All three error figures of a result instead of only the mean, because plans rank their candidates by them. The
-- digests that cover the mean now cover the other two as well, except in rows that were damaged before, which stay
-- damaged.
--
-- SPDX-License-Identifier: GPL-3.0-or-later

ALTER TABLE results ADD COLUMN max_squared REAL;
ALTER TABLE results ADD COLUMN last_squared REAL;
UPDATE results SET max_squared = figure(core, 'error', 'max_squared'), last_squared = figure(core, 'error', 'last_squared');
UPDATE results SET figures_checksum =
    digest(hash, version, solved_for, epsilon, delta, noise_multiplier, lower, upper, mean_squared, max_squared,
           last_squared, accountant, factorization)
WHERE figures_checksum =
    digest(hash, version, solved_for, epsilon, delta, noise_multiplier, lower, upper, mean_squared, accountant,
           factorization);

ALTER TABLE children ADD COLUMN max_squared REAL;
ALTER TABLE children ADD COLUMN last_squared REAL;
UPDATE children SET checksum =
    digest(parent, number, job, status, ended, epsilon, delta, noise_multiplier, mean_squared, max_squared, last_squared,
           accountant, detail)
WHERE checksum =
    digest(parent, number, job, status, ended, epsilon, delta, noise_multiplier, mean_squared, accountant, detail);
