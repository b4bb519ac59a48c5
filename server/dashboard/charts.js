/*
 * Charts by Chart.js, which is a script of Debian (window.Chart), and the heat map of a matrix. Every chart has an
 * accessible name and a table with its numbers below. The colours are those of the page and follow its light or dark
 * scheme.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
import {h, number, table} from './dom.js';

const DRAWN = 2000;  /* maximum number of points in a line */
const LISTED = 250;  /* maximum number of rows in the table below it */
const CELLS = 512;   /* maximum number of rows of a matrix that is drawn whole */
const CORNER = 128;  /* rows drawn of a longer Toeplitz matrix, which one column determines */
const COLOURS = ['--line-1', '--line-2', '--line-3', '--line-4', '--line-5'];
const STYLES = ['circle', 'triangle', 'rect']; /* marks: the second one is used when the colours start again, and so
                                                * on */

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

/* Every k-th element, and the last. */
function thinned(points, most) {
  const step = Math.ceil(points.length / most);
  return step < 2 ? points : points.filter((_, index) => index % step === 0 || index === points.length - 1);
}

/* If an axis ends between two ticks, its end gets no label, which would overlap that of the last tick. */
function tick(value, index, ticks) {
  const between = index > 1 && index === ticks.length - 1
    && value - ticks[index - 1].value < 0.6 * (ticks[1].value - ticks[0].value);
  return between ? '' : number(value, 3);
}

function axis(title, options) {
  return {title: {display: true, text: title}, grid: {},
          ticks: {maxTicksLimit: 7, includeBounds: false, callback: tick}, ...options};
}

/* lines: [{label, points: [{x, y}], dashed, marks, stepped}]. stepped: between two points the line has the height of
 * the second. least: the lower end of a logarithmic axis. wide: both axes are logarithmic, if all values are above 0.
 * Returns a figure; drawAll() draws the chart once the figure is in the page. */
export function lineChart({id, title, x, y, least, wide, lines}) {
  const canvas = h('canvas',
                   {id, role: 'img', 'aria-label': `${title}: ${lines.map((line) => line.label).join(', ')}`});
  const shown = lines.map((line) => ({...line, points: thinned(line.points, DRAWN)}));
  canvas.draw = () => paint(new window.Chart(canvas, {
    type: 'line',
    data: {datasets: shown.map((line, index) => ({
      label: line.label, data: line.points, colour: line.colour ?? index, ...ink(line.colour ?? index),
      borderWidth: line.marks ? 0 : 2,
      stepped: line.stepped ? 'after' : false, pointRadius: line.marks ? 5 : line.points.length < 20 ? 2 : 0,
      pointHitRadius: 8,
      pointStyle: STYLES[Math.floor((line.colour ?? index) / COLOURS.length) % STYLES.length],
      borderDash: line.dashed ? [5, 4] : [], order: line.marks ? 0 : 1}))},
    options: {
      animation: false, maintainAspectRatio: false, parsing: false, normalized: true,
      interaction: {mode: 'nearest', axis: 'x', intersect: false},
      scales: {x: axis(x, wide ? {type: 'logarithmic'} : {type: 'linear', bounds: 'data'}),
               y: axis(y, least ? {type: 'logarithmic', bounds: 'data', min: least}
                 : wide ? {type: 'logarithmic'} : {type: 'linear', beginAtZero: true})},
      plugins: {
        legend: {display: lines.length > 1,
                 labels: wide ? {usePointStyle: true, boxHeight: 6} : {boxHeight: 2, boxWidth: 18}},
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

/* Destroys the charts of a view before it is removed. */
export function dropAll(root) {
  root.querySelectorAll('canvas').forEach((canvas) => window.Chart.getChart(canvas)?.destroy());
}

/* Replaces a figure by a new one, or removes it. The table of numbers stays open if it was open. */
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

/* A matrix in the format of the service: its size, and a function that returns its entries. */
function reader(matrix) {
  if (matrix.coefficients) {
    const column = matrix.coefficients;
    return {n: column.length, shown: column.length > CELLS ? CORNER : column.length,
            at: (row, col) => row >= col ? column[row - col] : 0};
  }
  return {n: matrix.rows.length, shown: matrix.rows.length, at: (row, col) => matrix.rows[row][col] ?? 0};
}

const channels = (name) => colour(name).match(/[\da-f]{2}/gi).map((pair) => parseInt(pair, 16));

/* One pixel per entry. 0 has the background colour of the page; the distance from it grows with the square root of the
 * absolute value, so that small entries are visible. */
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
  const part = shown < n ? ` (the first ${shown} rows and columns; the pattern continues)` : '';
  const what = `${symbol}, ${n} by ${n}${part}, ` +
               `entries from ${number(least, 4)} to ${number(most, 4)}`;
  const canvas = h('canvas', {class: 'heat', id: 'heat', width: shown, height: shown, tabindex: '0', role: 'img',
                              'aria-label': `Heat map of ${what}. Use the arrow keys to read single entries.`,
                              'aria-describedby': 'entry'});
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
    read(Math.floor((event.clientY - box.top) / box.height * shown),
         Math.floor((event.clientX - box.left) / box.width * shown));
  });
  return [h('p', {class: 'quiet'}, `${what}. `, h('span', {class: 'swatch above'}), ' above 0 ',
            h('span', {class: 'swatch below'}),
            ' below 0'), canvas, entry];
}
