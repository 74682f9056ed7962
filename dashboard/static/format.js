// Numbers with their units, as people read them: three digits and the prefix that suits them.

const PREFIXES = [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k'], [1, ''], [1e-3, 'm'], [1e-6, 'µ'], [1e-9, 'n'], [1e-12, 'p']];

export const NOTHING = '–';

const missing = (value) => value === null || value === undefined || !Number.isFinite(value);

/** Three digits, no exponent. */
export function digits(value) {
  if (missing(value)) return NOTHING;
  const size = Math.abs(value);
  if (size === 0) return '0';
  if (size >= 1e15 || size < 1e-4) return value.toExponential(2);
  if (size >= 1000) return Math.round(value).toLocaleString('en', { useGrouping: true });
  return String(Number(value.toPrecision(size >= 100 ? 4 : 3)));
}

/** With the prefix that suits the number: 12.3 kpps, 41.7 mJ. */
export function scaled(value, unit) {
  if (missing(value)) return NOTHING;
  const size = Math.abs(value);
  if (size === 0) return `0 ${unit}`.trim();
  const [factor, prefix] = PREFIXES.find(([factor]) => size >= factor * 0.9995) ?? PREFIXES.at(-1);
  const scaled = value / factor;
  const places = Math.abs(scaled) >= 99.95 ? 0 : Math.abs(scaled) >= 9.995 ? 1 : 2;
  return `${scaled.toFixed(places)} ${prefix}${unit}`.trim();
}

export const packets = (value) => scaled(value, 'pps');
export const bits = (bytes) => (missing(bytes) ? NOTHING : scaled(8 * bytes, 'bit/s'));
export const bytes = (value) => scaled(value, 'B');
export const watts = (value) => (missing(value) ? NOTHING : `${value.toFixed(1)} W`);
export const joules = (value) => scaled(value, 'J');
export const seconds = (value) => scaled(value, 's');
export const hertz = (value) => scaled(value, 'Hz');
export const percent = (share) => (missing(share) ? NOTHING : `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`);
export const whole = (value) => (missing(value) ? NOTHING : Math.round(value).toLocaleString('en'));
export const decimal = (value) => (missing(value) ? NOTHING : value.toFixed(2));
export const rate = (value) => (missing(value) ? NOTHING : `${digits(value)} /s`);

/** Days, hours, minutes, seconds: the two that matter. */
export function span(value) {
  if (missing(value)) return NOTHING;
  const all = Math.floor(value);
  const [d, h, m, s] = [Math.floor(all / 86400), Math.floor(all / 3600) % 24, Math.floor(all / 60) % 60, all % 60];
  if (d) return `${d} d ${h} h`;
  if (h) return `${h} h ${m} min`;
  if (m) return `${m} min ${s} s`;
  return `${s} s`;
}

export function when(unixSeconds) {
  if (missing(unixSeconds)) return NOTHING;
  const date = new Date(1000 * unixSeconds);
  const two = (n) => String(n).padStart(2, '0');
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${two(date.getHours())}:${two(date.getMinutes())}`;
}

/** A figure of a report with its unit. */
export function figure(value, unit) {
  if (typeof value === 'number') return `${digits(value)}${unit ? ` ${unit}` : ''}`;
  if (value === null || value === undefined) return NOTHING;
  return String(value);
}

// Units by the ends of figures' names, as reports have them.
const UNITS = [
  ['_w', 'W'], ['_j', 'J'], ['_pj', 'pJ'], ['_s', 's'], ['_us', 'µs'], ['_ns', 'ns'], ['_mpps', 'Mpps'], ['_gbps', 'Gb/s'],
  ['_ghz', 'GHz'], ['_mhz', 'MHz'], ['_percent', '%'], ['_cycles', 'cycles'], ['_ghz_mean', 'GHz'], ['_bytes', 'bytes'],
];

export function unitOf(name) {
  for (const part of name.split('.').reverse()) {
    const found = UNITS.find(([end]) => part.endsWith(end));
    if (found) return found[1];
  }
  return '';
}
