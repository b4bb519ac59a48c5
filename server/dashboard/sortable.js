/*
 * A table that is sorted by the column whose heading is pressed; pressing it again reverses the order.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
import {announce, h} from './dom.js';

export const LISTED = 500; /* maximum number of rows in the page */

/* Missing values come last in both orders. */
function compare(a, b, up) {
  if (a === null || b === null) {
    return (a === null) - (b === null);
  }
  const order = typeof a === 'number' && typeof b === 'number' ? a - b : String(a).localeCompare(String(b));
  return up ? order : -order;
}

/* columns: [{title, read: row => value or null, show: row => cell}]. Returns {element, fill(rows)}. Rows that remain
 * keep their elements and therefore the focus. */
export function sortable(id, caption, columns) {
  let rows = [], elements = new Map(), by = null, up = true;
  const body = h('tbody');
  const note = h('p', {class: 'quiet'});
  const headings = columns.map((column) => {
    const heading = h('th', {scope: 'col'}, h('button', {type: 'button', class: 'sort', onclick: () => {
      up = by === column ? !up : true;
      by = column;
      headings.forEach((one) => one.removeAttribute('aria-sort'));
      heading.setAttribute('aria-sort', up ? 'ascending' : 'descending');
      announce(`Sorted by ${column.title}, ${up ? 'ascending' : 'descending'}`);
      draw();
    }}, column.title));
    return heading;
  });
  function draw() {
    const sorted = by ? [...rows].sort((a, b) => compare(by.read(a), by.read(b), up)) : rows;
    note.textContent = rows.length > LISTED ? `The first ${LISTED} of ${rows.length} rows in this order.` : '';
    const before = elements, focused = document.activeElement;
    elements = new Map();
    for (const row of sorted.slice(0, LISTED)) {
      let key = JSON.stringify(row);
      while (elements.has(key)) {
        key += ' '; /* for equal rows */
      }
      elements.set(key, before.get(key) || h('tr', {}, columns.map((column) => h('td', {}, column.show(row)))));
    }
    body.replaceChildren(...elements.values());
    if (body.contains(focused)) {
      focused.focus({preventScroll: true}); /* moving the element lost the focus */
    }
  }
  return {
    element: h('div', {}, h('div', {class: 'scroll', tabindex: '0', role: 'region', 'aria-label': caption},
      h('table', {id}, h('caption', {}, caption), h('thead', {}, h('tr', {}, headings)), body)), note),
    fill(some) {
      rows = some;
      draw();
    },
  };
}
