/*
 * The workers at the broker, from GET /v1/workers. Nothing where there is no broker, or for a key that may not ask.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
import {poll} from './api.js';
import {bytes, h, seconds, table} from './dom.js';

const INTERVAL = 5000; /* ms */

function row(worker) {
  const state = worker.reason ? `${worker.state}: ${worker.reason}` : worker.state;
  return [worker.host, state, worker.threads, worker.running, worker.computed, worker.failed, seconds(worker.seconds),
          bytes(worker.cached_bytes), worker.version];
}

function present({broker, workers}) {
  const headings = ['Host', 'State', 'Threads', 'Running', 'Computed', 'Failed', 'Time', 'Cache', 'Version'];
  const state = broker.connected ? 'The broker is connected.' : `The broker is gone: ${broker.detail}`;
  return [h('h2', {}, 'Workers'), h('p', {id: 'broker'}, state),
          ...(workers.length ? [table('Workers on other machines', headings, workers.map(row), {id: 'workers'})] : [])];
}

/* Fills the section; returns a function that ends it. */
export function showWorkers(section) {
  return poll('/v1/workers', INTERVAL, ({problem, body}) => {
    const there = !problem && body.broker !== null;
    section.replaceChildren(...(there ? present(body) : []));
    return there || Boolean(problem && !(problem.status < 500));
  });
}
