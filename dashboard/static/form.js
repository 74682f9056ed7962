// A form made from a scenario's JSON Schema, and the TOML that it stands for.

import { Badge, Field, html } from './parts.js';

const quoted = (text) => JSON.stringify(text);
const bare = (name) => (/^[A-Za-z0-9_-]+$/.test(name) ? name : quoted(name));

/** The shapes of a table that says by a word which of them it is; null where it is something else. */
function tagged(schema) {
  const shapes = schema.oneOf ?? schema.anyOf;
  if (!shapes?.every((shape) => shape.type === 'object' && shape.properties)) return null;
  const tag = Object.keys(shapes[0].properties).find((name) => shapes.every((shape) => shape.properties[name]?.const !== undefined));
  return tag ? { tag, shapes } : null;
}

const isTable = (schema) => schema.type === 'object' && schema.properties;

/** How a value is written in TOML. */
function written(schema, text) {
  if (schema.enum || schema.type === 'string') return quoted(text);
  return text.trim();
}

function wrong(schema, text, required) {
  if (text === undefined || text === '') return required ? 'This is needed.' : null;
  if (schema.type !== 'number' && schema.type !== 'integer') return null;
  const number = Number(text.replaceAll('_', ''));
  if (!Number.isFinite(number)) return 'A number is needed.';
  if (schema.type === 'integer' && !Number.isInteger(number)) return 'A whole number is needed.';
  if (schema.minimum !== undefined && number < schema.minimum) return `${schema.minimum} or more.`;
  if (schema.exclusiveMinimum !== undefined && number <= schema.exclusiveMinimum) return `Above ${schema.exclusiveMinimum}.`;
  if (schema.maximum !== undefined && number > schema.maximum) return `At most ${schema.maximum}.`;
  if (schema.exclusiveMaximum !== undefined && number >= schema.exclusiveMaximum) return `Below ${schema.exclusiveMaximum}.`;
  return null;
}

const begun = (values, path) => Object.keys(values).some((key) => key.startsWith(`${path}.`) && values[key] !== '');

/** Walks all settings that have a value or must have one: `leaf(path, schema, text, required)`. */
function walk(schema, values, leaf, path = '', needed = true) {
  const required = schema.required ?? [];
  for (const [name, inner] of Object.entries(schema.properties ?? {})) {
    const here = path ? `${path}.${name}` : name;
    const must = needed && required.includes(name);
    const shape = tagged(inner);
    if (isTable(inner)) {
      walk(inner, values, leaf, here, must || begun(values, here));
    } else if (shape) {
      const word = values[`${here}.${shape.tag}`];
      const of = shape.shapes.find((one) => one.properties[shape.tag].const === word);
      if (must || word) leaf(`${here}.${shape.tag}`, { type: 'string' }, word, must);
      if (of) {
        const { [shape.tag]: _, ...rest } = of.properties;
        walk({ properties: rest, required: (of.required ?? []).filter((one) => one !== shape.tag) }, values, leaf, here, true);
      }
    } else leaf(here, inner, values[here], must);
  }
}

export function faults(schema, values) {
  const found = {};
  walk(schema, values, (path, inner, text, required) => {
    const fault = wrong(inner, text, required);
    if (fault) found[path] = fault;
  });
  return found;
}

/** What was filled in, as TOML. */
export function toToml(schema, values) {
  const tables = new Map([['', []]]);
  walk(schema, values, (path, inner, text) => {
    if (text === undefined || text === '') return;
    const parts = path.split('.');
    const name = parts.pop();
    const table = parts.map(bare).join('.');
    if (!tables.has(table)) tables.set(table, []);
    tables.get(table).push(`${bare(name)} = ${written(inner, text)}`);
  });
  return [...tables].filter(([, lines]) => lines.length)
    .map(([table, lines]) => `${table ? `[${table}]\n` : ''}${lines.join('\n')}\n`).join('\n');
}

/** A value as it stands in TOML. */
function toml(value) {
  if (Array.isArray(value)) return `[${value.map(toml).join(', ')}]`;
  if (typeof value === 'object') return `{ ${Object.entries(value).map(([name, inner]) => `${bare(name)} = ${toml(inner)}`).join(', ')} }`;
  return typeof value === 'string' ? quoted(value) : String(value);
}

/** A scenario's values as they stand in the form; null where it has what the form has not. */
export function fromValues(schema, given, path = '', skip = null) {
  const values = {};
  for (const [name, value] of Object.entries(given).filter(([one]) => one !== skip)) {
    const here = path ? `${path}.${name}` : name;
    const inner = schema.properties?.[name];
    if (!inner) return null;
    const shape = tagged(inner);
    if (shape || isTable(inner)) {
      const of = shape ? shape.shapes.find((one) => one.properties[shape.tag].const === value[shape.tag]) : inner;
      const more = of && !Array.isArray(value) && typeof value === 'object' ? fromValues(of, value, here, shape?.tag) : null;
      if (!more) return null;
      Object.assign(values, more, shape ? { [`${here}.${shape.tag}`]: value[shape.tag] } : {});
    } else if (inner.enum || ['boolean', 'number', 'integer', 'string'].includes(inner.type)) {
      if (typeof value === 'object') return null;
      values[here] = String(value);
    } else values[here] = toml(value);
  }
  return values;
}

const split = (description = '') => {
  const found = description.match(/^(.*?)(?: \[([^\]]+)\])?$/s);
  return { text: found[1], unit: found[2] ?? '' };
};

function range(schema) {
  const low = schema.minimum ?? schema.exclusiveMinimum;
  const high = schema.maximum ?? schema.exclusiveMaximum;
  if (low !== undefined && high !== undefined) return `${low} to ${high}`;
  if (schema.exclusiveMinimum !== undefined) return `above ${low}`;
  if (low !== undefined && low !== 0) return `${low} or more`;
  if (high !== undefined) return `at most ${high}`;
  return '';
}

function Value({ name, path, schema, values, set, faults: found, required }) {
  const { text, unit } = split(schema.description);
  const standard = schema.default === undefined ? '' : typeof schema.default === 'string' ? schema.default : JSON.stringify(schema.default);
  const value = values[path] ?? '';
  const change = (event) => set(path, event.target.value);
  const fault = found[path];
  const free = !schema.enum && !['boolean', 'number', 'integer', 'string'].includes(schema.type);
  const hint = [text, range(schema) && `${range(schema).replace(/^./, (letter) => letter.toUpperCase())}.`, free && 'Written as in TOML.'].filter(Boolean).join(' ');
  const left = required ? 'choose' : `${standard || 'not set'}${standard ? ' (default)' : ''}`;
  let input;
  if (schema.enum || schema.type === 'boolean') {
    const options = schema.enum ?? ['true', 'false'];
    input = html`<select value=${value} onChange=${change} aria-invalid=${String(Boolean(fault))} name=${path}><option value="">${left}</option>${options.map((one) => html`<option value=${one}>${one}</option>`)}</select>`;
  } else {
    input = html`<input type="text" name=${path} inputmode=${schema.type === 'number' || schema.type === 'integer' ? 'decimal' : 'text'} value=${value} placeholder=${required ? '' : standard}
      onInput=${change} aria-invalid=${String(Boolean(fault))} aria-required=${String(Boolean(required))} spellcheck="false" autocomplete="off" />`;
  }
  return html`<${Field} label=${html`<code>${name}</code>${required ? html` <${Badge} tone="strong">needed<//>` : ''}`} unit=${unit} hint=${hint} error=${value !== '' || required ? fault : null}>${input}<//>`;
}

function Inside({ schema, path, values, set, faults: found, needed, skip }) {
  const required = schema.required ?? [];
  const entries = Object.entries(schema.properties ?? {}).filter(([name]) => name !== skip);
  const tables = entries.filter(([, inner]) => isTable(inner) || tagged(inner));
  const plain = entries.filter(([, inner]) => !isTable(inner) && !tagged(inner));
  const at = (name) => (path ? `${path}.${name}` : name);
  return html`<div class="grid">${plain.map(([name, inner]) => html`<${Value} key=${name} name=${name} path=${at(name)} schema=${inner} values=${values} set=${set}
      faults=${found} required=${needed && required.includes(name)} />`)}</div>
    ${tables.map(([name, inner]) => {
    const here = at(name);
    const must = needed && required.includes(name);
    const shape = tagged(inner);
    const filled = Object.keys(values).filter((key) => key.startsWith(`${here}.`) && values[key] !== '').length;
    const { text } = split(inner.description);
    return html`<details class="table" key=${name} open=${must || filled > 0 || undefined}><summary><code>${here}</code>${must ? html` <${Badge} tone="strong">needed<//>` : ''}${filled ? html` <${Badge}>${filled} set<//>` : ''} <span class="hint">${text}</span></summary>
      ${shape ? html`<${Tagged} shape=${shape} path=${here} values=${values} set=${set} faults=${found} must=${must} />`
    : html`<${Inside} schema=${inner} path=${here} values=${values} set=${set} faults=${found} needed=${must || begun(values, here)} />`}</details>`;
  })}`;
}

function Tagged({ shape, path, values, set, faults: found, must }) {
  const here = `${path}.${shape.tag}`;
  const word = values[here] ?? '';
  const of = shape.shapes.find((one) => one.properties[shape.tag].const === word);
  return html`<${Field} label=${html`<code>${shape.tag}</code>`} hint=${of ? split(of.properties[shape.tag].description).text : 'Which of these it is.'} error=${found[here]}>
      <select name=${here} value=${word} onChange=${(event) => set(here, event.target.value)}><option value="">${must ? 'choose' : 'not set'}</option>
        ${shape.shapes.map((one) => html`<option value=${one.properties[shape.tag].const}>${one.properties[shape.tag].const}</option>`)}</select><//>
    ${of && html`<${Inside} schema=${of} path=${path} values=${values} set=${set} faults=${found} needed=${true} skip=${shape.tag} />`}`;
}

export function Form({ schema, values, set, faults: found }) {
  return html`<${Inside} schema=${schema} path="" values=${values} set=${set} faults=${found} needed=${true} />`;
}
