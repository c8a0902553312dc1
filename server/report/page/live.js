'use strict';
// Draws the report of a study of a server, and draws it again when the study has changed.

const kPauseMs = 5000;
let shown = '';  // the ETag of what is drawn

function say(text) {
  document.getElementById('freshness').textContent = text;
}

// Draws the study as it is now. Returns whether it may still change.
async function refresh() {
  const answer = await fetch(`${location.pathname}.json`, {cache: 'no-cache'});
  if (!answer.ok) {
    say(await answer.text());
    return true;
  }
  const tag = answer.headers.get('ETag');
  const data = await answer.json();
  if (tag !== shown) {
    const top = window.scrollY;
    document.title = data.title;
    Object.assign(pair, {first: 0, second: 1, next: 'first'});
    render(data);
    window.scrollTo(0, top);
    shown = tag;
  }
  const ended = ['done', 'failed', 'cancelled'].includes(data.study.state);
  say(ended ? '' : `as of ${new Date().toLocaleTimeString()}, refreshed every ${kPauseMs / 1000} seconds`);
  return !ended;
}

async function follow() {
  let changes = true;
  try {
    changes = await refresh();
  } catch (error) {
    say(`the server does not answer (${error.message}); asking again`);
  }
  if (changes) setTimeout(follow, kPauseMs);
}

followWindow();
follow();
