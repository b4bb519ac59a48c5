/*
 * The result of a job in words and tables: the number in large type, its assumptions, how it was found and what came
 * from caches; or why there is no result.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
import {facts, h, number, safe, seconds, table, trouble} from './dom.js';
import {mechanism, scheme, steps} from './jobs.js';

const GUARANTEES = {
  deterministic: 'Proven: computed without random draws, and holds with certainty.',
  estimate_verify_release: 'Verified by draws: epsilon and delta were fixed beforehand, and releasing at this noise ' +
                           'multiplier is (epsilon, delta)-private, with the draws counted as part of the release.',
  high_probability: 'Estimated from draws: holds except with the stated failure probability.',
};
const CACHES = {
  result: {hit: 'The whole result was in the cache.', miss: 'The result was computed for this job.'},
  factorization: {hit: 'The matrix was in the cache.', miss: 'The matrix was computed.',
                  unused: 'No matrix was needed.'},
  pld: {hit: 'Privacy loss distributions were in the cache.', miss: 'Privacy loss distributions were computed.',
        unused: 'The cache of privacy loss distributions was not used.'},
};
const NEIGHBOURS = {
  zero_out: 'one example’s contribution is set to zero (zero_out)',
  add_remove: 'one example is added or removed (add_remove)',
  replace_one: 'one example is replaced by another (replace_one)',
};

const exactly = (value) => value === null || value === undefined ? '–' : String(value);

/* A value rounded to `digits` digits; null if there is none, so that facts() omits it. */
const figure = (value, digits) => value === null || value === undefined ? null : number(value, digits);

/* Whether the answer is a number of steps or runs, which is not rounded up. */
const largest = ({solved_for: what}) => what === 'n' || what === 'count';

function headline(result) {
  const words = {epsilon: ['ε', 'epsilon'], delta: ['δ', 'delta'], noise_multiplier: ['σ', 'noise multiplier']};
  if (result.solved_for === 'curve') {
    return h('p', {class: 'answer', id: 'answer'}, 'The privacy curve');
  }
  const [sign, word] = words[result.solved_for] || [result.solved_for, result.solved_for];
  const shown = largest(result) ? result[result.solved_for] : safe(result[result.solved_for]);
  const given = Object.keys(words).filter((member) => member !== result.solved_for)
      .map((member) => `${words[member][1]} ${number(result[member], 7)}`);
  return [h('p', {class: 'answer', id: 'answer', 'data-value': exactly(result[result.solved_for])},
            h('span', {'aria-hidden': 'true'}, sign), h('span', {class: 'unseen'}, word), ` = ${shown}`),
          h('p', {class: 'quiet'}, `at ${given.join(' and ')}; exact value ${exactly(result[result.solved_for])}`)];
}

function beside(direction) {
  const known = {order: 'order', moments: 'moments', bad_event_share: 'bad event share'};
  return Object.entries(known).filter(([member]) => direction[member] !== undefined)
      .map(([member, word]) => `${word} ${number(direction[member])}`).join(', ');
}

/* A table that omits its last column if that is empty. */
function withoutEmpty(caption, headings, rows, attributes) {
  const said = rows.some((row) => row[row.length - 1] !== '');
  const cut = (row) => said ? row : row.slice(0, -1);
  return table(caption, cut(headings), rows.map(cut), attributes);
}

function directions(result) {
  const words = {remove: 'an example removed', add: 'an example added'};
  const rows = Object.entries(result.directions).map(([direction, one]) =>
    [words[direction], safe(one.value, 7), one.accountant, beside(one)]);
  return withoutEmpty('Both directions', ['Direction', 'Value', 'Accountant', 'By'], rows, {id: 'directions'});
}

const share = ({share: part}) => part === null ? '–' : `${number(100 * part, 2)}%`;

function phases({result, job}) {
  const rows = (result.phases || []).map((one, index) =>
    [String(index), mechanism(job.phases[index]), scheme(job.phases[index]), steps(job.phases[index]),
     number(one.count),
     number(one.noise_multiplier), safe(one.epsilon, 7), share(one), number(one.error?.mean_squared),
     [...new Set(Object.values(one.directions).map(({accountant}) => accountant))].join(', ')]);
  return rows.length ? table('Phases, with the epsilon of each alone and its share of the total',
    ['Phase', 'Matrix', 'Sampling', 'Steps', 'Runs', 'Noise', 'Epsilon alone', 'Share', 'Mean squared error',
     'Accountant'], rows,
    {id: 'phases'}) : null;
}

function candidates(result) {
  const rows = result.candidates.map((one) => [one.accountant, one.direction, safe(one.value, 7), beside(one)]);
  return rows.length
    ? withoutEmpty('All bounds computed', ['Accountant', 'Direction', 'Value', 'By'], rows, {id: 'candidates'}) : null;
}

function draws(result) {
  const known = Object.entries(result.monte_carlo || {}).filter(([, one]) => one);
  return known.length
    ? table('Draws', ['Direction', 'Samples', 'Estimate', 'Standard error', 'Threshold', 'Failure probability',
                      'Estimator'],
    known.map(([direction, one]) =>
              [direction, number(one.samples), number(one.estimate), number(one.standard_error), number(one.threshold),
                                     number(one.failure_probability), one.estimator])) : null;
}

function audit(result) {
  const known = Object.entries(result.audit || {}).filter(([, one]) => one);
  return known.length
    ? table('Audit: lower bound on the true value from draws (with probability 99.9%)',
            ['Direction', 'Samples', 'At least', 'Ratio'],
    known.map(([direction, one]) => [direction, number(one.samples), number(one.lower), number(one.ratio)])) : null;
}

function sentences(title, id, list) {
  return list.length ? h('section', {'aria-labelledby': `${id}-title`}, h('h2', {id: `${id}-title`}, title),
                         h('ul', {id}, list.map((text) => h('li', {}, text)))) : null;
}

function withoutProof(estimate) {
  return estimate && `${number(estimate.value)} \u00b1 ${number(estimate.standard_error, 2)} (standard error), ` +
    `from ${number(estimate.samples)} draws of ${estimate.direction}; no guarantee`;
}

function resultFacts({result}) {
  const {bracket, sensitivity, factorization, error, sampling} = result;
  return facts([
    ['Numerical bracket', bracket ? `${exactly(bracket.lower)} to ${exactly(bracket.upper)}, ` +
      (bracket.exact ? 'contains the exact value' : 'of the bound of the accountant') : 'none'],
    ['Lower bound on the exact value', result.least === null ? null : exactly(result.least)],
    ['Estimate without proof', withoutProof(result.unproven_estimate)],
    ['Accountant', result.accountant],
    ['Neighbouring data sets', NEIGHBOURS[result.adjacency]],
    ['Inputs',
     result.adaptive ? 'may depend on earlier outputs (adaptive)'
       : 'must not depend on earlier outputs (non-adaptive)'],
    ['Probability p', figure(sampling?.p, 7)],
    ['Bins', sampling?.bins],
    ['Expected batch', figure(sampling?.expected_batch_size)],
    ['Sensitivity',
     sensitivity && `${number(sensitivity.value, 7)} (${sensitivity.rule}${sensitivity.exact ? '' : ', a bound'})`],
    ['Mean squared error', figure(error?.mean_squared, 7)],
    ['Largest squared error', figure(error?.max_squared, 7)],
    ['Last squared error', figure(error?.last_squared, 7)],
    ['Factorization', factorization && h('code', {class: 'long'}, factorization.id)],
    ['Optimality gap', figure(factorization?.optimality_gap)],
    ['BLT decays', factorization?.blt?.decay.join(', ')],
    ['BLT scales', factorization?.blt?.scale.join(', ')],
    ['Computed in',
     `${seconds(result.compute_seconds)} of processor time; this job waited ${seconds(result.elapsed_seconds)}`],
    ['Version', `${result.version}, accounting ${result.accounting_version}`],
  ]);
}

/* ---------------------------------------------------------------- all of it */

/* The headline. */
export function headed({result}) {
  return h('section', {class: 'result', 'aria-label': 'Answer'}, headline(result),
           h('p', {id: 'guarantee'}, GUARANTEES[result.guarantee]));
}

export function succeeded(document) {
  const {result} = document;
  return [sentences('Hints', 'hints', result.hints), sentences('Assumptions', 'assumptions', result.assumptions),
          h('section', {'aria-labelledby': 'details-title'}, h('h2', {id: 'details-title'}, 'In detail'),
            directions(result), phases(document),
            resultFacts(document), candidates(result), draws(result), audit(result))];
}

/* For the operator of the service. */
export function caches({result}) {
  return sentences('Caches', 'caches', Object.entries(CACHES).map(([part, words]) =>
    words[result.cache[part]]).filter(Boolean));
}

export function failed({status, error: problem}) {
  return h('section', {class: 'result', 'aria-label': 'Answer'},
           h('p', {class: 'answer', id: 'answer'}, status === 'canceled' ? 'Canceled' : 'Failed'),
           problem ? trouble(problem) : null,
           problem?.errors
             ? h('ul', {}, problem.errors.map((one) => h('li', {}, h('code', {}, one.pointer), ` ${one.detail}`)))
               : null);
}
