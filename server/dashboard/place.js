/*
 * A section that loads its own content: at once, or, if it is expensive to compute, when a button is pressed.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
import {get} from './api.js';
import {drawAll, dropAll} from './charts.js';
import {announce, h} from './dom.js';

/* Shows the resource at a path, or why there is none. */
export async function fetched(path, show) {
  const {problem, body} = await get(path);
  return problem ? h('p', {class: 'quiet'}, problem.detail || problem.title) : show(body);
}

/* Replaces the content and its charts; does nothing if the view has been left. */
export function put(body, content) {
  if (!body.isConnected) {
    return;
  }
  dropAll(body);
  body.replaceChildren(...[content].flat());
  drawAll(body);
}

const waiting = () => h('p', {class: 'quiet'}, 'Computing …');

function section(title, id, body, attributes = {}) {
  return h('section', {'aria-labelledby': `${id}-title`}, h('h2', {id: `${id}-title`, ...attributes}, title), body);
}

/* load() returns a promise of the content. */
export function place(title, id, load) {
  const body = h('div', {id: `${id}-place`}, waiting());
  load().then((content) => put(body, content));
  return section(title, id, body);
}

/* help: what the button does. When the button disappears, the focus moves to the heading. */
export function placeOnDemand(title, id, {label, help}, load) {
  const body = h('div', {id: `${id}-place`}, h('p', {class: 'quiet'}, help),
                 h('button', {type: 'button', id: `${id}-ask`, onclick: async () => {
    body.replaceChildren(waiting());
    whole.firstChild.focus();
    put(body, await load());
    announce(`${title}: computed`);
  }}, label));
  const whole = section(title, id, body, {tabindex: '-1'});
  return whole;
}
