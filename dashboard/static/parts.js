// Parts that all pages are made of.

import { h } from 'preact';
import htm from './vendor/htm.mjs';
import { useCallback, useEffect, useId, useMemo, useRef, useState } from './vendor/hooks.mjs';
import { get } from './api.js';
import { NOTHING } from './format.js';

export const html = htm.bind(h);
export { useCallback, useEffect, useId, useMemo, useRef, useState };

/** Asks for `path` now and, with `every`, again and again while the page is seen. */
export function useAsked(path, every) {
  const [state, set] = useState({ value: null, error: null, path: null });
  const [again, setAgain] = useState(0);
  useEffect(() => {
    if (!path) return undefined;
    const ended = new AbortController();
    let timer;
    const ask = async () => {
      if (document.visibilityState === 'visible' || !every) {
        try {
          const value = await get(path, ended.signal);
          set({ value, error: null, path });
        } catch (error) {
          if (ended.signal.aborted) return;
          set((before) => ({ value: before.path === path ? before.value : null, error: error.message, path }));
        }
      }
      if (every && !ended.signal.aborted) timer = setTimeout(ask, every);
    };
    ask();
    return () => {
      ended.abort();
      clearTimeout(timer);
    };
  }, [path, every, again]);
  const reload = useCallback(() => setAgain((n) => n + 1), []);
  return { ...state, value: state.path === path ? state.value : null, reload };
}

export function Page({ title, aside, crumbs, children }) {
  useEffect(() => {
    document.title = `${title} – Ebb`;
  }, [title]);
  return html`<main id="main" tabindex="-1">
    ${crumbs && html`<nav class="crumbs" aria-label="Where this page is">${crumbs.map(([name, href]) => html`<a href=${href}>${name}</a><span aria-hidden="true">/</span>`)}</nav>`}
    <div class="head"><h1>${title}</h1><div class="aside">${aside}</div></div>
    ${children}
  </main>`;
}

export const Loading = ({ what }) => html`<p class="quiet" role="status">Reading ${what} …</p>`;

export const Wrong = ({ error }) => error && html`<div class="note bad" role="alert"><strong>Not possible.</strong> ${error}</div>`;

export const Empty = ({ title, children }) => html`<section class="empty"><h2>${title}</h2>${children}</section>`;

export const Badge = ({ tone = '', children, title }) => html`<span class=${`badge ${tone}`} title=${title}>${children}</span>`;

export const Tile = ({ label, value, note, tone }) => html`<div class=${`tile ${tone ?? ''}`}>
  <dt>${label}</dt><dd>${value}${note && html`<small>${note}</small>`}</dd></div>`;

/** A table that is sorted by a click or Enter on a heading. `columns`: {name, unit, left, of(row), show(row)}. */
export function Table({ columns, rows, caption, keyOf, sort: first, hidden = true, most = 500 }) {
  const [sort, setSort] = useState(first ?? null);
  const [all, setAll] = useState(false);
  const sorted = useMemo(() => {
    if (!sort) return rows;
    const of = columns[sort.at]?.of;
    if (!of) return rows;
    const compare = (a, b) => {
      const [x, y] = [of(a), of(b)];
      if (typeof x === 'number' && typeof y === 'number') return x - y;
      if (x === null || x === undefined) return -1;
      if (y === null || y === undefined) return 1;
      return String(x).localeCompare(String(y), 'en', { numeric: true });
    };
    const out = [...rows].sort(compare);
    return sort.down ? out.reverse() : out;
  }, [rows, sort, columns]);
  const shown = all ? sorted : sorted.slice(0, most);
  const turn = (at) => setSort((before) => ({ at, down: before?.at === at ? !before.down : false }));
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${caption}>
    <table>
      <caption class=${hidden ? 'hidden' : ''}>${caption}</caption>
      <thead><tr>${columns.map((column, at) => html`<th scope="col" class=${column.left ? 'left' : ''}
          aria-sort=${sort?.at === at ? (sort.down ? 'descending' : 'ascending') : null}>
        ${column.of
    ? html`<button type="button" class="sort" onClick=${() => turn(at)}>${column.name}${column.unit ? html` <small>${column.unit}</small>` : ''}<span aria-hidden="true">${sort?.at === at ? (sort.down ? ' ▾' : ' ▴') : ''}</span></button>`
    : html`${column.name}${column.unit ? html` <small>${column.unit}</small>` : ''}`}</th>`)}</tr></thead>
      <tbody>${shown.map((row, at) => html`<tr key=${keyOf ? keyOf(row) : at}>${columns.map((column, place) => {
    const text = column.show ? column.show(row) : column.of(row) ?? NOTHING;
    return place === 0
      ? html`<th scope="row" class=${column.left ? 'left' : ''}>${text}</th>`
      : html`<td class=${column.left ? 'left' : ''}>${text}</td>`;
  })}</tr>`)}</tbody>
    </table>
    ${shown.length < sorted.length && html`<p class="quiet"><button type="button" class="plain" onClick=${() => setAll(true)}>Show all ${sorted.length} rows</button></p>`}
  </div>`;
}

/** A dialog that keeps the keyboard inside and gives it back. */
export function Dialog({ title, close, children }) {
  const place = useRef();
  const id = useId();
  useEffect(() => {
    const dialog = place.current;
    dialog.showModal();
    return () => dialog.close();
  }, []);
  return html`<dialog ref=${place} aria-labelledby=${id} onCancel=${(event) => { event.preventDefault(); close(); }}>
    <h2 id=${id}>${title}</h2>${children}</dialog>`;
}

export function Field({ label, unit, hint, error, children }) {
  return html`<div class=${`field ${error ? 'wrong' : ''}`}><label><span class="label">${label}${unit ? html` <small>${unit}</small>` : ''}</span>${children}</label>
    ${hint && html`<p class="hint">${hint}</p>`}${error && html`<p class="hint bad" role="alert">${error}</p>`}</div>`;
}

/** One of a few, as buttons beside each other. */
export function Choice({ label, options, value, choose }) {
  return html`<div class="choice" role="group" aria-label=${label}>${options.map(([key, text]) => html`<button type="button"
    aria-pressed=${String(key === value)} onClick=${() => choose(key)}>${text}</button>`)}</div>`;
}
