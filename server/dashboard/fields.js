/*
 * The fields of the form: for each member of a job, its place on the page, its label and its help text. The rest comes
 * from the library's table of members (members.js, which the service generates): the type of a member, its names,
 * default and range, and the families, schemes, workloads and accountants that have it. Tests check that each member
 * has a field, and each field a member.
 *
 * pointer: the JSON pointer of the member. A pointer that starts with @ is a setting of the form, which has its
 * `options` here and is not sent. when: a condition in addition to the table. start: the initial value, if it is not
 * the default. texts: the text shown for each name. none: the text shown for an unset name. Entries marked `advanced`
 * are collapsed.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
import {members} from './members.js';

const of = (pointer, ...values) => (v) => values.includes(v(pointer));
const both = (...conditions) => (v) => conditions.every((condition) => condition(v));

const byBatch = (v) => v('@rate') === 'batch' || v('@length') === 'epochs';
const aimed = (v) => v('/matrix/family') !== 'blt' || v('@blt') === 'buffers';

export const families = {
  identity: 'no correlation (DP-SGD)',
  toeplitz: 'lower-triangular Toeplitz, given',
  dense: 'any matrix, given by its rows',
  square_root: 'square root of the workload, banded or full',
  inverse_square_root: 'banded inverse square root of the workload (BISR)',
  banded: 'banded, optimised (BandMF)',
  banded_inverse: 'banded inverse, optimised (BandInvMF)',
  blt: 'buffered linear Toeplitz',
  optimal: 'factorisation with the smallest error, dense',
  tree: 'binary tree',
  fourier: 'FFT mechanism',
  stored: 'computed earlier, by its id',
};

export const schemes = {
  none: 'no randomness: fixed or shuffled order',
  poisson: 'each step independently',
  cyclic_poisson: 'groups take turns, Poisson sampled',
  balls_in_bins: 'one random batch per epoch',
  b_min_sep: 'Poisson with a minimum separation',
};

export const accountants = {
  auto: 'the tightest proven bound that is affordable',
  gaussian: 'exact, without amplification',
  pld: 'privacy loss distributions',
  mmcc: 'amplified matrix mechanisms',
  renyi: 'exact moments',
  conditional_composition: 'balls in bins, composed step by step',
  quadrature: 'exact integrals for up to 4 bins',
  group_privacy: 'a replaced example as one removed and one added',
  monte_carlo: 'estimates from random draws',
};

const described = (names) =>
  Object.fromEntries(Object.entries(names).map(([name, text]) => [name, `${name} – ${text}`]));

const layout = [
  {title: 'Unknown', fields: [
    {pointer: '@unknown', label: 'Find', options: [['epsilon', 'epsilon – the privacy for this noise'],
      ['noise_multiplier', 'noise multiplier – the noise for this privacy'], ['delta', 'delta'],
      ['n', 'steps – the largest number for this epsilon and delta'], ['curve', 'privacy curve']],
     help: 'A job gives two of epsilon, delta and noise multiplier; the service computes an upper bound on the third.'},
    {pointer: '/noise_multiplier', label: 'Noise multiplier', when: (v) => v('@unknown') !== 'noise_multiplier',
     start: '1', help: 'Sigma: the standard deviation of the noise at clip norm 1.'},
    {pointer: '/epsilon', label: 'Epsilon', when: of('@unknown', 'delta', 'noise_multiplier', 'n'), start: '4',
     help: 'In nats.'},
    {pointer: '/delta', label: 'Delta', when: of('@unknown', 'epsilon', 'noise_multiplier', 'n'), start: '1e-6',
     help: 'Usually well below one divided by the number of examples.'},
  ]},
  {title: 'Training', fields: [
    {pointer: '@length', label: 'Length given as',
     options: [['n', 'steps'], ['epochs', 'epochs'], ['phases', 'phases']],
     help: 'Epochs require the batch size and the data set size; the number of steps follows. Phases are several ' +
           'mechanisms in sequence.'},
    {pointer: '/phases', label: 'Phases', when: of('@length', 'phases'),
     start: '[{"n": 100, "sampling": {"scheme": "poisson", "p": 0.01}}]',
     help: 'A JSON array. Each phase has n or epochs, sampling, matrix and workload like a job; noise_scale (its ' +
           'noise multiplier divided by that of the job, from 1e-6 to 1e6); and count (the number of runs, or ' +
           '"max").'},
    {pointer: '/examples_per_user', label: 'Examples per user', when: of('@length', 'phases'),
     help: 'Protects this many examples of one user together, in every phase.'},
    {pointer: '/n', label: 'Steps', when: both(of('@length', 'n'), (v) => v('@unknown') !== 'n'), start: '1000',
     help: 'n: the number of batches that are processed, which is the number of rows of the matrix.'},
    {pointer: '/epochs', label: 'Epochs', when: of('@length', 'epochs'),
     help: 'Passes over the data, more than 0; n = epochs × data set size ÷ batch size, rounded up.'},
    {pointer: '/sampling/scheme', label: 'Sampling', texts: described(schemes), start: 'poisson',
     help: 'How an example takes part. For a loader that only shuffles, choose “none” with schema ' +
           '“shuffled”; it has no amplification.'},
    {pointer: '@rate', label: 'Rate given as', when: both((v) => v('/sampling/scheme') !== 'none', of('@length', 'n')),
     options: [['p', 'probability, or bins'], ['batch', 'batch size and data set size']],
     help: 'The result shows the values that are derived from the batch size.'},
    {pointer: '/sampling/p', label: 'Probability p', when: (v) => !byBatch(v), start: '0.01',
     help: 'The probability with which an example is drawn at each step where it may be.'},
    {pointer: '/sampling/bins', label: 'Bins', when: (v) => !byBatch(v),
     help: 'The number of batches in an epoch; n must be a multiple of it.'},
    {pointer: '/sampling/batch_size', label: 'Batch size',
     when: (v) => byBatch(v) || v('/sampling/scheme') === 'none', help: 'Expected number of examples in a batch.'},
    {pointer: '/sampling/dataset_size', label: 'Data set size',
     help: 'The number of examples. Required with a batch size and with truncation; otherwise optional.'},
    {pointer: '/sampling/epochs', label: 'Participations (epochs)',
     help: 'The largest number of participations of an example; 1 if empty.'},
    {pointer: '/sampling/separation', label: 'Separation',
     help: 'The number of steps from one participation to the next. If empty: n ÷ epochs, rounded down; under ' +
           'b_min_sep, the bands of the matrix.'},
    {pointer: '/sampling/schema', label: 'Schema',
     texts: described({fixed_order: 'exactly the separation apart', min_separation: 'at least the separation apart',
                       shuffled: 'once per epoch, at any step'}), help: 'The pattern of the participations.'},
    {pointer: '/sampling/groups', label: 'Groups',
     help: 'The parts of the data, which take turns. If empty: the bands of the matrix.'},
    {pointer: '/sampling/redraw', label: 'New bins every epoch',
     help: 'For matrices in which no row extends beyond an epoch.'},
    {pointer: '/sampling/warm_start', label: 'Warm start', start: '',
     help: 'Whether sampling starts in its steady state. Default: yes, but no with several examples per user.'},
    {pointer: '/sampling/truncation/max_batch_size', label: 'Largest batch',
     help: 'Larger batches are truncated to a random subset of this size; no truncation if empty. Requires the data ' +
           'set size.'},
    {pointer: '/sampling/examples_per_user', label: 'Examples per user',
     help: 'Protects this many examples of one user together.'},
    {pointer: '/sampling/last_iterate', label: 'Last iterate only',
     help: 'For linear losses if only the last iterate is released; requires family identity.'},
  ]},
  {title: 'Matrix', fields: [
    {pointer: '/matrix/family', label: 'Family', texts: described(families),
     help: 'The strategy matrix C, which correlates the noise of the steps.'},
    {pointer: '@blt', label: 'Given by', when: of('/matrix/family', 'blt'),
     options: [['buffers', 'number of buffers, optimised'], ['lists', 'decays and scales']],
     help: 'Optimise the decays and scales, or give them.'},
    {pointer: '/matrix/buffers', label: 'Buffers', when: of('@blt', 'buffers'),
     help: 'From 1 to 16; the number of noise rows that a trainer keeps.', start: '3'},
    {pointer: '/matrix/decay', label: 'Decays', when: of('@blt', 'lists'),
     help: 'Numbers between 0 and 1, separated by commas or spaces.'},
    {pointer: '/matrix/scale', label: 'Scales', when: of('@blt', 'lists'),
     help: 'One scale for each decay.'},
    {pointer: '/matrix/coefficients', label: 'Coefficients',
     help: 'The first column of C: 1 to n numbers, separated by commas or spaces; the remaining ones are 0.'},
    {pointer: '/matrix/rows', label: 'Rows',
     help: 'One row per line: row i has i + 1 numbers (from i = 0), or every row has n.'},
    {pointer: '/matrix/id', label: 'Factorization',
     help: 'The factorization id of an earlier result: 64 hexadecimal digits.'},
    {pointer: '/matrix/bands', label: 'Bands', start: '16',
     help: 'The number of non-zero diagonals of C, or of its inverse. For square_root, empty means all.'},
    {pointer: '/matrix/toeplitz', label: 'Toeplitz',
     help: 'No: a general banded matrix with equal column norms; n up to 4096.'},
    {pointer: '/matrix/column_normalize', label: 'Normalise columns',
     help: 'Divides each column of the Toeplitz matrix by its norm.'},
    {pointer: '/matrix/nonnegative', label: 'Non-negative Gram matrix',
     help: 'No: only entries that one participation pattern contains must be non-negative.'},
    {pointer: '/matrix/decoder', label: 'Decoder', none: 'default of the family',
     texts: described({online: 'can run during training', full: 'uses all nodes', optimal: 'the pseudoinverse',
                       standard: 'the square root, applied a second time'}),
     help: 'How the sums are estimated from the noisy nodes. Default: online for tree, optimal for fourier.'},
    {pointer: '/matrix/objective', label: 'Objective', when: aimed,
     texts: {mean_squared: 'mean squared error', max_squared: 'largest squared error'},
     help: 'The error that the optimiser minimises.'},
    {pointer: '/matrix/optimize_for', label: 'Optimise for',
     texts: {error: 'the error at a fixed sensitivity', job: 'the error at the noise that this job needs'},
     help: 'The job: takes up to a minute, and needs sampling, epsilon and delta.'},
    {pointer: '/matrix/gap', label: 'Gap', when: aimed, advanced: true,
     help: 'The relative gap in the loss at which the optimiser stops.'},
    {pointer: '/matrix/epochs', label: 'Participations to optimise for', when: aimed, advanced: true,
     help: 'If empty: those of the sampling.'},
    {pointer: '/matrix/separation', label: 'Separation to optimise for', when: aimed, advanced: true,
     help: 'If empty: that of the sampling.'},
    {pointer: '/matrix/normalization', label: 'Normalization', advanced: true,
     texts: described({max_column: 'the largest column norm is 1', none: 'as the family defines it',
                       sensitivity: 'divided by its sensitivity'}),
     help: 'The scaling of C to which the noise multiplier refers. “sensitivity” requires sampling “none”.'},
    {pointer: '/matrix/stamps', label: 'Stamps', advanced: true,
     help: 'C for n ÷ stamps steps is repeated this many times along the diagonal.'},
  ]},
  {title: 'Privacy and workload', fields: [
    {pointer: '/adjacency', label: 'Adjacency',
     texts: described({zero_out: 'a contribution is set to zero', add_remove: 'an example is added or removed',
                       replace_one: 'an example is replaced'}),
     help: 'How two neighbouring data sets differ.'},
    {pointer: '/workload/type', label: 'Workload',
     texts: {prefix_sum: 'prefix sums – plain SGD', toeplitz: 'Toeplitz, given'},
     help: 'What is computed from the gradients; for the error figures, and for families that depend on it.'},
    {pointer: '/workload/momentum', label: 'Momentum', start: '0.9', help: 'The momentum of the optimiser.'},
    {pointer: '/workload/decay', label: 'Decay', help: 'Decay of the weights at each step.'},
    {pointer: '/workload/cooldown/from', label: 'Cooldown from',
     help: 'The fraction of the training after which the learning rate falls; it is constant if empty.'},
    {pointer: '/workload/cooldown/to', label: 'Cooldown to',
     help: 'The final learning rate as a fraction of the initial one.'},
    {pointer: '/workload/coefficients', label: 'Workload coefficients',
     help: 'The first column of the workload matrix: 1 to n numbers.'},
    {pointer: '/label', label: 'Label', help: 'A name for the job; at most 200 characters.'},
  ]},
  {title: 'Accountant', fields: [
    {pointer: '/accountant/method', label: 'Method', texts: described(accountants),
     help: 'The method that computes the result.'},
    {pointer: '/accountant/tolerance', label: 'Tolerance', advanced: true,
     help: 'The relative width of the numerical bracket.'},
    {pointer: '/accountant/bad_event_share', label: 'Bad event share', advanced: true,
     help: 'The fraction of delta; optimised if empty.'},
    {pointer: '/accountant/max_order', label: 'Largest order', advanced: true,
     help: 'The largest order of the moments.'},
    {pointer: '/accountant/bandwidth', label: 'Bandwidth', advanced: true,
     help: 'Of the bound for balls in bins; a larger bandwidth is tighter and more expensive.'},
    {pointer: '/accountant/samples', label: 'Samples', advanced: true,
     help: 'The number of draws per direction; if empty, as many as needed.'},
    {pointer: '/accountant/seed', label: 'Seed', advanced: true,
     help: 'If empty, derived from the job. A seed that you choose is listed among the assumptions.'},
    {pointer: '/accountant/threshold_share', label: 'Threshold’s share', advanced: true,
     help: 'The threshold of the verifier divided by delta; not with samples.'},
    {pointer: '/accountant/estimator', label: 'Estimator', advanced: true,
     help: 'How samples are drawn; auto uses the estimator that needs fewer draws.'},
    {pointer: '/accountant/max_seconds', label: 'Seconds', advanced: true,
     help: 'Drawing stops after this time with the best guarantee reached.'},
    {pointer: '/accountant/audit', label: 'Audit', advanced: true, when: (v) => v('@unknown') !== 'curve',
     help: 'The number of draws for a lower bound on the true value; not part of the guarantee.'},
  ]},
];

/* ---------------------------------------------------------------- fields from the table */

const KINDS = {real: 'number', boolean: 'switch', id: 'text', label: 'text', phases: 'json'};

/* Options [value, text, family]; with a family, the option is for that family only. */
function optionsOf({texts = {}, none}, rows) {
  const family = (row) => rows.length > 1 ? row.variants[0] : undefined;
  const names = rows.flatMap((row) => row.names.map((name) => [name, texts[name] ?? name, family(row)]));
  return none ? [['', none], ...names] : names;
}

function helpOf({help}, {type, range, initial}) {
  const shown = ['real', 'integer'].includes(type) && initial !== undefined;
  return [help, range && `Must lie in ${range}.`, shown && `Default: ${initial}.`].filter(Boolean).join(' ');
}

/* Adds the properties that come from the table. kind: integer, number, text, switch (true or false), numbers (a list),
 * rows (a list of lists) or json; a name has `options` instead. */
function complete(entry) {
  const rows = members.filter(({pointer}) => pointer === entry.pointer);
  if (!rows.length) {
    return entry;
  }
  const [row] = rows;
  const chosen = ['boolean', 'name'].includes(row.type) && row.initial !== undefined ? String(row.initial) : undefined;
  const there = (v) => rows.some(({of: by, variants}) => !by || variants.includes(v(by)));
  return {...entry, kind: KINDS[row.type] ?? row.type, start: entry.start ?? chosen, help: helpOf(entry, row),
          options: row.names && optionsOf(entry, rows), when: entry.when ? both(there, entry.when) : there};
}

export const sections = layout.map(({title, fields: entries}) => ({title, fields: entries.map(complete)}));

export const fields = sections.flatMap((section) => section.fields);

/* The initial value of a field. */
export function start(field) {
  return field.start ?? (field.options ? field.options[0][0] : '');
}
