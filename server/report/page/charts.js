'use strict';
// What all charts share. Colours are those of the style sheet, so that they follow its themes.

// Told apart by people who see few colours (Paul Tol's bright scheme).
const kBlue = '#4477aa', kCyan = '#66ccee', kGreen = '#228833', kYellow = '#ccbb44', kRed = '#ee6677',
  kPurple = '#aa3377', kGrey = '#9aa3ae';
const kTimeColours = [kBlue, kCyan, kPurple, kRed, kYellow, kGrey, kGreen, '#667080'];
const kMemoryColours = [kBlue, kCyan, kGreen, kYellow, kRed, kPurple, kGrey];

const charts = [];  // that are drawn now
const redraws = [];  // of pictures that are not Chart.js's

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function isNarrow() {
  return window.innerWidth < 640;
}

function setTheme() {
  Chart.defaults.color = colour('--soft');
  Chart.defaults.borderColor = colour('--line');
  Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
  Chart.defaults.font.size = isNarrow() ? 12 : 13;
  Chart.defaults.animation = false;
  Chart.defaults.responsive = true;
  Chart.defaults.maintainAspectRatio = false;
}

// Adds a chart to its place once that is part of the page. `configuration` is called again for each theme.
function chartIn(place, id, label, configuration) {
  const canvas = el('canvas', {id, role: 'img', 'aria-label': label});
  place.append(canvas);
  const draw = () => new Chart(canvas, configuration());
  charts.push({canvas, draw, chart: null});
}

function drawAll() {
  setTheme();
  for (const entry of charts) {
    if (entry.chart) entry.chart.destroy();
    entry.chart = entry.draw();
    entry.canvas.dataset.drawn = '1';
  }
  for (const redraw of redraws) redraw();
}

function forgetCharts() {
  for (const entry of charts) if (entry.chart) entry.chart.destroy();
  charts.length = 0;
  redraws.length = 0;
}

function chartNamed(id) {
  return charts.find((entry) => entry.canvas.id === id).chart;
}

// The labels of a logarithmic axis: 1, 2 and 5 of each decade.
function logTick(text) {
  return (value) => {
    const lead = value / 10 ** Math.floor(Math.log10(value) + 1e-9);
    return [1, 2, 5].some((one) => Math.abs(lead - one) < 1e-6) ? text(value) : '';
  };
}

function axisTitle(text) {
  return {display: true, text};
}

// Returns text in lines of at most so many letters, broken after commas.
function lines(text, most) {
  const all = [''];
  for (const part of text.split(/(?<=,)/)) {
    if (all[all.length - 1] && (all[all.length - 1] + part).length > most) all.push('');
    all[all.length - 1] += part;
  }
  return all;
}
