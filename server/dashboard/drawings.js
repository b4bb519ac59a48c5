/*
 * The charts of a job: the privacy curve, epsilon spent in the course of training, the variance of each step, and the
 * matrix.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
import {saveButton} from './buttons.js';
import {heatMap, lineChart} from './charts.js';
import {h} from './dom.js';
import {fetched, place, placeOnDemand, put} from './place.js';

const DRAWN_STEPS = 65536; /* longer jobs are not drawn */
export const LEAST_DELTA = 1e-16; /* curves end below 1e-15; one of the two directions may reach far lower values */

/* If n is "max", the answer is used. */
export const tooLong = ({job, result}) =>
  (job.phases || [job]).some(({n}) => (n === 'max' ? result.n : n) > DRAWN_STEPS);

/* Why there is no curve, or null if there is one. Saves a request. */
export function curveless({result: {guarantee, noise_multiplier: sigma}}) {
  return guarantee !== 'deterministic' ? 'A result from draws is a single value and has no curve.'
    : sigma === 0 ? 'The job needs no noise, so it has no curve.' : null;
}

/* A link that saves all numbers as a file. */
const csv = (path, file) => h('div', {class: 'actions'}, saveButton('Save as CSV', `${file}.csv`, path, 'text/csv'));

/* For a job with phases, a choice of one; `show` gets the query string for it. */
async function byPhase({job}, show) {
  if (!job.phases) {
    return show('');
  }
  const body = h('div', {}, await show('phase=0'));
  const choose = async ({target}) => put(body, await show(`phase=${target.value}`));
  const options = job.phases.map((_, index) => h('option', {value: String(index)}, String(index)));
  return [h('label', {}, 'Phase ', h('select', {onchange: choose}, options)), body];
}

/* ---------------------------------------------------------------- lines */

export function curveLines({points}, label) {
  const of = (member) =>
    points.map((point) => ({x: point.epsilon, y: point[member]})).filter((point) => point.y !== null);
  return label ? [{label, points: of('delta')}]
               : [{label: 'delta (larger direction)', points: of('delta')},
                  {label: 'remove', points: of('remove'), dashed: true},
                  {label: 'add', points: of('add'), dashed: true}];
}

async function curve(document) {
  const {links, result: {epsilon, delta}} = document;
  const none = curveless(document);
  return none ? h('p', {class: 'quiet'}, none) : fetched(links.curve, (body) => {
    const lines = curveLines(body);
    if (epsilon !== null && delta !== null) {
      lines.push({label: 'this job', points: [{x: epsilon, y: delta}], marks: true, colour: 3});
    }
    return [lineChart({id: 'curve', title: 'Delta as a function of epsilon', x: 'epsilon', y: 'delta',
                       least: LEAST_DELTA, lines}),
            csv(links.curve, 'curve')];
  });
}

export function errorLine({variance}, label) {
  return {label, points: variance.map((value, step) => ({x: step, y: value}))};
}

function error(document) {
  return byPhase(document, (query) => {
    const path = `${document.links.error}${query && '?'}${query}`;
    return fetched(path, (body) =>
                   [lineChart({id: 'error', title: 'Error variance at each step', x: 'step', y: 'variance',
                                               lines: [errorLine(body, 'variance')]}), csv(path, 'error')]);
  });
}

/* The steps at which phases end, counted across all runs. */
function ends({job, result}) {
  let step = 0;
  return (job.phases || []).map(({n}, index) => step += n * result.phases[index].count);
}

/* Between two points, the epsilon of the later one is an upper bound, so the line has steps; a straight line between
 * the points would not be a bound. */
function spend(document) {
  const {links} = document;
  return fetched(links.spend, (body) => {
    const points = body.points.map(({step, epsilon}) => ({x: step, y: epsilon}));
    const marked = points.filter(({x}) => ends(document).includes(x));
    const lines = [{label: 'epsilon', points: [{x: 0, y: 0}, ...points], stepped: true},
                   {label: 'end of a phase', points: marked, marks: true, colour: 3}];
    return [lineChart({id: 'spend', title: 'Epsilon at the delta of the job, by number of steps', x: 'step',
                       y: 'epsilon',
                       lines: lines.slice(0, marked.length ? 2 : 1)}), csv(links.spend, 'spend')];
  });
}

/* ---------------------------------------------------------------- the matrix */

const PARTS = {encoder: ['C', 'C, the strategy'], noise: ['C⁻¹', 'C⁻¹, which correlates the noise'],
               decoder: ['B', 'B = A C⁻¹, the decoder']};

function matrix(document) {
  return byPhase(document, async (query) => {
    const show = (part) => fetched(`${document.links.matrix}?part=${part}${query && '&'}${query}`,
                                   (body) => heatMap(body, PARTS[part][0]));
    const map = h('div', {}, await show('encoder'));
    return [h('label', {for: 'part'}, 'Part'), ' ',
            h('select', {id: 'part', onchange: async ({target}) => put(map, await show(target.value))},
              Object.entries(PARTS).map(([part, [, text]]) => h('option', {value: part}, text))), map];
  });
}

/* ---------------------------------------------------------------- all of them */

const long = async () =>
  h('p', {class: 'quiet'}, `This job has more than ${DRAWN_STEPS} steps; request the numbers from the service.`);

export function drawings(document) {
  const {links} = document;
  const short = (draw) => tooLong(document) ? long : () => draw(document);
  return h('div', {class: 'charts'},
           links.curve ? place('Privacy curve', 'curve', () => curve(document)) : null,
           links.spend ? placeOnDemand('Epsilon during training', 'spend',
             {label: 'Compute',
               help: 'Epsilon after each phase, and at up to 200 steps in between. Each point is a separate ' +
                     'computation. Between two points, the later one is a bound.'},
             () => spend(document)) : null,
           links.error ? place('Error per step', 'error', short(error)) : null,
           links.matrix ? place('Matrix', 'matrix', short(matrix)) : null);
}
