'use strict';
// Numbers as text, and elements of the page. All text of a study goes through textContent, never as markup.

const kMebibyte = 2 ** 20;

function countText(number) {
  return Math.round(number).toLocaleString('en-US');
}

function digits(number, significant = 3) {
  if (number === 0) return '0';
  const text = Number(number).toPrecision(significant);
  return text.includes('e') ? String(Number(text)) : text;
}

function secondsText(seconds) {
  if (!(seconds > 0)) return '0 s';
  if (seconds < 1e-3) return `${digits(seconds * 1e6)} µs`;
  if (seconds < 1) return `${digits(seconds * 1e3)} ms`;
  if (seconds < 120) return `${digits(seconds)} s`;
  if (seconds < 7200) return `${digits(seconds / 60)} min`;
  if (seconds < 172800) return `${digits(seconds / 3600)} h`;
  return `${countText(seconds / 86400)} days`;
}

function memoryText(bytes) {
  const unit = memoryUnit(bytes);
  return `${digits(bytes / unit.size)} ${unit.name}`;
}

// Returns the unit in which the numbers of an axis up to `most` are written: its name, and how much it is.
function secondsUnit(most) {
  if (most < 1e-3) return {name: 'µs', size: 1e-6};
  if (most < 1) return {name: 'ms', size: 1e-3};
  return most < 300 ? {name: 's', size: 1} : {name: 'min', size: 60};
}

function memoryUnit(most) {
  if (most < kMebibyte) return {name: 'KiB', size: 2 ** 10};
  return most < 2 ** 30 ? {name: 'MiB', size: kMebibyte} : {name: 'GiB', size: 2 ** 30};
}

function percentText(fraction) {
  const percent = 100 * fraction;
  return `${Math.abs(percent) < 10 ? percent.toFixed(1) : percent.toFixed(0)}%`;
}

function signedPercent(fraction) {
  return `${fraction < 0 ? '−' : '+'}${percentText(Math.abs(fraction))}`;
}

function bigText(number) {
  for (const [size, letter] of [[1e12, 'T'], [1e9, 'B'], [1e6, 'M'], [1e3, 'k']]) {
    if (number >= size) return `${digits(number / size)}${letter}`;
  }
  return countText(number);
}

function plural(count, noun) {
  return `${countText(count)} ${noun}${count === 1 ? '' : 's'}`;
}

// Returns an element. Attributes with the value false are left out; children are elements or text.
function el(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value !== false) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== ''));
  return element;
}

// Returns a plan's text, which may break after each option.
function planElement(text) {
  const element = el('span', {class: 'plan'});
  text.split(',').forEach((option, i, all) => {
    element.append(option + (i + 1 < all.length ? ',' : ''), el('wbr'));
  });
  return element;
}

// Returns a table. `columns`: [title, whether it holds numbers]; `rows`: lists of cells, text or elements. One of
// the kind 'stack' has, on a phone, a block for each row, with the plan on a line of its own.
function tableOf(columns, rows, kind = '') {
  const cell = (tag, content, i) => el(tag, {
    class: [columns[i][1] ? 'number' : '', columns[i][0] === 'plan' ? 'wide' : ''].join(' ').trim() || false,
    'data-title': tag === 'td' && columns[i][0],
  }, content);
  const head = el('tr', {}, ...columns.map(([title], i) => cell('th', title, i)));
  const body = rows.map((row) => el('tr', {}, ...row.map((content, i) => cell('td', content, i))));
  return el('div', {class: 'table'}, el('table', {class: kind || false}, el('thead', {}, head), el('tbody', {}, ...body)));
}

function legendOf(entries) {
  return el('ul', {class: 'legend'}, ...entries.map(([name, colour]) => {
    const swatch = el('i');
    swatch.style.background = colour;
    return el('li', {}, swatch, name);
  }));
}

function section(id, title, ...children) {
  return el('section', {id}, el('h2', {}, title), ...children);
}
