/*
 * Converts the Markdown that the service writes (headings, paragraphs, lists, tables, fenced code; inline code, strong
 * text and escapes) to elements. Unknown syntax stays text; nothing becomes markup of the page.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
import {h} from './dom.js';

const INLINE = /\\([!-/:-@[-`{-~])|`([^`]+)`|\*\*((?:\\.|[^*\\])+)\*\*/g;

function inline(text) {
  const parts = [];
  let end = 0;
  for (const match of text.matchAll(INLINE)) {
    const [whole, escaped, code, strong] = match;
    parts.push(text.slice(end, match.index), escaped ?? (code ? h('code', {}, code) : h('strong', {}, inline(strong))));
    end = match.index + whole.length;
  }
  return [...parts, text.slice(end)];
}

/* Splits '| a | b |' into its cells; an escaped bar is part of a cell. */
const cells = (line) => line.trim().slice(1, -1).split(/(?<!\\)\|/).map((cell) => inline(cell.trim()));

function table([head, , ...rows], level, title) {
  const headings = cells(head);
  const named = headings.some((heading) => heading.some(Boolean));
  return h('table', {'aria-label': title}, named
           ? h('thead', {}, h('tr', {}, headings.map((heading) => h('th', {scope: 'col'}, heading)))) : null,
           h('tbody', {}, rows.map((row) => h('tr', {}, cells(row).map((cell, column) =>
             h(column ? 'td' : 'th', column ? {} : {scope: 'row'}, cell))))));
}

/* The kinds of blocks, each a run of lines that start alike; the first one that matches is used. `level`: that of a #
 * heading. `title`: the previous heading. */
const BLOCKS = [
  {of: /^#+ /, one: true, show: ([line], level) =>
   h(`h${Math.min(line.indexOf(' ') + level - 1, 6)}`, {}, inline(line.replace(/^#+ /, '')))},
  {of: /^\|/, show: table},
  {of: /^- /, show: (lines) => h('ul', {}, lines.map((line) => h('li', {}, inline(line.replace(/^- (\[ \] )?/, '')))))},
  {of: /^(?!#+ |\||- |```)./, show: (lines) => h('p', {}, inline(lines.join(' ')))},
];

/* level: the level in the page of a # heading. */
export function markdown(text, level) {
  const lines = text.split('\n');
  const blocks = [];
  let title = '';
  while (lines.length) {
    if (lines[0].startsWith('```')) {
      const end = lines.indexOf('```', 1);
      const code = lines.splice(0, end < 0 ? lines.length : end + 1).slice(1, end < 0 ? undefined : -1);
      blocks.push(h('pre', {tabindex: '0'}, code.join('\n')));
      continue;
    }
    const block = BLOCKS.find(({of}) => of.test(lines[0]));
    if (!block) {
      lines.shift(); /* empty */
      continue;
    }
    const other = lines.findIndex((line) => !block.of.test(line));
    const element = block.show(lines.splice(0, block.one ? 1 : other < 0 ? lines.length : other), level, title);
    title = block.one ? element.textContent : title;
    blocks.push(element);
  }
  return blocks;
}
