'use strict';
// The sections of the report, the answer first.

function memoryFigure(candidate, emulated) {
  const {memory_mib, capacity_mib} = candidate.predicted;
  const share = capacity_mib > 0 ? `predicted; ${percentText(memory_mib / capacity_mib)} of ${memoryText(capacity_mib)} a rank` : 'predicted; a rank';
  const measured = candidate.measured && !candidate.measured.slice && !emulated ? `; measured ${memoryText(candidate.measured.memory_mib)}` : '';
  return [memoryText(memory_mib), share + measured];
}

function spreadText(ci95_s) {
  return ci95_s > 0 ? ` ± ${secondsText(ci95_s)}` : '';
}

function stepFigure(candidate, emulated) {
  const measured = candidate.measured;
  if (measured && !measured.slice) {
    return [secondsText(measured.step_s),
      `${emulated ? 'emulated' : 'measured'}${spreadText(measured.ci95_s)}; predicted ${secondsText(candidate.predicted.step_s)}`];
  }
  const {low_s, high_s} = candidate.predicted;
  const how = high_s > low_s ? `predicted; 90% between ${secondsText(low_s)} and ${secondsText(high_s)}` : 'predicted';
  return [secondsText(candidate.seconds), measured ? `${how}; one rank of it was measured` : how];
}

function figures(entries) {
  return el('dl', {class: 'figures'}, ...entries.map(([name, value, more]) =>
    el('div', {}, el('dt', {}, name), el('dd', {}, value, more ? el('small', {}, more) : null))));
}

// Returns what is to be known beside the answer, as sentences.
function remarks(data) {
  const {answer, study} = data;
  const texts = [];
  if (answer.runners_up.length > 0) {
    const second = answer.runners_up[0];
    const lead = second.seconds / answer.best.seconds - 1;
    texts.push(el('span', {}, `The runner-up takes ${percentText(Math.abs(lead))} ${lead < 0 ? 'less' : 'longer'}: `, planElement(second.plan)));
  }
  if (answer.tied > 0) {
    texts.push(`${plural(answer.tied, 'runner')}-up ${answer.tied === 1 ? 'is' : 'are'} tied with the best plan: the intervals overlap.`);
  }
  const most = answer.matters_most;
  if (most) {
    texts.push(`What matters most is ${most.option}: ${most.because}`);
  }
  if (answer.chance_of_better !== null) {
    texts.push(`The chance that a plan that was not measured is more than 1% faster is ${answer.chance_of_better < 0.01 ? 'less than 1%' : `at most ${(100 * answer.chance_of_better).toFixed(0)}%`}.`);
  }
  if (answer.stopped) {
    const limit = {time_budget: 'time budget', max_trials: 'limit on trials'}[answer.stopped] || answer.stopped;
    texts.push(`The ${limit} ended the search; ${plural(answer.plans_left, 'plan')} that it would have measured ${answer.plans_left === 1 ? 'is' : 'are'} left.`);
  }
  if (answer.left_out) texts.push(answer.left_out);
  if (study.waiting) texts.push(`The search waits: ${study.waiting}`);
  if (study.message && !answer.stopped) texts.push(study.message);
  return texts;
}

function answerBox(data) {
  const {answer, study} = data;
  if (!answer.best) {
    const why = answer.nothing_fits || study.message || study.waiting ||
      'The search has no plan yet: its op times are still measured.';
    return el('div', {class: 'answer', id: 'answer'}, el('p', {class: 'label'}, 'No plan'), el('p', {}, why));
  }
  const best = answer.best;
  const [step, how] = stepFigure(best, data.question.emulated);
  const [memory, share] = memoryFigure(best, data.question.emulated);
  const entries = [['Step time', step, how]];
  if (best.tokens_per_s > 0) entries.push(['Tokens per second', countText(best.tokens_per_s), `${countText(best.tokens_per_s_per_rank)} a rank`]);
  if (best.mfu > 0) entries.push(['Model FLOPs utilization', percentText(best.mfu), 'of the peak']);
  entries.push(['Memory', memory, share]);
  return el('div', {class: 'answer', id: 'answer'},
    el('div', {class: 'label'}, study.state === 'done' ? 'Best plan' : `Best plan so far (the study is ${study.state})`),
    planElement(best.plan), figures(entries),
    el('ul', {}, ...remarks(data).map((text) => el('li', {}, text))));
}

function runnersSection(data) {
  const all = [data.answer.best, ...data.answer.runners_up];
  const rows = all.map((candidate, i) => [String(i + 1), planElement(candidate.plan), secondsText(candidate.seconds),
    i === 0 ? '' : signedPercent(candidate.seconds / all[0].seconds - 1),
    memoryText(candidate.predicted.memory_mib), candidate.provenance]);
  const kinds = new Set(all.map((candidate) => candidate.provenance));
  const order = kinds.size < 2 ? '' : ' Plans that were measured come first, by their measured time; then the others, by prediction, even if that is shorter: a measured time is known, a predicted one may be wrong.';
  return section('runners', 'The best plans',
    el('p', {}, `Each differs from those above it in more than a detail.${order}`),
    tableOf([['', true], ['plan', false], ['step', true], ['slower', true], ['predicted memory', true], ['time is', false]], rows, 'stack'));
}

function stackedBars(labels, names, colours, values, text, unitOf, axis) {
  const unit = unitOf(values.reduce((most, row) => Math.max(most, row.reduce((a, b) => a + b, 0)), 0));
  return {
    type: 'bar',
    data: {labels, datasets: names.map((label, i) => ({
      label, data: values.map((row) => row[i] / unit.size), backgroundColor: colours[i], borderWidth: 0, barPercentage: 0.8, categoryPercentage: 0.9,
    })).filter((set) => set.data.some((value) => value > 0))},
    options: {
      indexAxis: 'y',
      scales: {
        x: {stacked: true, title: axisTitle(`${axis}, ${unit.name}`), ticks: {maxRotation: 0, autoSkipPadding: 16}},
        y: {stacked: true, grid: {display: false}, ticks: {autoSkip: false}},
      },
      plugins: {
        legend: {position: 'bottom', labels: {boxWidth: 12, boxHeight: 12}},
        tooltip: {callbacks: {label: (item) => `${item.dataset.label}: ${text(item.raw * unit.size)}`}},
      },
    },
  };
}

function whereSection(data) {
  const all = [['best', data.answer.best], ['runner-up', data.answer.runners_up[0]]].filter(([, candidate]) => candidate);
  const time = {labels: [], values: []}, memory = {labels: [], values: []}, steps = [];
  for (const [name, candidate] of all) {
    time.labels.push([name, 'predicted']);
    time.values.push(candidate.predicted.time_parts);
    if (candidate.measured && candidate.measured.time_parts && !candidate.measured.slice) {
      const sum = candidate.measured.time_parts.reduce((a, b) => a + b, 0);
      time.labels.push([name, 'one measured step']);
      steps.push(`${name}: ${secondsText(sum)} in that step, ${secondsText(candidate.measured.step_s)} in the median of ${plural(candidate.measured.steps, 'step')}`);
      time.values.push(candidate.measured.time_parts);
    }
    memory.labels.push(name);
    memory.values.push(candidate.predicted.memory_parts);
  }
  const timePlace = el('div', {class: 'chart low'}), memoryPlace = el('div', {class: 'chart low'});
  timePlace.style.height = `${8 + 3 * time.labels.length}rem`;
  chartIn(timePlace, 'chart-time', 'Parts of a step',
    () => stackedBars(time.labels, data.time_labels, kTimeColours, time.values, secondsText, secondsUnit, 'time of a step'));
  chartIn(memoryPlace, 'chart-memory', 'Parts of the memory of a rank',
    () => stackedBars(memory.labels, data.memory_labels, kMemoryColours, memory.values, memoryText, memoryUnit, 'memory of the worst rank'));
  return section('where', 'Where time and memory go',
    steps.length > 0 ? el('p', {}, `A measured bar is one step, on the rank that worked longest; it may take another time than the median. ${steps.join('; ')}.`) : '',
    timePlace, memoryPlace);
}

// Returns how many trials of a plan count, and how many do not.
function trialsText(row) {
  return countText(row.trials) + (row.doubted > 0 ? ` (and ${countText(row.doubted)} doubted)` : '');
}

function measuredSection(data) {
  const title = 'Predicted against measured';
  const rows = data.measurements.filter((row) => !row.slice);
  const slices = data.measurements.length - rows.length;
  const sliceNote = slices > 0
    ? el('p', {}, `${plural(slices, 'plan')} ran as a slice, one rank alone; such a time is not the step's, so ${slices === 1 ? 'it is' : 'they are'} not compared here.`) : '';
  if (rows.length === 0) return section('measured', title, el('p', {}, 'No plan was measured as a whole.'), sliceNote);
  const error = (row) => row.measured_s / row.predicted_s - 1;
  const sorted = rows.map((row) => Math.abs(error(row))).sort((a, b) => a - b);
  const middle = sorted[Math.floor((sorted.length - 1) / 2)];
  const within = rows.filter((row) => row.measured_s >= row.low_s && row.measured_s <= row.high_s).length;
  const place = el('div', {class: 'chart'});
  const most = rows.reduce((a, row) => Math.max(a, row.measured_s, row.predicted_s), 0) * 1.05;
  const least = rows.reduce((a, row) => Math.min(a, row.measured_s, row.predicted_s), Infinity) * 0.95;
  const type = most > 8 * least ? 'logarithmic' : 'linear';
  const unit = secondsUnit(most);
  const mark = (value) => digits(value / unit.size);
  const ticks = {callback: type === 'linear' ? mark : logTick(mark), maxRotation: 0, autoSkipPadding: 16, includeBounds: false};
  chartIn(place, 'chart-measured', 'Measured against predicted step time', () => ({
    type: 'scatter',
    data: {datasets: [
      {label: 'plans', data: rows.map((row) => ({x: row.predicted_s, y: row.measured_s, row})), backgroundColor: kRed, borderWidth: 0, radius: 4},
      {label: 'as predicted', data: [{x: least, y: least}, {x: most, y: most}], showLine: true, radius: 0, hitRadius: 0, hoverRadius: 0,
        borderColor: colour('--soft'), borderDash: [4, 4], borderWidth: 1},
    ]},
    options: {
      scales: {
        x: {type, min: least, max: most, title: axisTitle(`predicted before the first trial, ${unit.name}`), ticks},
        y: {type, min: least, max: most, title: axisTitle(`measured, ${unit.name}`), ticks},
      },
      plugins: {
        legend: {position: 'bottom', labels: {usePointStyle: true, boxHeight: 7}},
        tooltip: {filter: (item) => item.raw.row !== undefined, callbacks: {
          title: (items) => items.length ? lines(items[0].raw.row.plan, isNarrow() ? 34 : 60) : '',
          label: (item) => [`predicted ${secondsText(item.raw.x)}, measured ${secondsText(item.raw.y)}`,
            `measured is ${signedPercent(error(item.raw.row))}`],
        }},
      },
    },
  }));
  const ordered = [...rows].sort((a, b) => a.measured_s - b.measured_s);
  const shown = ordered.slice(0, 15);
  const doubted = shown.reduce((sum, row) => sum + row.doubted, 0);
  const more = ordered.length > shown.length ? el('p', {class: 'soft'}, `The ${shown.length} fastest of ${plural(ordered.length, 'plan')}.`) : '';
  return section('measured', title,
    el('p', {}, `${plural(rows.length, 'plan')} measured${data.question.emulated ? ' on the emulated cluster' : ''}. Half of the predictions, made before the first trial of their plan, missed by ${middle < 0.0005 ? 'less than 0.1%' : `at most ${percentText(middle)}`}; ${countText(within)} of ${countText(rows.length)} measured times lie in the predicted 90% interval.`),
    sliceNote, place,
    tableOf([['plan', false], ['predicted', true], ['measured', true], ['error', true], ['trials', true]],
      shown.map((row) => [planElement(row.plan), secondsText(row.predicted_s),
        secondsText(row.measured_s) + spreadText(row.ci95_s), signedPercent(error(row)), trialsText(row)]), 'stack'),
    doubted > 0 ? el('p', {class: 'soft'}, 'A doubted trial was far faster than its plan can be expected to be; it does not count.') : '', more);
}

function rejectedSection(data) {
  const title = 'Rejected plans';
  const {counts} = data;
  const total = counts.rejected.reduce((sum, row) => sum + row.count, 0);
  if (total === 0) return section('rejected', title, el('p', {}, 'No plan was rejected.'));
  const place = el('div', {class: 'chart low'});
  place.style.height = `${4.5 + 2.8 * counts.rejected.length}rem`;
  const name = (reason) => reason.replaceAll('_', ' ');
  chartIn(place, 'chart-rejected', 'Rejected plans by reason', () => ({
    type: 'bar',
    data: {labels: counts.rejected.map((row) => [name(row.reason), plural(row.count, 'plan')]),
      datasets: [{label: 'plans', data: counts.rejected.map((row) => row.count), backgroundColor: kBlue, borderWidth: 0, maxBarThickness: 22}]},
    options: {
      indexAxis: 'y',
      scales: {
        x: {type: 'logarithmic', min: 0.8, title: axisTitle('plans, logarithmic'), ticks: {callback: (value) => Number.isInteger(Math.log10(value)) ? countText(value) : '', maxRotation: 0}},
        y: {grid: {display: false}, ticks: {autoSkip: false}},
      },
      plugins: {legend: {display: false}, tooltip: {callbacks: {label: (item) => plural(item.raw, 'plan')}}},
    },
  }));
  const parts = [
    el('p', {}, `Of ${plural(counts.enumerated, 'plan')} that the search went through, ${countText(counts.illegal)} are illegal, ${countText(counts.out_of_memory)} do not fit in memory, and ${countText(counts.predicted)} were predicted.`),
    place,
  ];
  if (data.failures.length > 0) {
    parts.push(el('h3', {}, 'Trials without a measurement'),
      tableOf([['trial', true], ['plan', false], ['end', false], ['message', false]],
        data.failures.map((row) => [row.trial, planElement(row.plan), row.state, row.message]), 'stack'));
  }
  return section('rejected', title, ...parts);
}

function billSection(data) {
  const {bill} = data;
  const rows = [
    ['Time from start to end, without pauses', secondsText(bill.wall_s)],
    ['Device time of all trials and of the calibration (ranks × seconds)', secondsText(bill.device_s)],
    ['CPU time of planning', secondsText(bill.plan_cpu_s)],
  ];
  if (bill.exhaustive_device_s > bill.device_s) {
    rows.push(['Device time if every plan were measured, as predicted', secondsText(bill.exhaustive_device_s)]);
  }
  if (bill.trials > 0) {
    const doubted = bill.doubted > 0 ? `; ${countText(bill.doubted)} of the measured ones ${bill.doubted === 1 ? 'is' : 'are'} doubted and ${bill.doubted === 1 ? 'does' : 'do'} not count` : '';
    rows.push(['Trials', `${countText(bill.trials)} (${bill.by_state.map((row) => `${row.state} ${countText(row.count)}`).join(', ')}), ${plural(bill.attempts, 'attempt')}${doubted}`]);
  }
  if (bill.trials_reused > 0) {
    rows.push(['Trials reused', `${plural(bill.trials_reused, 'measurement')} of earlier studies, at no device time`]);
  }
  if (bill.op_times_measured > 0) {
    rows.push(['Op times measured', `${countText(bill.op_times_measured)}, of which ${countText(bill.op_times_reused)} of earlier studies; ${countText(bill.op_times_estimated)} estimated`]);
  }
  const saved = bill.device_s > 0 && bill.exhaustive_device_s > bill.device_s
    ? el('p', {}, `The search took ${percentText(bill.device_s / bill.exhaustive_device_s)} of the device time that measuring every plan would take.`) : '';
  return section('bill', 'The bill of the search', saved, tableOf([['', false], ['', true]], rows));
}

function questionSection(data) {
  const {question, study} = data;
  const {model, cluster, workload} = question;
  const rows = [
    ['Model', `${model.name || 'without a name'}: ${bigText(model.parameters)} parameters; ${plural(model.layers, 'layer')}, hidden ${countText(model.hidden)}, ${plural(model.heads, 'head')}, vocabulary ${countText(model.vocab)}`],
    ['Cluster', cluster.groups.map((group) => `${plural(group.nodes, 'node')} of ${countText(group.ranks_per_node)} × ${group.device || 'device'}, ${memoryText(group.memory_mib)} each`).join('; ')],
    ['Batch', `${plural(workload.global_batch, 'sequence')} of ${plural(workload.seq_len, 'token')}, ${workload.precision}`],
    ['Engine', `${question.engine || 'autocfg'}${question.emulated ? ', on an emulated cluster' : ''}${question.predict_only ? '; predictions alone' : ''}`],
    ['Memory that a plan leaves free', percentText(question.memory_margin)],
  ];
  if (question.time_budget_s > 0) rows.push(['Time budget', secondsText(question.time_budget_s)]);
  if (question.max_trials > 0) rows.push(['Most plans measured', countText(question.max_trials)]);
  if (question.space.length > 0) {
    rows.push(['Space', question.space.map((axis) => `${axis.option}=${axis.values.join(',')}`).join('; ')]);
  }
  const best = data.answer.best;
  if (best && best.measured) {
    rows.push(['Measured on', best.measured.device || 'unknown']);
    rows.push(['Measured with build', best.measured.build || 'unknown']);
  }
  if (data.from_file) rows.push(['Study', study.name || 'not kept']);
  else rows.push(['Study', `${study.name}, ${study.state}, specification ${study.fingerprint}${study.owner ? `, of ${study.owner}` : ''}`]);
  return section('question', 'The question', tableOf([['', false], ['', false]], rows));
}

function heading(data) {
  const {study, question} = data;
  const date = (seconds) => new Date(1000 * seconds).toISOString().replace('T', ' ').slice(0, 16) + ' UTC';
  const when = study.ended_s > 0 ? `ended ${date(study.ended_s)}` : `created ${date(study.created_s)}`;
  const {workload} = question;
  const origin = data.from_file
    ? `Made of the file of a search, which holds neither its trials nor its timelines nor the other plans${study.name ? ': the page of the study has them' : ''}.`
    : `The study is ${study.state}; ${when}.`;
  return el('header', {}, el('h1', {}, data.title),
    el('p', {}, `${plural(workload.global_batch, 'sequence')} of ${plural(workload.seq_len, 'token')} a step, ${workload.precision}. ${origin}`));
}

function render(data) {
  forgetCharts();
  const plans = new Plans(data);
  const parts = [heading(data), answerBox(data)];
  if (data.answer.best) {
    parts.push(plansSection(plans, data), runnersSection(data));
    if (!data.from_file) parts.push(timelineSection(data));
    parts.push(whereSection(data));
    if (!data.from_file) parts.push(heatSection(plans));
  }
  const compares = data.measurements.length > 0 || !data.question.predict_only;
  if (compares && !data.from_file) parts.push(measuredSection(data));
  parts.push(rejectedSection(data), billSection(data), questionSection(data));
  document.getElementById('report').replaceChildren(...parts);
  document.getElementById('made').textContent = `Made by autocfg ${data.version} (build ${data.build}).`;
  drawAll();
  if (data.answer.best) showComparison(plans);
  document.documentElement.dataset.ready = '1';
}

// Draws again what depends on the window, the theme and the paper.
function followWindow() {
  window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', drawAll);
  // Paper has its own width and colours, and pictures must be drawn before the page is laid out for it.
  window.addEventListener('beforeprint', () => {
    document.documentElement.classList.add('paper');
    drawAll();
  });
  window.addEventListener('afterprint', () => {
    document.documentElement.classList.remove('paper');
    drawAll();
  });
  let width = window.innerWidth;
  window.addEventListener('resize', () => {
    if (window.innerWidth === width) return;
    width = window.innerWidth;
    for (const redraw of redraws) redraw();
  });
}
