// Scenarios: what can be simulated and planned, a form for each, and running it.

import { post, setToken, token } from './api.js';
import { Form, faults, fromValues, toToml } from './form.js';
import { Jobs } from './jobs.js';
import { Badge, Choice, Field, Loading, Page, Wrong, html, useAsked, useEffect, useMemo, useState } from './parts.js';

const KINDS = { sim: 'Simulate', plan: 'Plan' };

export function Studies() {
  const { value, error } = useAsked('/api/studies');
  return html`<${Page} title="Scenarios">
    <${Wrong} error=${error} />
    ${!value && !error && html`<${Loading} what="the catalogue" />`}
    <${Jobs} />
    ${value && Object.entries(KINDS).map(([kind, title]) => html`<section key=${kind}><h2 class="section">${title}</h2><ul class="fleet">
      ${value.filter((study) => study.kind === kind).map((study) => html`<li class="card" key=${study.system}><h3><a href=${`#/scenarios/${kind}/${study.system}`}>${study.system}</a></h3><p>${study.about}</p></li>`)}</ul></section>`)}
  <//>`;
}

/** What one example differs by from the others of its file. */
const additions = (preset) => [...preset.set, preset.seeds && `${preset.seeds} seeds`, preset.until && `until ${preset.until}`].filter(Boolean).join(', ');

/** Examples of the study, one of which fills everything in. */
function Start({ presets, fill }) {
  const [at, setAt] = useState('');
  const preset = presets[at];
  const choose = (event) => {
    setAt(event.target.value);
    fill(presets[event.target.value] ?? null);
  };
  const hint = preset
    ? [`${preset.title}.`, preset.needs.length > 0 && `It reads ${preset.needs.join(', ')}, looked for where the dashboard was started, or in its --scenarios.`].filter(Boolean).join(' ')
    : 'Fills everything in; what was filled in before is replaced.';
  return html`<${Field} label="Start from an example" hint=${hint}><select name="example" value=${at} onChange=${choose}><option value="">an empty form</option>
    ${presets.map((one, number) => html`<option value=${number}>${one.name}${additions(one) ? `: ${additions(one)}` : ''}</option>`)}</select><//>`;
}

export function Scenario({ kind, system, about }) {
  const { value: study, error } = useAsked(`/api/studies/${kind}/${system}`);
  const [values, setValues] = useState({});
  const [text, setText] = useState(null);
  const [which, setWhich] = useState(0);
  const [run, setRun] = useState({ name: `${kind}-${system}`, seed: '', seeds: '', until: '', set: '', jobs: '1', quick: false });
  const [state, setState] = useState({});
  const [given, setGiven] = useState('');
  const [tick, setTick] = useState(0);
  useEffect(() => {
    setValues({});
    setText(null);
    setState({});
    setRun((before) => ({ ...before, name: `${kind}-${system}` }));
  }, [kind, system]);
  const shapes = useMemo(() => (study?.schema?.anyOf ?? (study?.schema ? [study.schema] : [])), [study]);
  const schema = shapes[which] ?? shapes[0];
  const found = useMemo(() => (schema ? faults(schema, values) : {}), [schema, values]);
  const toml = useMemo(() => (schema ? toToml(schema, values) : ''), [schema, values]);
  const shown = text ?? toml;
  const set = (path, value) => setValues((before) => ({ ...before, [path]: value }));
  const change = (name) => (event) => setRun({ ...run, [name]: event.target.type === 'checkbox' ? event.target.checked : event.target.value });
  const open = async (event) => {
    const file = event.target.files[0];
    if (file) setText(await file.text());
  };
  const fill = (preset) => {
    const { seed, ...given } = preset?.values ?? {};
    const fits = shapes.map((shape) => fromValues(shape, given));
    const at = fits.findIndex(Boolean);
    setWhich(Math.max(at, 0));
    setValues(fits[at] ?? {});
    setText(at < 0 ? preset.text : null);
    setState({});
    setRun({ ...run, quick: false, seed: String(seed ?? ''), seeds: preset?.seeds ?? '', until: preset?.until ?? '', set: preset?.set.join('\n') ?? '' });
  };
  const blocked = text === null && Object.keys(found).length > 0;
  const locked = about.can_change && (!token() || state.status === 401);
  const start = async (event) => {
    event.preventDefault();
    if (given) setToken(given);
    setState({ busy: true });
    const settings = [...(run.quick ? study.quick : []), ...run.set.split('\n').map((line) => line.trim()).filter(Boolean)];
    const whole = (value) => (value.trim() ? Number(value) : null);
    try {
      const job = await post('/api/jobs', {
        kind, system, name: run.name, text: shown, set: settings, seed: whole(run.seed), seeds: whole(run.seeds), until: run.until || null, jobs: whole(run.jobs),
      });
      setState({ job });
      setTick((n) => n + 1);
    } catch (failed) {
      setState({ error: failed.message, status: failed.status });
    }
  };
  return html`<${Page} title=${`${KINDS[kind] ?? kind}: ${system}`} crumbs=${[['Scenarios', '#/scenarios']]}>
    <${Wrong} error=${error} />
    ${!study && !error && html`<${Loading} what="the schema" />`}
    ${study && html`<p class="prose">${study.about}.</p>
    <form class="two" onSubmit=${start} novalidate>
      <div class="wide">
        ${study.presets.length > 0 && html`<${Start} key=${`${kind}-${system}`} presets=${study.presets} fill=${fill} />`}
        <div class="filters"><${Choice} label="How the scenario is written" options=${[['form', 'Form'], ['toml', 'TOML']]} value=${text === null ? 'form' : 'toml'}
            choose=${(how) => setText(how === 'form' ? null : shown)} />
          ${shapes.length > 1 && text === null && html`<${Choice} label="Which question" options=${shapes.map((shape, at) => [at, `Form ${at + 1}`])} value=${which} choose=${setWhich} />`}
          <label class="button">Open a file<input class="hidden" type="file" accept=".toml,.txt" onChange=${open} /></label>
          ${text === null && html`<p class="quiet count">${Object.values(values).filter((one) => one !== '').length} settings differ from their defaults</p>`}</div>
        ${text === null && schema && html`${shapes.length > 1 && html`<p class="hint">${schema.description}</p>`}<${Form} schema=${schema} values=${values} set=${set} faults=${found} />`}
        ${(text !== null || !schema) && html`<${Field} label="Scenario" hint="TOML, as in a file for the command. Files that it names are looked for where the dashboard was started, or in its --scenarios.">
          <textarea rows="22" spellcheck="false" value=${shown} onInput=${(event) => setText(event.target.value)}></textarea><//>`}
      </div>
      <div class="narrow">
        <section class="card sticky"><h2>Run</h2>
          <${Field} label="Name of its directory"><input name="name" value=${run.name} onInput=${change('name')} spellcheck="false" /><//>
          <div class="grid tight">
            <${Field} label="Seed" hint=${`default ${study.seed}`}><input inputmode="numeric" value=${run.seed} onInput=${change('seed')} /><//>
            <${Field} label="Seeds" hint="runs of each point"><input inputmode="numeric" value=${run.seeds} onInput=${change('seeds')} placeholder="1" /><//>
            <${Field} label="Threads"><input inputmode="numeric" value=${run.jobs} onInput=${change('jobs')} /><//></div>
          <${Field} label="Settings on top" hint="One a line. Several values make a sweep: load=0.1..0.9:0.2"><textarea name="set" rows="3" value=${run.set} onInput=${change('set')} spellcheck="false"></textarea><//>
          ${study.quick.length > 0 && html`<label class="check"><input type="checkbox" name="quick" checked=${run.quick} onChange=${change('quick')} /><span>Short run, to see that it works <small class="quiet">${study.quick.join(', ')}</small></span></label>`}
          ${!about.can_change && html`<p class="note">This dashboard only shows: it was started with --read-only.</p>`}
          ${locked && html`<${Field} label="Token" hint="What the dashboard printed at its start behind #token="><input type="password" autocomplete="off" value=${given} onInput=${(event) => setGiven(event.target.value)} /><//>`}
          <${Wrong} error=${state.error} />
          ${blocked && html`<p class="hint bad" role="status">${Object.entries(found).map(([path, fault]) => `${path}: ${fault}`).slice(0, 4).join(' ')}</p>`}
          <div class="buttons"><button type="submit" class="primary" disabled=${blocked || state.busy || !about.can_change}>${state.busy ? 'Starting …' : 'Run'}</button></div>
          ${text === null && html`<details><summary>The scenario as TOML</summary><pre tabindex="0" role="region" aria-label="The scenario as TOML">${toml || '# all defaults'}</pre></details>`}
        </section>
        <${Jobs} tick=${tick} />
      </div></form>`}
  <//>`;
}
