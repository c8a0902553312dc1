'use strict';
// The sections of the report, the answer first: data.answer is a best.json (docs/formats.md).

function isEmulated(answer) {
  return answer.device === 'paced';
}

// Returns the time that a plan is ranked by.
function secondsOf(candidate) {
  return candidate[candidate.provenance].step_time_s;
}

function memoryFigure({predicted, measured}, emulated) {
  const {total, capacity} = predicted.memory_bytes;
  const share = capacity > 0 ? `predicted; ${percentText(total / capacity)} of ${memoryText(capacity)} a rank` : 'predicted; a rank';
  if (!measured || measured.slice || emulated) return [memoryText(total), share];
  const peak = (measured.peak_memory_bytes || measured.planned_memory_bytes) + measured.device_overhead_bytes;
  return [memoryText(total), `${share}; measured ${memoryText(peak)}`];
}

function spreadText(ci95_s) {
  return ci95_s > 0 ? ` ± ${secondsText(ci95_s)}` : '';
}

function stepFigure({predicted, measured}, emulated) {
  if (measured && !measured.slice) {
    return [secondsText(measured.step_time_s),
      `${emulated ? 'emulated' : 'measured'}${spreadText(measured.ci95_s)}; predicted ${secondsText(predicted.step_time_s)}`];
  }
  const {step_time_low_s: low, step_time_high_s: high} = predicted;
  const how = high > low ? `predicted; 90% between ${secondsText(low)} and ${secondsText(high)}` : 'predicted';
  return [secondsText(predicted.step_time_s), measured ? `${how}; one rank of it was measured` : how];
}

function figures(entries) {
  return el('dl', {class: 'figures'}, ...entries.map(([name, value, more]) =>
    el('div', {}, el('dt', {}, name), el('dd', {}, value, more ? el('small', {}, more) : null))));
}

// Returns what is to be known beside the answer, as sentences.
function remarks(data) {
  const {study} = data;
  const {why} = data.answer;
  const {chance_of_better: chance, stopped, plans_left: left} = data.answer.search;
  const texts = [];
  if (why.lead !== null) {
    texts.push(el('span', {}, `The runner-up takes ${percentText(Math.abs(why.lead))} ${why.lead < 0 ? 'less' : 'longer'}: `, planElement(why.runner_up.plan_text)));
  }
  if (why.tied > 0) {
    texts.push(`${plural(why.tied, 'runner')}-up ${why.tied === 1 ? 'is' : 'are'} tied with the best plan: the intervals overlap.`);
  }
  if (why.matters_most) {
    texts.push(`What matters most is ${why.matters_most.option}: ${why.matters_most.because}`);
  }
  if (chance !== null) {
    texts.push(`The chance that a plan that was not measured is more than 1% faster is ${chance < 0.01 ? 'less than 1%' : `at most ${(100 * chance).toFixed(0)}%`}.`);
  }
  if (stopped) {
    const limit = {time_budget: 'time budget', max_trials: 'limit on trials'}[stopped] || stopped;
    texts.push(`The ${limit} ended the search; ${plural(left, 'plan')} that it would have measured ${left === 1 ? 'is' : 'are'} left.`);
  }
  if (study.left_out) texts.push(study.left_out);
  if (study.waiting) texts.push(`The search waits: ${study.waiting}`);
  if (study.message && !stopped) texts.push(study.message);
  return texts;
}

function answerBox(data) {
  const {answer, study} = data;
  if (!answer.best) {
    const why = answer.reason || study.message || study.waiting ||
      'The search has no plan yet: its op times are still measured.';
    return el('div', {class: 'answer', id: 'answer'}, el('p', {class: 'label'}, 'No plan'), el('p', {}, why));
  }
  const {best} = answer;
  const {predicted} = best;
  const [step, how] = stepFigure(best, isEmulated(answer));
  const [memory, share] = memoryFigure(best, isEmulated(answer));
  const entries = [['Step time', step, how]];
  const faster = predicted.step_time_s / secondsOf(best);
  if (predicted.tokens_per_s > 0) entries.push(['Tokens per second', countText(predicted.tokens_per_s * faster), `${countText(predicted.tokens_per_s_per_gpu * faster)} a rank`]);
  if (predicted.mfu > 0) entries.push(['Model FLOPs utilization', percentText(predicted.mfu * faster), 'of the peak']);
  entries.push(['Memory', memory, share]);
  return el('div', {class: 'answer', id: 'answer'},
    el('div', {class: 'label'}, study.state === 'done' ? 'Best plan' : `Best plan so far (the study is ${study.state})`),
    planElement(best.plan_text), figures(entries),
    el('ul', {}, ...remarks(data).map((text) => el('li', {}, text))));
}

function runnersSection(data) {
  const all = [data.answer.best, ...data.answer.runners_up];
  const rows = all.map((candidate, i) => [String(i + 1), planElement(candidate.plan_text), secondsText(secondsOf(candidate)),
    i === 0 ? '' : signedPercent(secondsOf(candidate) / secondsOf(all[0]) - 1),
    memoryText(candidate.predicted.memory_bytes.total), candidate.provenance]);
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
    time.values.push(Object.values(candidate.predicted.breakdown_s));
    if (candidate.measured && candidate.measured.breakdown_s && !candidate.measured.slice) {
      const parts = Object.values(candidate.measured.breakdown_s), sum = parts.reduce((a, b) => a + b, 0);
      time.labels.push([name, 'one measured step']);
      steps.push(`${name}: ${secondsText(sum)} in that step, ${secondsText(candidate.measured.step_time_s)} in the median of ${plural(candidate.measured.steps, 'step')}`);
      time.values.push(parts);
    }
    memory.labels.push(name);
    memory.values.push(Object.values(candidate.predicted.memory_bytes).slice(0, data.memory_labels.length));
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
    el('p', {}, `${plural(rows.length, 'plan')} measured${isEmulated(data.answer) ? ' on the emulated cluster' : ''}. Half of the predictions, made before the first trial of their plan, missed by ${middle < 0.0005 ? 'less than 0.1%' : `at most ${percentText(middle)}`}; ${countText(within)} of ${countText(rows.length)} measured times lie in the predicted 90% interval.`),
    sliceNote, place,
    tableOf([['plan', false], ['predicted', true], ['measured', true], ['error', true], ['trials', true]],
      shown.map((row) => [planElement(row.plan), secondsText(row.predicted_s),
        secondsText(row.measured_s) + spreadText(row.ci95_s), signedPercent(error(row)), trialsText(row)]), 'stack'),
    doubted > 0 ? el('p', {class: 'soft'}, 'A doubted trial was far faster than its plan can be expected to be; it does not count.') : '', more);
}

function rejectedSection(data) {
  const title = 'Rejected plans';
  const {counts} = data.answer;
  const rejected = Object.entries(data.answer.rejected).filter(([, count]) => count > 0).sort((a, b) => b[1] - a[1]);
  if (rejected.length === 0) return section('rejected', title, el('p', {}, 'No plan was rejected.'));
  const place = el('div', {class: 'chart low'});
  place.style.height = `${4.5 + 2.8 * rejected.length}rem`;
  const name = (reason) => reason.replaceAll('_', ' ');
  chartIn(place, 'chart-rejected', 'Rejected plans by reason', () => ({
    type: 'bar',
    data: {labels: rejected.map(([reason, count]) => [name(reason), plural(count, 'plan')]),
      datasets: [{label: 'plans', data: rejected.map(([, count]) => count), backgroundColor: kBlue, borderWidth: 0, maxBarThickness: 22}]},
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
        data.failures.map((row) => [row.trial, planElement(row.plan), row.state.replaceAll('_', ' '), row.message]), 'stack'));
  }
  return section('rejected', title, ...parts);
}

function billSection(data) {
  const {trials} = data;
  const {search} = data.answer;
  const rows = [
    ['Time from start to end, without pauses', secondsText(search.wall_s)],
    ['Device time of all trials and of the calibration (ranks × seconds)', secondsText(search.device_s)],
    ['CPU time of planning', secondsText(search.plan_cpu_s)],
  ];
  if (search.exhaustive_device_s > search.device_s) {
    rows.push(['Device time if every plan were measured, as predicted', secondsText(search.exhaustive_device_s)]);
  }
  if (trials.count > 0) {
    const doubted = trials.doubted > 0 ? `; ${countText(trials.doubted)} of the measured ones ${trials.doubted === 1 ? 'is' : 'are'} doubted and ${trials.doubted === 1 ? 'does' : 'do'} not count` : '';
    rows.push(['Trials', `${countText(trials.count)} (${Object.entries(trials.by_state).map(([state, count]) => `${state.replaceAll('_', ' ')} ${countText(count)}`).join(', ')}), ${plural(trials.attempts, 'attempt')}${doubted}`]);
  }
  if (search.reused_trials > 0) {
    rows.push(['Trials reused', `${plural(search.reused_trials, 'measurement')} of earlier studies, at no device time`]);
  }
  if (search.measured_op_times > 0) {
    rows.push(['Op times measured', `${countText(search.measured_op_times)}, of which ${countText(search.reused_op_times)} of earlier studies; ${countText(search.estimated_op_times)} estimated`]);
  }
  const saved = search.device_s > 0 && search.exhaustive_device_s > search.device_s
    ? el('p', {}, `The search took ${percentText(search.device_s / search.exhaustive_device_s)} of the device time that measuring every plan would take.`) : '';
  return section('bill', 'The bill of the search', saved, tableOf([['', false], ['', true]], rows));
}

// The precision, and the optimizer unless it is AdamW.
function statesText({precision, optimizer, momentum}) {
  if (!optimizer) return precision;
  return `${precision}, ${optimizer}${momentum ? ` with momentum ${momentum}` : ''}`;
}

function questionSection(data) {
  const {answer, study} = data;
  const {model, cluster, workload} = answer;
  const rows = [
    ['Model', `${model.name || 'without a name'}: ${bigText(answer.parameters)} parameters; ${plural(model.layers, 'layer')}, hidden ${countText(model.hidden)}, ${plural(model.heads, 'head')}, vocabulary ${countText(model.vocab)}`],
    ['Cluster', (cluster.groups || [cluster]).map(({nodes, gpus_per_node: ranks, device}) => `${plural(nodes, 'node')} of ${countText(ranks)} × ${device.name || 'device'}, ${memoryText(device.memory_bytes || 0)} each`).join('; ')],
    ['Batch', `${plural(workload.global_batch, 'sequence')} of ${plural(workload.seq_len, 'token')}, ${statesText(workload)}`],
    ['Engine', `${answer.engine || 'autocfg'}${isEmulated(answer) ? ', on an emulated cluster' : ''}${answer.device === null ? '; predictions alone' : ''}`],
    ['Memory that a plan leaves free', percentText(answer.memory_margin)],
  ];
  if (study.time_budget_s > 0) rows.push(['Time budget', secondsText(study.time_budget_s)]);
  if (study.max_trials > 0) rows.push(['Most plans measured', countText(study.max_trials)]);
  if (study.space.length > 0) {
    rows.push(['Space', study.space.map((axis) => `${axis.option}=${axis.values.join(',')}`).join('; ')]);
  }
  const {best} = answer;
  if (best && best.measured) {
    rows.push(['Measured on', best.measured.device_fingerprint || 'unknown']);
    rows.push(['Measured with build', best.measured.build_id || 'unknown']);
  }
  if (data.from_file) rows.push(['Study', study.name || 'not kept']);
  else rows.push(['Study', `${study.name}, ${study.state}, specification ${study.fingerprint}${study.owner ? `, of ${study.owner}` : ''}`]);
  return section('question', 'The question', tableOf([['', false], ['', false]], rows));
}

function heading(data) {
  const {study} = data;
  const {workload} = data.answer;
  const date = (seconds) => new Date(1000 * seconds).toISOString().replace('T', ' ').slice(0, 16) + ' UTC';
  const when = study.ended_s > 0 ? `ended ${date(study.ended_s)}` : `created ${date(study.created_s)}`;
  const origin = data.from_file
    ? `Made of the file of a search, which holds neither its trials nor its timelines nor the other plans${study.name ? ': the page of the study has them' : ''}.`
    : `The study is ${study.state}; ${when}.`;
  return el('header', {}, el('h1', {}, data.title),
    el('p', {}, `${plural(workload.global_batch, 'sequence')} of ${plural(workload.seq_len, 'token')} a step, ${statesText(workload)}. ${origin}`));
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
  const compares = data.measurements.length > 0 || data.answer.device !== null;
  if (compares && !data.from_file) parts.push(measuredSection(data));
  parts.push(rejectedSection(data), billSection(data), questionSection(data));
  document.getElementById('report').replaceChildren(...parts);
  const {autocfg, build_id: build} = data.answer.versions;
  document.getElementById('made').textContent = `Made by autocfg ${autocfg} (build ${build}).`;
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
