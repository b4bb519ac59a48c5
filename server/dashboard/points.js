/*
 * The points of a sweep: a table, and a chart of the result over a varied member. For a long sweep, only the pages that
 * may have changed are requested again.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
import {get} from './api.js';
import {saveButton} from './buttons.js';
import {lineChart, redraw} from './charts.js';
import {badge, h, number, safe} from './dom.js';
import {sortable} from './sortable.js';

const PAGE = 500; /* points per request */
const LINES = 12; /* maximum number of lines in a chart */
const OTHERS = ['job', 'status', 'accountant', 'detail']; /* members of a point that are not numbers */
const ROUNDED_UP = ['epsilon', 'delta', 'noise_multiplier'];
const FINAL = ['succeeded', 'failed', 'canceled'];

const settled = ({items}) => items.every(({status}) => FINAL.includes(status));

/* Updates the pages in the format of the service. Returns the problem, if any. */
async function refresh(pages, path) {
  for (let at = 0, cursor = ''; at === 0 || cursor; at++) {
    if (!pages[at] || !settled(pages[at])) {
      const {problem, body} = await get(`${path}?limit=${PAGE}${cursor && `&cursor=${cursor}`}`);
      if (problem) {
        return problem;
      }
      if (pages[at]?.next !== body.next) {
        pages.length = at; /* the pages after it start at other points now */
      }
      pages[at] = body;
    }
    cursor = pages[at].next;
  }
  return null;
}

/* ---------------------------------------------------------------- how they are shown */

const plain = (value) => typeof value === 'number' || typeof value === 'string' ? value : value === undefined ? null
  : JSON.stringify(value);

/* The names of the numbers in a point of the service. */
const numbersOf = (point) => Object.keys(point).filter((member) => member[0] !== '/' && !OTHERS.includes(member));

/* y: the result, which is shown after the varied members. */
function columns(pointers, numbers, y) {
  const found = (member) => ({title: member, read: (point) => point[member],
                              show: (point) => ROUNDED_UP.includes(member) ? safe(point[member])
                                : number(point[member])});
  return [...pointers.map((pointer) =>
                          ({title: pointer, read: (point) => plain(point[pointer]),
                            show: (point) => String(plain(point[pointer]))})),
          ...[y, ...numbers.filter((member) => member !== y)].map(found),
          {title: 'status', read: (point) => point.status, show: (point) => badge(point.status)},
          {title: 'accountant', read: (point) => point.accountant,
           show: (point) => point.accountant ?? point.detail ?? '–'},
          {title: 'job', read: (point) => point.job, show: (point) => point.job
           ? h('a', {href: `#/jobs/${point.job}`}, `…${point.job.slice(-8)}`) : '–'}];
}

/* One line for each combination of the pointers that are not on the axis. */
function lines(all, pointers, x, y) {
  const groups = new Map();
  for (const point of all) {
    if (typeof point[x] === 'number' && point[y] !== null) {
      const key = pointers.filter((pointer) => pointer !== x).map((pointer) =>
        `${pointer} ${plain(point[pointer])}`).join(', ') || y;
      const line = groups.get(key) || [];
      line.push({x: point[x], y: point[y]});
      groups.set(key, line);
    }
  }
  return [...groups].slice(0, LINES).map(([label, points]) => ({label, points: points.sort((a, b) => a.x - b.x)}));
}

function choice(id, label, values, chosen, change) {
  return [h('label', {for: id}, label), h('select', {id, onchange: (event) => change(event.target.value)},
    values.map((value) => h('option', {value, selected: value === chosen}, value)))];
}

/* The chart and the table, shown once there are points. */
export class Points {
  constructor() {
    this.chart = h('div');
    this.element = h('div');
    this.pages = [];
  }

  draw() {
    const {pointers, all, x, y} = this;
    const some = x && all.some((point) => point[y] !== null);
    redraw(this.chart, some
           && lineChart({id: 'sweep-chart', title: `${y} over ${x}`, x, y, lines: lines(all, pointers, x, y)}));
  }

  begin({base, grid, links}) {
    this.pointers = Object.keys(grid);
    this.axes = this.pointers.filter((pointer) => grid[pointer].some((value) => typeof value === 'number'));
    this.x = this.axes[0];
    const numbers = numbersOf(this.pages[0].items[0] ?? {});
    this.y = numbers.find((member) => !(member in base) && !(`/${member}` in grid)) || numbers[0];
    this.sorted = sortable('points', 'Points', columns(this.pointers, numbers, this.y));
    this.element.append(...(this.x ? [h('p', {class: 'filters'},
      choice('sweep-y', 'Result', numbers, this.y, (value) => { this.y = value; this.draw(); }),
      choice('sweep-x', 'over', this.axes, this.x, (value) => { this.x = value; this.draw(); }))] : []),
    this.chart, this.sorted.element, h('div', {class: 'actions'},
                                       saveButton('Save as CSV', 'sweep.csv', links.points, 'text/csv')));
  }

  /* Called when there is news. News that arrives during a request is requested after it. */
  async fill(sweep, fail) {
    this.news = true;
    while (this.news && !this.busy) {
      this.news = false;
      this.busy = true;
      const problem = await refresh(this.pages, sweep.links.points);
      this.busy = false;
      if (problem) {
        fail(problem);
        return;
      }
      if (!this.all) {
        this.begin(sweep);
      }
      this.all = this.pages.flatMap(({items}) => items);
      this.sorted.fill(this.all);
      this.draw();
    }
  }
}
