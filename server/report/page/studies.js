'use strict';
// The list of the studies of a server.

const kPauseMs = 5000;

function studyRow(study) {
  const name = `${study.model || 'a model'} on ${study.cluster || 'a cluster'}`;
  const date = new Date(1000 * study.created_s).toISOString().replace('T', ' ').slice(0, 16);
  return [
    el('a', {href: `/studies/${study.id}`}, `Study ${study.id}`), name, countText(study.ranks),
    study.state === 'running' && study.phase ? `running: ${study.phase}` : study.state,
    study.best ? secondsText(study.best.seconds) : '', study.best ? study.best.provenance : '',
    countText(study.measured), date,
  ];
}

async function follow() {
  const freshness = document.getElementById('freshness');
  try {
    const answer = await fetch('/studies.json', {cache: 'no-cache'});
    if (!answer.ok) throw new Error((await answer.text()).trim());
    const {studies, most} = await answer.json();
    const table = tableOf([['', false], ['question', false], ['ranks', true], ['state', false], ['best step', true],
      ['time is', false], ['measured', true], ['created (UTC)', false]], studies.map(studyRow), 'stack list');
    document.getElementById('report').replaceChildren(
      studies.length > 0 ? table : el('p', {}, 'There is no study yet; autocfg search --coordinator creates one.'));
    freshness.textContent = studies.length < most ? plural(studies.length, 'study').replace('studys', 'studies') : `The newest ${countText(most)} studies`;
    document.documentElement.dataset.ready = '1';
  } catch (error) {
    freshness.textContent = `The server does not answer (${error.message}); asking again.`;
  }
  setTimeout(follow, kPauseMs);
}

follow();
