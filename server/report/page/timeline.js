'use strict';
// The pipeline timeline of a plan: what each rank of one pipeline does in a step, predicted above measured, on
// one scale.

const kBars = {
  F: ['forward', kBlue], B: ['backward', kGreen], I: ['backward: input', kGreen], W: ['backward: weights', kYellow],
  C: ['reduce and gather', kPurple], O: ['optimizer', kRed],
};

const kHeadingHeight = 18;  // of a group of rows

// Returns the bars of a rank with their begin and end as parts of the step.
function barsOf(rank, ticks) {
  const bars = [];
  let at = 0;
  for (let i = 0; i < rank.kinds.length; ++i) {
    const [microbatch, stage, gap, length] = rank.numbers.slice(4 * i, 4 * i + 4);
    bars.push({kind: rank.kinds[i], microbatch, stage, begin: (at + gap) / ticks, end: (at + gap + length) / ticks});
    at += gap + length;
  }
  return bars;
}

// Returns the share of the step in which the ranks neither compute nor communicate as a group.
function idleShare(ranks, ticks) {
  let busy = 0;
  for (const rank of ranks) for (const bar of barsOf(rank, ticks)) busy += bar.end - bar.begin;
  return Math.max(0, 1 - busy / ranks.length);
}

// Returns the least number of 1, 2 or 5 times a power of ten that is at least so much.
function roundAbove(number) {
  const decade = 10 ** Math.floor(Math.log10(number));
  return decade * [1, 2, 5, 10].find((one) => one * decade >= number * 0.999);
}

// Returns the text of a mark of an axis of which the marks are so far apart.
function markText(seconds, apart) {
  const unit = secondsUnit(seconds);
  return `${Number((seconds / unit.size).toFixed(Math.max(0, Math.ceil(-Math.log10(apart / unit.size)))))} ${unit.name}`;
}

// Draws rows of bars. `rows`: {label, name, heading, until, bars: [{begin, end, colour, text}]}, in seconds. A row
// with a heading begins a group of rows. Returns what stands at a place.
function drawRows(canvas, rows, longest, note) {
  const width = canvas.parentElement.clientWidth;
  const rowHeight = rows.length > 12 ? 16 : 24, gap = rows.length > 12 ? 2 : 4;
  const font = `12px ${getComputedStyle(document.body).fontFamily}`;
  const pen = canvas.getContext('2d');
  pen.font = font;
  const left = Math.ceil(rows.reduce((most, row) => Math.max(most, pen.measureText(row.label).width), 0)) + 10;
  let y = 2;
  const placed = rows.map((row) => {
    if (row.heading) y += kHeadingHeight + (y > 2 ? 6 : 0);
    const top = y;
    y += rowHeight + gap;
    return {...row, top};
  });
  const height = y + 22;
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  pen.scale(ratio, ratio);
  pen.font = font;
  pen.textBaseline = 'middle';
  const right = width - 8;
  const x = (seconds) => left + seconds / longest * (right - left);
  for (const row of placed) {
    pen.fillStyle = colour('--soft');
    if (row.heading) {
      pen.textAlign = 'left';
      pen.fillText(row.heading, left, row.top - kHeadingHeight / 2);
    }
    pen.textAlign = 'right';
    pen.fillText(row.label, left - 6, row.top + rowHeight / 2);
    pen.fillStyle = colour('--idle');
    pen.fillRect(left, row.top, Math.max(1, x(row.until) - left), rowHeight);
    for (const bar of row.bars) {
      const wide = x(bar.end) - x(bar.begin);
      if (wide <= 0) continue;
      pen.fillStyle = bar.colour;
      pen.fillRect(x(bar.begin), row.top, Math.max(0.5, wide > 4 ? wide - 0.75 : wide), rowHeight);
    }
  }
  pen.fillStyle = pen.strokeStyle = colour('--soft');
  pen.textBaseline = 'top';
  const apart = roundAbove(longest / (width < 500 ? 3 : 6));
  for (let at = 0; at <= longest * 1.0001; at += apart) {
    pen.textAlign = at === 0 ? 'left' : x(at) > right - 20 ? 'right' : 'center';
    pen.fillText(at === 0 ? '0' : markText(at, apart), x(at), y + 5);
    pen.fillRect(Math.min(x(at), right - 1), y, 1, 4);
  }
  canvas.dataset.drawn = '1';
  return (event) => {
    const box = canvas.getBoundingClientRect();
    const px = event.clientX - box.left, py = event.clientY - box.top;
    const row = placed.find((one) => py >= one.top && py < one.top + rowHeight);
    if (!row || px < left) return note;
    const seconds = (px - left) / (right - left) * longest;
    const bar = row.bars.find((one) => seconds >= one.begin && seconds < one.end);
    if (bar) return `${row.name}: ${bar.text}, ${secondsText(bar.begin)} to ${secondsText(bar.end)}`;
    return seconds < row.until ? `${row.name}: waits` : note;
  };
}

// Returns a group of rows, one for each rank of a step.
function rankRows({ranks, step_s}, ticks, how) {
  return ranks.map((rank, i) => ({
    label: `rank ${i}`,
    name: `${how}, rank ${i}`,
    heading: i === 0 ? `${how}: ${secondsText(step_s)}` : '',
    until: step_s,
    bars: barsOf(rank, ticks).map((bar) => ({
      begin: bar.begin * step_s,
      end: bar.end * step_s,
      colour: kBars[bar.kind][1],
      text: kBars[bar.kind][0] + (bar.microbatch < 0 ? '' : ` of microbatch ${bar.microbatch}, stage ${bar.stage}`),
    })),
  }));
}

// Returns the row of the parts of a measured step, one after the other.
function partsRow(measured, labels, how) {
  let at = 0;
  const bars = Object.values(measured.breakdown_s).map((seconds, i) => {
    const bar = {begin: at, end: at + seconds, colour: kTimeColours[i], text: labels[i]};
    at += seconds;
    return bar;
  }).filter((bar) => bar.end > bar.begin);
  return {label: 'parts', name: 'measured parts', heading: `${how}: ${secondsText(at)} in one step, by parts`, until: at, bars};
}

function timelineFigure(title, timeline, candidate, data) {
  const figure = el('figure', {}, el('h3', {}, title), planElement(timeline.plan));
  if (timeline.note) {
    figure.append(el('p', {class: 'soft'}, `No timeline: ${timeline.note}.`));
    return figure;
  }
  const ticks = data.timeline_ticks;
  const how = isEmulated(data.answer) ? 'emulated' : 'measured';
  const recorded = timeline.measured;
  const drawn = recorded && !recorded.note;
  const waits = (step) => `its ranks wait for ${percentText(idleShare(step.ranks, ticks))} of it`;
  const notes = [`Predicted: ${secondsText(timeline.step_s)} a step; ${waits(timeline)}.`];
  if (drawn) notes.push(`${how === 'measured' ? 'Measured' : 'Emulated'}: ${secondsText(recorded.step_s)} in one step of trial ${recorded.trial}; ${waits(recorded)}.`);
  const note = notes.join(' ');
  const canvas = el('canvas', {class: 'timeline', role: 'img', 'aria-label': `${title}: what each pipeline rank does in a step`});
  const reading = el('p', {class: 'reading'}, note);
  figure.append(el('div', {}, canvas), reading);
  const rows = rankRows(timeline, ticks, 'predicted');
  const measured = candidate.measured;
  let longest = timeline.step_s;
  if (drawn) {
    rows.push(...rankRows(recorded, ticks, how));
    longest = Math.max(longest, recorded.step_s);
  } else if (measured && measured.breakdown_s) {
    const row = partsRow(measured, data.time_labels, how);
    rows.push(row);
    longest = Math.max(longest, row.until);
  }
  if (recorded && recorded.note) figure.append(el('p', {class: 'soft'}, `No ${how} timeline: ${recorded.note}.`));
  let at = () => note;
  redraws.push(() => { at = drawRows(canvas, rows, longest, note); });
  canvas.addEventListener('mousemove', (event) => { reading.textContent = at(event); });
  canvas.addEventListener('click', (event) => { reading.textContent = at(event); });
  canvas.addEventListener('mouseleave', () => { reading.textContent = note; });
  return figure;
}

function timelineSection(data) {
  const title = 'Timeline of the pipeline';
  if (data.timelines.length === 0) return section('timeline', title, el('p', {}, 'There is no plan to show yet.'));
  const candidates = [data.answer.best, ...data.answer.runners_up];
  const steps = data.timelines.flatMap((timeline) => timeline.measured ? [timeline, timeline.measured] : [timeline]);
  const used = new Set(steps.flatMap((step) => step.ranks.flatMap((rank) => [...rank.kinds])));
  const legend = Object.entries(kBars).filter(([letter]) => used.has(letter)).map(([, entry]) => entry);
  const drawn = data.timelines.some((timeline) => timeline.measured && !timeline.measured.note);
  const strip = data.timelines.some((timeline, i) => timeline.measured && timeline.measured.note && !timeline.note
    && candidates[i].measured.breakdown_s);
  const parts = strip ? [el('p', {class: 'soft'}, 'Row “parts”: the parts of one measured step on the rank that worked longest, one after the other.'),
    legendOf(data.time_labels.map((label, i) => [label, kTimeColours[i]]))] : [];
  return section('timeline', title,
    el('p', {}, 'One row for each rank of a pipeline; ranks that differ only in their tensor or data place do the same. Pale stretches are bubbles, in which a rank waits.'),
    drawn ? el('p', {class: 'soft'}, 'What was measured is one step, recorded before the timed ones; the device was synchronized after each action.') : '',
    legendOf([...legend, ['bubble', 'var(--idle)']]),
    ...data.timelines.map((timeline, i) => timelineFigure(i === 0 ? 'Best plan' : 'Runner-up', timeline, candidates[i], data)),
    ...parts);
}
