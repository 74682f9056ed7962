// Published numbers beside ours.

import { query } from './api.js';
import { NOTHING, digits } from './format.js';
import { Badge, Choice, Field, Loading, Page, Table, Tile, Wrong, html, useAsked, useMemo, useState } from './parts.js';

const TONES = { met: 'good', missed: 'bad', 'not run': '' };

/** Where ours lies within three tolerances on each side of the published value. */
function Deviation({ row }) {
  if (row.ours === null || row.ours === undefined || !(row.tolerance > 0)) return NOTHING;
  const off = (row.ours - row.published) / row.tolerance;
  const place = 50 + (50 / 3) * Math.max(-3, Math.min(3, off));
  return html`<svg class="deviation" viewBox="0 0 100 12" role="img" aria-label=${`${digits(off)} tolerances off`}>
    <rect x="33.3" y="2" width="33.4" height="8" class="within" /><line x1="50" x2="50" y1="0" y2="12" /><circle cx=${place} cy="6" r="3.4" class=${row.verdict === 'met' ? 'met' : 'missed'} /></svg>`;
}

const value = (number, unit) => (number === null || number === undefined ? NOTHING : `${digits(number)}${unit ? ` ${unit}` : ''}`);

export function Published({ run }) {
  const path = run ? query('/api/claims', { run }) : '/api/claims';
  const { value: told, error } = useAsked(path);
  const runs = useAsked('/api/runs');
  const [filter, set] = useState({ paper: '', verdict: '', basis: '', text: '' });
  const claims = told?.claims ?? [];
  const paper = (row) => row.id.split('.')[0];
  const papers = useMemo(() => [...new Set(claims.map(paper))], [told]);
  const rows = useMemo(() => claims.filter((row) => (!filter.paper || paper(row) === filter.paper) && (!filter.verdict || row.verdict === filter.verdict)
    && (!filter.basis || row.basis === filter.basis) && `${row.id} ${row.quantity} ${row.source} ${row.note}`.toLowerCase().includes(filter.text.toLowerCase())), [told, filter]);
  const count = (all, verdict) => all.filter((row) => row.verdict === verdict).length;
  const share = (basis) => {
    const of = rows.filter((row) => row.basis === basis && row.verdict !== 'not run');
    return `${count(of, 'met')} of ${of.length}`;
  };
  const columns = useMemo(() => [
    { name: 'quantity', left: true, of: (row) => row.id, show: (row) => html`<span class="wrap">${row.quantity}<br /><small class="quiet">${row.id}</small></span>` },
    { name: 'published', of: (row) => row.published, show: (row) => `${{ at_least: '≥ ', at_most: '≤ ' }[row.bound] ?? ''}${value(row.published, row.unit)}` },
    { name: 'ours', of: (row) => row.ours, show: (row) => html`${value(row.ours, row.unit)}${row.half_width_95 ? html`<br /><small class="quiet">± ${digits(row.half_width_95)} (95 %)</small>` : ''}` },
    { name: 'tolerance', of: (row) => row.tolerance, show: (row) => `± ${value(row.tolerance, row.unit)}` },
    { name: 'off by', of: (row) => (row.tolerance > 0 && row.ours !== null ? Math.abs(row.ours - row.published) / row.tolerance : null), show: (row) => html`<${Deviation} row=${row} />` },
    { name: 'verdict', left: true, of: (row) => row.verdict, show: (row) => html`<${Badge} tone=${TONES[row.verdict]}>${row.verdict}<//>` },
    { name: 'basis', left: true, of: (row) => row.basis },
    { name: 'note', left: true, of: (row) => row.note, show: (row) => html`<span class="wrap small">${row.note || NOTHING}<br /><small class="quiet">${row.source}</small></span>` },
  ], []);
  const pick = (name, label, options) => html`<${Field} label=${label}><select value=${filter[name]} onChange=${(event) => set({ ...filter, [name]: event.target.value })}>
    <option value="">all</option>${options.map((one) => html`<option value=${one}>${one}</option>`)}</select><//>`;
  const others = (runs.value?.runs ?? []).filter((one) => one.claims);
  return html`<${Page} title="Published against ours">
    <${Wrong} error=${error} />
    ${!told && !error && html`<${Loading} what="claims" />`}
    ${told && html`
      <p class="prose">Numbers that papers print, beside what comes out here. A miss is shown as one. <b>predicted</b> means that nothing was fitted to the number, <b>implied</b> that it follows from what was, <b>calibrated</b> that it was fitted itself.</p>
      <dl class="tiles"><${Tile} label="Met" value=${count(rows, 'met')} note=${`of ${rows.length} shown`} /><${Tile} label="Missed" value=${count(rows, 'missed')} note="with the reason beside" tone=${count(rows, 'missed') ? 'bad' : ''} />
        <${Tile} label="Predicted" value=${share('predicted')} note="met" /><${Tile} label="Implied" value=${share('implied')} note="met" /><${Tile} label="Calibrated" value=${share('calibrated')} note="met" /></dl>
      <div class="filters">
        ${pick('paper', 'Paper', papers)}
        ${pick('basis', 'Basis', ['predicted', 'implied', 'calibrated'])}
        <${Choice} label="Verdict" options=${[['', 'All'], ['met', 'Met'], ['missed', 'Missed']]} value=${filter.verdict} choose=${(verdict) => set({ ...filter, verdict })} />
        <${Field} label="Find"><input type="search" value=${filter.text} onInput=${(event) => set({ ...filter, text: event.target.value })} placeholder="quantity, figure, note" /><//>
        <${Field} label="Record"><select value=${run ?? ''} onChange=${(event) => { location.hash = event.target.value ? `#/published/${encodeURIComponent(event.target.value)}` : '#/published'; }}>
          <option value="">of this version</option>${others.map((one) => html`<option value=${one.id}>${one.title ?? one.place}</option>`)}</select><//></div>
      <section class="card">${rows.length ? html`<${Table} caption="Published numbers and ours" columns=${columns} rows=${rows} most=${50} keyOf=${(row) => row.id} />` : html`<p class="quiet">No number matches.</p>`}</section>
      <p class="quiet">The circle is ours, the band the tolerance, the line the published number; the edge stands for three tolerances and more.</p>`}
  <//>`;
}
