/*
 * Charts by Chart.js, which is Debian's and a script of its own (window.Chart), and the heat map of a matrix. Every chart
 * has a name for who cannot see it, and its numbers in a table below. Colours are the page's and follow it from light to
 * dark.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
import {h, number, table} from './dom.js';

const DRAWN = 2000;  /* points of a line, at most */
const LISTED = 250;  /* rows of the table below it */
const CELLS = 512;   /* rows of a matrix that is drawn whole */
const CORNER = 128;  /* rows of a Toeplitz matrix that is longer: one column says it all */
const COLOURS = ['--line-1', '--line-2', '--line-3', '--line-4', '--line-5'];
const STYLES = ['circle', 'triangle', 'rect']; /* of marks: the second where colours begin anew, and so on */

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function ink(index) {
  const own = colour(COLOURS[index % COLOURS.length]);
  return {borderColor: own, backgroundColor: own, pointBackgroundColor: own, pointBorderColor: own};
}

function paint(chart) {
  chart.data.datasets.forEach((set, index) => {
    Object.assign(set, ink(set.colour ?? index));
  });
  for (const axis of Object.values(chart.options.scales)) {
    axis.ticks.color = axis.title.color = colour('--quiet');
    axis.grid.color = axis.grid.borderColor = colour('--rule');
  }
  chart.options.plugins.legend.labels.color = colour('--ink');
  chart.update();
}

matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
  Object.values(window.Chart.instances).forEach(paint);
  document.querySelectorAll('canvas.heat').forEach((canvas) => canvas.repaint());
});

/* Every k-th, and the last. */
function thinned(points, most) {
  const step = Math.ceil(points.length / most);
  return step < 2 ? points : points.filter((_, index) => index % step === 0 || index === points.length - 1);
}

/* Where an axis ends between two ticks, its end is no tick of its own: it would stand on the last one. */
function tick(value, index, ticks) {
  const between = index > 1 && index === ticks.length - 1 && value - ticks[index - 1].value < 0.6 * (ticks[1].value - ticks[0].value);
  return between ? '' : number(value, 3);
}

function axis(title, options) {
  return {title: {display: true, text: title}, grid: {}, ticks: {maxTicksLimit: 7, includeBounds: false, callback: tick}, ...options};
}

/* lines: [{label, points: [{x, y}], dashed, marks, stepped}]. stepped: from one point to the next the line is as high as the next. least: where a logarithmic axis begins; wide: both axes are logarithmic, of
 * what is all over 0. Returns a figure; the chart is drawn once it stands in the page, by drawAll(). */
export function lineChart({id, title, x, y, least, wide, lines}) {
  const canvas = h('canvas', {id, role: 'img', 'aria-label': `${title}: ${lines.map((line) => line.label).join(', ')}`});
  const shown = lines.map((line) => ({...line, points: thinned(line.points, DRAWN)}));
  canvas.draw = () => paint(new window.Chart(canvas, {
    type: 'line',
    data: {datasets: shown.map((line, index) => ({
      label: line.label, data: line.points, colour: line.colour ?? index, ...ink(line.colour ?? index), borderWidth: line.marks ? 0 : 2,
      stepped: line.stepped ? 'after' : false, pointRadius: line.marks ? 5 : line.points.length < 20 ? 2 : 0, pointHitRadius: 8,
      pointStyle: STYLES[Math.floor((line.colour ?? index) / COLOURS.length) % STYLES.length],
      borderDash: line.dashed ? [5, 4] : [], order: line.marks ? 0 : 1}))},
    options: {
      animation: false, maintainAspectRatio: false, parsing: false, normalized: true, interaction: {mode: 'nearest', axis: 'x', intersect: false},
      scales: {x: axis(x, wide ? {type: 'logarithmic'} : {type: 'linear', bounds: 'data'}),
               y: axis(y, least ? {type: 'logarithmic', bounds: 'data', min: least} : wide ? {type: 'logarithmic'}
                                                                                    : {type: 'linear', beginAtZero: true})},
      plugins: {legend: {display: lines.length > 1, labels: wide ? {usePointStyle: true, boxHeight: 6} : {boxHeight: 2, boxWidth: 18}},
                tooltip: {callbacks: {label: ({dataset, raw}) => `${dataset.label}: ${number(raw.y)} at ${number(raw.x)}`}}},
    },
  }));
  return h('figure', {}, h('figcaption', {}, title), h('div', {class: 'canvas'}, canvas),
           h('details', {}, h('summary', {}, 'Numbers'), numbers(title, x, y, lines)));
}

function numbers(title, x, y, lines) {
  const long = lines.some((line) => line.points.length > LISTED);
  return lines.map((line) => table(`${line.label}${long ? ' (some of the points)' : ''}`, [x, y],
    thinned(line.points, LISTED).map((point) => [number(point.x, 7), number(point.y, 7)])));
}

export function drawAll(root) {
  root.querySelectorAll('canvas').forEach((canvas) => {
    if (canvas.draw && !window.Chart.getChart(canvas)) {
      canvas.draw();
      canvas.draw = null;
    }
  });
}

/* What a view drew, before it goes. */
export function dropAll(root) {
  root.querySelectorAll('canvas').forEach((canvas) => window.Chart.getChart(canvas)?.destroy());
}

/* A figure, or none, in the place of the one before, whose numbers stay unfolded if they were. */
export function redraw(place, figure) {
  const open = place.querySelector('details')?.open;
  dropAll(place);
  place.replaceChildren(...(figure ? [figure] : []));
  if (open && figure) {
    place.querySelector('details').open = true;
  }
  drawAll(place);
}

/* ---------------------------------------------------------------- the heat map */

/* Of a matrix as the service gives it: its size, and its entries. */
function reader(matrix) {
  if (matrix.coefficients) {
    const column = matrix.coefficients;
    return {n: column.length, shown: column.length > CELLS ? CORNER : column.length,
            at: (row, col) => row >= col ? column[row - col] : 0};
  }
  return {n: matrix.rows.length, shown: matrix.rows.length, at: (row, col) => matrix.rows[row][col] ?? 0};
}

const channels = (name) => colour(name).match(/[\da-f]{2}/gi).map((pair) => parseInt(pair, 16));

/* One pixel an entry: 0 is the page's own colour, what is larger in size is farther from it, by the root, so that small
 * entries show. */
function fill(canvas, entries, largest) {
  const context = canvas.getContext('2d');
  const image = context.createImageData(canvas.width, canvas.height);
  const [zero, above, below] = ['--heat-zero', '--heat-above', '--heat-below'].map(channels);
  for (let row = 0, byte = 0; row < canvas.height; row++) {
    for (let col = 0; col < canvas.width; col++) {
      const value = entries.at(row, col);
      const share = largest ? Math.sqrt(Math.abs(value) / largest) : 0;
      for (let channel = 0; channel < 3; channel++) {
        image.data[byte++] = zero[channel] + share * ((value < 0 ? below : above)[channel] - zero[channel]);
      }
      image.data[byte++] = 255;
    }
  }
  context.putImageData(image, 0, 0);
}

export function heatMap(matrix, symbol) {
  const entries = reader(matrix);
  const {n, shown} = entries;
  let least = Infinity, most = -Infinity;
  for (let row = 0; row < shown; row++) {
    for (let col = 0; col < shown; col++) {
      const value = entries.at(row, col);
      least = Math.min(least, value);
      most = Math.max(most, value);
    }
  }
  const what = `${symbol}, ${n} by ${n}${shown < n ? ` (the first ${shown} rows and columns; the rest goes on alike)` : ''}, ` +
               `entries from ${number(least, 4)} to ${number(most, 4)}`;
  const canvas = h('canvas', {class: 'heat', id: 'heat', width: shown, height: shown, tabindex: '0', role: 'img',
                              'aria-label': `Heat map of ${what}. Arrow keys read single entries.`, 'aria-describedby': 'entry'});
  const entry = h('output', {id: 'entry', 'aria-live': 'polite'}, 'Point at an entry, or use the arrow keys.');
  canvas.repaint = () => fill(canvas, entries, Math.max(Math.abs(least), Math.abs(most)));
  canvas.repaint();
  let row = 0, col = 0;
  const read = (to, over) => {
    row = Math.min(Math.max(to, 0), shown - 1);
    col = Math.min(Math.max(over, 0), shown - 1);
    entry.textContent = `${symbol}[${row}, ${col}] = ${number(entries.at(row, col), 7)}`;
  };
  canvas.addEventListener('keydown', (event) => {
    const move = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]}[event.key];
    if (move) {
      event.preventDefault();
      read(row + move[0], col + move[1]);
    }
  });
  canvas.addEventListener('pointermove', (event) => {
    const box = canvas.getBoundingClientRect();
    read(Math.floor((event.clientY - box.top) / box.height * shown), Math.floor((event.clientX - box.left) / box.width * shown));
  });
  return [h('p', {class: 'quiet'}, `${what}. `, h('span', {class: 'swatch above'}), ' above 0 ', h('span', {class: 'swatch below'}),
            ' below 0'), canvas, entry];
}
