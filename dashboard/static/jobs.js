// Scenarios that run: how far they are, what came of them, and cancelling.

import { remove } from './api.js';
import { span } from './format.js';
import { Badge, Wrong, html, useAsked, useEffect, useState } from './parts.js';

const TONES = { running: 'strong', done: 'good', failed: 'bad' };

export function Jobs({ tick }) {
  const { value, error, reload } = useAsked('/api/jobs', 500);
  const [wrong, setWrong] = useState(null);
  useEffect(() => reload(), [tick]);
  const cancel = (number) => remove(`/api/jobs/${number}`).then(reload, (failed) => setWrong(failed.message));
  if (!value?.length) return error ? html`<${Wrong} error=${error} />` : null;
  return html`<section class="card jobs"><h2>Runs started here</h2><${Wrong} error=${wrong} />
    <ul class="plainlist">${value.slice(0, 8).map((job) => {
    const going = job.state === 'running' || job.state === 'stopping';
    const left = job.done > 0.02 ? (job.seconds * (1 - job.done)) / job.done : null;
    return html`<li key=${job.number}><p><b>${job.name}</b> <${Badge} tone=${TONES[job.state]}>${job.state}<//> <span class="quiet">${span(job.seconds)}${going && left !== null ? `, ${span(left)} left` : ''}</span></p>
      ${going && html`<progress max="1" value=${job.done || null} aria-label=${`Progress of ${job.name}`}></progress><p class="quiet">${Math.round(100 * job.done)} % ${job.note}</p>`}
      ${job.reused > 0 && html`<p class="quiet">${job.reused} finished already and not computed again</p>`}
      ${job.error && job.state === 'failed' && html`<${Wrong} error=${job.error} />`}
      <p class="buttons left">${going && html`<button type="button" class="small" disabled=${job.state === 'stopping'} onClick=${() => cancel(job.number)}>Cancel<span class="hidden"> ${job.name}</span></button>`}
        ${job.state === 'done' && html`<a class="button small" href=${`#/runs/${encodeURIComponent(job.run)}`}>See what it found</a>`}</p></li>`;
  })}</ul></section>`;
}
