/*
 * Sweeps: their list, the form that starts one from a job and a grid of values, and one sweep's page with its table and a
 * chart of what was found over what was varied.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
import {get, post} from './api.js';
import {saveButton} from './buttons.js';
import {drawAll, dropAll, lineChart} from './charts.js';
import {badge, h, number, safe} from './dom.js';
import {showGroup, showList} from './groups.js';
import {sortable} from './sortable.js';

const KIND = {noun: 'sweep', plural: 'sweeps', children: 'points', asked: ['base', 'grid']};
const PAGE = 500; /* points a request */
const LINES = 12; /* of a chart, at most */
const FOUND = ['epsilon', 'delta', 'noise_multiplier', 'mean_squared'];
const BASE = {n: 1000, sampling: {scheme: 'poisson', p: 0.01}, delta: 1e-6};
const GRID = {'/noise_multiplier': [0.6, 0.8, 1, 1.2, 1.5, 2]};

/* ---------------------------------------------------------------- the form */

function area(id, label, help, value) {
  const entry = h('textarea', {id, rows: 8, spellcheck: 'false', 'aria-describedby': `${id}-help ${id}-error`});
  entry.value = JSON.stringify(value, null, 2);
  return {entry, element: h('div', {class: 'field'}, h('label', {for: id}, label), entry, h('p', {class: 'help', id: `${id}-help`}, help),
                            h('p', {class: 'error', id: `${id}-error`}))};
}

/* Errors stand at the text that they point into. */
function refuse(form, areas, summary, problem) {
  summary.replaceChildren(h('h2', {}, problem.title), h('p', {}, problem.detail || ''));
  for (const {pointer, detail} of problem.errors || []) {
    const [entry] = Object.entries(areas).filter(([member]) => pointer.startsWith(`/${member}`)).map(([, one]) => one.entry);
    if (entry) {
      entry.setAttribute('aria-invalid', 'true');
      form.querySelector(`#${entry.id}-error`).append(`${pointer}: ${detail} `);
    } else {
      summary.append(h('p', {}, `${pointer}: ${detail}`));
    }
  }
  (form.querySelector('[aria-invalid]') || summary).focus();
}

/* Two texts become one body: only here is it known in which of them the JSON ends too early. */
function unreadable(pointer, text) {
  try {
    JSON.parse(text);
    return [];
  } catch (error) {
    return [{pointer, detail: error.message}];
  }
}

function sweepForm(base) {
  const areas = {
    base: area('sweep-base', 'Base job', 'A job as JSON; what the grid gives may be left out. A job’s page copies one.', base),
    grid: area('sweep-grid', 'Grid', 'Values by JSON pointer; every combination is a point, 10,000 at most.', GRID),
  };
  const label = h('input', {id: 'sweep-label', type: 'text', maxlength: 200, autocomplete: 'off', 'aria-describedby': 'sweep-label-help'});
  const summary = h('div', {class: 'summary', role: 'alert', tabindex: '-1'});
  const form = h('form', {id: 'sweep-form', 'aria-label': 'Sweep', novalidate: true, onsubmit: async (event) => {
    event.preventDefault();
    summary.replaceChildren();
    form.querySelectorAll('.error').forEach((one) => one.replaceChildren());
    form.querySelectorAll('[aria-invalid]').forEach((one) => one.removeAttribute('aria-invalid'));
    const errors = Object.entries(areas).flatMap(([member, {entry}]) => unreadable(`/${member}`, entry.value));
    if (errors.length) {
      refuse(form, areas, summary, {title: 'This is no JSON', errors});
      return;
    }
    /* Sent as it was written, digit for digit. */
    const name = label.value ? `,"label":${JSON.stringify(label.value)}` : '';
    const answer = await post('/v1/sweeps', `{"base":${areas.base.entry.value},"grid":${areas.grid.entry.value}${name}}`);
    if (answer.problem) {
      refuse(form, areas, summary, answer.problem);
    } else {
      location.hash = `#/sweeps/${answer.body.id}`;
    }
  }}, summary, h('fieldset', {}, h('legend', {}, 'New sweep'), areas.base.element, areas.grid.element,
                 h('div', {class: 'field'}, h('label', {for: 'sweep-label'}, 'Label'), label,
                   h('p', {class: 'help', id: 'sweep-label-help'}, 'Yours, at most 200 characters.')),
                 h('div', {class: 'actions'}, h('button', {type: 'submit', class: 'primary', id: 'sweep-submit'}, 'Start the sweep'))));
  return form;
}

/* The view; returns what ends it. */
export function showSweeps(main, query) {
  return showList(main, KIND, query, sweepForm(BASE));
}

/* ---------------------------------------------------------------- one sweep */

async function points(sweep) {
  const all = [];
  for (let cursor = null, first = true; first || cursor; first = false) {
    const {problem, body} = await get(`${sweep.links.points}?limit=${PAGE}${cursor ? `&cursor=${cursor}` : ''}`);
    if (problem) {
      return {problem, all};
    }
    all.push(...body.items);
    cursor = body.next;
  }
  return {all};
}

const plain = (value) => typeof value === 'number' || typeof value === 'string' ? value : value === undefined ? null : JSON.stringify(value);

function columns(pointers) {
  const found = (member) => ({title: member, read: (point) => point[member],
                              show: (point) => member === 'mean_squared' ? number(point[member]) : safe(point[member])});
  return [...pointers.map((pointer) => ({title: pointer, read: (point) => plain(point[pointer]), show: (point) => String(plain(point[pointer]))})),
          {title: 'status', read: (point) => point.status, show: (point) => badge(point.status)}, ...FOUND.map(found),
          {title: 'accountant', read: (point) => point.accountant, show: (point) => point.accountant ?? point.detail ?? '–'},
          {title: 'job', read: (point) => point.job, show: (point) => point.job ? h('a', {href: `#/jobs/${point.job}`}, `…${point.job.slice(-8)}`) : '–'}];
}

/* A line for each combination of the pointers that are not on the axis. */
function lines(all, pointers, x, y) {
  const groups = new Map();
  for (const point of all) {
    if (typeof point[x] === 'number' && point[y] !== null) {
      const key = pointers.filter((pointer) => pointer !== x).map((pointer) => `${pointer} ${plain(point[pointer])}`).join(', ') || y;
      groups.set(key, [...(groups.get(key) || []), {x: point[x], y: point[y]}]);
    }
  }
  return [...groups].slice(0, LINES).map(([label, some]) => ({label, points: some.sort((a, b) => a.x - b.x)}));
}

function choice(id, label, values, chosen, change) {
  return [h('label', {for: id}, label), h('select', {id, onchange: (event) => change(event.target.value)},
    values.map((value) => h('option', {value, selected: value === chosen}, value)))];
}

/* The table and the chart, once there are points. */
class Points {
  constructor() {
    this.chart = h('div');
    this.table = h('div');
    this.turn = 0;
  }

  draw() {
    dropAll(this.chart);
    const {pointers, all, x, y} = this;
    if (!x || !all.some((point) => point[y] !== null)) {
      this.chart.replaceChildren();
      return;
    }
    this.chart.replaceChildren(h('p', {class: 'filters'},
      choice('sweep-y', 'What was found', FOUND, y, (value) => { this.y = value; this.draw(); }),
      choice('sweep-x', 'over', this.axes, x, (value) => { this.x = value; this.draw(); })),
    lineChart({id: 'sweep-chart', title: `${y} over ${x}`, x, y, lines: lines(all, pointers, x, y)}));
    drawAll(this.chart);
  }

  begin(sweep) {
    this.pointers = Object.keys(sweep.grid);
    this.axes = this.pointers.filter((pointer) => sweep.grid[pointer].some((value) => typeof value === 'number'));
    this.x = this.axes[0];
    this.y = FOUND.find((member) => !(member in sweep.base) && !(`/${member}` in sweep.grid)) || FOUND[0];
    this.sorted = sortable('points', 'Points', columns(this.pointers));
    this.table.append(this.sorted.element, h('div', {class: 'actions'}, saveButton('Save as CSV', 'sweep.csv', sweep.links.points, 'text/csv')));
  }

  async fill(sweep, fail) {
    const turn = ++this.turn;
    const {problem, all} = await points(sweep);
    if (turn !== this.turn) {
      return; /* later news came first */
    }
    if (problem) {
      fail(problem);
      return;
    }
    if (!this.all) {
      this.begin(sweep);
    }
    this.all = all;
    this.sorted.fill(all);
    this.draw();
  }
}

/* The view; returns what ends it. */
export function showSweep(main, id) {
  const shown = new Points();
  return showGroup(main, KIND, id, h('div', {}, shown.chart, shown.table), (sweep, fail) => shown.fill(sweep, fail));
}
