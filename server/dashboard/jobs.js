/*
 * The list of jobs. It is requested every two seconds; the service filters it and divides it into pages. Rows that
 * remain keep their elements, so that focus and selection survive updates.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
import {poll} from './api.js';
import {announce, badge, h, number, safe, trouble, when} from './dom.js';
import {filterForm, listed, pageLinks} from './listing.js';
import {inShort, parts} from './question.js';

export const COMPARED = 5; /* maximum number of jobs compared */
const INTERVAL = 2000;     /* ms */

const once = (list) => [...new Set(list)].join(' + ');

export function mechanism(job) {
  return once(parts(job).map(matrixOf));
}

export const scheme = (job) => once(parts(job).map(({sampling}) => sampling.scheme));

/* The number of steps in all runs. */
export const steps = (job) => job.phases
  ? `${job.phases.length} ${job.phases.length === 1 ? 'phase' : 'phases'}`
  : job.n === 'max' ? 'max' : number(job.n);

function matrixOf({matrix = {}}) {
  const bands = matrix.bands ? `, ${matrix.bands} bands` : matrix.buffers ? `, ${matrix.buffers} buffers` : '';
  return `${matrix.family || 'identity'}${bands}`;
}

/* The unknown, with its symbol. */
export function answer(document) {
  const result = document.result;
  const signs = {epsilon: 'ε', delta: 'δ', noise_multiplier: 'σ', n: 'n', count: 'count'};
  if (!result) {
    return document.error?.title || '';
  }
  return result.solved_for === 'curve' ? 'curve' : `${signs[result.solved_for]} = ${safe(result[result.solved_for])}`;
}

export function name(document) {
  return document.label || inShort(document.job);
}

function progress(document) {
  if (document.status !== 'running') {
    return badge(document.status);
  }
  const fraction = document.progress?.fraction ?? 0;
  return [badge('running'), h('progress', {max: 1, value: fraction, 'aria-label': `Progress of ${name(document)}`}),
          ` ${Math.floor(100 * fraction)}%`];
}

class List {
  constructor(main, query) {
    this.query = query;
    this.rows = new Map();
    this.chosen = new Set();
    this.body = h('tbody');
    this.notes = h('div');
    this.compare = h('a', {class: 'button', id: 'compare', role: 'link', 'aria-disabled': 'true'}, 'Compare');
    this.pages = h('nav', {class: 'pages', 'aria-label': 'Pages'});
    main.append(h('h1', {tabindex: '-1'}, 'Jobs'),
      filterForm('jobs', '#/', query, this.compare, h('a', {class: 'button primary', href: '#/new'}, 'New job')),
      this.notes,
      h('div', {class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Jobs'},
        h('table', {id: 'jobs'}, h('caption', {class: 'unseen'}, 'Jobs, newest first'),
          h('thead', {}, h('tr', {}, ['Compare', 'Job', 'Answer', 'State', 'Matrix', 'Sampling', 'Steps', 'Created']
              .map((heading, column) =>
                   h('th', {scope: 'col'}, column ? heading : h('span', {class: 'unseen'}, heading))))),
          this.body)), this.pages);
    this.choose();
  }

  /* The selected jobs; when five are selected, the others are disabled. */
  choose() {
    const full = this.chosen.size >= COMPARED;
    for (const row of this.rows.values()) {
      row.tick.disabled = full && !row.tick.checked;
      row.tick.title = row.tick.disabled ? `${COMPARED} jobs can be compared` : '';
    }
    this.compare.textContent = this.chosen.size ? `Compare ${this.chosen.size}` : 'Compare';
    if (this.chosen.size > 1) {
      this.compare.href = `#/compare?ids=${[...this.chosen].join(',')}`;
      this.compare.removeAttribute('aria-disabled');
    } else {
      this.compare.removeAttribute('href');
      this.compare.setAttribute('aria-disabled', 'true');
    }
  }

  row(document) {
    const tick = h('input', {type: 'checkbox', 'aria-label': `Compare ${name(document)}`, onchange: (event) => {
      this.chosen[event.target.checked ? 'add' : 'delete'](document.id);
      this.choose();
    }});
    const cells = Array.from({length: 5}, () => h('td'));
    const link = h('a', {href: `#/jobs/${document.id}`, title: document.id}, name(document));
    return {tick, cells, text: '', status: null,
            element: h('tr', {'data-id': document.id}, h('td', {}, tick), h('th', {scope: 'row'}, link), cells,
                       h('td', {}, when(document.created_at)))};
  }

  fill(row, document) {
    const text = JSON.stringify(document);
    if (text === row.text) {
      return;
    }
    row.text = text;
    const contents = [answer(document), progress(document), mechanism(document.job), scheme(document.job),
                      steps(document.job)];
    row.cells.forEach((cell, column) => cell.replaceChildren(...[contents[column]].flat()));
    if (row.status && row.status !== document.status && document.status !== 'running') {
      announce(`${name(document)} ${document.status} ${answer(document)}`);
    }
    row.status = document.status;
  }

  show({status, problem, body}) {
    if (problem) {
      this.notes.replaceChildren(trouble(problem));
      return status === 0 || status >= 500;
    }
    this.notes.replaceChildren(...(body.items.length ? [] : [h('p', {class: 'empty', id: 'no-jobs'},
      'No jobs here. ', h('a', {href: '#/new'}, 'Create the first one'), ', or POST one to /v1/jobs.')]));
    const there = new Set(body.items.map((item) => item.id));
    for (const [id, row] of this.rows) {
      if (!there.has(id)) {
        row.element.remove();
        this.rows.delete(id);
        this.chosen.delete(id);
      }
    }
    let next = this.body.firstChild;
    for (const item of body.items) {
      const row = this.rows.get(item.id) || this.row(item);
      this.rows.set(item.id, row);
      this.fill(row, item);
      if (row.element === next) {
        next = next.nextSibling;
      } else {
        this.body.insertBefore(row.element, next);
      }
    }
    this.choose();
    this.pages.replaceChildren(...pageLinks('#/', this.query, body.next));
    return true;
  }
}

/* The view; returns a function that ends it. */
export function showJobs(main, query) {
  const list = new List(main, query);
  return poll(listed('/v1/jobs', query), INTERVAL, (answer) => list.show(answer));
}
