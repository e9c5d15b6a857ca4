// The JSON API of this server, as the user whose page it is. A bearer token lives as long as the tab; that of
// `memory-context open`, which ends with the command, holds for all tabs.

const TOKEN = "inspector-token";

export class Refused extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

export const setToken = (token, forAllTabs = false) => (forAllTabs ? localStorage : sessionStorage).setItem(TOKEN, token);

/** GET api/<path>; ids in a path go through `id`. Throws Refused with the server's sentence. */
export const get = (path, options = {}) => send("GET", path, undefined, options);

export async function send(method, path, body, { headers = {}, signal } = {}) {
  const token = sessionStorage.getItem(TOKEN) ?? localStorage.getItem(TOKEN);
  const sent = { ...headers, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
  if (body !== undefined) sent["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(`api/${path}`, { method, headers: sent, signal, body: body && JSON.stringify(body) });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "The server does not answer. Is memory-context still running?");
  }
  const told = answer.status === 204 ? null : await answer.json().catch(() => null);
  if (!answer.ok) throw new Refused(answer.status, sentence(told?.detail) || `The server answered ${answer.status}.`);
  return told;
}

export const id = encodeURIComponent;

function sentence(detail) {
  return Array.isArray(detail) ? detail.map((one) => `${one.loc.at(-1)}: ${one.msg}`).join("; ") : detail;
}
