/*
 * Plans: the form that requests a ranking of mechanisms, and the page of a plan, which shows the ranking as results
 * arrive.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
import {post} from './api.js';
import {lineChart, redraw} from './charts.js';
import {json, write} from './build.js';
import {badge, facts, h, number, safe} from './dom.js';
import {families, schemes} from './fields.js';
import {showGroup, showList} from './groups.js';
import {ofPlan} from './question.js';
import {sortable} from './sortable.js';


/* member: [label, help, initial value, kind] */
const FIELDS = {
  epochs: ['Epochs', 'Passes over the data, or several numbers separated by commas.', '20', 'list'],
  n: ['Steps', 'Instead of epochs; one or several numbers.', '', 'list'],
  batch_size: ['Batch size', 'The expected size; one or several numbers.', '500', 'list'],
  dataset_size: ['Data set size', 'Number of examples.', '50000'],
  epsilon: ['Epsilon', 'The epsilon of the training, in nats.', '4'],
  delta: ['Delta', 'Between 0 and 1.', '1e-5'],
  max_bands: ['Maximum noise rows',
              'The number of noise rows that fit in memory, including the current one; no limit if empty.', '16'],
  max_seconds: ['Seconds of a verification', 'Of draws for each candidate, if the best are verified; 60 if empty.', ''],
  workload: ['Workload', 'As JSON, such as {"type": "momentum", "momentum": 0.9}; prefix sums (plain SGD) if empty.',
             '', 'json'],
};
/* member: [label, help, value if it is ticked] */
const FLAGS = {
  verify: ['Verify the best by draws',
           'When all candidates are done, Monte Carlo draws lower the noise of up to three of them, if they can.',
           'draws'],
};
const CHOICES = {
  objective: ['Objective', 'The error to minimise.', ['mean_squared', 'max_squared']],
  adjacency: ['Adjacency', 'How two neighbouring data sets differ.', ['zero_out', 'add_remove', 'replace_one']],
};
const SETS = {
  schemes: ['Schemes', 'The schemes that the data loader supports; all if none is selected.', Object.keys(schemes)],
  families: ['Families', 'All if none is selected.',
             Object.keys(families).filter((name) => !['toeplitz', 'dense', 'stored'].includes(name))],
};

const KIND = {noun: 'plan', plural: 'plans', children: 'candidates',
              asked: [FIELDS, CHOICES, SETS, FLAGS].flatMap(Object.keys), question: ofPlan, found: {
  Error: ({best: [first] = [], objective}) => number(first?.error[objective]),
  Noise: ({best: [first] = []}) => safe(first?.noise_multiplier),
  Gain: ({best: [first] = []}) => number(first?.gain, 4),
  Best: ({best: [first] = []}) => first ? mechanism(first) : '–',
}};

/* ---------------------------------------------------------------- the form */

function row(member, label, help, control) {
  const id = `plan-${member}`;
  control.setAttribute('aria-describedby', `${id}-help ${id}-error`);
  control.id = id;
  return h('div', {class: 'field'}, h('label', {for: id}, label), control,
           h('p', {class: 'help', id: `${id}-help`}, help),
           h('p', {class: 'error', id: `${id}-error`}));
}

function ticks(member, [label, help, names]) {
  const id = `plan-${member}`;
  return h('fieldset', {class: 'ticks', id, tabindex: '-1', 'aria-describedby': `${id}-help ${id}-error`},
           h('legend', {}, label),
           h('p', {class: 'help', id: `${id}-help`}, help),
           names.map((name) => h('label', {}, h('input', {type: 'checkbox', name: member, value: name}), ` ${name}`)),
           h('p', {class: 'error', id: `${id}-error`}));
}

function tick(member, [label, help, value]) {
  const id = `plan-${member}`;
  return h('div', {class: 'field'},
           h('label', {for: id}, h('input', {type: 'checkbox', id, name: member, value,
                                             'aria-describedby': `${id}-help ${id}-error`}), ` ${label}`),
           h('p', {class: 'help', id: `${id}-help`}, help),
           h('p', {class: 'error', id: `${id}-error`}));
}

const numeral = (text) => text === '' || Number.isNaN(Number(text)) ? text : Number(text);

/* A value that cannot be read is sent as it was entered, and the service reports the error. */
const readers = {
  json,
  number: numeral,
  list: (text) => {
    const values = text.split(/[\s,;]+/).filter(Boolean).map(numeral);
    return values.length > 1 ? values : numeral(values[0] ?? text);
  },
};

/* Empty fields are not sent. */
function read(form) {
  const data = new FormData(form);
  const plan = {};
  for (const [member, [, , , kind = 'number']] of Object.entries(FIELDS)) {
    const text = data.get(member).trim();
    if (text) {
      plan[member] = readers[kind](text);
    }
  }
  [CHOICES, FLAGS].flatMap(Object.keys).filter((member) => data.has(member))
    .forEach((member) => { plan[member] = data.get(member); });
  Object.keys(SETS).filter((member) => data.has(member)).forEach((member) => { plan[member] = data.getAll(member); });
  return data.get('label') ? {...plan, label: data.get('label')} : plan;
}

function refuse(form, summary, problem) {
  summary.replaceChildren(h('h2', {}, problem.title), h('p', {}, problem.detail || ''));
  for (const {pointer, detail} of problem.errors || []) {
    const id = `plan-${pointer.split('/')[1]}`;
    const entry = form.querySelector(`[id="${id}"]`);
    if (entry) {
      entry.setAttribute('aria-invalid', 'true');
      form.querySelector(`#${id}-error`).append(`${detail} `);
    } else {
      summary.append(h('p', {}, `${pointer} ${detail}`));
    }
  }
  (form.querySelector('[aria-invalid]') || summary).focus();
}

function planForm() {
  const summary = h('div', {class: 'summary', role: 'alert', tabindex: '-1'});
  const form = h('form', {id: 'plan-form', 'aria-label': 'Plan', novalidate: true, onsubmit: async (event) => {
    event.preventDefault();
    summary.replaceChildren();
    form.querySelectorAll('.error').forEach((one) => one.replaceChildren());
    form.querySelectorAll('[aria-invalid]').forEach((one) => one.removeAttribute('aria-invalid'));
    const answer = await post('/v1/plans', write(read(form)));
    if (answer.problem) {
      refuse(form, summary, answer.problem);
    } else {
      location.hash = `#/plans/${answer.body.id}`;
    }
  }}, summary, h('fieldset', {}, h('legend', {}, 'New plan'),
    Object.entries(FIELDS).map(([member, [label, help, value]]) =>
      row(member, label, help, h('input', {type: 'text', name: member, value, autocomplete: 'off'}))),
    Object.entries(CHOICES).map(([member, [label, help, values]]) =>
      row(member, label, help, h('select', {name: member}, values.map((value) => h('option', {}, value))))),
    Object.entries(SETS).map(([member, set]) => ticks(member, set)),
    Object.entries(FLAGS).map(([member, flag]) => tick(member, flag)),
    row('label', 'Label', 'At most 200 characters.',
        h('input', {type: 'text', name: 'label', maxlength: 200, autocomplete: 'off'})),
    h('div', {class: 'actions'},
      h('button', {type: 'submit', class: 'primary', id: 'plan-submit'}, 'Submit the plan'))));
  return form;
}

/* The view; returns a function that ends it. */
export function showPlans(main, query) {
  return showList(main, KIND, query, planForm());
}

/* ---------------------------------------------------------------- one plan */

async function submit(job, fail) {
  const answer = await post('/v1/jobs', JSON.stringify(job));
  if (answer.problem) {
    fail(answer.problem);
  } else {
    location.hash = `#/jobs/${answer.body.id}`;
  }
}

const size = ({bands, buffers}) => bands ? `, ${bands}\u00a0bands` : buffers ? `, ${buffers}\u00a0buffers` : '';

const mechanism = (one) => `${one.family}${size(one)} under ${one.scheme}`;

/* Kept narrow, so that rank, mechanism, error and noise fit on the screen of a phone. */
const MECHANISM = {title: 'mechanism', read: mechanism,
                   show: (one) =>
                     h('span', {class: 'mechanism'}, `${one.family}${size(one)}`, ' ',
                       h('span', {class: 'quiet'}, one.scheme))};

const plain = (member, title = member) => ({title, read: (one) => one[member], show: (one) => one[member] ?? '–'});

const figure = (member, title = member) =>
  ({title, read: (one) => one.error?.[member] ?? null, show: (one) => number(one.error?.[member])});

const FIGURES = [{title: 'noise', read: (one) => one.noise_multiplier, show: (one) => safe(one.noise_multiplier)},
                 {title: 'gain', read: (one) => one.gain, show: (one) => number(one.gain, 4)}];

/* What the error would be without a proof; – where that is no less. */
const ESTIMATE = {title: 'error by estimate', read: ({estimate}) => estimate?.noise_multiplier ? estimate.error : null,
                  show: ({estimate}) => estimate?.noise_multiplier ? number(estimate.error) : '–'};

/* How a candidate was verified by draws, or why it was not. */
const told = ({verification: one}) => !one ? '–' : one.reason ? `not verified: ${one.reason}` : one.status;

const VERIFICATION = {title: 'verification', read: ({verification}) => verification?.status ?? null,
                      show: (one) => h('span', {class: 'why'}, one.verified ? 'verified' : told(one))};

/* objective: the error by which candidates are ranked. */
const best = (objective) =>
  [plain('rank'), MECHANISM, figure(objective, 'error'), ...FIGURES, plain('buffers'), plain('n'), plain('batch_size')];

function columns(objective, fail) {
  const button = (one) =>
    h('button', {type: 'button', 'aria-label': `Submit ${mechanism(one)} as a job`,
                 onclick: () => submit(one.job, fail)}, 'Submit');
  const other = objective === 'max_squared' ? 'mean_squared' : 'max_squared';
  return [...best(objective), plain('accountant'),
          {title: 'job', read: () => null, show: (one) => one.job ? button(one) : '–'}, figure(other),
          ESTIMATE, plain('guarantee'), VERIFICATION,
          {title: 'noise by proof', read: (one) => (one.proven ?? one).noise_multiplier,
           show: (one) => safe((one.proven ?? one).noise_multiplier)},
          {title: 'status', read: (one) => one.status, show: (one) => badge(one.status)},
          {title: 'why not', read: (one) => one.reason, show: (one) => h('span', {class: 'why'}, one.reason ?? '')}];
}

/* What a verified value presumes. */
function presumed({proven, verification: one}) {
  const chances = Object.values(one.monte_carlo ?? {}).filter(Boolean).map((draws) => draws.failure_probability);
  return h('div', {id: 'plan-verified'},
    h('p', {}, `Verified by draws (${one.guarantee}); ${safe(proven.noise_multiplier)} is proven without them.`,
      chances.length ? ` The draws fail with a probability of at most ${number(Math.max(...chances), 3)}, ` +
                       'which delta includes.' : ''),
    h('details', {}, h('summary', {}, 'What this presumes'),
      h('ul', {}, one.assumptions.map((text) => h('li', {}, text)))));
}

/* The best candidate so far, and its gain. */
function headline({best: [first], candidates, objective, status, hint}) {
  if (!first) {
    return h('section', {class: 'result', 'aria-label': 'Answer'},
             h('p', {class: 'quiet'}, 'No candidate has a result yet.'));
  }
  const gain = first.gain === null
    ? 'The gain over DP-SGD is unknown: DP-SGD (identity under poisson) has no result in this plan.'
    : first.gain > 1
      ? `Its error is ${number(1 / first.gain, 3)} of that of DP-SGD (identity under poisson), at the same epsilon ` +
        `and delta: a gain of ${number(first.gain, 4)}.`
      : 'No candidate is better than DP-SGD (identity under poisson).';
  return h('section', {class: 'result', 'aria-label': 'Answer'},
    h('p', {class: 'quiet'}, status === 'running' ? 'Best so far' : 'Best'),
    h('p', {class: 'answer name', id: 'answer'}, `${first.family}${size(first)}, ${first.scheme}`),
    h('p', {},
      `Noise multiplier ${safe(first.noise_multiplier)}, ${objective} ${number(first.error[objective])}, ` +
      `${number(first.buffers)} noise rows kept.`),
    h('p', {id: 'gain'}, gain),
    first.verified && presumed(candidates[0]),
    hint && h('p', {id: 'plan-hint'}, `By its estimate, ${hint}.`));
}

/* The fixed values. */
function asked(plan) {
  const of = (value) => value === null || value === undefined ? null
    : [value].flat().map((one) => number(one)).join(', ');
  return facts([['Epsilon', of(plan.epsilon)], ['Delta', of(plan.delta)],
                ['Data set', `${number(plan.dataset_size)} examples`],
                ['Batch size', of(plan.batch_size)], ['Epochs', of(plan.epochs)], ['Steps', of(plan.n)],
                ['Maximum noise rows', of(plan.max_bands) ?? 'any number'], ['Ranked by', plan.objective]]);
}

/* The ranking value over the memory that it needs (counted like max_bands, with the current row), one line per family.
 * A family keeps its colour when others appear. */
function lines(candidates, figure, average) {
  const byFamily = new Map();
  for (const {family, buffers, error, batch_size: batch} of candidates) {
    if (error?.[figure]) {
      byFamily.set(family, [...(byFamily.get(family) || []),
                            {x: buffers + 1, y: error[figure] / (average ? batch ** 2 : 1)}]);
    }
  }
  return [...byFamily].map(([label, points]) =>
                           ({label, points, marks: true, colour: SETS.families[2].indexOf(label)}));
}

/* The view; returns a function that ends it. */
export function showPlan(main, id) {
  const top = h('div'), chart = h('div'), place = h('div');
  let ten = null, table = null;
  return showGroup(main, KIND, id, h('div', {}, top, place), (plan, fail) => {
    if (!table) {
      ten = sortable('best', 'The ten best candidates', best(plan.objective));
      table = sortable('candidates', 'All candidates, best first', columns(plan.objective, fail));
      place.append(ten.element, chart, table.element);
    }
    top.replaceChildren(headline(plan), asked(plan));
    ten.fill(plan.best);
    table.fill(plan.candidates);
    const average = Array.isArray(plan.batch_size);
    const name = `${plan.objective}${average ? ' / batch_size²' : ''}`;
    const shown = lines(plan.candidates, plan.objective, average);
    redraw(chart, shown.length
           && lineChart({id: 'plan-chart', title: `${name} by number of noise rows, including the current one`,
                                             x: 'noise rows', y: name, wide: true, lines: shown}));
  });
}
