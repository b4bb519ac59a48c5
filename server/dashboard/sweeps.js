/*
 * Sweeps: their list, the form that starts one from a job and a grid of values, and one sweep's page with its table and a
 * chart of what was found over what was varied.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
import {get, poll, post, remove} from './api.js';
import {drawAll, dropAll, lineChart} from './charts.js';
import {badge, h, number, safe, trouble, when} from './dom.js';
import {sortable} from './sortable.js';

const INTERVAL = 2000; /* ms */
const PAGE = 500;      /* points a request */
const LINES = 12;      /* of a chart, at most */
const FINAL = ['succeeded', 'failed', 'canceled'];
const FOUND = ['epsilon', 'delta', 'noise_multiplier', 'mean_squared'];
const BASE = {n: 1000, sampling: {scheme: 'poisson', p: 0.01}, delta: 1e-6};
const GRID = {'/noise_multiplier': [0.6, 0.8, 1, 1.2, 1.5, 2]};

const name = (sweep) => sweep.label || `…${sweep.id.slice(-8)}`;

/* ---------------------------------------------------------------- the list and the form */

function row(sweep) {
  return h('tr', {'data-id': sweep.id}, h('th', {scope: 'row'}, h('a', {href: `#/sweeps/${sweep.id}`, title: sweep.id}, name(sweep))),
           h('td', {}, badge(sweep.status)), h('td', {}, `${sweep.done} of ${sweep.total}`), h('td', {}, number(sweep.failed)),
           h('td', {}, when(sweep.created_at)));
}

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

/* The view; returns what ends it. `cursor`: where the page of the list begins. */
export function showSweeps(main, {cursor}) {
  const body = h('tbody'), notes = h('div'), pages = h('nav', {class: 'pages', 'aria-label': 'Pages'});
  let text = '';
  main.append(h('h1', {tabindex: '-1'}, 'Sweeps'), notes, h('div', {class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Sweeps'},
    h('table', {id: 'sweeps'}, h('caption', {class: 'unseen'}, 'Sweeps, newest first'),
      h('thead', {}, h('tr', {}, ['Sweep', 'State', 'Done', 'Failed', 'Created'].map((heading) => h('th', {scope: 'col'}, heading)))), body)),
    pages, sweepForm(BASE));
  const search = new URLSearchParams({limit: 50, ...(cursor ? {cursor} : {})});
  return poll(`/v1/sweeps?${search}`, INTERVAL, ({status, problem, body: list}) => {
    notes.replaceChildren(...(problem ? [trouble(problem)] : list.items.length ? [] : [h('p', {class: 'empty'}, 'No sweeps here.')]));
    if (problem) {
      return status === 0 || status >= 500;
    }
    if (JSON.stringify(list) !== text) {
      text = JSON.stringify(list);
      body.replaceChildren(...list.items.map(row));
      pages.replaceChildren(...(cursor ? [h('a', {href: '#/sweeps'}, 'Newest')] : []),
                            ...(list.next ? [h('a', {href: `#/sweeps?cursor=${list.next}`}, 'Older')] : []));
    }
    return true;
  });
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

class Page {
  constructor(main) {
    this.title = h('h1', {tabindex: '-1'}, 'Sweep');
    this.state = h('p', {class: 'state', id: 'state'});
    this.bar = h('progress', {max: 1, 'aria-label': 'Progress of this sweep'});
    this.actions = h('div', {class: 'actions'});
    this.notes = h('div');
    this.chart = h('div');
    this.table = h('div');
    this.done = -1;
    main.append(this.title, this.state, this.bar, this.actions, this.notes, this.chart, this.table);
  }

  act(sweep, final) {
    const ask = async (request, then) => {
      const {problem} = await request();
      this.notes.replaceChildren(...(problem ? [trouble(problem)] : []));
      if (!problem) {
        then?.();
      }
    };
    this.actions.replaceChildren(
      final ? h('button', {type: 'button', class: 'danger', id: 'delete', onclick: () => {
        if (confirm('Forget this sweep and its points?')) {
          ask(() => remove(sweep.links.self), () => { location.hash = '#/sweeps'; });
        }
      }}, 'Delete') : h('button', {type: 'button', class: 'danger', id: 'cancel', onclick: () => ask(() => post(sweep.links.cancel, ''))}, 'Cancel'),
      h('a', {class: 'button', href: sweep.links.points}, 'Points as JSON'));
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

  async fill(sweep) {
    const {problem, all} = await points(sweep);
    if (problem) {
      this.notes.replaceChildren(trouble(problem));
      return;
    }
    const first = !this.all;
    this.all = all;
    if (first) {
      this.pointers = Object.keys(sweep.grid);
      this.axes = this.pointers.filter((pointer) => sweep.grid[pointer].some((value) => typeof value === 'number'));
      this.x = this.axes[0];
      this.y = FOUND.find((member) => !(member in sweep.base) && !(`/${member}` in sweep.grid)) || FOUND[0];
      this.sorted = sortable('points', 'Points', columns(this.pointers));
      this.table.append(this.sorted.element);
    }
    this.sorted.fill(all);
    this.draw();
  }

  show({status, problem, body: sweep}) {
    if (problem) {
      this.notes.replaceChildren(trouble(problem));
      return status === 0 || status >= 500;
    }
    const final = FINAL.includes(sweep.status);
    this.title.textContent = `Sweep ${name(sweep)}`;
    this.state.replaceChildren(badge(sweep.status), `${sweep.done} of ${sweep.total} points, ${sweep.failed} failed; created `, when(sweep.created_at));
    this.bar.value = sweep.done / sweep.total;
    this.bar.hidden = final;
    if (this.final !== final) {
      this.final = final;
      this.act(sweep, final);
    }
    if (this.done !== sweep.done || final) {
      this.done = sweep.done;
      this.fill(sweep);
    }
    return !final;
  }
}

/* The view; returns what ends it. */
export function showSweep(main, id) {
  const page = new Page(main);
  return poll(`/v1/sweeps/${encodeURIComponent(id)}`, INTERVAL, (reply) => page.show(reply));
}
