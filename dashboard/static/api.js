// What is asked of the dashboard's server. The token came with the address, stays in this tab, and is sent in a header,
// which pages of others cannot do.

const KEPT = 'ebb-token';

/** Takes the token out of the address, so that it is in no bookmark and no history. */
export function takeToken() {
  const found = location.hash.match(/^#token=(.+)$/);
  if (found) {
    setToken(decodeURIComponent(found[1]));
    history.replaceState(null, '', `${location.pathname}#/`);
  }
}

export const token = () => sessionStorage.getItem(KEPT);

export function setToken(value) {
  if (value) sessionStorage.setItem(KEPT, value.trim());
  else sessionStorage.removeItem(KEPT);
}

function headers(more = {}) {
  return token() ? { ...more, Authorization: `Bearer ${token()}` } : more;
}

async function answered(response) {
  const text = await response.text();
  let value;
  try {
    value = JSON.parse(text);
  } catch {
    value = { error: text || `${response.status} ${response.statusText}` };
  }
  if (!response.ok) throw Object.assign(new Error(value.error ?? 'no answer'), { status: response.status });
  return value;
}

async function ask(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Error('The dashboard does not answer. Is `ebb dashboard` still running?');
  }
  return answered(response);
}

export const get = (path, signal) => ask(path, { headers: headers(), signal });

export const post = (path, body) => ask(path, {
  method: 'POST', headers: headers({ 'Content-Type': 'application/json' }), body: JSON.stringify(body),
});

export const remove = (path) => ask(path, { method: 'DELETE', headers: headers() });

export const query = (path, parameters) => `${path}?${new URLSearchParams(parameters)}`;

/** Saves a file of a run; the token may be needed, so that a plain link would not do. */
export async function save(path, name) {
  const response = await fetch(path, { headers: headers() });
  if (!response.ok) return answered(response);
  const link = document.createElement('a');
  link.href = URL.createObjectURL(await response.blob());
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

/** Server-sent events, again and again until `signal`: `hear(name, data)` for each, `closed(why)` when they break off. */
export async function events(path, signal, hear, closed) {
  while (!signal.aborted) {
    try {
      const response = await fetch(path, { headers: headers(), signal });
      if (!response.ok) await answered(response);
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = '';
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        rest += value;
        const parts = rest.split('\n\n');
        rest = parts.pop();
        for (const part of parts) {
          const lines = part.split('\n');
          const field = (name) => lines.filter((line) => line.startsWith(`${name}: `)).map((line) => line.slice(name.length + 2)).join('\n');
          hear(field('event'), JSON.parse(field('data')));
        }
      }
      closed('The stream ended.');
    } catch (error) {
      if (signal.aborted) return;
      closed(error.message);
    }
    await new Promise((resolve) => setTimeout(resolve, 1500));
  }
}
