/*
 * The code that sweeps and plans share: their list, and the top of a page with status, progress and actions.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
import {poll} from './api.js';
import {cancelButton, deleteButton} from './buttons.js';
import {announce, badge, h, number, trouble, when} from './dom.js';
import {follow} from './follow.js';
import {filterForm, listed, pageLinks} from './listing.js';
import {capital} from './question.js';

const INTERVAL = 2000; /* ms */
const FINAL = ['succeeded', 'failed', 'canceled'];

const name = (kind, group) => group.label || kind.question(group);

/* kind: {noun: 'sweep', plural: 'sweeps', children: 'points', asked: ['base', 'grid'], question: (sweep) => text}, and
 * `found`, columns of results, each a heading and a function of the group. Returns a function that ends the view. */
export function showList(main, kind, query, form) {
  const title = `${kind.plural[0].toUpperCase()}${kind.plural.slice(1)}`;
  const body = h('tbody'), notes = h('div'), pages = h('nav', {class: 'pages', 'aria-label': 'Pages'});
  const address = `#/${kind.plural}`;
  const found = Object.entries(kind.found || {});
  const headings = [title.slice(0, -1), ...found.map(([heading]) => heading), 'State', 'Done', 'Failed', 'Created'];
  let text = '';
  const row = (group) => h('tr', {'data-id': group.id},
    h('th', {scope: 'row'}, h('a', {href: `${address}/${group.id}`, title: group.id}, name(kind, group))),
    found.map(([, read]) => h('td', {}, read(group))), h('td', {}, badge(group.status)),
    h('td', {}, `${group.done} of ${group.total}`), h('td', {}, number(group.failed)),
    h('td', {}, when(group.created_at)));
  main.append(h('h1', {tabindex: '-1'}, title), filterForm(kind.plural, address, query), notes,
    h('div', {class: 'scroll', tabindex: '0', role: 'region', 'aria-label': title},
      h('table', {id: kind.plural}, h('caption', {class: 'unseen'}, `${title}, newest first`),
        h('thead', {}, h('tr', {}, headings.map((heading) => h('th', {scope: 'col'}, heading)))), body)), pages, form);
  return poll(listed(`/v1/${kind.plural}`, query), INTERVAL, ({status, problem, body: list}) => {
    notes.replaceChildren(...(problem ? [trouble(problem)] : list.items.length ? []
                              : [h('p', {class: 'empty'}, `No ${kind.plural} here.`)]));
    if (problem) {
      return status === 0 || status >= 500;
    }
    if (JSON.stringify(list) !== text) {
      text = JSON.stringify(list);
      body.replaceChildren(...list.items.map(row));
      pages.replaceChildren(...pageLinks(address, query, list.next));
    }
    return true;
  });
}

/* The page of a sweep or plan; `fill(group, fail)` is called when more of it is done. Returns a function that ends the
 * view. */
export function showGroup(main, kind, id, body, fill) {
  const title = h('h1', {tabindex: '-1'}, kind.noun);
  const state = h('p', {class: 'state', id: 'state'});
  const bar = h('progress', {max: 1, 'aria-label': `Progress of this ${kind.noun}`});
  const actions = h('div', {class: 'actions'});
  const notes = h('div'), asked = h('details', {id: 'asked'});
  let done = -1, wasFinal = null, missed = false;
  const fail = (problem) => notes.replaceChildren(trouble(problem));

  function act(group, final) {
    const words = {...kind, loss: `Its ${kind.children} are deleted as well.`, list: `#/${kind.plural}`};
    actions.replaceChildren(...[final ? deleteButton(group, words, fail) : cancelButton(group, fail)].flat(),
                            h('a', {class: 'button', href: group.links[kind.children] || group.links.self}, 'JSON'));
    asked.replaceChildren(h('summary', {}, 'Request'), h('pre', {tabindex: '0'}, JSON.stringify(
      Object.fromEntries(kind.asked.filter((member) => member in group).map((member) => [member, group[member]])), null,
      2)));
  }

  main.append(title, state, bar, notes, body, actions, asked);
  return follow(`/v1/${kind.plural}/${encodeURIComponent(id)}`, kind.noun, INTERVAL,
                ({status, problem, body: group}) => {
    if (problem) {
      fail(problem);
      missed = true;
      return status === 0 || status >= 500;
    }
    if (missed) {
      notes.replaceChildren();
      missed = false;
    }
    const final = FINAL.includes(group.status);
    title.textContent = capital(name(kind, group));
    document.title = `${title.textContent} – epsilond`;
    state.replaceChildren(badge(group.status), group.label ? `${capital(kind.question(group))}; ` : '',
                          `${group.done} of ${group.total} ${kind.children}, ${group.failed} failed; created `,
                          when(group.created_at));
    bar.value = group.done / group.total;
    bar.hidden = final;
    if (wasFinal !== final) {
      act(group, final);
      if (wasFinal === false) {
        announce(`The ${kind.noun} has ${group.status}`);
      }
      wasFinal = final;
    }
    if (done !== group.done || final) {
      done = group.done;
      fill(group, fail);
    }
    return !final;
  });
}
