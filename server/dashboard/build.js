/*
 * Converts the fields to a job and back. Nothing is validated here: a value that cannot be read is sent as it was
 * entered, and the service reports the error. Numbers keep the digits that were entered.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
import {fields, start} from './fields.js';

const NUMERAL = /^-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?$/;

/* A number as it was entered. */
class Numeral {
  constructor(text) {
    this.text = text;
  }
}

function numeral(text) {
  return NUMERAL.test(text) ? new Numeral(text) : text;
}

function list(text) {
  return text.trim().split(/[\s,;]+/).filter(Boolean).map(numeral);
}

export function json(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

const readers = {
  json,
  integer: numeral,
  number: numeral,
  switch: (text) => text === 'true',
  numbers: list,
  rows: (text) => text.trim().split('\n').map(list),
};

/* Whether the field may be omitted because its value is the default. */
function isDefault(field, value) {
  const kept = ['/sampling/scheme', '/matrix/family', '/accountant/method'].includes(field.pointer);
  return value === '' || !kept && Boolean(field.options || field.kind === 'switch') && value === start(field);
}

const OF_ONE_MECHANISM = /^\/(n|epochs|matrix|sampling|workload)(\/|$)|^@(rate|blt)$/;

/* value: a function from a pointer to the text in its field. Phases replace the members of a mechanism. */
export function applies(field, value) {
  return !(value('@length') === 'phases' && OF_ONE_MECHANISM.test(field.pointer)) && (!field.when || field.when(value));
}

export function build(value) {
  const job = {};
  for (const field of fields) {
    const text = (value(field.pointer) ?? '').trim();
    if (field.pointer.startsWith('@') || !applies(field, value) || isDefault(field, text)) {
      continue;
    }
    const path = field.pointer.slice(1).split('/');
    const last = path.pop();
    const place = path.reduce((object, name) => object[name] ??= {}, job);
    place[last] = (readers[field.kind] || String)(text);
  }
  if (value('@unknown') === 'curve') {
    job.curve = true;
  }
  if (value('@unknown') === 'n' && !job.phases) {
    job.n = 'max';
  }
  if (Object.keys(job.accountant).length === 1) {
    job.accountant = job.accountant.method;
  }
  if (job.accountant === 'auto') {
    delete job.accountant;
  }
  return job;
}

/* JSON text; short arrays stay on one line. */
export function write(value, indent = '') {
  if (value instanceof Numeral) {
    return value.text;
  }
  if (Array.isArray(value)) {
    return value.some(Array.isArray) ? `[${value.map((row) => `\n${indent}  ${write(row)}`).join(',')}\n${indent}]`
                                     : `[${value.map((item) => write(item)).join(', ')}]`;
  }
  if (value && typeof value === 'object') {
    const deeper = `${indent}  `;
    const members = Object.entries(value).map(([name, member]) => `${JSON.stringify(name)}: ${write(member, deeper)}`);
    return indent ? `{${members.join(', ')}}` : `{\n${members.map((member) => deeper + member).join(',\n')}\n}`;
  }
  return JSON.stringify(value);
}

/* A curl command for a POSIX shell. */
export function curl(job, origin) {
  return `curl --json '${write(job).replaceAll("'", "'\\''")}' ${origin}/v1/jobs`;
}

/* The texts of the fields for a job that the service returned: a Map from pointers to texts. */
export function texts(job) {
  const map = new Map();
  const put = (pointer, value) => {
    if (pointer === '/phases' && value) {
      map.set(pointer, JSON.stringify(value, null, 1));
    } else if (Array.isArray(value)) {
      map.set(pointer, value.some(Array.isArray) ? value.map((row) => row.join(', ')).join('\n') : value.join(', '));
    } else if (value && typeof value === 'object') {
      Object.entries(value).forEach(([name, member]) => put(`${pointer}/${name}`, member));
    } else if (value !== null && value !== undefined) {
      map.set(pointer, String(value));
    }
  };
  put('', typeof job.accountant === 'string' ? {...job, accountant: {method: job.accountant}} : job);
  const has = (pointer) => map.has(pointer);
  const largest = job.n === 'max' || job.phases?.some(({count}) => count === 'max');
  map.set('@unknown', job.curve ? 'curve' : largest ? 'n' : !has('/epsilon') ? 'epsilon'
    : !has('/delta') ? 'delta' : 'noise_multiplier');
  map.set('@length', has('/phases') ? 'phases' : has('/epochs') ? 'epochs' : 'n');
  if (job.n === 'max') {
    map.delete('/n');
  }
  map.set('@rate', has('/sampling/batch_size') ? 'batch' : 'p');
  map.set('@blt', has('/matrix/decay') ? 'lists' : 'buffers');
  if (map.get('/accountant/bad_event_share') === 'auto') {
    map.delete('/accountant/bad_event_share');
  }
  return map;
}
