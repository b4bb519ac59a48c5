/*
 * The privacy statement for a model card, to read, copy or save.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
import {copyButton, saveButton} from './buttons.js';
import {h} from './dom.js';
import {markdown} from './markdown.js';
import {fetched, place} from './place.js';

const FILE = 'privacy-statement';

export function statement({links}) {
  return place('Statement', 'statement', () => fetched(links.statement, (text) => [
    h('p', {class: 'quiet'}, 'For a model card: what this job says about a training that satisfies its assumptions.'),
    h('div', {class: 'actions'}, copyButton('Copy Markdown', text),
      saveButton('Save as Markdown', `${FILE}.md`, links.statement, 'text/markdown'),
      saveButton('Save as JSON', `${FILE}.json`, links.statement, 'application/json')),
    h('article', {class: 'statement', id: 'statement', tabindex: '0', 'aria-label': 'Statement'}, markdown(text, 3))]));
}
