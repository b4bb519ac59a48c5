/*
 * Compares up to five jobs: one column each, and their curves and errors in common charts.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
import {get} from './api.js';
import {drawAll, lineChart} from './charts.js';
import {badge, h, number, safe, seconds, trouble} from './dom.js';
import {curveless, curveLines, errorLine, LEAST_DELTA, tooLong} from './drawings.js';
import {answer, COMPARED, mechanism, name, scheme, steps} from './jobs.js';

const result = (read) => (document) => document.result ? read(document.result) : '–';

const ROWS = [
  ['Answer', answer],
  ['Epsilon', result((one) => safe(one.epsilon))],
  ['Delta', result((one) => safe(one.delta))],
  ['Noise multiplier', result((one) => safe(one.noise_multiplier))],
  ['Guarantee', result((one) => one.guarantee)],
  ['Accountant', result((one) => one.accountant)],
  ['An example removed', result((one) => safe(one.directions.remove.value))],
  ['An example added', result((one) => safe(one.directions.add.value))],
  ['Mean squared error', result((one) => number(one.error?.mean_squared))],
  ['Largest squared error', result((one) => number(one.error?.max_squared))],
  ['Last squared error', result((one) => number(one.error?.last_squared))],
  ['Sensitivity', result((one) => number(one.sensitivity?.value))],
  ['Matrix', (document) => mechanism(document.job)],
  ['Sampling', (document) => scheme(document.job)],
  ['Probability p', result((one) => number(one.sampling?.p))],
  ['Steps', (document) => steps(document.job)],
  ['Adjacency', (document) => document.job.adjacency],
  ['Computed in', result((one) => seconds(one.compute_seconds))],
];

/* The names of the jobs; jobs with the same name also show their ids. */
function namesOf(documents) {
  const plain = documents.map(name);
  return new Map(documents.map((document, index) =>
    [document,
     plain.filter((one) => one === plain[index]).length > 1 ? `${plain[index]} …${document.id.slice(-8)}`
       : plain[index]]));
}

function columns(documents, names) {
  const rows = ROWS.map(([heading, read]) => {
    const cells = documents.map(read);
    return h('tr', {class: new Set(cells).size > 1 ? 'differs' : null}, h('th', {scope: 'row'}, heading),
             cells.map((cell) => h('td', {}, cell)));
  });
  return h('div', {class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Comparison'},
           h('table', {id: 'comparison'},
    h('caption', {}, 'Differences are bold'),
    h('thead', {}, h('tr', {}, h('td'), documents.map((document) => h('th', {scope: 'col'},
      h('a', {href: `#/jobs/${document.id}`}, names.get(document)), ' ', badge(document.status))))),
    h('tbody', {}, rows)));
}

/* Draws what each job has at the link in one chart; a job without it is left out. A job has the same colour in all
 * charts. */
async function together(documents, names, has, link, chart, line) {
  const drawn = documents.map((document, colour) => ({document, colour})).filter(({document}) =>
    document.status === 'succeeded' && document.links[link] && has(document));
  const replies = await Promise.all(drawn.map(({document}) => get(document.links[link])));
  const lines = replies.flatMap((reply, index) => {
    const {document, colour} = drawn[index];
    return reply.problem ? [] : [{...line(reply.body, names.get(document)), colour}];
  });
  return lines.length ? lineChart({...chart, lines}) : null;
}

export async function showComparison(main, {ids = ''}) {
  main.append(h('h1', {tabindex: '-1'}, 'Compare'));
  const wanted = ids.split(',').filter(Boolean).slice(0, COMPARED);
  if (!wanted.length) {
    main.append(h('p', {class: 'empty'}, `Select up to ${COMPARED} jobs in the `, h('a', {href: '#/'}, 'list'),
                  ' and choose Compare.'));
    return;
  }
  const replies = await Promise.all(wanted.map((id) => get(`/v1/jobs/${encodeURIComponent(id)}`)));
  replies.filter((reply) => reply.problem).forEach((reply) => main.append(trouble(reply.problem)));
  const documents = replies.filter((reply) => !reply.problem).map((reply) => reply.body);
  if (!documents.length) {
    return;
  }
  const place = h('div', {class: 'charts below'}, h('p', {class: 'quiet'}, 'Computing the charts …'));
  const names = namesOf(documents);
  main.append(columns(documents, names), place);
  const figures = await Promise.all([
    together(documents, names, (document) => !curveless(document), 'curve',
             {id: 'curves', title: 'Privacy curves', x: 'epsilon', y: 'delta', least: LEAST_DELTA},
             (body, label) => curveLines(body, label)[0]),
    together(documents, names, (document) => !document.job.phases && !tooLong(document), 'error',
             {id: 'errors-per-step', title: 'Error variance at each step', x: 'step', y: 'variance'}, errorLine)]);
  place.replaceChildren(...figures.filter(Boolean));
  drawAll(place);
}
