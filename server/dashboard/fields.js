/*
 * One entry for every member of a job: its JSON pointer, its label, its type, when it applies, and its help text. The
 * form, the help texts, the location of errors and the job are generated from this table. A test compares it with
 * openapi.yaml.
 *
 * kind: integer, number, text, switch (true or false), numbers (a list), rows (a list of lists) or json; or `options`,
 * in which [value, text, family] is an option for that family only. Entries marked `advanced` are collapsed. A pointer
 * that starts with @ is a setting of the form and is not sent.
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
  monte_carlo: 'estimates from random draws',
};

const described = (names) => Object.entries(names).map(([name, text]) => [name, `${name} – ${text}`]);

export const sections = [
  {title: 'Unknown', fields: [
    {pointer: '@unknown', label: 'Find', options: [['epsilon', 'epsilon – the privacy for this noise'],
      ['noise_multiplier', 'noise multiplier – the noise for this privacy'], ['delta', 'delta'],
      ['n', 'steps – the largest number for this epsilon and delta'], ['curve', 'privacy curve']],
     help: 'A job gives two of epsilon, delta and noise multiplier; the service computes an upper bound on the third.'},
    {pointer: '/noise_multiplier', label: 'Noise multiplier', kind: 'number',
     when: (v) => v('@unknown') !== 'noise_multiplier', start: '1',
     help: 'Sigma: the standard deviation of the noise at clip norm 1, from 1e-9 to 1e9.'},
    {pointer: '/epsilon', label: 'Epsilon', kind: 'number', when: of('@unknown', 'delta', 'noise_multiplier', 'n'),
     start: '4',
     help: 'In nats, from 0 to 10000.'},
    {pointer: '/delta', label: 'Delta', kind: 'number', when: of('@unknown', 'epsilon', 'noise_multiplier', 'n'),
     start: '1e-6',
     help: 'From 1e-300 to less than 1; usually well below one divided by the number of examples.'},
  ]},
  {title: 'Training', fields: [
    {pointer: '@length', label: 'Length given as',
     options: [['n', 'steps'], ['epochs', 'epochs'], ['phases', 'phases']],
     help: 'Epochs require the batch size and the data set size; the number of steps follows. Phases are several ' +
           'mechanisms in sequence.'},
    {pointer: '/phases', label: 'Phases', kind: 'json', when: of('@length', 'phases'),
     start: '[{"n": 100, "sampling": {"scheme": "poisson", "p": 0.01}}]',
     help: 'A JSON array. Each phase has n or epochs, sampling, matrix and workload like a job; noise_scale (its ' +
           'noise multiplier divided by that of the job, from 1e-6 to 1e6); and count (the number of runs, or ' +
           '"max").'},
    {pointer: '/examples_per_user', label: 'Examples per user', kind: 'integer', when: of('@length', 'phases'),
     help: 'Protects this many examples of one user together, in every phase; 1 if empty.'},
    {pointer: '/n', label: 'Steps', kind: 'integer', when: both(of('@length', 'n'), (v) => v('@unknown') !== 'n'),
     start: '1000',
     help: 'n: the number of batches that are processed, which is the number of rows of the matrix.'},
    {pointer: '/epochs', label: 'Epochs', kind: 'number', when: of('@length', 'epochs'),
     help: 'Passes over the data, more than 0; n = epochs × data set size ÷ batch size, rounded up.'},
    {pointer: '/sampling/scheme', label: 'Sampling', options: described(schemes), start: 'poisson',
     help: 'How an example takes part. For a loader that only shuffles, choose “none” with schema “shuffled”; it ' +
           'has no amplification.'},
    {pointer: '@rate', label: 'Rate given as', when: both((v) => v('/sampling/scheme') !== 'none', of('@length', 'n')),
     options: [['p', 'probability, or bins'], ['batch', 'batch size and data set size']],
     help: 'The result shows the values that are derived from the batch size.'},
    {pointer: '/sampling/p', label: 'Probability p', kind: 'number', when: (v) => sampled(v) && !byBatch(v),
     start: '0.01',
     help: 'The probability with which an example is drawn at each step where it may be, from 1e-20 to 1.'},
    {pointer: '/sampling/bins', label: 'Bins', kind: 'integer',
     when: (v) => v('/sampling/scheme') === 'balls_in_bins' && !byBatch(v),
     help: 'The number of batches in an epoch; n must be a multiple of it.'},
    {pointer: '/sampling/batch_size', label: 'Batch size', kind: 'integer',
     when: (v) => byBatch(v) || v('/sampling/scheme') === 'none', help: 'Expected number of examples in a batch.'},
    {pointer: '/sampling/dataset_size', label: 'Data set size', kind: 'integer', when: () => true,
     help: 'The number of examples. Required with a batch size and with truncation; otherwise optional.'},
    {pointer: '/sampling/epochs', label: 'Participations (epochs)', kind: 'integer',
     when: of('/sampling/scheme', 'none'),
     help: 'The largest number of participations of an example; 1 if empty.'},
    {pointer: '/sampling/separation', label: 'Separation', kind: 'integer',
     when: of('/sampling/scheme', 'none', 'b_min_sep'),
     help: 'The number of steps from one participation to the next. If empty: n ÷ epochs, rounded down; under ' +
           'b_min_sep, the bands of the matrix.'},
    {pointer: '/sampling/schema', label: 'Schema', when: of('/sampling/scheme', 'none'),
     options: [['fixed_order', 'fixed_order – exactly the separation apart'],
               ['min_separation', 'min_separation – at least the separation apart'],
       ['shuffled', 'shuffled – once per epoch, at any step']], help: 'The pattern of the participations.'},
    {pointer: '/sampling/groups', label: 'Groups', kind: 'integer', when: of('/sampling/scheme', 'cyclic_poisson'),
     help: 'The parts of the data, which take turns. If empty: the bands of the matrix.'},
    {pointer: '/sampling/redraw', label: 'New bins every epoch', kind: 'switch',
     when: of('/sampling/scheme', 'balls_in_bins'),
     help: 'For matrices in which no row extends beyond an epoch.', start: 'false'},
    {pointer: '/sampling/warm_start', label: 'Warm start', kind: 'switch', when: of('/sampling/scheme', 'b_min_sep'),
     start: '',
     help: 'Whether sampling starts in its steady state. Default: yes, but no with several examples per user.'},
    {pointer: '/sampling/truncation/max_batch_size', label: 'Largest batch', kind: 'integer', when: sampled,
     help: 'Larger batches are truncated to a random subset of this size; no truncation if empty. Requires the data ' +
           'set size.'},
    {pointer: '/sampling/examples_per_user', label: 'Examples per user', kind: 'integer',
     when: of('/sampling/scheme', 'poisson', 'b_min_sep'),
     help: 'Protects this many examples of one user together; 1 if empty.'},
    {pointer: '/sampling/last_iterate', label: 'Last iterate only', kind: 'switch',
     when: of('/sampling/scheme', 'poisson'),
     help: 'For linear losses if only the last iterate is released; requires family identity.', start: 'false'},
  ]},
  {title: 'Matrix', fields: [
    {pointer: '/matrix/family', label: 'Family', options: described(families), start: 'identity',
     help: 'The strategy matrix C, which correlates the noise of the steps.'},
    {pointer: '@blt', label: 'Given by', when: of('/matrix/family', 'blt'),
     options: [['buffers', 'number of buffers, optimised'], ['lists', 'decays and scales']],
     help: 'Optimise the decays and scales, or give them.'},
    {pointer: '/matrix/buffers', label: 'Buffers', kind: 'integer',
     when: both(of('/matrix/family', 'blt'), of('@blt', 'buffers')),
     help: 'From 1 to 16; the number of noise rows that a trainer keeps.', start: '3'},
    {pointer: '/matrix/decay', label: 'Decays', kind: 'numbers',
     when: both(of('/matrix/family', 'blt'), of('@blt', 'lists')),
     help: 'Numbers between 0 and 1, separated by commas or spaces.'},
    {pointer: '/matrix/scale', label: 'Scales', kind: 'numbers',
     when: both(of('/matrix/family', 'blt'), of('@blt', 'lists')),
     help: 'One scale for each decay.'},
    {pointer: '/matrix/coefficients', label: 'Coefficients', kind: 'numbers', when: of('/matrix/family', 'toeplitz'),
     help: 'The first column of C: 1 to n numbers, separated by commas or spaces; the remaining ones are 0.'},
    {pointer: '/matrix/rows', label: 'Rows', kind: 'rows', when: of('/matrix/family', 'dense'),
     help: 'One row per line: row i has i + 1 numbers (from i = 0), or every row has n.'},
    {pointer: '/matrix/id', label: 'Factorization', kind: 'text', when: of('/matrix/family', 'stored'),
     help: 'The factorization id of an earlier result: 64 hexadecimal digits.'},
    {pointer: '/matrix/bands', label: 'Bands', kind: 'integer', start: '16',
     when: of('/matrix/family', 'square_root', 'inverse_square_root', 'banded', 'banded_inverse'),
     help: 'The number of non-zero diagonals of C, or of its inverse. For square_root, empty means all.'},
    {pointer: '/matrix/toeplitz', label: 'Toeplitz', kind: 'switch', when: of('/matrix/family', 'banded'),
     start: 'true',
     help: 'No: a general banded matrix with equal column norms; n up to 4096.'},
    {pointer: '/matrix/column_normalize', label: 'Normalise columns', kind: 'switch',
     when: of('/matrix/family', 'banded'), start: 'false',
     help: 'Divides each column of the Toeplitz matrix by its norm.'},
    {pointer: '/matrix/nonnegative', label: 'Non-negative Gram matrix', kind: 'switch',
     when: of('/matrix/family', 'optimal'), start: 'true',
     help: 'No: only entries that one participation pattern contains must be non-negative.'},
    {pointer: '/matrix/decoder', label: 'Decoder', when: of('/matrix/family', 'tree', 'fourier'),
     options: [['', 'default of the family'], ['online', 'online – can run during training', 'tree'],
       ['full', 'full – uses all nodes', 'tree'], ['optimal', 'optimal – the pseudoinverse', 'fourier'],
       ['standard', 'standard – the square root, applied a second time', 'fourier']],
     help: 'How the sums are estimated from the noisy nodes. Default: online for tree, optimal for fourier.'},
    {pointer: '/matrix/objective', label: 'Objective', when: aimed,
     options: [['mean_squared', 'mean squared error'], ['max_squared', 'largest squared error']],
     help: 'The error that the optimiser minimises.'},
    {pointer: '/matrix/gap', label: 'Gap', kind: 'number', when: aimed, advanced: true,
     help: 'The relative gap in the loss at which the optimiser stops, from 1e-12 to less than 1; 0.001 if empty.'},
    {pointer: '/matrix/epochs', label: 'Participations to optimise for', kind: 'integer', when: aimed, advanced: true,
     help: 'If empty: those of the sampling.'},
    {pointer: '/matrix/separation', label: 'Separation to optimise for', kind: 'integer', when: aimed, advanced: true,
     help: 'If empty: that of the sampling.'},
    {pointer: '/matrix/normalization', label: 'Normalization', advanced: true, when: () => true,
     options: [['max_column', 'max_column – the largest column norm is 1'], ['none', 'none – as the family defines it'],
       ['sensitivity', 'sensitivity – divided by its sensitivity']],
     help: 'The scaling of C to which the noise multiplier refers. “sensitivity” requires sampling “none”.'},
    {pointer: '/matrix/stamps', label: 'Stamps', kind: 'integer', advanced: true, when: () => true,
     help: 'C for n ÷ stamps steps is repeated this many times along the diagonal; 1 if empty.'},
  ]},
  {title: 'Privacy and workload', fields: [
    {pointer: '/adjacency', label: 'Adjacency', when: () => true,
     options: [['zero_out', 'zero_out – a contribution is set to zero'],
               ['add_remove', 'add_remove – an example is added or removed'],
               ['replace_one', 'replace_one – an example is replaced']],
     help: 'How two neighbouring data sets differ.'},
    {pointer: '/workload/type', label: 'Workload', when: () => true,
     options: [['prefix_sum', 'prefix sums – plain SGD'], ['momentum', 'momentum'], ['toeplitz', 'Toeplitz, given']],
     help: 'What is computed from the gradients; for the error figures, and for families that depend on it.'},
    {pointer: '/workload/momentum', label: 'Momentum', kind: 'number', when: of('/workload/type', 'momentum'),
     start: '0.9', help: 'From 0 to less than 1.'},
    {pointer: '/workload/decay', label: 'Decay', kind: 'number', when: of('/workload/type', 'momentum'),
     help: 'Decay of the weights at each step; 1 if empty.'},
    {pointer: '/workload/cooldown/from', label: 'Cooldown from', kind: 'number', when: of('/workload/type', 'momentum'),
     help: 'The fraction of the training, from 0 to 1, after which the learning rate falls; it is constant if empty.'},
    {pointer: '/workload/cooldown/to', label: 'Cooldown to', kind: 'number', when: of('/workload/type', 'momentum'),
     help: 'The final learning rate as a fraction of the initial one.'},
    {pointer: '/workload/coefficients', label: 'Workload coefficients', kind: 'numbers',
     when: of('/workload/type', 'toeplitz'),
     help: 'The first column of the workload matrix: 1 to n numbers.'},
    {pointer: '/label', label: 'Label', kind: 'text', when: () => true,
     help: 'A name for the job; at most 200 characters.'},
  ]},
  {title: 'Accountant', fields: [
    {pointer: '/accountant/method', label: 'Method', options: described(accountants), start: 'auto',
     help: 'The method that computes the result.'},
    {pointer: '/accountant/tolerance', label: 'Tolerance', kind: 'number', advanced: true,
     when: (v) => v('/accountant/method') !== 'monte_carlo',
     help: 'The relative width of the numerical bracket, 1e-9 to 0.1; 0.001 if empty.'},
    {pointer: '/accountant/bad_event_share', label: 'Bad event share', kind: 'number', advanced: true,
     when: method('auto', 'mmcc', 'conditional_composition'),
     help: 'The fraction of delta, from 1e-12 to less than 1; optimised if empty.'},
    {pointer: '/accountant/max_order', label: 'Largest order', kind: 'integer', advanced: true,
     when: method('auto', 'renyi'),
     help: 'The largest order of the moments, 2 to 1000000.'},
    {pointer: '/accountant/bandwidth', label: 'Bandwidth', kind: 'integer', advanced: true,
     when: method('auto', 'renyi'),
     help: 'Of the bound for balls in bins; a larger bandwidth is tighter and more expensive.'},
    {pointer: '/accountant/samples', label: 'Samples', kind: 'integer', advanced: true, when: draws,
     help: 'The number of draws per direction; if empty, as many as needed.'},
    {pointer: '/accountant/seed', label: 'Seed', kind: 'integer', advanced: true, when: draws,
     help: 'If empty, derived from the job. A seed that you choose is listed among the assumptions.'},
    {pointer: '/accountant/threshold_share', label: 'Threshold’s share', kind: 'number', advanced: true, when: draws,
     help: 'The threshold of the verifier divided by delta, from 1e-6 to less than 1; not with samples.'},
    {pointer: '/accountant/estimator', label: 'Estimator', advanced: true, when: draws,
     options: [['auto', 'auto'], ['plain', 'plain'], ['tilted', 'tilted']],
     help: 'How samples are drawn; auto uses the estimator that needs fewer draws.'},
    {pointer: '/accountant/max_seconds', label: 'Seconds', kind: 'number', advanced: true, when: draws,
     help: 'Drawing stops after this time with the best guarantee reached; from 0.001 to 1e9.'},
    {pointer: '/accountant/audit', label: 'Audit', kind: 'integer', advanced: true,
     when: (v) => v('@unknown') !== 'curve',
     help: 'The number of draws for a lower bound on the true value; not part of the guarantee.'},
  ]},
];

export const fields = sections.flatMap((section) => section.fields);

/* The initial value of a field. */
export function start(field) {
  return field.start ?? (field.options ? field.options[0][0] : '');
}
