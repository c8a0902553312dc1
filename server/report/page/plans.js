'use strict';
// The plans of a study: their columns, the chart of time against memory, the comparison of two, heat maps.

class Plans {
  constructor(data) {
    this.data = data.plans;
    this.count = this.data.count;
    this.options = this.data.options;
    this.seconds = this.data.seconds;
    this.memory = this.data.memory_mib.map((mebibytes) => mebibytes * kMebibyte);
    this.unit = memoryUnit(this.memory.reduce((a, b) => Math.max(a, b), 0));
    this.timeLabels = data.time_labels;
    this.memoryLabels = data.memory_labels;
  }

  value(option, plan) {
    return option.values[option.index ? option.index[plan] : 0];
  }

  text(plan) {
    return this.options.filter((option) => option.named[option.index ? option.index[plan] : 0] === 'y')
      .map((option) => `${option.name}=${this.value(option, plan)}`).join(',');
  }

  kind(plan) {
    return {p: 'predicted', m: 'measured', s: 'predicted, corrected by a measured slice'}[this.data.kinds[plan]];
  }

  // Returns what is known of a plan that was measured, beside its median; null for any other.
  measured(plan) {
    return this.data.measured.find((one) => one.plan === plan) || null;
  }

  // Returns the predicted time of a step, which the predicted parts add up to.
  predicted(plan) {
    const measured = this.measured(plan);
    return measured ? measured.predicted_s : this.seconds[plan];
  }

  // Returns the plans that no other beats in both time and memory, fastest first.
  front() {
    const order = Array.from({length: this.count}, (_, i) => i);
    order.sort((a, b) => this.seconds[a] - this.seconds[b] || this.memory[a] - this.memory[b]);
    const front = [];
    let least = Infinity;
    for (const plan of order) {
      if (this.memory[plan] >= least) continue;
      least = this.memory[plan];
      front.push(plan);
    }
    return front;
  }

  // Returns the plans as points, by memory: Chart.js takes data that it does not parse to be sorted.
  points(plans) {
    return plans.map((plan) => ({x: this.memory[plan] / this.unit.size, y: this.seconds[plan], plan}))
      .sort((a, b) => a.x - b.x);
  }

  // Returns the options that more than one of the plans' values have.
  varying() {
    return this.options.filter((option) => option.index);
  }
}

const pair = {first: 0, second: 1, next: 'first'};  // the plans that are compared

function scatterConfiguration(plans, data) {
  const of = (letter) => {
    const all = [];
    for (let plan = 0; plan < plans.count; ++plan) {
      if (plans.data.kinds[plan] === letter) all.push(plan);
    }
    return plans.points(all);
  };
  const slowest = plans.seconds.reduce((a, b) => Math.max(a, b), 0);
  const fastest = plans.seconds.reduce((a, b) => Math.min(a, b), Infinity);
  const log = slowest > 5 * fastest;
  const unit = secondsUnit(slowest);
  const mark = (value) => digits(value / unit.size);
  const chosen = [pair.first, pair.second].filter((plan) => plan < plans.count);
  const dot = (label, points, fill, radius, more) => ({
    label, data: points, backgroundColor: fill, borderColor: fill, radius, hoverRadius: radius + 2,
    borderWidth: 0, ...more,
  });
  const datasets = [
    dot('compared', plans.points(chosen), 'transparent', 10,
      {borderColor: colour('--ink'), borderWidth: 2, pointStyle: 'circle'}),
    dot('measured', of('m'), kRed, 4),
    dot('slice measured', of('s'), kYellow, 4),
    {...dot('Pareto front', data.from_file ? [] : plans.points(plans.front()), colour('--accent'), 3),
      showLine: true, stepped: 'before', borderColor: colour('--accent'), borderWidth: 1.5},
    dot('predicted', of('p'), colour('--cloud'), plans.count > 3000 ? 2 : 3),
  ].filter((set) => set.data.length > 0);
  return {
    type: 'scatter',
    data: {datasets},
    options: {
      parsing: false,
      interaction: {mode: 'nearest', intersect: false},
      onClick: (event, _, chart) => {
        const hit = chart.getElementsAtEventForMode(event.native, 'nearest', {intersect: false}, false)[0];
        if (!hit) return;
        pair[pair.next] = chart.data.datasets[hit.datasetIndex].data[hit.index].plan;
        pair.next = pair.next === 'first' ? 'second' : 'first';
        const set = chart.data.datasets.find((one) => one.label === 'compared');
        set.data = plans.points([pair.first, pair.second]);
        chart.update('none');
        showComparison(plans);
      },
      scales: {
        x: {title: axisTitle(`predicted memory of the worst rank, ${plans.unit.name}`), ticks: {maxRotation: 0, autoSkipPadding: 16}, grace: '3%'},
        y: {type: log ? 'logarithmic' : 'linear', title: axisTitle(`step time, ${unit.name}${log ? ', logarithmic' : ''}`),
          ticks: {callback: log ? logTick(mark) : mark}, grace: '3%'},
      },
      plugins: {
        legend: {position: 'bottom', reverse: true, labels: {usePointStyle: true, boxHeight: 7}},
        tooltip: {
          filter: (item, i) => i === 0,
          callbacks: {
            title: (items) => items.length ? lines(plans.text(items[0].raw.plan), isNarrow() ? 34 : 60) : '',
            label: (item) => [`${secondsText(item.raw.y)} a step, ${plans.kind(item.raw.plan)}`,
              `${memoryText(plans.memory[item.raw.plan])} of memory, predicted`],
          },
        },
      },
    },
  };
}

function showComparison(plans) {
  const place = document.getElementById('comparison');
  const [a, b] = [pair.first, pair.second];
  if (plans.count < 2 || b >= plans.count) return;
  const rows = [];
  for (const option of plans.varying()) {
    const values = [plans.value(option, a), plans.value(option, b)];
    if (values[0] !== values[1]) rows.push([option.name, ...values, '']);
  }
  const change = (one, other) => one > 0 ? signedPercent(other / one - 1) : '';
  rows.push(['step time', secondsText(plans.seconds[a]), secondsText(plans.seconds[b]),
    change(plans.seconds[a], plans.seconds[b])]);
  rows.push(['how it is known', plans.kind(a), plans.kind(b), '']);
  const parts = (labels, permille, whole, text, what) => labels.forEach((label, i) => {
    const [one, other] = [a, b].map((plan) => permille[i][plan] / 1000 * whole[plan]);
    if (one > 0 || other > 0) rows.push([`${what}: ${label}`, text(one), text(other), change(one, other)]);
  });
  const measured = [a, b].map((plan) => (plans.measured(plan) || {}).time_parts || null);
  if (measured[0] || measured[1]) {
    const row = (label, [one, other]) => rows.push([`one measured step: ${label}`, one === null ? '' : secondsText(one),
      other === null ? '' : secondsText(other), one === null || other === null ? '' : change(one, other)]);
    row('in all', measured.map((all) => all && all.reduce((sum, seconds) => sum + seconds, 0)));
    plans.timeLabels.forEach((label, i) => {
      const both = measured.map((all) => all && all[i]);
      if (both.some((seconds) => seconds > 0)) row(label, both);
    });
  }
  const predicted = {[a]: plans.predicted(a), [b]: plans.predicted(b)};
  rows.push(['predicted step', secondsText(predicted[a]), secondsText(predicted[b]), change(predicted[a], predicted[b])]);
  parts(plans.timeLabels, plans.data.time_permille, predicted, secondsText, 'predicted');
  rows.push(['predicted memory', memoryText(plans.memory[a]), memoryText(plans.memory[b]), change(plans.memory[a], plans.memory[b])]);
  parts(plans.memoryLabels, plans.data.memory_permille, plans.memory, memoryText, 'predicted');
  place.replaceChildren(
    el('h3', {}, 'Two plans compared'),
    el('p', {class: 'soft'}, 'First: ', planElement(plans.text(a)), el('br'), 'Second: ', planElement(plans.text(b))),
    plans.data.measured.length > 0 ? el('p', {class: 'soft'}, 'Predictions are corrected by what the search measured. A measured step is one step, which may take another time than the median.') : '',
    tableOf([['', false], ['first', true], ['second', true], ['change', true]], rows, 'compared'));
}

function plansSection(plans, data) {
  const place = el('div', {class: 'chart'});
  chartIn(place, 'chart-plans', 'Step time against memory of all plans', () => scatterConfiguration(plans, data));
  const all = plans.data.in_all;
  const more = data.from_file ? [el('h3', {}, 'The least memory for a time'),
    el('p', {}, 'The plans that no other beats in both, at most 20.'),
    tableOf([['plan', false], ['step', true], ['predicted memory', true], ['time is', false]],
      data.answer.pareto_memory.map((row) => [planElement(row.plan_text), secondsText(row.step_time_s), memoryText(row.total_memory_bytes), row.provenance]), 'stack')] : [];
  const shown = data.from_file ? `${plural(plans.count, 'plan')} that the file names, of ${plural(all, 'plan')} that fit.` : plans.count < all
    ? `The ${countText(plans.count)} fastest of ${countText(all)} plans that fit, the front included.`
    : `All ${plural(all, 'plan')} that fit.`;
  return section('plans', 'Time against memory',
    el('p', {}, `${shown} Below and left is better${data.from_file ? '' : '; the line joins the plans that no other beats in both'}.`),
    place,
    el('p', {class: 'reading'}, 'Tap or click a plan to read it, and two plans to compare them.'),
    el('div', {id: 'comparison'}), ...more);
}

// Returns the values of an option in an order that people expect.
function orderedValues(option) {
  const number = (value) => /^\d+$/.test(value) ? Number(value) : null;
  return option.values.map((value, i) => ({value, i})).sort((a, b) => {
    const [x, y] = [number(a.value), number(b.value)];
    return x !== null && y !== null ? x - y : a.value < b.value ? -1 : 1;
  });
}

function heatTable(plans, across, down) {
  const columns = orderedValues(across), rows = orderedValues(down);
  const best = new Map();  // by the indices of both values
  let fastest = Infinity, slowest = 0;
  for (let plan = 0; plan < plans.count; ++plan) {
    const key = down.index[plan] * across.values.length + across.index[plan];
    if (!best.has(key) || plans.seconds[plan] < best.get(key)) best.set(key, plans.seconds[plan]);
  }
  for (const seconds of best.values()) {
    fastest = Math.min(fastest, seconds);
    slowest = Math.max(slowest, seconds);
  }
  const spread = Math.log(Math.min(slowest / fastest, 10)) || 1;
  const cell = (row, column) => {
    const seconds = best.get(row.i * across.values.length + column.i);
    if (seconds === undefined) return el('td', {class: 'none'}, '–');
    const heat = Math.max(0, 1 - Math.log(seconds / fastest) / spread);
    const element = el('td', {class: seconds === fastest ? 'best' : false}, secondsText(seconds));
    element.style.background = `rgba(${colour('--heat')}, ${(0.06 + 0.5 * heat).toFixed(3)})`;
    return element;
  };
  const cut = (text) => text.length > 24 ? `${text.slice(0, 22)}…` : text;
  return el('div', {class: 'table'}, el('table', {class: 'heat'},
    el('thead', {}, el('tr', {}, el('th', {}, `${down.name} \\ ${across.name}`),
      ...columns.map((column) => el('th', {title: column.value}, cut(column.value))))),
    el('tbody', {}, ...rows.map((row) => el('tr', {}, el('th', {title: row.value}, cut(row.value)),
      ...columns.map((column) => cell(row, column)))))));
}

function heatSection(plans) {
  const options = plans.varying();
  const title = 'Pairs of options';
  if (options.length < 2) {
    return section('heat', title, el('p', {}, 'Fewer than two options differ among the plans, so there is no pair to show.'));
  }
  const place = el('div', {id: 'heat-map'});
  const select = (label, chosen) => {
    const element = el('select', {'aria-label': label}, ...options.map((option) =>
      el('option', {value: option.name, title: option.summary}, option.name)));
    element.value = chosen;
    return element;
  };
  const named = (name) => options.find((option) => option.name === name);
  const first = select('across', (named('pp') || options[0]).name);
  const second = select('down', (named('tp') || options.find((option) => option.name !== first.value)).name);
  if (second.value === first.value) second.value = options.find((option) => option.name !== first.value).name;
  const show = () => {
    if (first.value === second.value) {
      place.replaceChildren(el('p', {}, 'Choose two different options.'));
    } else {
      place.replaceChildren(heatTable(plans, named(first.value), named(second.value)));
    }
  };
  first.addEventListener('change', show);
  second.addEventListener('change', show);
  redraws.push(show);
  const missing = plans.count < plans.data.in_all
    ? `A dash: no legal plan that fits has the two values, or all are slower than the ${countText(plans.count)} plans shown.`
    : 'A dash: no legal plan that fits has the two values.';
  return section('heat', title,
    el('p', {}, `The step time of the fastest plan with each pair of values, all other options free. ${missing}`),
    el('div', {class: 'controls'}, el('label', {}, 'across ', first), el('label', {}, 'down ', second)),
    place);
}
