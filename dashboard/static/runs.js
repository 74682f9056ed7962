// Finished runs: the list, one run with its plots, and the points of a sweep.

import { get, query, save } from './api.js';
import { NOTHING, digits, figure, unitOf, when } from './format.js';
import { Badge, Empty, Field, Loading, Page, Table, Wrong, html, useAsked, useEffect, useMemo, useRef, useState } from './parts.js';
import { Plot, aligned } from './plot.js';

const named = (run) => run.title ?? run.place.split('/').at(-1);
export const runPath = (id) => `#/runs/${encodeURIComponent(id)}`;

export function Runs() {
  const { value, error, reload } = useAsked('/api/runs');
  const [text, setText] = useState('');
  const [kind, setKind] = useState('');
  const [chosen, choose] = useState([]);
  const kinds = useMemo(() => [...new Set((value?.runs ?? []).map((run) => run.command).filter(Boolean))].sort(), [value]);
  const rows = useMemo(() => (value?.runs ?? []).filter((run) => (!kind || run.command === kind)
    && `${named(run)} ${run.place} ${run.command ?? ''} ${(run.set ?? []).join(' ')}`.toLowerCase().includes(text.toLowerCase())), [value, text, kind]);
  const turn = (id) => choose((before) => (before.includes(id) ? before.filter((one) => one !== id) : [...before, id].slice(-2)));
  const columns = useMemo(() => [
    { name: 'run', left: true, of: (run) => named(run), show: (run) => html`<a href=${runPath(run.id)}>${named(run)}</a> ${run.points && html`<${Badge}>points<//>`} ${run.claims && html`<${Badge}>claims<//>`}` },
    { name: 'command', left: true, of: (run) => run.command ?? '', show: (run) => html`<code>${run.command ?? NOTHING}</code>` },
    { name: 'settings', left: true, of: (run) => (run.set ?? []).join(' '), show: (run) => html`<span class="wrap">${(run.set ?? []).join(' ') || NOTHING}</span>` },
    { name: 'seed', of: (run) => run.seed ?? null, show: (run) => `${run.seed ?? NOTHING}${run.seeds > 1 ? ` and ${run.seeds - 1} more` : ''}` },
    { name: 'finished', of: (run) => run.changed, show: (run) => when(run.changed) },
    { name: 'directory', left: true, of: (run) => run.place, show: (run) => html`<span class="wrap quiet">${run.place}</span>` },
    { name: 'compare', show: (run) => html`<input type="checkbox" aria-label=${`Compare ${named(run)} in ${run.place}`} checked=${chosen.includes(run.id)} disabled=${!run.report} onChange=${() => turn(run.id)} />` },
  ], [chosen]);
  const aside = html`<button type="button" onClick=${reload}>Look again</button>
    ${chosen.length === 2
    ? html`<a class="button primary" href=${`#/compare/${chosen.map(encodeURIComponent).join('/')}`}>Compare two runs</a>`
    : html`<span class="quiet">${chosen.length === 1 ? 'Choose one more to compare' : 'Choose two to compare'}</span>`}`;
  return html`<${Page} title="Runs" aside=${value?.runs.length > 1 && aside}>
    <${Wrong} error=${error} />
    ${!value && !error && html`<${Loading} what="directories of runs" />`}
    ${value && !value.runs.length && html`<${Empty} title="No finished runs yet">
      <p>Looked for in ${value.directories.map((place) => html`<code>${place}</code> `)}. Every run of <code>ebb sim</code> and <code>ebb plan</code> leaves a directory there.</p>
      <p><a class="button primary" href="#/scenarios">Run a scenario</a></p><//>`}
    ${value?.runs.length > 0 && html`<div class="filters"><${Field} label="Find"><input type="search" value=${text} onInput=${(event) => setText(event.target.value)} placeholder="title, setting, directory" /><//>
      <${Field} label="Command"><select value=${kind} onChange=${(event) => setKind(event.target.value)}><option value="">all</option>${kinds.map((one) => html`<option value=${one}>${one}</option>`)}</select><//>
      <p class="quiet count" role="status">${rows.length} of ${value.runs.length} runs${value.full ? ' (only the first 2000 are listed)' : ''}</p></div>
      <section class="card">${rows.length ? html`<${Table} caption="Finished runs" columns=${columns} rows=${rows} keyOf=${(run) => run.id} />` : html`<p class="quiet">No run matches.</p>`}</section>`}
  <//>`;
}

/** A plot of a report; zoomed into, its points are asked for anew, so that a million of them can be looked at. */
export function ReportPlot({ plot, run, section, other, names }) {
  const [range, setRange] = useState(null);
  const [near, setNear] = useState(null);
  const asked = useRef(null);
  useEffect(() => {
    asked.current?.abort();
    if (!range || !plot.panels.some((panel) => panel.series.some((one) => one.of))) {
      setNear(null);
      return undefined;
    }
    const ended = new AbortController();
    asked.current = ended;
    const timer = setTimeout(() => get(query('/api/runs/plot', { run, section, from: range[0], to: range[1], points: 2000 }), ended.signal)
      .then(setNear, () => {}), 60);
    return () => {
      clearTimeout(timer);
      ended.abort();
    };
  }, [range?.[0], range?.[1], run, section]);
  const zoomed = (from, to) => setRange(from === null ? null : [from, to]);
  const shown = near ?? plot;
  return html`<div class="report-plot">${shown.panels.map((panel, at) => html`<${Panel} key=${at} title=${shown.panels.length > 1 ? `${plot.title}: ${panel.y.label}` : plot.title}
    panel=${panel} other=${other?.panels[at]} names=${names} x=${plot.x} range=${range} zoomed=${zoomed} sync=${`${run} ${section}`} />`)}
    ${range && html`<p class="quiet zoomed">From ${digits(range[0])} to ${digits(range[1])} ${plot.x.unit} <button type="button" class="small" onClick=${() => setRange(null)}>Show all</button></p>`}</div>`;
}

function Panel({ title, panel, other, names, x: axis, range, zoomed, sync }) {
  const series = useMemo(() => [
    ...panel.series.map((one) => ({ ...one, label: names ? `${one.name} · ${names[0]}` : one.name, dash: one.published })),
    ...(other?.series ?? []).map((one, at) => ({ ...one, label: `${one.name} · ${names[1]}`, dash: true, colour: at })),
  ], [panel, other, names]);
  const { x, columns } = aligned(series);
  const curves = useMemo(() => series.map((one, at) => ({ label: one.label, kind: one.kind, dash: one.dash, colour: one.colour, values: columns[at] ?? [] })), [series, columns]);
  const all = Math.max(0, ...panel.series.map((one) => one.of ?? 0));
  return html`<${Plot} title=${title} unit=${panel.y.unit} x=${x} series=${curves} xLabel=${`${axis.label}${axis.unit ? ` (${axis.unit})` : ''}`}
    zero=${panel.y.low === 0} log=${Boolean(panel.y.log)} height=${240} range=${range ?? undefined} zoomed=${zoomed} sync=${sync}
    note=${all ? `${digits(all)} points, drawn as least and most` : ''} />`;
}

export function ReportTable({ table }) {
  const columns = useMemo(() => table.columns.map((column, at) => ({
    name: column.name, unit: column.unit, left: !column.numeric, of: (row) => row[at],
    show: (row) => (typeof row[at] === 'number' && column.numeric && !Number.isInteger(row[at]) ? row[at].toFixed(Math.min(column.decimals ?? 2, 12)) : row[at] ?? NOTHING),
  })), [table]);
  return html`<section class="card"><h2>${table.title || 'Table'}</h2><${Table} caption=${table.title || 'Table'} columns=${columns} rows=${table.rows} most=${50} />
    ${table.of > table.rows.length && html`<p class="quiet">The first ${table.rows.length} of ${table.of} rows: the file of the table has all.</p>`}</section>`;
}

/** Figures by name, one row each. */
export function Figures({ figures }) {
  const rows = useMemo(() => Object.entries(figures).filter(([, value]) => typeof value !== 'object' || value === null), [figures]);
  const [text, setText] = useState('');
  const shown = rows.filter(([name]) => name.includes(text));
  return html`<section class="card"><h2>Figures</h2>
    ${rows.length > 12 && html`<${Field} label="Find a figure"><input type="search" value=${text} onInput=${(event) => setText(event.target.value)} /><//>`}
    <${Table} caption="Figures" rows=${shown} most=${40} keyOf=${([name]) => name} columns=${[
    { name: 'figure', left: true, of: ([name]) => name, show: ([name]) => html`<code>${name}</code>` },
    { name: 'value', of: ([, value]) => value, show: ([name, value]) => figure(value, unitOf(name)) },
  ]} /></section>`;
}

export function Run({ id }) {
  const { value: run, error } = useAsked(query('/api/runs/report', { run: id, points: 2000 }));
  const [wrong, setWrong] = useState(null);
  const title = run ? named(run) : 'Run';
  const fetchFile = (name) => save(query('/api/runs/file', { run: id, name }), name).catch((failed) => setWrong(failed.message));
  return html`<${Page} title=${title} crumbs=${[['Runs', '#/runs']]}>
    <${Wrong} error=${error ?? wrong} />
    ${!run && !error && html`<${Loading} what="the run" />`}
    ${run && html`
      <p class="chips">${run.command && html`<${Badge} tone="strong"><code>${run.command}</code><//>`}
        ${run.seed !== null && run.seed !== undefined && html`<${Badge}><small>seed</small> ${run.seed}<//>`}
        ${(run.set ?? []).map((one) => html`<${Badge}><code>${one}</code><//>`)}
        <${Badge}><small>finished</small> ${when(run.changed)}<//>
        ${run.revision && html`<${Badge}><small>revision</small> ${run.revision}<//>`}</p>
      ${run.claims && html`<div class="note"><a href=${`#/published/${encodeURIComponent(id)}`}>Published numbers beside those of this run</a></div>`}
      <div class="two"><div class="wide">
        ${(run.sections ?? []).map((section, at) => {
    if (section.heading) return html`<h2 class="section">${section.heading}</h2>`;
    if (section.text) return html`<p class="prose">${section.text}</p>`;
    if (section.table) return html`<${ReportTable} table=${section.table} />`;
    if (section.plot) return html`<${ReportPlot} plot=${section.plot} run=${id} section=${at} />`;
    return html`<p class="quiet">${section.drawing}: a drawing, in report.html</p>`;
  })}
        ${run.points && html`<${Points} id=${id} />`}</div>
      <div class="narrow">
        ${run.figures && html`<${Figures} figures=${run.figures} />`}
        <section class="card"><h2>Files</h2><ul class="plainlist">${run.files.map((name) => html`<li key=${name}><button type="button" class="plain" onClick=${() => fetchFile(name)}>${name}</button></li>`)}</ul><p class="quiet wrap">${run.place}</p></section>
        ${run.scenario && html`<section class="card"><h2>Scenario</h2><pre tabindex="0">${run.scenario}</pre></section>`}</div></div>`}
  <//>`;
}

/** The points of a sweep: any figure over any setting, by another setting, filtered. */
function Points({ id }) {
  const { value, error } = useAsked(query('/api/runs/points', { run: id }));
  const [chosen, choose] = useState({});
  const [only, setOnly] = useState('');
  const made = useMemo(() => {
    const rows = value?.rows ?? [];
    const settings = [...new Set(rows.flatMap((row) => Object.keys(row.set)))];
    const figures = (value?.columns ?? []).filter(([name]) => name !== 'seed' && rows.some((row) => typeof row.figures[name] === 'number'));
    return { rows, settings, figures };
  }, [value]);
  const { settings, figures } = made;
  const x = chosen.x ?? settings[0];
  const y = chosen.y ?? figures[0]?.[0];
  const by = chosen.by ?? settings[1] ?? '';
  const rows = useMemo(() => {
    const wanted = only.split(/\s+/).filter(Boolean);
    return made.rows.filter((row) => wanted.every((word) => {
      const found = word.match(/^([^<>=]+)(<=|>=|=|<|>)(.+)$/);
      if (!found) return JSON.stringify(row.set).includes(word);
      const [, name, sign, right] = found;
      const left = row.set[name] ?? row.figures[name];
      if (sign === '=') return String(left) === right;
      const [a, b] = [Number(left), Number(right)];
      return sign === '<' ? a < b : sign === '>' ? a > b : sign === '<=' ? a <= b : a >= b;
    }));
  }, [made, only]);
  const series = useMemo(() => {
    if (!x || !y) return [];
    const groups = new Map();
    for (const row of rows) {
      const key = by ? String(row.set[by]) : y;
      const [a, b] = [Number(row.set[x]), row.figures[y]];
      if (!Number.isFinite(a)) continue;
      if (!groups.has(key)) groups.set(key, new Map());
      const group = groups.get(key);
      if (!group.has(a)) group.set(a, []);
      if (typeof b === 'number') group.get(a).push(b);
    }
    return [...groups].slice(0, 12).map(([key, group]) => ({
      label: by ? `${by} ${key}` : y, kind: 'line',
      points: [...group].sort((one, other) => one[0] - other[0]).map(([a, all]) => [a, all.length ? all.reduce((s, v) => s + v) / all.length : null]),
    }));
  }, [rows, x, y, by]);
  const { x: xs, columns } = aligned(series);
  const curves = series.map((one, at) => ({ label: one.label, kind: one.kind, values: columns[at] ?? [] }));
  const table = useMemo(() => [
    ...settings.map((name) => ({ name, left: false, of: (row) => row.set[name] })),
    { name: 'seed', of: (row) => row.seed },
    ...figures.slice(0, 12).map(([name, unit]) => ({ name, unit, of: (row) => row.figures[name], show: (row) => figure(row.figures[name]) })),
  ], [made]);
  const option = (name) => html`<option value=${name}>${name}</option>`;
  if (error) return html`<${Wrong} error=${error} />`;
  if (!value) return html`<${Loading} what="points" />`;
  if (!made.rows.length) return html`<p class="quiet">No point is finished yet.</p>`;
  return html`<section class="card"><h2>Points of the sweep</h2>
    <div class="filters">
      <${Field} label="Figure"><select value=${y} onChange=${(event) => choose({ ...chosen, y: event.target.value })}>${figures.map(([name]) => option(name))}</select><//>
      <${Field} label="over"><select value=${x} onChange=${(event) => choose({ ...chosen, x: event.target.value })}>${settings.map(option)}</select><//>
      <${Field} label="a curve for each"><select value=${by} onChange=${(event) => choose({ ...chosen, by: event.target.value })}><option value="">none</option>${settings.map(option)}</select><//>
      <${Field} label="Only where"><input type="search" placeholder="rate=0.5 power_w<80" value=${only} onInput=${(event) => setOnly(event.target.value)} /><//>
      <p class="quiet count" role="status">${rows.length} of ${made.rows.length} runs${value.more ? ' (more are in the file)' : ''}; means over seeds</p></div>
    ${xs.length > 0 && html`<${Plot} title=${`${y} over ${x}`} unit=${figures.find(([name]) => name === y)?.[1] ?? ''} xLabel=${x} x=${xs} series=${curves} height=${260} />`}
    <${Table} caption="Finished points" columns=${table} rows=${rows} most=${50} /></section>`;
}
