/*
 * Creates elements, formats numbers, and announces changes to screen readers. Text is inserted as text, never as
 * markup.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */

/* h('a', {href: '#/', onclick: f}, 'text', element, ...): an attribute whose value is false or null is omitted. */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) {
      element.addEventListener(name.slice(2), value);
    } else if (value !== false && value !== null && value !== undefined) {
      element.setAttribute(name, value === true ? '' : value);
    }
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined
                                                   && child !== false));
  return element;
}

/* Rounded to `digits` digits; the document has all of them. */
export function number(value, digits = 5) {
  if (value === null || value === undefined) {
    return '–';
  }
  if (value === 0 || Number.isInteger(value) && Math.abs(value) < 1e9) {
    return String(value);
  }
  const rounded = Number(value.toPrecision(digits));
  const size = Math.abs(rounded);
  return size >= 1e7 || size < 1e-3 ? trimmed(value.toExponential(digits - 1)) : String(rounded);
}

function trimmed(text) {
  const [mantissa, exponent] = text.split('e');
  return `${Number(mantissa)}e${exponent.replace('+', '')}`;
}

/* A privacy parameter, rounded up to the digits shown, so that the displayed value is still an upper bound. */
export function safe(value, digits = 5) {
  if (value === null || value === undefined || value <= 0) {
    return number(value, digits);
  }
  const places = digits - 1 - Math.floor(Math.log10(value));
  const shown = Number(number(value, digits));
  return shown >= value ? number(value, digits) : number(shown + Math.pow(10, -places), digits);
}

export function bytes(value) {
  const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  for (; value >= 1024 && unit < units.length - 1; unit++) {
    value /= 1024;
  }
  return `${number(value, 3)} ${units[unit]}`;
}

export function seconds(value) {
  if (value === null || value === undefined) {
    return '–';
  }
  const [size, unit] = [[86400 * 2, 86400, 'days'], [7200, 3600, 'h'], [120, 60, 'min'], [-Infinity, 1, 's']]
      .filter(([from]) => value >= from).map(([, one, name]) => [one, name])[0];
  return `${number(value / size, 3)} ${unit}`;
}

export function when(text) {
  const shown = () => new Date(text).toLocaleString([], {dateStyle: 'medium', timeStyle: 'short'});
  return text ? h('time', {datetime: text, title: text}, shown()) : '–';
}

export function announce(text) {
  document.getElementById('announcer').textContent = text;
}

export function badge(status) {
  return h('span', {class: `badge ${status}`}, status);
}

/* rows of [heading, content]; a row whose content is null is omitted. */
export function facts(rows) {
  return h('dl', {class: 'facts'}, rows.filter((row) => row[1] !== null && row[1] !== undefined)
      .map(([heading, content]) => h('div', {}, h('dt', {}, heading), h('dd', {}, content))));
}

/* A table with a caption; numbers are right-aligned. */
export function table(caption, headings, rows, attributes = {}) {
  return h('div', {class: 'scroll', tabindex: '0', role: 'region', 'aria-label': caption}, h('table', attributes,
      h('caption', {}, caption),
      h('thead', {}, h('tr', {}, headings.map((heading) => h('th', {scope: 'col'}, heading)))),
      h('tbody', {}, rows.map((row) => h('tr', {}, row.map((cell, column) =>
        h(column ? 'td' : 'th', column ? {} : {scope: 'row'}, cell)))))));
}

/* The message of a failed request. */
export function trouble(problem) {
  return h('p', {class: 'trouble', role: 'alert'}, h('strong', {}, problem.title || 'That failed'),
           problem.detail ? `: ${problem.detail}` : '');
}
