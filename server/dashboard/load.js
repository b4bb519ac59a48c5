/*
 * The current load of the server, from /metrics, its limits, from /v1, and what the key may use.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
import {get, poll} from './api.js';
import {lineChart, redraw} from './charts.js';
import {bytes, facts, h, number, seconds, trouble} from './dom.js';
import {showUsage} from './usage.js';
import {showWorkers} from './workers.js';

const INTERVAL = 2000; /* ms */
const KEPT = 90;       /* readings, which is three minutes */

const LINES = [['queued', 'epsilond_jobs_queued'], ['running', 'epsilond_jobs_running'],
               ['busy workers', 'epsilond_workers_busy']];

/* Parses Prometheus text to a map of series by name. */
function parse(text) {
  const series = new Map();
  for (const line of text.split('\n')) {
    const blank = line.lastIndexOf(' ');
    if (blank > 0 && line[0] !== '#') {
      series.set(line.slice(0, blank), Number(line.slice(blank + 1)));
    }
  }
  return series;
}

function share(series, hits, misses) {
  const all = (series.get(hits) ?? 0) + (series.get(misses) ?? 0);
  return all ? `${number(100 * series.get(hits) / all, 3)}% of ${all}` : 'no requests yet';
}

function present(series) {
  const of = (name) => series.get(name) ?? 0;
  const finished = (status) => of(`epsilond_jobs_finished_total{status="${status}"}`);
  return facts([
    ['Workers busy', `${of('epsilond_workers_busy')} of ${of('epsilond_workers')}`],
    ['Jobs queued', of('epsilond_jobs_queued')],
    ['Jobs running', of('epsilond_jobs_running')],
    ['Jobs finished',
     `${finished('succeeded')} succeeded, ${finished('failed')} failed, ${finished('canceled')} canceled`],
    ['Results found in the cache', share(series, 'epsilond_result_lookups_total{result="hit"}',
                                         'epsilond_result_lookups_total{result="miss"}')],
    ['Cache', bytes(of('epsilond_cache_bytes'))],
    ['Database', bytes(of('epsilond_database_bytes'))],
    ['Connections', `${of('epsilond_http_connections')}, of which ${of('epsilond_http_requests_waiting')} wait`],
  ]);
}

function about(index) {
  const {limits} = index;
  return [h('h2', {}, 'This build'), facts([
    ['Version', `${index.version}, accounting ${index.accounting_version}`],
    ['Families', index.families.join(', ')], ['Schemes', index.schemes.join(', ')],
    ['Accountants', index.accountants.join(', ')],
    ['Maximum steps', number(limits.max_n)], ['Maximum body size', bytes(limits.max_body)],
    ['Maximum memory of a job', bytes(limits.max_bytes)],
    ['Maximum operations of a job', number(limits.max_operations)],
    ['Maximum time of a job', seconds(limits.max_seconds)],
    ['Queue', limits.queue], ['Jobs are kept', limits.keep_seconds ? seconds(limits.keep_seconds) : 'for ever'],
  ])];
}

/* The view; returns a function that ends it. */
export function showLoad(main) {
  const now = h('div', {id: 'load'}), chart = h('div'), build = h('section', {'aria-label': 'This build'});
  const usage = h('section', {'aria-label': 'Quotas'}), workers = h('section', {'aria-label': 'Workers'});
  const began = Date.now(), readings = [];
  main.append(h('h1', {tabindex: '-1'}, 'Server'), now, chart, workers, usage, build);
  const stopUsage = showUsage(usage), stopWorkers = showWorkers(workers);
  get('/v1').then(({problem, body}) => build.replaceChildren(...(problem ? [trouble(problem)] : about(body))));
  const stopLoad = poll('/metrics', INTERVAL, ({problem, body}) => {
    if (problem) {
      now.replaceChildren(trouble(problem));
      return true;
    }
    const series = parse(body);
    now.replaceChildren(present(series));
    readings.push({x: Math.round((Date.now() - began) / 1000), series});
    readings.splice(0, Math.max(0, readings.length - KEPT));
    redraw(chart, lineChart({id: 'load-chart', title: 'Jobs and workers', x: 'seconds since this page was opened',
                             y: 'how many',
      lines: LINES.map(([label, name]) =>
                       ({label, points: readings.map(({x, series: one}) => ({x, y: one.get(name) ?? 0}))}))}));
    return true;
  });
  return () => {
    stopUsage();
    stopWorkers();
    stopLoad();
  };
}
