// Two runs side by side: figures with their differences, plots over each other.

import { query } from './api.js';
import { NOTHING, figure, unitOf } from './format.js';
import { Choice, Field, Loading, Page, Table, Wrong, html, useAsked, useMemo, useState } from './parts.js';
import { ReportPlot, ReportTable, runPath } from './runs.js';

const plots = (run) => (run?.sections ?? []).map((section, at) => ({ ...section, at })).filter((section) => section.plot);

export function Compare({ a, b }) {
  const first = useAsked(query('/api/runs/report', { run: a, points: 2000 }));
  const second = useAsked(query('/api/runs/report', { run: b, points: 2000 }));
  const [changed, setChanged] = useState('changed');
  const [text, setText] = useState('');
  const both = first.value && second.value;
  const rows = useMemo(() => {
    if (!both) return [];
    const names = [...new Set([...Object.keys(first.value.figures ?? {}), ...Object.keys(second.value.figures ?? {})])];
    const plain = (value) => typeof value !== 'object' || value === null;
    return names.map((name) => ({ name, a: first.value.figures?.[name], b: second.value.figures?.[name] })).filter((row) => plain(row.a) && plain(row.b))
      .map((row) => ({ ...row, by: typeof row.a === 'number' && typeof row.b === 'number' ? row.b - row.a : null }))
      .map((row) => ({ ...row, share: row.by !== null && row.a !== 0 ? row.by / Math.abs(row.a) : null }));
  }, [first.value, second.value]);
  const shown = rows.filter((row) => (changed === 'all' || row.a !== row.b) && row.name.includes(text));
  const pairs = both ? plots(first.value).map((one) => ({ one, other: plots(second.value).find((section) => section.plot.title === one.plot.title)?.plot })) : [];
  const lines = both ? [first.value, second.value].map((run) => (run.scenario ?? '').split('\n')) : [[], []];
  const names = useMemo(() => ['A', 'B'], []);
  const columns = [
    { name: 'figure', left: true, of: (row) => row.name, show: (row) => html`<code>${row.name}</code>` },
    { name: 'A', of: (row) => row.a, show: (row) => figure(row.a, unitOf(row.name)) },
    { name: 'B', of: (row) => row.b, show: (row) => figure(row.b, unitOf(row.name)) },
    { name: 'B − A', of: (row) => row.by, show: (row) => (row.by === null ? NOTHING : figure(row.by, unitOf(row.name))) },
    { name: 'change', of: (row) => row.share, show: (row) => (row.share === null ? NOTHING : `${row.share > 0 ? '+' : ''}${(100 * row.share).toFixed(1)} %`) },
  ];
  return html`<${Page} title="Two runs" crumbs=${[['Runs', '#/runs']]}>
    <${Wrong} error=${first.error ?? second.error} />
    ${!both && !first.error && !second.error && html`<${Loading} what="both runs" />`}
    ${both && html`<div class="pair">${[[first.value, a, 'A'], [second.value, b, 'B']].map(([run, id, letter]) => html`<section class="card" key=${letter}><h2>${letter}: <a href=${runPath(id)}>${run.title}</a></h2>
        <p class="quiet wrap"><code>${run.command}</code> ${(run.set ?? []).join(' ')} seed ${run.seed ?? NOTHING}<br />${run.place}</p></section>`)}</div>
      <section class="card"><h2>Figures</h2><div class="filters"><${Choice} label="Which figures" options=${[['changed', 'Those that differ'], ['all', 'All']]} value=${changed} choose=${setChanged} />
        <${Field} label="Find a figure"><input type="search" value=${text} onInput=${(event) => setText(event.target.value)} /><//></div>
        ${shown.length ? html`<${Table} caption="Figures of both runs" columns=${columns} rows=${shown} most=${60} keyOf=${(row) => row.name} />` : html`<p class="quiet">No figure differs.</p>`}</section>
      ${pairs.map(({ one, other }) => html`<${ReportPlot} key=${one.at} plot=${one.plot} other=${other} run=${a} section=${one.at} names=${names} />`)}
      <section class="card"><h2>Scenarios</h2><div class="pair">${lines.map((mine, at) => html`<pre tabindex="0" key=${at} role="region" aria-label=${`Scenario of ${names[at]}`}>${mine.map((line) => html`<span class=${lines[1 - at].includes(line) ? '' : 'differs'}>${line}\n</span>`)}</pre>`)}</div>
        <p class="quiet">Marked lines are not in the other scenario.</p></section>
      <div class="pair">${[first.value, second.value].map((run, at) => html`<div key=${at}>${(run.sections ?? []).filter((section) => section.table).slice(0, 4).map((section) => html`<${ReportTable} table=${{ ...section.table, title: `${names[at]}: ${section.table.title}` }} />`)}</div>`)}</div>`}
  <//>`;
}
