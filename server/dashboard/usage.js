/*
 * What the key may use, has used, and has left, from GET /v1/usage; a key of scope admin sees that of every key.
 * Nothing where keys are not required.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
import {poll} from './api.js';
import {bytes, h, number, seconds, table, trouble} from './dom.js';

const INTERVAL = 5000; /* ms */

const QUOTAS = {
  requests: ['Requests a second', number],
  queued: ['Waiting jobs, sweeps and plans', number],
  seconds: ['Computing an hour', seconds],
  streams: ['Open streams', number],
  bytes: ['Kept', bytes],
};

function row([name, {limit, used}]) {
  const [label, shown] = QUOTAS[name];
  return [label, limit === null ? 'no limit' : shown(limit), used === null ? '–' : shown(used),
          limit === null ? '–' : shown(Math.max(0, limit - used))];
}

function rows(key) {
  return Object.entries(key.quotas).map(row);
}

function present(keys) {
  const headings = ['Quota', 'Limit', 'Used', 'Left'];
  const [first] = keys;
  if (keys.length === 1) {
    return table(`Key ${first.id}: what it may use`, headings, rows(first), {id: 'usage'});
  }
  return table('What each key may use', ['Key', 'Group', ...headings],
               keys.flatMap((key) => rows(key).map((cells) => [key.id, key.group, ...cells])), {id: 'usage'});
}

/* Fills the section; returns a function that ends it. */
export function showUsage(section) {
  return poll('/v1/usage', INTERVAL, ({problem, body}) => {
    if (problem) {
      section.replaceChildren(h('h2', {}, 'Quotas'), trouble(problem));
      return true;
    }
    const keys = body.keys.filter(({id}) => id !== null);
    section.replaceChildren(...(keys.length ? [h('h2', {}, 'Quotas'), present(keys)] : []));
    return keys.length > 0;
  });
}
