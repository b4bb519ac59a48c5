/*
 * A section whose content is asked for by itself: at once, or, where that is much to compute, at a button.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
import {get} from './api.js';
import {drawAll, dropAll} from './charts.js';
import {announce, h} from './dom.js';

/* What is at a path, shown; or why there is nothing. */
export async function fetched(path, show) {
  const {problem, body} = await get(path);
  return problem ? h('p', {class: 'quiet'}, problem.detail || problem.title) : show(body);
}

/* Content in the place of what was there before, with its charts; of a view that has been left there is none. */
export function put(body, content) {
  if (!body.isConnected) {
    return;
  }
  dropAll(body);
  body.replaceChildren(...[content].flat());
  drawAll(body);
}

const waiting = () => h('p', {class: 'quiet'}, 'Being computed …');

function section(title, id, body, attributes = {}) {
  return h('section', {'aria-labelledby': `${id}-title`}, h('h2', {id: `${id}-title`, ...attributes}, title), body);
}

/* load() comes to the content. */
export function place(title, id, load) {
  const body = h('div', {id: `${id}-place`}, waiting());
  load().then((content) => put(body, content));
  return section(title, id, body);
}

/* help: what the button will do. With the button the focus goes, to the heading. */
export function placeOnDemand(title, id, {label, help}, load) {
  const body = h('div', {id: `${id}-place`}, h('p', {class: 'quiet'}, help), h('button', {type: 'button', id: `${id}-ask`, onclick: async () => {
    body.replaceChildren(waiting());
    whole.firstChild.focus();
    put(body, await load());
    announce(`${title}: computed`);
  }}, label));
  const whole = section(title, id, body, {tabindex: '-1'});
  return whole;
}
