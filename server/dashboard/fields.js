/*
 * Every member of a job, once: where it stands (a JSON pointer), what it is called, how it is written, when it applies
 * and what it means. The form, its help, the place of each error and the job are made from this table; a test compares
 * it with openapi.yaml.
 *
 * kind: integer, number, text, switch (true or false), numbers (a list), rows (a list of lists), json; or `options`, of which
 * [value, text, family] is there for that family only. What is `advanced` is folded away. A pointer that starts with @ is
 * a choice of the form's own and is not sent.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */

const of = (pointer, ...values) => (v) => values.includes(v(pointer));
const both = (...conditions) => (v) => conditions.every((condition) => condition(v));

const optimised = of('/matrix/family', 'banded', 'banded_inverse', 'blt', 'optimal');
const aimed = both(optimised, (v) => v('/matrix/family') !== 'blt' || v('@blt') === 'buffers');
const sampled = of('/sampling/scheme', 'poisson', 'cyclic_poisson', 'b_min_sep');
const byBatch = (v) => v('@rate') === 'batch' || v('@length') === 'epochs';
const method = (...names) => of('/accountant/method', ...names);
const draws = method('auto', 'monte_carlo');

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

const described = (names) => Object.entries(names).map(([name, text]) => [name, `${name} – ${text}`]);

export const sections = [
  {title: 'What to find', fields: [
    {pointer: '@unknown', label: 'Find', options: [['epsilon', 'epsilon – the privacy that this noise gives'],
      ['noise_multiplier', 'noise multiplier – the noise that this privacy needs'], ['delta', 'delta'],
      ['n', 'steps – how many keep this epsilon and delta'], ['curve', 'the whole privacy curve']],
     help: 'A job gives two of epsilon, delta and noise multiplier; the service finds the third, on the safe side.'},
    {pointer: '/noise_multiplier', label: 'Noise multiplier', kind: 'number', when: (v) => v('@unknown') !== 'noise_multiplier', start: '1',
     help: 'Sigma: the standard deviation of the noise at clip norm 1, from 1e-9 to 1e9.'},
    {pointer: '/epsilon', label: 'Epsilon', kind: 'number', when: of('@unknown', 'delta', 'noise_multiplier', 'n'), start: '4',
     help: 'In nats, from 0 to 10000.'},
    {pointer: '/delta', label: 'Delta', kind: 'number', when: of('@unknown', 'epsilon', 'noise_multiplier', 'n'), start: '1e-6',
     help: 'From 1e-300 to under 1; usually well under one over the number of examples.'},
  ]},
  {title: 'Training', fields: [
    {pointer: '@length', label: 'Length given by', options: [['n', 'steps'], ['epochs', 'epochs'], ['phases', 'phases, one after the other']],
     help: 'Epochs need the batch size and the size of the data set; the number of steps follows. Phases are several mechanisms.'},
    {pointer: '/phases', label: 'Phases', kind: 'json', when: of('@length', 'phases'),
     start: '[{"n": 100, "sampling": {"scheme": "poisson", "p": 0.01}}]',
     help: 'A JSON list: each has n or epochs, sampling, matrix and workload as a job has them, noise_scale (its noise multiplier is the job’s times this, from 1e-6 to 1e6) and count (how often it is run, or "max").'},
    {pointer: '/examples_per_user', label: 'Examples per user', kind: 'integer', when: of('@length', 'phases'),
     help: 'Protects so many examples of one user together, in every phase; 1 if empty.'},
    {pointer: '/n', label: 'Steps', kind: 'integer', when: both(of('@length', 'n'), (v) => v('@unknown') !== 'n'), start: '1000',
     help: 'n: how many batches are processed, and so the rows of the matrix.'},
    {pointer: '/epochs', label: 'Epochs', kind: 'number', when: of('@length', 'epochs'),
     help: 'Passes over the data, over 0; n = epochs × data set ÷ batch, rounded up.'},
    {pointer: '/sampling/scheme', label: 'Sampling', options: described(schemes), start: 'poisson',
     help: 'How one example takes part. A loader that only shuffles is “none” with schema “shuffled”: nothing amplifies it.'},
    {pointer: '@rate', label: 'Rate given by', when: both((v) => v('/sampling/scheme') !== 'none', of('@length', 'n')),
     options: [['p', 'probability, or bins'], ['batch', 'batch size and data set size']],
     help: 'What follows from a batch size is shown with the answer.'},
    {pointer: '/sampling/p', label: 'Probability p', kind: 'number', when: (v) => sampled(v) && !byBatch(v), start: '0.01',
     help: 'With which an example is drawn each time that it may be: from 1e-20 to 1.'},
    {pointer: '/sampling/bins', label: 'Bins', kind: 'integer',
     when: (v) => v('/sampling/scheme') === 'balls_in_bins' && !byBatch(v),
     help: 'Batches of one epoch; n must be a multiple of it.'},
    {pointer: '/sampling/batch_size', label: 'Batch size', kind: 'integer',
     when: (v) => byBatch(v) || v('/sampling/scheme') === 'none', help: 'Expected number of examples in a batch.'},
    {pointer: '/sampling/dataset_size', label: 'Data set size', kind: 'integer', when: () => true,
     help: 'Number of examples. Needed with a batch size and with truncation; else it may stay empty.'},
    {pointer: '/sampling/epochs', label: 'Participations (epochs)', kind: 'integer', when: of('/sampling/scheme', 'none'),
     help: 'How often an example takes part at most; 1 if empty.'},
    {pointer: '/sampling/separation', label: 'Separation', kind: 'integer', when: of('/sampling/scheme', 'none', 'b_min_sep'),
     help: 'Steps from one participation to the next. If empty: n ÷ epochs, rounded down; under b_min_sep the bands of the matrix.'},
    {pointer: '/sampling/schema', label: 'Schema', when: of('/sampling/scheme', 'none'),
     options: [['fixed_order', 'fixed_order – exactly the separation apart'], ['min_separation', 'min_separation – at least the separation apart'],
       ['shuffled', 'shuffled – once in every epoch, anywhere in it']], help: 'In which pattern the participations lie.'},
    {pointer: '/sampling/groups', label: 'Groups', kind: 'integer', when: of('/sampling/scheme', 'cyclic_poisson'),
     help: 'Parts of the data, which have their turns one after the other. If empty: the bands of the matrix.'},
    {pointer: '/sampling/redraw', label: 'New bins every epoch', kind: 'switch', when: of('/sampling/scheme', 'balls_in_bins'),
     help: 'For matrices of which no row reaches over an epoch.', start: 'false'},
    {pointer: '/sampling/warm_start', label: 'Warm start', kind: 'switch', when: of('/sampling/scheme', 'b_min_sep'), start: '',
     help: 'Whether sampling begins in its steady state. If not chosen: yes, but no with several examples per user.'},
    {pointer: '/sampling/truncation/max_batch_size', label: 'Largest batch', kind: 'integer', when: sampled,
     help: 'Larger batches are cut to a random subset of so many. If empty, none is cut. Needs the size of the data set.'},
    {pointer: '/sampling/examples_per_user', label: 'Examples per user', kind: 'integer',
     when: of('/sampling/scheme', 'poisson', 'b_min_sep'), help: 'Protects so many examples of one user together; 1 if empty.'},
    {pointer: '/sampling/last_iterate', label: 'Last iterate only', kind: 'switch', when: of('/sampling/scheme', 'poisson'),
     help: 'For linear losses where only the last iterate is released; with family identity.', start: 'false'},
  ]},
  {title: 'Matrix', fields: [
    {pointer: '/matrix/family', label: 'Family', options: described(families), start: 'identity',
     help: 'The strategy matrix C by which the noise of the steps is correlated.'},
    {pointer: '@blt', label: 'Given by', when: of('/matrix/family', 'blt'),
     options: [['buffers', 'a number of buffers, optimised'], ['lists', 'decays and scales']],
     help: 'The best decays and scales are found, or given.'},
    {pointer: '/matrix/buffers', label: 'Buffers', kind: 'integer', when: both(of('/matrix/family', 'blt'), of('@blt', 'buffers')),
     help: 'From 1 to 16: the noise rows that a trainer keeps.', start: '3'},
    {pointer: '/matrix/decay', label: 'Decays', kind: 'numbers', when: both(of('/matrix/family', 'blt'), of('@blt', 'lists')),
     help: 'Numbers between 0 and 1, separated by commas or spaces.'},
    {pointer: '/matrix/scale', label: 'Scales', kind: 'numbers', when: both(of('/matrix/family', 'blt'), of('@blt', 'lists')),
     help: 'As many numbers as there are decays.'},
    {pointer: '/matrix/coefficients', label: 'Coefficients', kind: 'numbers', when: of('/matrix/family', 'toeplitz'),
     help: 'The first column of C: 1 to n numbers, separated by commas or spaces; the rest are 0.'},
    {pointer: '/matrix/rows', label: 'Rows', kind: 'rows', when: of('/matrix/family', 'dense'),
     help: 'One row a line: row i has i + 1 numbers (from i = 0), or all have n.'},
    {pointer: '/matrix/id', label: 'Factorization', kind: 'text', when: of('/matrix/family', 'stored'),
     help: 'The factorization id that an earlier result names: 64 hexadecimal digits.'},
    {pointer: '/matrix/bands', label: 'Bands', kind: 'integer', start: '16',
     when: of('/matrix/family', 'square_root', 'inverse_square_root', 'banded', 'banded_inverse'),
     help: 'How many steps the noise reaches back. Of square_root, empty means all of them.'},
    {pointer: '/matrix/toeplitz', label: 'Toeplitz', kind: 'switch', when: of('/matrix/family', 'banded'), start: 'true',
     help: 'No: each column is its own, with equal norms; n up to 4096.'},
    {pointer: '/matrix/column_normalize', label: 'Normalize columns', kind: 'switch', when: of('/matrix/family', 'banded'), start: 'false',
     help: 'Divides each column of the Toeplitz matrix by its norm.'},
    {pointer: '/matrix/nonnegative', label: 'Gram matrix nonnegative', kind: 'switch', when: of('/matrix/family', 'optimal'), start: 'true',
     help: 'No: nonnegative only where one participation pattern looks.'},
    {pointer: '/matrix/decoder', label: 'Decoder', when: of('/matrix/family', 'tree', 'fourier'),
     options: [['', 'the default of the family'], ['online', 'online – can run with the training', 'tree'],
       ['full', 'full – from all nodes', 'tree'], ['optimal', 'optimal – the pseudoinverse', 'fourier'],
       ['standard', 'standard – the square root once more', 'fourier']],
     help: 'How the sums are read off the noisy nodes. Defaults: online for tree, optimal for fourier.'},
    {pointer: '/matrix/objective', label: 'Objective', when: aimed, options: [['mean_squared', 'mean squared error'], ['max_squared', 'largest squared error']],
     help: 'The error that the optimiser makes small.'},
    {pointer: '/matrix/gap', label: 'Gap', kind: 'number', when: aimed, advanced: true,
     help: 'The relative gap in the loss at which the optimiser stops, from 1e-12 to under 1; 0.001 if empty.'},
    {pointer: '/matrix/epochs', label: 'Optimise for participations', kind: 'integer', when: aimed, advanced: true,
     help: 'If empty: those of the sampling.'},
    {pointer: '/matrix/separation', label: 'Optimise for separation', kind: 'integer', when: aimed, advanced: true,
     help: 'If empty: that of the sampling.'},
    {pointer: '/matrix/normalization', label: 'Normalization', advanced: true, when: () => true,
     options: [['max_column', 'max_column – the largest column norm is 1'], ['none', 'none – as the family defines it'],
       ['sensitivity', 'sensitivity – divided by its sensitivity']],
     help: 'The scaling of C that the noise multiplier refers to. “sensitivity” is for sampling “none”.'},
    {pointer: '/matrix/stamps', label: 'Stamps', kind: 'integer', advanced: true, when: () => true,
     help: 'C of n ÷ stamps steps is repeated so often down the diagonal; 1 if empty.'},
  ]},
  {title: 'Privacy and workload', fields: [
    {pointer: '/adjacency', label: 'Adjacency', when: () => true,
     options: [['zero_out', 'zero_out – a contribution set to zero'], ['add_remove', 'add_remove – one example more or less'],
       ['replace_one', 'replace_one – one example replaced']], help: 'In what two neighbouring data sets differ.'},
    {pointer: '/workload/type', label: 'Workload', when: () => true,
     options: [['prefix_sum', 'prefix sums – plain SGD'], ['momentum', 'momentum'], ['toeplitz', 'Toeplitz, given']],
     help: 'What is made of the gradients: for the error figures, and for families that follow it.'},
    {pointer: '/workload/momentum', label: 'Momentum', kind: 'number', when: of('/workload/type', 'momentum'), start: '0.9', help: 'From 0 to under 1.'},
    {pointer: '/workload/decay', label: 'Decay', kind: 'number', when: of('/workload/type', 'momentum'), help: 'Of the weights in each step; 1 if empty.'},
    {pointer: '/workload/cooldown/from', label: 'Cooldown from', kind: 'number', when: of('/workload/type', 'momentum'),
     help: 'The part of the training, 0 to 1, after which the learning rate falls. If empty, it does not.'},
    {pointer: '/workload/cooldown/to', label: 'Cooldown to', kind: 'number', when: of('/workload/type', 'momentum'),
     help: 'What the learning rate falls to at the end, as a part of what it was.'},
    {pointer: '/workload/coefficients', label: 'Workload coefficients', kind: 'numbers', when: of('/workload/type', 'toeplitz'),
     help: 'The first column of the workload matrix: 1 to n numbers.'},
    {pointer: '/label', label: 'Label', kind: 'text', when: () => true, help: 'Yours, to find the job again; at most 200 characters.'},
  ]},
  {title: 'Accountant', fields: [
    {pointer: '/accountant/method', label: 'Method', options: described(accountants), start: 'auto',
     help: 'How the answer is computed.'},
    {pointer: '/accountant/tolerance', label: 'Tolerance', kind: 'number', advanced: true, when: (v) => v('/accountant/method') !== 'monte_carlo',
     help: 'The relative width of the numerical bracket, 1e-9 to 0.1; 0.001 if empty.'},
    {pointer: '/accountant/bad_event_share', label: 'Bad events’ share', kind: 'number', advanced: true,
     when: method('auto', 'mmcc', 'conditional_composition'), help: 'Of delta, from 1e-12 to under 1; the best one is found if empty.'},
    {pointer: '/accountant/max_order', label: 'Largest order', kind: 'integer', advanced: true, when: method('auto', 'renyi'),
     help: 'Of the moments, 2 to 1000000.'},
    {pointer: '/accountant/bandwidth', label: 'Bandwidth', kind: 'integer', advanced: true, when: method('auto', 'renyi'),
     help: 'Of the bound for balls in bins: more is tighter, and dearer.'},
    {pointer: '/accountant/samples', label: 'Samples', kind: 'integer', advanced: true, when: draws, help: 'Draws a direction; if empty, as many as are needed.'},
    {pointer: '/accountant/seed', label: 'Seed', kind: 'integer', advanced: true, when: draws,
     help: 'If empty, it follows from the job. One of your own is listed among the assumptions.'},
    {pointer: '/accountant/threshold_share', label: 'Threshold’s share', kind: 'number', advanced: true, when: draws,
     help: 'The verifier’s threshold over delta, from 1e-6 to under 1; not together with samples.'},
    {pointer: '/accountant/estimator', label: 'Estimator', advanced: true, when: draws,
     options: [['auto', 'auto'], ['plain', 'plain'], ['tilted', 'tilted']], help: 'How is drawn; auto takes what needs fewer draws.'},
    {pointer: '/accountant/max_seconds', label: 'Seconds', kind: 'number', advanced: true, when: draws,
     help: 'Drawing stops then, with the best guarantee reached; from 0.001 to 1e9.'},
    {pointer: '/accountant/audit', label: 'Audit', kind: 'integer', advanced: true, when: (v) => v('@unknown') !== 'curve',
     help: 'So many draws bound the truth from below; never a part of the guarantee.'},
  ]},
];

export const fields = sections.flatMap((section) => section.fields);

/* What a field holds where nothing was entered. */
export function start(field) {
  return field.start ?? (field.options ? field.options[0][0] : '');
}
