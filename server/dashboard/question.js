/*
 * Describes what a job, plan or sweep asks; the title of its page if it has no label.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
import {number} from './dom.js';

const SOUGHT = {epsilon: 'epsilon', delta: 'delta', noise_multiplier: 'noise multiplier'};
const GIVEN = {epsilon: 'epsilon', delta: 'delta', noise_multiplier: 'sigma'};

const there = (value) => value !== null && value !== undefined;
const once = (list) => [...new Set(list)].join(' + ');
const list = (value) => [value].flat().map((one) => number(one)).join(' or ');

/* The phases of a job, or the job itself. */
export const parts = (job) => job.phases || [job];

function matrix({matrix: one = {}}) {
  const size = one.bands || one.buffers;
  return `${one.family || 'identity'}${size ? ` ${size}` : ''}`;
}

function sampling({sampling: one = {}}) {
  return one.scheme === 'none' ? 'no sampling' : one.scheme || 'poisson';
}

function length(job) {
  if (job.phases) {
    return `${job.phases.length} ${job.phases.length === 1 ? 'phase' : 'phases'}`;
  }
  return there(job.n) ? `${number(job.n)} steps` : there(job.epochs) ? `${number(job.epochs)} epochs` : '';
}

/* known: members whose value is given elsewhere, such as in the grid of a sweep. */
function sought(job, known = []) {
  const missing = Object.keys(SOUGHT).filter((member) => !there(job[member]) && !known.includes(member));
  if (job.n === 'max') {
    return 'most steps';
  }
  if (parts(job).some(({count}) => count === 'max')) {
    return 'most runs';
  }
  return missing.length === 1 ? SOUGHT[missing[0]] : 'privacy curve';
}

const given = (job) =>
  Object.keys(GIVEN).filter((member) => there(job[member])).map((member) => `${GIVEN[member]} ${number(job[member])}`);

const joined = (list) => list.filter(Boolean).join(', ');

/* "epsilon at delta 1e-6, sigma 1" */
export function inShort(job) {
  return `${sought(job)} at ${given(job).join(', ')}`;
}

/* "epsilon at delta 1e-6, sigma 1, 2048 steps, square_root 16 under b_min_sep" */
export function ofJob(job) {
  return joined([inShort(job), job.n === 'max' ? '' : length(job),
                 `${once(parts(job).map(matrix))} under ${once(parts(job).map(sampling))}`]);
}

/* "plan for epsilon 2, delta 1e-6, 2048 steps in batches of 512 of 50000 examples" */
export function ofPlan(plan) {
  const steps = there(plan.n) ? `${list(plan.n)} steps` : `${list(plan.epochs)} epochs`;
  const sizes = `in batches of ${list(plan.batch_size)} of ${number(plan.dataset_size)} examples`;
  return there(plan.epsilon) ? `plan for ${given(plan).join(', ')}, ${steps} ${sizes}` : `plan …${plan.id.slice(-8)}`;
}

/* "epsilon over noise_multiplier and matrix bands, at delta 1e-6, 1000 steps, square_root under cyclic_poisson". A
 * sweep in a list has no base. */
export function ofSweep({base, grid, total, id}) {
  if (!base) {
    return `${number(total)} points, …${id.slice(-8)}`;
  }
  const varied = Object.keys(grid).map((pointer) => pointer.slice(1));
  const set = (path) => path.split('/').reduce((one, member) => one?.[member], base);
  const fixed = given(base).join(', ');
  const schemes = varied.includes('sampling/scheme') ? 'schemes'
    : set('sampling/scheme') ? once(parts(base).map(sampling)) : 'poisson';
  return joined([`${sought(base, varied)} over ${varied.map((path) => path.replaceAll('/', ' ')).join(' and ')}`,
                 fixed && `at ${fixed}`,
                 varied.includes('n') || varied.includes('epochs') ? '' : length(base),
                 `${varied.includes('matrix/family') ? 'families' : once(parts(base).map(matrix))} under ${schemes}`]);
}

export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
