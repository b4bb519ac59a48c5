/*
 * One job's page: where it stands until it is final, then its answer, what that presumes, and the charts, each asked for
 * by itself.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
import {get, poll, post, remove} from './api.js';
import {drawAll, heatMap, lineChart} from './charts.js';
import {announce, badge, copyButton, facts, h, number, safe, seconds, table, trouble, when} from './dom.js';
import {answer, mechanism, name, scheme, steps} from './jobs.js';

const INTERVAL = 1000;     /* ms */
const DRAWN_STEPS = 65536; /* longer ones are for programs */
export const LEAST_DELTA = 1e-16; /* curves end under 1e-15; one of two directions may go on far below */
const FINAL = ['succeeded', 'failed', 'canceled'];

const GUARANTEES = {
  deterministic: 'Proven: no sampling went into this number, and it holds with certainty.',
  estimate_verify_release: 'Verified by draws: epsilon and delta were fixed beforehand, and releasing at this noise multiplier is ' +
                           '(epsilon, delta)-private, the draws counted as a part of the release.',
  high_probability: 'Read off draws: it holds except with the stated failure probability.',
};
const CACHES = {
  result: {hit: 'The whole answer was in the cache.', miss: 'The answer was computed for this job.'},
  factorization: {hit: 'The matrix was in the cache.', miss: 'The matrix was computed.', unused: 'No matrix had to be computed.'},
  pld: {hit: 'Privacy loss distributions were in the cache.', miss: 'Privacy loss distributions were computed.',
        unused: 'No privacy loss distribution was used.'},
};
const NEIGHBOURS = {
  zero_out: 'one example’s contribution set to zero (zero_out)',
  add_remove: 'one example more or less (add_remove)',
  replace_one: 'one example replaced by another (replace_one)',
};

const exactly = (value) => value === null || value === undefined ? '–' : String(value);

/* ---------------------------------------------------------------- the answer */

/* A number of steps or runs, and no bound that is rounded up. */
const largest = ({solved_for: what}) => what === 'n' || what === 'count';

function headline(result) {
  const words = {epsilon: ['ε', 'epsilon'], delta: ['δ', 'delta'], noise_multiplier: ['σ', 'noise multiplier']};
  if (result.solved_for === 'curve') {
    return h('p', {class: 'answer', id: 'answer'}, 'The privacy curve');
  }
  const [sign, word] = words[result.solved_for] || [result.solved_for, result.solved_for];
  const given = Object.keys(words).filter((member) => member !== result.solved_for)
      .map((member) => `${words[member][1]} ${number(result[member], 7)}`);
  return [h('p', {class: 'answer', id: 'answer', 'data-value': exactly(result[result.solved_for])},
            h('span', {'aria-hidden': 'true'}, sign), h('span', {class: 'unseen'}, word), ` = ${largest(result) ? result[result.solved_for] : safe(result[result.solved_for])}`),
          h('p', {class: 'quiet'}, `at ${given.join(' and ')}; in full ${exactly(result[result.solved_for])}`)];
}

function beside(direction) {
  const known = {order: 'order', moments: 'moments', bad_event_share: 'bad events’ share'};
  return Object.entries(known).filter(([member]) => direction[member] !== undefined)
      .map(([member, word]) => `${word} ${number(direction[member])}`).join(', ');
}

/* A table whose last column may have nothing to say. */
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

function phases({result, job}) {
  const rows = (result.phases || []).map((one, index) =>
    [String(index), mechanism(job.phases[index]), scheme(job.phases[index]), number(one.count), number(one.noise_multiplier),
     one.epsilon === null ? '–' : safe(one.epsilon, 7), one.share === null ? '–' : `${Math.round(100 * one.share)}%`,
     [...new Set(Object.values(one.directions).map(({accountant}) => accountant))].join(', ')]);
  return rows.length ? table('Phases, each alone and its share of the whole',
    ['Phase', 'Matrix', 'Sampling', 'Runs', 'Noise', 'Epsilon alone', 'Share', 'Accountant'], rows, {id: 'phases'}) : null;
}

function candidates(result) {
  const rows = result.candidates.map((one) => [one.accountant, one.direction, safe(one.value, 7), beside(one)]);
  return rows.length ? withoutEmpty('Everything that was tried', ['Accountant', 'Direction', 'Value', 'By'], rows, {id: 'candidates'}) : null;
}

function draws(result) {
  const known = Object.entries(result.monte_carlo || {}).filter(([, one]) => one);
  return known.length ? table('Draws', ['Direction', 'Samples', 'Estimate', 'Standard error', 'Threshold', 'Failure probability', 'Estimator'],
    known.map(([direction, one]) => [direction, number(one.samples), number(one.estimate), number(one.standard_error), number(one.threshold),
                                     number(one.failure_probability), one.estimator])) : null;
}

function audit(result) {
  const known = Object.entries(result.audit || {}).filter(([, one]) => one);
  return known.length ? table('Audit: what draws say that the truth is at least (with probability 99.9%)', ['Direction', 'Samples', 'At least', 'Ratio'],
    known.map(([direction, one]) => [direction, number(one.samples), number(one.lower), number(one.ratio)])) : null;
}

function sentences(title, id, list) {
  return list.length ? h('section', {'aria-labelledby': `${id}-title`}, h('h2', {id: `${id}-title`}, title),
                         h('ul', {id}, list.map((text) => h('li', {}, text)))) : null;
}

function resultFacts({result}) {
  const {bracket, sensitivity, factorization, error, sampling} = result;
  return facts([
    ['Bracket of the numerical error', bracket ? `${exactly(bracket.lower)} to ${exactly(bracket.upper)}` : 'none'],
    ['Accountant', result.accountant],
    ['Neighbouring data sets', NEIGHBOURS[result.adjacency]],
    ['Inputs', result.adaptive ? 'may depend on earlier outputs (adaptive)' : 'must not depend on earlier outputs (non-adaptive)'],
    ['Probability p', sampling?.p === null ? null : number(sampling?.p, 7)],
    ['Bins', sampling?.bins],
    ['Expected batch', sampling?.expected_batch_size === null ? null : number(sampling?.expected_batch_size)],
    ['Sensitivity', sensitivity && `${number(sensitivity.value, 7)} (${sensitivity.rule}${sensitivity.exact ? '' : ', a bound'})`],
    ['Mean squared error', error && number(error.mean_squared, 7)],
    ['Largest squared error', error && number(error.max_squared, 7)],
    ['Last squared error', error && number(error.last_squared, 7)],
    ['Factorization', factorization && h('code', {class: 'long'}, factorization.id)],
    ['Optimality gap', factorization?.optimality_gap === null ? null : number(factorization?.optimality_gap)],
    ['BLT decays', factorization?.blt?.decay.join(', ')],
    ['BLT scales', factorization?.blt?.scale.join(', ')],
    ['Computed in', `${seconds(result.compute_seconds)} of processor time; this job waited ${seconds(result.elapsed_seconds)}`],
    ['Version', `${result.version}, accounting ${result.accounting_version}`],
  ]);
}

function caches(result) {
  const list = Object.entries(CACHES).map(([part, words]) => words[result.cache[part]]).filter(Boolean);
  return sentences('Caches', 'caches', list);
}

/* ---------------------------------------------------------------- the charts */

/* A place for what is asked for by itself. */
function place(title, id, load) {
  const body = h('div', {id: `${id}-place`}, h('p', {class: 'quiet'}, 'Being computed …'));
  const section = h('section', {'aria-labelledby': `${id}-title`}, h('h2', {id: `${id}-title`}, title), body);
  load(body).then((content) => {
    body.replaceChildren(...[content].flat());
    drawAll(body);
  });
  return section;
}

async function fetched(path, show) {
  const reply = await get(path);
  return reply.problem ? h('p', {class: 'quiet'}, reply.problem.detail || reply.problem.title) : show(reply.body);
}

export function curveLines({points}, label) {
  const of = (member) => points.map((point) => ({x: point.epsilon, y: point[member]})).filter((point) => point.y !== null);
  return label ? [{label, points: of('delta')}]
               : [{label: 'delta (the larger)', points: of('delta')}, {label: 'remove', points: of('remove'), dashed: true},
                  {label: 'add', points: of('add'), dashed: true}];
}

function curve(document) {
  const {epsilon, delta} = document.result;
  return () => fetched(document.links.curve, (body) => {
    const lines = curveLines(body);
    if (epsilon !== null && delta !== null) {
      lines.push({label: 'this job', points: [{x: epsilon, y: delta}], marks: true, colour: 3});
    }
    return lineChart({id: 'curve', title: 'Delta against epsilon', x: 'epsilon', y: 'delta', least: LEAST_DELTA, lines});
  });
}

export function errorLine({variance}, label) {
  return {label, points: variance.map((value, step) => ({x: step, y: value}))};
}

export const tooLong = ({job}) => (job.phases || [job]).some(({n}) => n > DRAWN_STEPS);

/* Of a job of phases, the one that was chosen; `show` gets what the query then says. */
function byPhase({job}, show) {
  if (!job.phases) {
    return () => show('');
  }
  return async () => {
    const map = h('div', {}, await show('phase=0'));
    return [h('label', {}, 'Phase ', h('select', {onchange: async (event) => {
      map.replaceChildren(...[await show(`phase=${event.target.value}`)].flat());
      drawAll(map);
    }}, job.phases.map((phase, index) => h('option', {value: String(index)}, String(index))))), map];
  };
}

function error(document) {
  return byPhase(document, (query) => fetched(`${document.links.error}${query && '?'}${query}`, (body) => lineChart(
    {id: 'error', title: 'Variance of each step’s answer', x: 'step', y: 'variance', lines: [errorLine(body, 'variance')]})));
}

function spend({links}) {
  return () => fetched(links.spend, (body) => lineChart({id: 'spend', title: 'Epsilon as training goes on', x: 'step', y: 'epsilon',
    lines: [{label: 'epsilon', points: body.points.map(({step, epsilon}) => ({x: step, y: epsilon}))}]}));
}

function matrix(document) {
  const parts = {encoder: ['C', 'C, the strategy'], noise: ['C⁻¹', 'C⁻¹, which correlates the noise'], decoder: ['B', 'B = A C⁻¹, the decoder']};
  return byPhase(document, async (query) => {
    const show = (part) => fetched(`${document.links.matrix}?part=${part}${query && '&'}${query}`, (body) => heatMap(body, parts[part][0]));
    const map = h('div', {}, await show('encoder'));
    return [h('label', {for: 'part'}, 'Part'), ' ',
            h('select', {id: 'part', onchange: async (event) => map.replaceChildren(...[await show(event.target.value)].flat())},
              Object.entries(parts).map(([part, [, text]]) => h('option', {value: part}, text))), map];
  });
}

const none = (text) => async () => h('p', {class: 'quiet'}, text);

function charts(document) {
  const {links} = document;
  const long = none(`This job has more than ${DRAWN_STEPS} steps: ask the service for the numbers.`);
  return h('div', {class: 'charts'},
           links.curve ? place('Privacy curve', 'curve', curve(document)) : null,
           document.job.phases && links.spend ? place('Spent so far', 'spend', spend(document)) : null,
           links.error ? place('Error per step', 'error', tooLong(document) ? long : error(document)) : null,
           links.matrix ? place('Matrix', 'matrix', tooLong(document) ? long : matrix(document)) : null);
}

/* ---------------------------------------------------------------- the page */

function succeeded(document) {
  const {result} = document;
  return [h('section', {class: 'result', 'aria-label': 'Answer'}, headline(result), h('p', {id: 'guarantee'}, GUARANTEES[result.guarantee])),
          sentences('Hints', 'hints', result.hints), sentences('What it presumes', 'assumptions', result.assumptions),
          h('section', {'aria-labelledby': 'details-title'}, h('h2', {id: 'details-title'}, 'In detail'), directions(result), phases(document),
            resultFacts(document), candidates(result), draws(result), audit(result)),
          charts(document), caches(result)];
}

function failed(document) {
  const {error: problem} = document;
  return [h('section', {class: 'result'}, h('p', {class: 'answer', id: 'answer'}, document.status === 'canceled' ? 'Canceled' : 'Failed'),
            problem ? trouble(problem) : null,
            problem?.errors ? h('ul', {}, problem.errors.map((one) => h('li', {}, h('code', {}, one.pointer), ` ${one.detail}`))) : null)];
}

/* Asks before it forgets. */
function deleteButton(document, fail) {
  const dialog = h('dialog', {'aria-labelledby': 'forget-title'}, h('h2', {id: 'forget-title'}, 'Forget this job?'),
    h('p', {}, 'Its answer goes with it. A later equal job may still find it in the cache.'),
    h('form', {method: 'dialog', class: 'actions'}, h('button', {value: 'no'}, 'Keep it'),
      h('button', {value: 'yes', class: 'danger', id: 'delete-yes'}, 'Delete')));
  dialog.addEventListener('close', async () => {
    if (dialog.returnValue === 'yes') {
      const reply = await remove(document.links.self);
      if (reply.problem) {
        fail(reply.problem);
      } else {
        announce('The job is gone');
        location.hash = '#/';
      }
    }
  });
  return [h('button', {type: 'button', class: 'danger', id: 'delete', onclick: () => dialog.showModal()}, 'Delete'), dialog];
}

function cancelButton(document, fail) {
  return h('button', {type: 'button', class: 'danger', id: 'cancel', onclick: async (event) => {
    event.target.disabled = true;
    const reply = await post(document.links.cancel, '');
    if (reply.problem) {
      event.target.disabled = false;
      fail(reply.problem);
    }
  }}, 'Cancel');
}

class Page {
  constructor(main) {
    this.title = h('h1', {tabindex: '-1'}, 'Job');
    this.state = h('p', {class: 'state', id: 'state'});
    this.actions = h('div', {class: 'actions'});
    this.notes = h('div');
    this.body = h('div');
    this.final = null;
    main.append(this.title, this.state, this.actions, this.notes, this.body);
  }

  fail(problem) {
    this.notes.replaceChildren(trouble(problem));
  }

  /* Those that there are do not change before the job is final. */
  act(document, final) {
    const fail = (problem) => this.fail(problem);
    this.actions.replaceChildren(...[
      final ? deleteButton(document, fail) : cancelButton(document, fail),
      copyButton('Copy JSON', () => JSON.stringify(this.document, null, 2)),
      h('a', {class: 'button', href: `#/new?from=${document.id}`}, 'Change and submit again'),
      h('a', {class: 'button', href: document.links.self}, 'JSON')].flat());
  }

  wait({progress, status}) {
    if (status === 'queued' || !progress) {
      this.body.replaceChildren(h('p', {class: 'quiet'}, 'It waits for a worker.'));
      return;
    }
    const bar = this.body.querySelector('progress') || h('progress', {max: 1, 'aria-label': 'Progress of this job'});
    bar.value = progress.fraction;
    const left = progress.remaining_seconds === null || progress.remaining_seconds === undefined ? ''
      : `, about ${seconds(progress.remaining_seconds)} to go`;
    const words = h('p', {class: 'quiet'}, `${Math.floor(100 * progress.fraction)}%${progress.stage ? `, ${progress.stage}` : ''}${left}`);
    this.body.replaceChildren(bar, words);
  }

  /* False: there will be no news. */
  show({status, problem, body}) {
    if (problem) {
      this.fail(problem);
      return status === 0 || status >= 500;
    }
    this.document = body;
    this.notes.replaceChildren();
    const final = FINAL.includes(body.status);
    const title = `Job ${name(body)}`;
    if (this.title.textContent !== title) {
      this.title.textContent = title;
      document.title = `${title} – epsilond`;
    }
    this.state.replaceChildren(badge(body.status), ` ${mechanism(body.job)}, ${scheme(body.job)}, ${steps(body.job)}${body.job.phases ? '' : ' steps'}; created `,
                               when(body.created_at));
    if (this.final !== final) {
      this.act(body, final);
      if (this.final === false) {
        announce(`The job has ${body.status} ${answer(body)}`);
      }
      this.final = final;
    }
    if (!final) {
      this.wait(body);
      return true;
    }
    this.body.replaceChildren(...(body.status === 'succeeded' ? succeeded(body) : failed(body)).filter(Boolean),
      h('details', {}, h('summary', {}, 'The job, to post again'),
        h('pre', {tabindex: '0', id: 'job-json'}, JSON.stringify(body.job, null, 2))));
    return false;
  }
}

/* The view; returns what ends it. */
export function showJob(main, id) {
  const page = new Page(main);
  return poll(`/v1/jobs/${encodeURIComponent(id)}`, INTERVAL, (reply) => page.show(reply));
}
