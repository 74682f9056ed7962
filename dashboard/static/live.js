// A running daemon: what it does now, over the last hour, and the commands that operators give.

import { events, get, post, query, setToken, token } from './api.js';
import { NOTHING, digits, span } from './format.js';
import { Now, Track, metricsOf, panelOf } from './panels.js';
import { Badge, Choice, Dialog, Empty, Field, Loading, Page, Table, Tile, Wrong, html, useEffect, useMemo, useRef, useState } from './parts.js';
import { Plot } from './plot.js';

const WINDOWS = [[60, '1 min'], [300, '5 min'], [900, '15 min'], [3600, '1 h']];

/** Listens to a daemon: what it said last, its track, and why there is silence. */
function useDaemon(id) {
  const [state, set] = useState({ snapshot: null, silent: null, lost: 0, tick: 0 });
  const track = useRef(new Track());
  useEffect(() => {
    const ended = new AbortController();
    track.current = new Track();
    set({ snapshot: null, silent: null, lost: 0, tick: 0 });
    let wanted = null;
    const path = `/api/daemons/${encodeURIComponent(id)}`;
    const past = async (daemon) => {
      wanted = metricsOf(panelOf(daemon));
      if (!wanted.length) return;
      try {
        track.current.load(await get(query(`${path}/history`, { metrics: wanted.join(','), seconds: 3600 }), ended.signal));
        set((before) => ({ ...before, tick: before.tick + 1 }));
      } catch { /* The curves begin now. */ }
    };
    let pid = null;
    const hear = (name, data) => {
      if (name === 'snapshot') {
        if (!wanted) past(data.snapshot.daemon);
        if (pid !== null && pid !== data.snapshot.pid) track.current.clear();
        pid = data.snapshot.pid;
        track.current.push(data.time, data.snapshot, wanted);
        set((before) => ({ ...before, snapshot: data.snapshot, silent: null, tick: before.tick + 1 }));
      } else if (name === 'silent') set((before) => ({ ...before, silent: data.error }));
      else if (name === 'lost') set((before) => ({ ...before, lost: before.lost + data.events }));
    };
    events(`${path}/stream`, ended.signal, hear, (why) => set((before) => ({ ...before, silent: why })));
    return () => ended.abort();
  }, [id]);
  return { ...state, track: track.current };
}

/** Asks whether something is to be done, does it, and says what came of it. */
export function Ask({ title, says, word, path, command, close, done, back }) {
  const [state, set] = useState({});
  const [given, setGiven] = useState('');
  const missing = !token() || state.status === 401;
  const act = async () => {
    if (given) setToken(given);
    set({ busy: true });
    try {
      await post(path, command);
      done?.();
      close();
    } catch (error) {
      set({ error: error.message, status: error.status });
    }
  };
  return html`<${Dialog} title=${title} close=${close}>
    <p>${says}</p>
    ${missing && html`<${Field} label="Token" hint="What the dashboard printed at its start behind #token=. It stays in this tab.">
      <input type="password" autocomplete="off" value=${given} onInput=${(event) => setGiven(event.target.value)} /><//>`}
    <${Wrong} error=${state.error} />
    <div class="buttons"><button type="button" onClick=${back ?? close}>${back ? 'Back' : 'Cancel'}</button>
      <button type="button" class="primary" disabled=${state.busy || (missing && !given)} onClick=${act}>${state.busy ? 'Asking …' : word}</button></div>
  <//>`;
}

function ModeDialog({ id, now, modes, close }) {
  const current = now.fact('mode');
  const [mode, choose] = useState(current);
  const [sure, setSure] = useState(false);
  if (sure) {
    const about = modes.find((one) => one.name === mode)?.about ?? '';
    return html`<${Ask} title=${`Change ${id} from ${current} to ${mode}?`} word=${`Change to ${mode}`} path=${`/api/daemons/${encodeURIComponent(id)}/command`}
      says=${`${mode}: ${about}. No packet is lost or reordered. The mode stays until the router stops or reloads.`}
      command=${{ set: { mode } }} close=${close} back=${() => setSure(false)} />`;
  }
  return html`<${Dialog} title=${`Mode of ${id}`} close=${close}>
    <fieldset class="modes"><legend>Which cores and clocks the router uses</legend>
      ${modes.map(({ name, about }) => html`<label class="mode"><input type="radio" name="mode" value=${name} checked=${name === mode} onChange=${() => choose(name)} />
        <span><b>${name}</b>${name === current ? html` <${Badge}>in force<//>` : ''}<br /><small>${about}</small></span></label>`)}
    </fieldset>
    <div class="buttons"><button type="button" onClick=${close}>Cancel</button>
      <button type="button" class="primary" disabled=${mode === current} onClick=${() => setSure(true)}>Continue …</button></div>
  <//>`;
}

function Plots({ panel, track, seconds, tick, id }) {
  const shown = useMemo(() => {
    const from = (track.times.at(-1) ?? 0) - seconds;
    const first = track.times.findIndex((time) => time >= from);
    const start = first < 0 ? 0 : first;
    const x = track.times.slice(start);
    return panel.plots.map((plot) => ({ ...plot, x, curves: plot.of(track).map((curve) => ({ ...curve, values: curve.values.slice(start) })) }));
  }, [panel, track, seconds, tick]);
  const end = track.times.at(-1) ?? 0;
  // What began less long ago than is shown does not stand at an edge.
  const begin = Math.max(end - seconds, Math.min(track.times[0] ?? end, end - 60));
  return html`<div class="plots">${shown.map((plot) => (plot.curves.some((curve) => curve.values.some((value) => value !== null))
    ? html`<${Plot} key=${plot.title} title=${plot.title} unit=${plot.unit} x=${plot.x} series=${plot.curves} time=${true} format=${plot.format}
        zero=${plot.zero} sync=${`live-${id}`} height=${150} range=${[begin, end]} />`
    : html`<figure class="plot none" key=${plot.title}><figcaption><span class="name">${plot.title}</span> <small>${plot.unit}</small></figcaption>
        <p class="quiet">${plot.none ?? 'No values in this time.'}</p></figure>`))}</div>`;
}

function All({ snapshot }) {
  const [text, setText] = useState('');
  const rows = useMemo(() => Object.entries(snapshot.metrics).flatMap(([name, family]) => family.samples.map((sample) => ({
    name, help: family.help, unit: family.unit ?? '', labels: Object.entries(sample.labels ?? {}).map(([k, v]) => `${k}=${v}`).join(' '),
    value: typeof sample.value === 'object' ? null : sample.value, rate: sample.per_second ?? null,
  }))).filter((row) => `${row.name} ${row.labels} ${row.help}`.toLowerCase().includes(text.toLowerCase())), [snapshot, text]);
  return html`<${Field} label="Find a metric"><input type="search" value=${text} onInput=${(event) => setText(event.target.value)} /><//>
    <${Table} caption="All metrics" rows=${rows} most=${200} keyOf=${(row) => `${row.name} ${row.labels}`} columns=${[
    { name: 'metric', left: true, of: (r) => r.name, show: (r) => html`<code title=${r.help}>${r.name}</code>` },
    { name: 'of', left: true, of: (r) => r.labels },
    { name: 'value', of: (r) => r.value, show: (r) => digits(r.value) },
    { name: 'per second', of: (r) => r.rate, show: (r) => (r.rate === null ? NOTHING : digits(r.rate)) },
  ]} />`;
}

export function Live({ id, about }) {
  const heard = useDaemon(id);
  const [seconds, setSeconds] = useState(300);
  const [held, hold] = useState(null);
  const [asking, ask] = useState(null);
  const [open, setOpen] = useState(false);
  const { snapshot, silent, lost, track, tick } = heard;
  const panel = useMemo(() => panelOf(snapshot?.daemon), [snapshot?.daemon]);
  const crumbs = [['Live', '#/']];
  if (!snapshot) {
    return html`<${Page} title=${id} crumbs=${crumbs}>${silent
      ? html`<${Empty} title=${`${id} does not answer`}><p>${silent}</p><p class="quiet">It is asked again every second; this page goes on by itself.</p><//>`
      : html`<${Loading} what=${`what ${id} says`} />`}<//>`;
  }
  const now = new Now(held ?? snapshot);
  const aside = html`<${Choice} label="Time shown" options=${WINDOWS} value=${seconds} choose=${setSeconds} />
    <button type="button" aria-pressed=${String(Boolean(held))} onClick=${() => hold(held ? null : snapshot)}>${held ? 'Go on' : 'Pause'}</button>
    ${snapshot.daemon === 'router' && html`<button type="button" class="primary" onClick=${() => ask({ mode: true })}>Change mode …</button>`}`;
  return html`<${Page} title=${id} crumbs=${crumbs} aside=${aside}>
    <p class="chips"><${Badge}>${panel.title}<//>${panel.chips(now).filter(([, value]) => value).map(([name, value]) => html`<${Badge} tone=${name === 'mode' ? 'strong' : ''}><small>${name}</small> ${value}<//>`)}
      <${Badge}><small>up</small> ${span(snapshot.uptime_seconds)}<//><${Badge}><small>version</small> ${snapshot.version}<//></p>
    ${silent && html`<div class="note bad" role="alert"><strong>No answer.</strong> ${silent} What is shown is what was said last.</div>`}
    ${lost > 0 && html`<div class="note" role="status">${lost} events were lost on the way to this page: it was too slow. The daemon is not affected.</div>`}
    ${held && html`<div class="note" role="status">Paused. The daemon goes on; nothing is lost.</div>`}
    ${snapshot.notes.length > 0 && html`<details class="note warn"><summary>${snapshot.notes.length} ${snapshot.notes.length === 1 ? 'note' : 'notes'} of the daemon: ${snapshot.notes.at(-1).split(': ')[0]}</summary>
      <ul>${snapshot.notes.map((note) => html`<li>${note}</li>`)}</ul></details>`}
    <dl class="tiles" aria-label="Now">${panel.tiles(now).map(([label, value, note, tone]) => html`<${Tile} key=${label} label=${label} value=${value} note=${note} tone=${tone} />`)}</dl>
    <${Held} held=${held} panel=${panel} track=${track} seconds=${seconds} tick=${tick} id=${id} />
    <div class="tables">${panel.tables.map((table) => html`<${Rows} key=${table.title} table=${table} now=${now} ask=${ask} />`)}</div>
    <details class="all" onToggle=${(event) => setOpen(event.target.open)} open=${open || !panel.plots.length}><summary>All metrics</summary>${(open || !panel.plots.length) && html`<${All} snapshot=${now.snapshot} />`}</details>
    ${asking?.mode && html`<${ModeDialog} id=${id} now=${new Now(snapshot)} modes=${about.modes} close=${() => ask(null)} />`}
    ${asking?.act && html`<${Ask} title=${asking.act.title} says=${asking.act.says} word=${asking.act.text} command=${asking.act.command}
      path=${`/api/daemons/${encodeURIComponent(id)}/command`} close=${() => ask(null)} />`}
  <//>`;
}

/** The plots, which stand still while the page is paused. */
function Held({ held, tick, ...rest }) {
  const last = useRef(tick);
  if (!held) last.current = tick;
  return html`<${Plots} ...${rest} tick=${last.current} />`;
}

function Rows({ table, now, ask }) {
  const rows = table.rows(now);
  const columns = useMemo(() => (table.act ? [...table.columns, {
    name: 'command',
    show: (row) => html`<button type="button" class="small" onClick=${() => ask({ act: table.act(row) })}>${table.act(row).text}<span class="hidden"> ${row.name}</span></button>`,
  }] : table.columns), [table]);
  return html`<section class="card"><h2>${table.title}</h2>${rows.length
    ? html`<${Table} caption=${table.title} rows=${rows} columns=${columns} keyOf=${(row) => row.worker ?? row.port ?? row.name ?? row.rack ?? row.reason} />`
    : html`<p class="quiet">${table.none ?? 'There are none.'}</p>`}</section>`;
}
