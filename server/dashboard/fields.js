/*
 * The fields of the form: for each member of a job its place on the page, its label and its help. The rest comes from the
 * library's table of members (members.js, which the service makes): how a member is written, its names, default and range,
 * and which families, schemes, workloads and accountants have it. Tests hold that each member has a field, and each field
 * a member.
 *
 * pointer: of the member; one that starts with @ is a choice of the form's own, has its `options` here and is not sent.
 * when: what it depends on beside the table. start: what the field holds at first, if not the default. texts: how names
 * are shown. none: how it is shown that no name is chosen. What is `advanced` is folded away.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
import {members} from './members.js';

const of = (pointer, ...values) => (v) => values.includes(v(pointer));
const both = (...conditions) => (v) => conditions.every((condition) => condition(v));

const byBatch = (v) => v('@rate') === 'batch' || v('@length') === 'epochs';
const aimed = (v) => v('/matrix/family') !== 'blt' || v('@blt') === 'buffers';

export const families = {
  identity: 'no correlation: DP-SGD',
  toeplitz: 'lower-triangular Toeplitz, given',
  dense: 'any matrix, given by its rows',
  square_root: 'square root of the workload, banded or full',
  inverse_square_root: 'its inverse is banded (BISR)',
  banded: 'banded, optimised (BandMF)',
  banded_inverse: 'its inverse is banded, optimised (BandInvMF)',
  blt: 'buffered linear Toeplitz',
  optimal: 'the factorisation of least error, dense',
  tree: 'binary tree',
  fourier: 'FFT mechanism',
  stored: 'one that was computed before',
};

export const schemes = {
  none: 'no randomness: fixed or shuffled order',
  poisson: 'each step, independently',
  cyclic_poisson: 'groups in turn, Poisson sampled',
  balls_in_bins: 'one random batch per epoch',
  b_min_sep: 'Poisson, with a pause after each time',
};

export const accountants = {
  auto: 'the tightest that is proven and affordable',
  gaussian: 'exact, without amplification',
  pld: 'privacy loss distributions',
  mmcc: 'amplified matrix mechanisms',
  renyi: 'exact moments',
  conditional_composition: 'balls in bins, step by step',
  monte_carlo: 'draws samples',
};

const described = (names) => Object.fromEntries(Object.entries(names).map(([name, text]) => [name, `${name} – ${text}`]));

const layout = [
  {title: 'What to find', fields: [
    {pointer: '@unknown', label: 'Find', options: [['epsilon', 'epsilon – the privacy that this noise gives'],
      ['noise_multiplier', 'noise multiplier – the noise that this privacy needs'], ['delta', 'delta'],
      ['n', 'steps – how many keep this epsilon and delta'], ['curve', 'the whole privacy curve']],
     help: 'A job gives two of epsilon, delta and noise multiplier; the service finds the third, on the safe side.'},
    {pointer: '/noise_multiplier', label: 'Noise multiplier', when: (v) => v('@unknown') !== 'noise_multiplier', start: '1',
     help: 'Sigma: the standard deviation of the noise at clip norm 1.'},
    {pointer: '/epsilon', label: 'Epsilon', when: of('@unknown', 'delta', 'noise_multiplier', 'n'), start: '4',
     help: 'In nats.'},
    {pointer: '/delta', label: 'Delta', when: of('@unknown', 'epsilon', 'noise_multiplier', 'n'), start: '1e-6',
     help: 'Usually well under one over the number of examples.'},
  ]},
  {title: 'Training', fields: [
    {pointer: '@length', label: 'Length given by', options: [['n', 'steps'], ['epochs', 'epochs'], ['phases', 'phases, one after the other']],
     help: 'Epochs need the batch size and the size of the data set; the number of steps follows. Phases are several mechanisms.'},
    {pointer: '/phases', label: 'Phases', when: of('@length', 'phases'),
     start: '[{"n": 100, "sampling": {"scheme": "poisson", "p": 0.01}}]',
     help: 'A JSON list: each has n or epochs, sampling, matrix and workload as a job has them, noise_scale (its noise multiplier is the job’s times this) and count (how often it is run, or "max").'},
    {pointer: '/examples_per_user', label: 'Examples per user', when: of('@length', 'phases'),
     help: 'Protects so many examples of one user together, in every phase.'},
    {pointer: '/n', label: 'Steps', when: both(of('@length', 'n'), (v) => v('@unknown') !== 'n'), start: '1000',
     help: 'n: how many batches are processed, and so the rows of the matrix.'},
    {pointer: '/epochs', label: 'Epochs', when: of('@length', 'epochs'),
     help: 'Passes over the data, over 0; n = epochs × data set ÷ batch, rounded up.'},
    {pointer: '/sampling/scheme', label: 'Sampling', texts: described(schemes), start: 'poisson',
     help: 'How one example takes part. A loader that only shuffles is “none” with schema “shuffled”: nothing amplifies it.'},
    {pointer: '@rate', label: 'Rate given by', when: both((v) => v('/sampling/scheme') !== 'none', of('@length', 'n')),
     options: [['p', 'probability, or bins'], ['batch', 'batch size and data set size']],
     help: 'What follows from a batch size is shown with the answer.'},
    {pointer: '/sampling/p', label: 'Probability p', when: (v) => !byBatch(v), start: '0.01',
     help: 'With which an example is drawn each time that it may be.'},
    {pointer: '/sampling/bins', label: 'Bins', when: (v) => !byBatch(v),
     help: 'Batches of one epoch; n must be a multiple of it.'},
    {pointer: '/sampling/batch_size', label: 'Batch size',
     when: (v) => byBatch(v) || v('/sampling/scheme') === 'none', help: 'Expected number of examples in a batch.'},
    {pointer: '/sampling/dataset_size', label: 'Data set size',
     help: 'Number of examples. Needed with a batch size and with truncation; else it may stay empty.'},
    {pointer: '/sampling/epochs', label: 'Participations (epochs)',
     help: 'How often an example takes part at most; 1 if empty.'},
    {pointer: '/sampling/separation', label: 'Separation',
     help: 'Steps from one participation to the next. If empty: n ÷ epochs, rounded down; under b_min_sep the bands of the matrix.'},
    {pointer: '/sampling/schema', label: 'Schema',
     texts: described({fixed_order: 'exactly the separation apart', min_separation: 'at least the separation apart',
                       shuffled: 'once in every epoch, anywhere in it'}), help: 'In which pattern the participations lie.'},
    {pointer: '/sampling/groups', label: 'Groups',
     help: 'Parts of the data, which have their turns one after the other. If empty: the bands of the matrix.'},
    {pointer: '/sampling/redraw', label: 'New bins every epoch',
     help: 'For matrices of which no row reaches over an epoch.'},
    {pointer: '/sampling/warm_start', label: 'Warm start', start: '',
     help: 'Whether sampling begins in its steady state. If not chosen: yes, but no with several examples per user.'},
    {pointer: '/sampling/truncation/max_batch_size', label: 'Largest batch',
     help: 'Larger batches are cut to a random subset of so many. If empty, none is cut. Needs the size of the data set.'},
    {pointer: '/sampling/examples_per_user', label: 'Examples per user', help: 'Protects so many examples of one user together.'},
    {pointer: '/sampling/last_iterate', label: 'Last iterate only',
     help: 'For linear losses where only the last iterate is released; with family identity.'},
  ]},
  {title: 'Matrix', fields: [
    {pointer: '/matrix/family', label: 'Family', texts: described(families),
     help: 'The strategy matrix C by which the noise of the steps is correlated.'},
    {pointer: '@blt', label: 'Given by', when: of('/matrix/family', 'blt'),
     options: [['buffers', 'a number of buffers, optimised'], ['lists', 'decays and scales']],
     help: 'The best decays and scales are found, or given.'},
    {pointer: '/matrix/buffers', label: 'Buffers', when: of('@blt', 'buffers'),
     help: 'From 1 to 16: the noise rows that a trainer keeps.', start: '3'},
    {pointer: '/matrix/decay', label: 'Decays', when: of('@blt', 'lists'),
     help: 'Numbers between 0 and 1, separated by commas or spaces.'},
    {pointer: '/matrix/scale', label: 'Scales', when: of('@blt', 'lists'),
     help: 'As many numbers as there are decays.'},
    {pointer: '/matrix/coefficients', label: 'Coefficients',
     help: 'The first column of C: 1 to n numbers, separated by commas or spaces; the rest are 0.'},
    {pointer: '/matrix/rows', label: 'Rows',
     help: 'One row a line: row i has i + 1 numbers (from i = 0), or all have n.'},
    {pointer: '/matrix/id', label: 'Factorization',
     help: 'The factorization id that an earlier result names: 64 hexadecimal digits.'},
    {pointer: '/matrix/bands', label: 'Bands', start: '16',
     help: 'How many steps the noise reaches back. Of square_root, empty means all of them.'},
    {pointer: '/matrix/toeplitz', label: 'Toeplitz',
     help: 'No: each column is its own, with equal norms; n up to 4096.'},
    {pointer: '/matrix/column_normalize', label: 'Normalize columns',
     help: 'Divides each column of the Toeplitz matrix by its norm.'},
    {pointer: '/matrix/nonnegative', label: 'Gram matrix nonnegative',
     help: 'No: nonnegative only where one participation pattern looks.'},
    {pointer: '/matrix/decoder', label: 'Decoder',
     none: 'the default of the family',
     texts: described({online: 'can run with the training', full: 'from all nodes', optimal: 'the pseudoinverse',
                       standard: 'the square root once more'}),
     help: 'How the sums are read off the noisy nodes. Defaults: online for tree, optimal for fourier.'},
    {pointer: '/matrix/objective', label: 'Objective', when: aimed,
     texts: {mean_squared: 'mean squared error', max_squared: 'largest squared error'},
     help: 'The error that the optimiser makes small.'},
    {pointer: '/matrix/gap', label: 'Gap', when: aimed, advanced: true,
     help: 'The relative gap in the loss at which the optimiser stops.'},
    {pointer: '/matrix/epochs', label: 'Optimise for participations', when: aimed, advanced: true,
     help: 'If empty: those of the sampling.'},
    {pointer: '/matrix/separation', label: 'Optimise for separation', when: aimed, advanced: true,
     help: 'If empty: that of the sampling.'},
    {pointer: '/matrix/normalization', label: 'Normalization', advanced: true,
     texts: described({max_column: 'the largest column norm is 1', none: 'as the family defines it',
                       sensitivity: 'divided by its sensitivity'}),
     help: 'The scaling of C that the noise multiplier refers to. “sensitivity” is for sampling “none”.'},
    {pointer: '/matrix/stamps', label: 'Stamps', advanced: true,
     help: 'C of n ÷ stamps steps is repeated so often down the diagonal.'},
  ]},
  {title: 'Privacy and workload', fields: [
    {pointer: '/adjacency', label: 'Adjacency',
     texts: described({zero_out: 'a contribution set to zero', add_remove: 'one example more or less',
                       replace_one: 'one example replaced'}), help: 'In what two neighbouring data sets differ.'},
    {pointer: '/workload/type', label: 'Workload',
     texts: {prefix_sum: 'prefix sums – plain SGD', toeplitz: 'Toeplitz, given'},
     help: 'What is made of the gradients: for the error figures, and for families that follow it.'},
    {pointer: '/workload/momentum', label: 'Momentum', start: '0.9', help: 'Of the optimiser.'},
    {pointer: '/workload/decay', label: 'Decay', help: 'Of the weights in each step.'},
    {pointer: '/workload/cooldown/from', label: 'Cooldown from',
     help: 'The part of the training after which the learning rate falls. If empty, it does not.'},
    {pointer: '/workload/cooldown/to', label: 'Cooldown to',
     help: 'What the learning rate falls to at the end, as a part of what it was.'},
    {pointer: '/workload/coefficients', label: 'Workload coefficients',
     help: 'The first column of the workload matrix: 1 to n numbers.'},
    {pointer: '/label', label: 'Label', help: 'Yours, to find the job again; at most 200 characters.'},
  ]},
  {title: 'Accountant', fields: [
    {pointer: '/accountant/method', label: 'Method', texts: described(accountants),
     help: 'How the answer is computed.'},
    {pointer: '/accountant/tolerance', label: 'Tolerance', advanced: true,
     help: 'The relative width of the numerical bracket.'},
    {pointer: '/accountant/bad_event_share', label: 'Bad events’ share', advanced: true, help: 'Of delta; the best one is found if empty.'},
    {pointer: '/accountant/max_order', label: 'Largest order', advanced: true,
     help: 'Of the moments.'},
    {pointer: '/accountant/bandwidth', label: 'Bandwidth', advanced: true,
     help: 'Of the bound for balls in bins: more is tighter, and dearer.'},
    {pointer: '/accountant/samples', label: 'Samples', advanced: true, help: 'Draws a direction; if empty, as many as are needed.'},
    {pointer: '/accountant/seed', label: 'Seed', advanced: true,
     help: 'If empty, it follows from the job. One of your own is listed among the assumptions.'},
    {pointer: '/accountant/threshold_share', label: 'Threshold’s share', advanced: true,
     help: 'The verifier’s threshold over delta; not together with samples.'},
    {pointer: '/accountant/estimator', label: 'Estimator', advanced: true,
     help: 'How is drawn; auto takes what needs fewer draws.'},
    {pointer: '/accountant/max_seconds', label: 'Seconds', advanced: true,
     help: 'Drawing stops then, with the best guarantee reached.'},
    {pointer: '/accountant/audit', label: 'Audit', advanced: true, when: (v) => v('@unknown') !== 'curve',
     help: 'So many draws bound the truth from below; never a part of the guarantee.'},
  ]},
];

/* ---------------------------------------------------------------- what the table says */

const KINDS = {real: 'number', boolean: 'switch', id: 'text', label: 'text', phases: 'json'};

/* [value, text, family]: the last where only that family takes the name. */
function optionsOf({texts = {}, none}, rows) {
  const family = (row) => rows.length > 1 ? row.variants[0] : undefined;
  const names = rows.flatMap((row) => row.names.map((name) => [name, texts[name] ?? name, family(row)]));
  return none ? [['', none], ...names] : names;
}

function helpOf({help}, {type, range, initial}) {
  const shown = ['real', 'integer'].includes(type) && initial !== undefined;
  return [help, range && `Must lie in ${range}.`, shown && `Default: ${initial}.`].filter(Boolean).join(' ');
}

/* kind: integer, number, text, switch (true or false), numbers (a list), rows (a list of lists) or json; a name has
 * `options`. */
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

/* What a field holds where nothing was entered. */
export function start(field) {
  return field.start ?? (field.options ? field.options[0][0] : '');
}
