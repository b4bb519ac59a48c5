/*
 * Selects a part of a list by status, label and page. The selection is part of the address, and the service applies it.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
import {h} from './dom.js';

const STATUSES = ['queued', 'running', 'succeeded', 'failed', 'canceled'];
const MEMBERS = ['status', 'label', 'cursor'];
const PAGE = 50;

const search = (query) =>
  new URLSearchParams(MEMBERS.filter((member) => query[member]).map((member) => [member, query[member]]));

/* The path that requests the selected part of the list at `path`. */
export function listed(path, query) {
  const asked = search(query);
  asked.set('limit', PAGE);
  return `${path}?${asked}`;
}

/* The form above the list at `address`; more: elements shown next to it. */
export function filterForm(what, address, {status = '', label = ''}, ...more) {
  return h('form', {class: 'filters', role: 'search', 'aria-label': `Filter ${what}`, onsubmit: (event) => {
    event.preventDefault();
    location.hash = `${address}?${search(Object.fromEntries(new FormData(event.target)))}`;
  }},
  h('label', {for: 'filter-status'}, 'State'),
  h('select', {id: 'filter-status', name: 'status', onchange: (event) => event.target.form.requestSubmit()},
    h('option', {value: ''}, 'all'), STATUSES.map((value) => h('option', {value, selected: value === status}, value))),
  h('label', {for: 'filter-label'}, 'Label'),
  h('input', {id: 'filter-label', name: 'label', type: 'search', value: label, maxlength: 200,
              placeholder: 'exact match'}),
  h('button', {type: 'submit'}, 'Filter'), more);
}

/* next: the cursor of the page after this one, or null. */
export function pageLinks(address, {cursor, ...filter}, next) {
  const link = (text, query) => h('a', {href: `${address}?${search(query)}`}, text);
  return [...(cursor ? [link('Newest', filter)] : []), ...(next ? [link('Older', {...filter, cursor: next})] : [])];
}
