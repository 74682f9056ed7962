// Plots over uPlot: a legend that shows what is under the cursor and hides curves, zoom by mouse and keyboard, colours of
// the page's theme.

import uPlot from './vendor/uPlot.esm.js';
import { html, useEffect, useId, useMemo, useRef, useState } from './parts.js';
import { digits } from './format.js';

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export const colour = (at) => css(`--series-${at % 8}`);

/** Changes with the theme, so that canvases are drawn anew. */
export function useTheme() {
  const [theme, set] = useState(0);
  useEffect(() => {
    const asked = matchMedia('(prefers-color-scheme: dark)');
    const change = () => set((n) => n + 1);
    asked.addEventListener('change', change);
    addEventListener('ebb-theme', change);
    return () => {
      asked.removeEventListener('change', change);
      removeEventListener('ebb-theme', change);
    };
  }, []);
  return theme;
}

const clock = (seconds, fine) => new Date(1000 * seconds).toLocaleTimeString('en', { hour12: false, hour: '2-digit', minute: '2-digit', second: fine ? '2-digit' : undefined });

function paths(kind) {
  if (kind === 'step') return uPlot.paths.stepped({ align: 1 });
  if (kind === 'points') return () => null;
  return uPlot.paths.linear();
}

function drawn(series, at, few) {
  const stroke = colour(series.colour ?? at);
  const points = series.kind === 'points' || few;
  return {
    label: series.label,
    stroke,
    width: series.kind === 'points' ? 0 : 1.5,
    dash: series.dash ? [5, 4] : undefined,
    fill: series.kind === 'area' ? `${stroke}26` : undefined,
    paths: paths(series.kind),
    points: { show: points, size: series.kind === 'points' ? 6 : 4, fill: stroke },
    spanGaps: false,
    show: series.show !== false,
  };
}

/**
 * `x` numbers, `series` [{label, values, kind, dash, colour}], `unit`, `format`, `time` where x is seconds since 1970,
 * `zoomed(from, to)` when another part is shown (null where all is), `sync` a name that plots with one cursor share,
 * `zero` where the axis begins at 0, `range` of x where it is given from outside.
 */
export function Plot({
  title, x, series, unit = '', xLabel = '', time = false, format = digits, height = 190, zoomed, sync, zero = false, log = false, range, note,
}) {
  const place = useRef();
  const chart = useRef(null);
  const latest = useRef({});
  const [under, setUnder] = useState(null);
  const [hidden, setHidden] = useState({});
  const theme = useTheme();
  const id = useId();
  latest.current = { x, series, zoomed, range, format };
  const shape = JSON.stringify([series.map((one) => [one.label, one.kind, one.dash, one.colour]), unit, xLabel, time, zero, log, height, theme, sync]);

  const zoom = (from, to) => {
    const { zoomed: tell } = latest.current;
    if (from !== null) chart.current?.setScale('x', { min: from, max: to });
    else if (latest.current.x.length) chart.current?.setScale('x', { min: latest.current.x[0], max: latest.current.x.at(-1) });
    tell?.(from, to);
  };

  useEffect(() => {
    const ink = css('--ink-2');
    const line = css('--line');
    const axis = { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1, size: 4 }, font: '11px system-ui, sans-serif' };
    const few = latest.current.x.length < 60 && !time;
    const options = {
      width: Math.max(place.current.clientWidth, 120),
      height,
      legend: { show: false },
      cursor: {
        drag: { x: Boolean(zoomed), y: false, setScale: false },
        sync: sync ? { key: sync } : undefined,
        points: { size: 6 },
      },
      scales: {
        x: { time, range: (_, min, max) => latest.current.range ?? (min === max ? [min - 1, max + 1] : few ? [min - (max - min) * 0.02, max + (max - min) * 0.02] : [min, max]) },
        y: {
          distr: log ? 3 : 1,
          range: log ? undefined : (_, min, max) => {
            if (min === null) return [0, 1];
            if (zero && min >= 0) return [0, max > 0 ? max * 1.08 : 1];
            const room = (max - min || Math.abs(max) || 1) * 0.06;
            return [min - room, max + room];
          },
        },
      },
      axes: [
        { ...axis, label: xLabel || undefined, labelSize: 16, labelFont: axis.font, size: 28, ...(time ? { space: 70, values: (_, ticks, __, ___, step) => ticks.map((tick) => clock(tick, step < 60)) } : {}) },
        { ...axis, size: 58, values: (_, ticks) => ticks.map((tick) => (tick === null ? '' : latest.current.format(tick))) },
      ],
      series: [{}, ...latest.current.series.map((one, at) => drawn(one, at, few))],
      hooks: {
        setCursor: [(u) => setUnder(u.cursor.idx ?? null)],
        setSelect: [(u) => {
          if (u.select.width > 4) zoom(u.posToVal(u.select.left, 'x'), u.posToVal(u.select.left + u.select.width, 'x'));
          u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        }],
      },
    };
    const made = new uPlot(options, [latest.current.x, ...latest.current.series.map((one) => one.values)], place.current);
    chart.current = made;
    const double = () => zoom(null, null);
    made.over.addEventListener('dblclick', double);
    const watch = new ResizeObserver(() => {
      const width = place.current?.clientWidth;
      if (width && width !== made.width) made.setSize({ width, height });
    });
    watch.observe(place.current);
    return () => {
      watch.disconnect();
      made.destroy();
      chart.current = null;
    };
  }, [shape, Boolean(zoomed)]);

  useEffect(() => {
    chart.current?.setData([x, ...series.map((one) => one.values)], true);
  }, [x, series, range?.[0], range?.[1]]);

  useEffect(() => {
    series.forEach((one, at) => {
      const show = !hidden[one.label];
      if (chart.current && chart.current.series[at + 1]?.show !== show) chart.current.setSeries(at + 1, { show });
    });
  }, [hidden, shape]);

  const at = under !== null && under < x.length ? under : x.length - 1;
  const press = (event) => {
    const made = chart.current;
    if (!made || !x.length) return;
    const { min, max } = made.scales.x;
    const here = x[Math.max(at, 0)];
    const moves = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20, Home: -x.length, End: x.length };
    if (event.key in moves) {
      const next = Math.min(Math.max(at + moves[event.key], 0), x.length - 1);
      made.setCursor({ left: made.valToPos(x[next], 'x'), top: made.over.clientHeight / 2 });
      setUnder(next);
    } else if (zoomed && (event.key === '+' || event.key === '=')) zoom(here - (max - min) / 4, here + (max - min) / 4);
    else if (zoomed && event.key === '-') zoom(here - (max - min), here + (max - min));
    else if (zoomed && (event.key === '0' || event.key === 'Escape')) zoom(null, null);
    else return;
    event.preventDefault();
  };
  const xText = (value) => (time ? clock(value, true) : digits(value));
  const help = `Arrow keys move the cursor${zoomed ? '; plus and minus zoom, 0 shows all' : ''}.`;
  return html`<figure class="plot" aria-labelledby=${id}>
    <figcaption id=${id}><span class="name">${title}</span>${unit && html` <small>${unit}</small>`}
      <span class="at">${under !== null && x.length ? `${xLabel && !time ? `${xLabel} ` : ''}${xText(x[at])}` : note ?? ''}</span></figcaption>
    <ul class="legend">${series.map((one, place_) => html`<li key=${one.label}><button type="button" aria-pressed=${String(!hidden[one.label])}
        title=${hidden[one.label] ? 'Show this curve' : 'Hide this curve'} onClick=${() => setHidden((all) => ({ ...all, [one.label]: !all[one.label] }))}>
      <span class=${`swatch s${(one.colour ?? place_) % 8} ${one.dash ? 'dash' : ''} ${one.kind === 'points' ? 'dot' : ''}`} aria-hidden="true"></span>${one.label}
      <b>${at >= 0 ? format(one.values[at]) : '–'}</b></button></li>`)}</ul>
    <div class="canvas" ref=${place} tabindex="0" role="group" aria-label=${`${title}, plot. ${help}`} onKeyDown=${press}></div>
  </figure>`;
}

/** Series with points of their own as columns over one x. */
export function aligned(series) {
  return useMemo(() => {
    if (!series.length) return { x: [], columns: [] };
    const tables = series.map((one) => {
      const sorted = one.points.every((point, at) => at === 0 || one.points[at - 1][0] <= point[0])
        ? one.points : [...one.points].sort((a, b) => a[0] - b[0]);
      return [sorted.map((point) => point[0]), sorted.map((point) => point[1])];
    });
    const [x, ...columns] = tables.length === 1 ? tables[0] : uPlot.join(tables, tables.map((table) => table.map(() => 1)));
    return { x, columns };
  }, [series]);
}
