/*
 * Sweeps: their list, the form that starts one from a job and a grid of values, and the page of a sweep.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
import {post} from './api.js';
import {h} from './dom.js';
import {showGroup, showList} from './groups.js';
import {Points} from './points.js';
import {ofSweep} from './question.js';

const KIND = {noun: 'sweep', plural: 'sweeps', children: 'points', asked: ['base', 'grid'], question: ofSweep};
const BASE = {n: 1000, sampling: {scheme: 'poisson', p: 0.01}, delta: 1e-6};
const GRID = {'/noise_multiplier': [0.6, 0.8, 1, 1.2, 1.5, 2]};

/* ---------------------------------------------------------------- the form */

function area(id, label, help, value) {
  const entry = h('textarea', {id, rows: 8, spellcheck: 'false', 'aria-describedby': `${id}-help ${id}-error`});
  entry.value = JSON.stringify(value, null, 2);
  return {entry, element: h('div', {class: 'field'}, h('label', {for: id}, label), entry,
                            h('p', {class: 'help', id: `${id}-help`}, help),
                            h('p', {class: 'error', id: `${id}-error`}))};
}

/* Shows each error at the text into which its pointer leads. */
function refuse(form, areas, summary, problem) {
  summary.replaceChildren(h('h2', {}, problem.title), h('p', {}, problem.detail || ''));
  for (const {pointer, detail} of problem.errors || []) {
    const [entry] = Object.entries(areas).filter(([member]) => pointer.startsWith(`/${member}`)).map(([, one]) =>
      one.entry);
    if (entry) {
      entry.setAttribute('aria-invalid', 'true');
      form.querySelector(`#${entry.id}-error`).append(`${pointer}: ${detail} `);
    } else {
      summary.append(h('p', {}, `${pointer}: ${detail}`));
    }
  }
  (form.querySelector('[aria-invalid]') || summary).focus();
}

/* Two texts become one body, so a JSON error is located here: only here is it known in which text it is. */
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
    base: area('sweep-base', 'Base job',
               'A job as JSON, without the members that the grid sets. The page of a job has a button that copies it.',
               base),
    grid: area('sweep-grid', 'Grid', 'Values by JSON pointer; every combination is a point, at most 10,000.', GRID),
  };
  const label = h('input', {id: 'sweep-label', type: 'text', maxlength: 200, autocomplete: 'off',
                            'aria-describedby': 'sweep-label-help'});
  const summary = h('div', {class: 'summary', role: 'alert', tabindex: '-1'});
  const form = h('form', {id: 'sweep-form', 'aria-label': 'Sweep', novalidate: true, onsubmit: async (event) => {
    event.preventDefault();
    summary.replaceChildren();
    form.querySelectorAll('.error').forEach((one) => one.replaceChildren());
    form.querySelectorAll('[aria-invalid]').forEach((one) => one.removeAttribute('aria-invalid'));
    const errors = Object.entries(areas).flatMap(([member, {entry}]) => unreadable(`/${member}`, entry.value));
    if (errors.length) {
      refuse(form, areas, summary, {title: 'Invalid JSON', errors});
      return;
    }
    /* The texts are sent unchanged, so that numbers keep their digits. */
    const name = label.value ? `,"label":${JSON.stringify(label.value)}` : '';
    const answer = await post('/v1/sweeps',
                              `{"base":${areas.base.entry.value},"grid":${areas.grid.entry.value}${name}}`);
    if (answer.problem) {
      refuse(form, areas, summary, answer.problem);
    } else {
      location.hash = `#/sweeps/${answer.body.id}`;
    }
  }}, summary, h('fieldset', {}, h('legend', {}, 'New sweep'), areas.base.element, areas.grid.element,
                 h('div', {class: 'field'}, h('label', {for: 'sweep-label'}, 'Label'), label,
                   h('p', {class: 'help', id: 'sweep-label-help'}, 'At most 200 characters.')),
                 h('div', {class: 'actions'}, h('button', {type: 'submit', class: 'primary', id: 'sweep-submit'},
                                                'Submit the sweep'))));
  return form;
}

/* The view; returns a function that ends it. */
export function showSweeps(main, query) {
  return showList(main, KIND, query, sweepForm(BASE));
}

/* The view; returns a function that ends it. */
export function showSweep(main, id) {
  const shown = new Points();
  return showGroup(main, KIND, id, shown.element, (sweep, fail) => shown.fill(sweep, fail));
}
