// The page: which part is shown by the address behind #, the bar with the parts, the token, the theme.

import { render } from 'preact';
import { setToken, takeToken, token } from './api.js';
import { Compare } from './compare.js';
import { Fleet } from './fleet.js';
import { Live } from './live.js';
import { Dialog, Field, Page, Wrong, html, useAsked, useEffect, useState } from './parts.js';
import { Published } from './published.js';
import { Run, Runs } from './runs.js';
import { Scenario, Studies } from './studies.js';

takeToken();

const THEMES = ['auto', 'light', 'dark'];

function setTheme(theme) {
  if (theme === 'auto') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  localStorage.setItem('ebb-theme', theme);
  dispatchEvent(new Event('ebb-theme'));
}

setTheme(localStorage.getItem('ebb-theme') ?? 'auto');

const PARTS = [['', 'Live'], ['runs', 'Runs'], ['published', 'Published'], ['scenarios', 'Scenarios']];

const parts = () => location.hash.replace(/^#\/?/, '').split('/').map(decodeURIComponent);

function Shown({ at, about }) {
  const [part, ...rest] = at;
  if (part === '' || (part === 'live' && !rest[0])) return html`<${Fleet} />`;
  if (part === 'live') return html`<${Live} key=${rest[0]} id=${rest[0]} about=${about} />`;
  if (part === 'runs') return rest[0] ? html`<${Run} key=${rest[0]} id=${rest[0]} />` : html`<${Runs} />`;
  if (part === 'compare') return html`<${Compare} key=${rest.join(' ')} a=${rest[0]} b=${rest[1]} />`;
  if (part === 'published') return html`<${Published} run=${rest[0]} />`;
  if (part === 'scenarios') return rest[1] ? html`<${Scenario} key=${rest.join(' ')} kind=${rest[0]} system=${rest[1]} about=${about} />` : html`<${Studies} />`;
  return html`<${Page} title="No such page"><p><a href="#/">Live</a></p><//>`;
}

function Access({ about, reload }) {
  const [open, setOpen] = useState(false);
  const [given, setGiven] = useState('');
  const text = !about.can_change ? 'Read-only' : about.has_token ? 'May change' : 'Reading';
  const save = (value) => {
    setToken(value);
    setGiven('');
    setOpen(false);
    reload();
  };
  return html`<button type="button" class=${`access ${about.has_token ? 'may' : ''}`} onClick=${() => setOpen(true)}>${text}</button>
    ${open && html`<${Dialog} title="Who may change something" close=${() => setOpen(false)}>
      ${!about.can_change ? html`<p>This dashboard only shows: it was started with <code>--read-only</code>.</p>`
    : about.has_token ? html`<p>This tab has the token: it may change modes, drain back-ends and run scenarios. Closing the tab forgets it.</p>`
      : html`<p>Changes need the token, which the dashboard printed at its start behind <code>#token=</code>.</p>
        <${Field} label="Token"><input type="password" autocomplete="off" value=${given} onInput=${(event) => setGiven(event.target.value)} /><//>`}
      <div class="buttons"><button type="button" onClick=${() => setOpen(false)}>Close</button>
        ${about.has_token && html`<button type="button" onClick=${() => save(null)}>Forget the token</button>`}
        ${about.can_change && !about.has_token && html`<button type="button" class="primary" disabled=${!given} onClick=${() => save(given)}>Use the token</button>`}</div><//>`}`;
}

function App() {
  const [at, setAt] = useState(parts());
  const [theme, choose] = useState(localStorage.getItem('ebb-theme') ?? 'auto');
  const { value: about, error, reload } = useAsked('/api/about');
  const [given, setGiven] = useState('');
  useEffect(() => {
    const change = () => {
      takeToken();
      setAt(parts());
      reload();
      scrollTo(0, 0);
      document.getElementById('main')?.focus({ preventScroll: true });
    };
    addEventListener('hashchange', change);
    return () => removeEventListener('hashchange', change);
  }, []);
  const part = at[0] === 'live' ? '' : at[0] === 'compare' ? 'runs' : at[0];
  const next = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
  return html`<a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.getElementById('main')?.focus(); }}>To the content</a>
    <header class="bar"><a class="brand" href="#/"><img src="/static/icon.svg" alt="" width="22" height="22" />Ebb</a>
      <nav aria-label="Parts">${PARTS.map(([name, title]) => html`<a href=${`#/${name}`} aria-current=${part === name ? 'page' : null}>${title}</a>`)}</nav>
      <div class="end">${about && html`<${Access} about=${about} reload=${reload} />`}
        <button type="button" title=${`Colours: ${theme}`} onClick=${() => { setTheme(next); choose(next); }}>Theme: ${theme}</button></div></header>
    ${about && (!about.private || about.has_token) && html`<${Shown} at=${at} about=${about} />`}
    ${!about && error && html`<${Page} title="Ebb"><${Wrong} error=${error} />
      <${Field} label="Token" hint="What the dashboard printed at its start behind #token="><input type="password" autocomplete="off" value=${given} onInput=${(event) => setGiven(event.target.value)} /><//>
      <div class="buttons left"><button type="button" class="primary" onClick=${() => { setToken(given); reload(); }}>Go on</button></div><//>`}`;
}

render(html`<${App} />`, document.getElementById('app'));
