// All daemons at a glance.

import { span } from './format.js';
import { panelOf } from './panels.js';
import { Badge, Empty, Loading, Page, Wrong, html, useAsked } from './parts.js';

export function Fleet() {
  const { value, error } = useAsked('/api/daemons', 2000);
  const answering = value?.filter((one) => one.daemon) ?? [];
  const silent = value?.filter((one) => !one.daemon) ?? [];
  return html`<${Page} title="Live">
    <${Wrong} error=${error} />
    ${!value && !error && html`<${Loading} what="daemons" />`}
    ${value && !answering.length && html`<${Empty} title="No daemon is running here">
      <p>Start one on this machine, for example <code>sudo ebb router run -c router.toml</code>; it appears here within a second.</p>
      <p class="quiet">Sockets elsewhere are given by <code>ebb dashboard --socket NAME=PATH</code>. Only their owner may ask daemons: the dashboard has to run as the same user.</p><//>`}
    <ul class="fleet">${answering.map((one) => html`<li class="card" key=${one.id}>
      <h2><a href=${`#/live/${encodeURIComponent(one.id)}`}>${one.id}</a> ${one.answers ? html`<${Badge} tone="good">answers<//>` : html`<${Badge} tone="bad">silent<//>`}</h2>
      <p>${panelOf(one.daemon).title} ${one.version}, up ${span(one.uptime_seconds)}</p>
      <p class="chips">${Object.entries(one.facts ?? {}).map(([name, fact]) => html`<${Badge}><small>${name.replaceAll('_', ' ')}</small> ${fact}<//>`)}</p>
      ${one.error && html`<p class="quiet">${one.error}</p>`}
      ${one.notes?.length > 0 && html`<p><${Badge} tone="warn">${one.notes.length} ${one.notes.length === 1 ? 'note' : 'notes'}<//> ${one.notes.at(-1)}</p>`}
      <p class="quiet">${one.watchers} ${one.watchers === 1 ? 'page watches' : 'pages watch'}${one.events_lost ? `; ${one.events_lost} events lost by slow pages` : ''}</p></li>`)}</ul>
    ${silent.length > 0 && html`<section class="card"><h2>Not running</h2><ul class="plainlist">${silent.map((one) => html`<li key=${one.id}><b>${one.id}</b> <code>${one.socket}</code> <span class="quiet">${one.error ?? 'not asked yet'}</span></li>`)}</ul></section>`}
  <//>`;
}
