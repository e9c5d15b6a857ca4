/** The server as this page sees it: JSON requests, streamed answers, and whether it can be reached. */

const SILENCE_SECONDS = 60; // the server sends a comment every 15 s: a stream that is silent for longer is dead
const KEEPALIVE_CHARACTERS = 20_000; // browsers finish up to 64 kB of requests of a page that goes away

/** Why a request failed: `status` is 0 if no answer came. */
export class Problem extends Error {
  constructor(status, { detail, retry_after: seconds } = {}) {
    const told = Array.isArray(detail) ? detail.map(({ msg }) => msg).join(" ") : detail;
    super(told ?? (status ? `The server answered ${status}` : "The server cannot be reached"));
    const isBusy = [409, 429, 503].includes(status) && seconds !== undefined;
    const isProxy = told === undefined && [408, 425, 502, 503, 504].includes(status);
    Object.assign(this, { status, retryAfter: seconds, isTemporary: status === 0 || isBusy || isProxy });
    enter(status === 0 ? (navigator.onLine ? "connecting" : "offline") : this.isTemporary ? "busy" : "online");
  }
}

/** Whether the server can be reached: "online", "connecting", "offline" or "busy"; fires "change". */
export const connection = Object.assign(new EventTarget(), { state: navigator.onLine ? "connecting" : "offline" });
addEventListener("offline", () => enter("offline"));
addEventListener("online", () => enter("connecting"));

function enter(state) {
  if (state === connection.state) return;
  connection.state = state;
  connection.dispatchEvent(new Event("change"));
}

/** Return the response. Throws a `Problem`, or whatever the signal is aborted with. */
export async function request(path, { body, signal, method = body ? "POST" : "GET" } = {}) {
  const text = body && JSON.stringify(body);
  const headers = { "Content-Type": "application/json" };
  const keepalive = text?.length < KEEPALIVE_CHARACTERS && !signal;
  const response = await fetch(`/api/chat${path}`, { method, headers, body: text, signal, keepalive }).catch(() => {
    signal?.throwIfAborted();
    throw new Problem(0);
  });
  if (!response.ok) {
    const told = await response.json().catch(() => ({}));
    throw new Problem(response.status, { ...told, retry_after: response.headers.get("Retry-After") ?? undefined });
  }
  enter("online");
  return response;
}

/** Ask, and yield the events of the answer as they come. The same message asked again is answered once. */
export async function* ask(session, message, signal) {
  const body = { new_messages: [message], session_id: session, stream: true };
  const response = await request("", { body, signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ; ) {
    const silence = setTimeout(() => reader.cancel(), SILENCE_SECONDS * 1000);
    const { value, done } = await reader.read().catch(() => ({ done: true }));
    clearTimeout(silence);
    signal.throwIfAborted();
    if (done) throw new Problem(0); // it broke before the event "done"
    const blocks = (rest + value).replaceAll("\r\n", "\n").split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const [, name, text] = /^event: (\w+)\ndata: ([^\n]*)/m.exec(block) ?? []; // others are comments
      const data = text && JSON.parse(text);
      if (name === "error") throw new Problem(data.status, data);
      if (name) yield { name, data };
      if (name === "done") return;
    }
  }
}

/** Wait before another attempt: as the server asks, else 0.5, 1, 2 … 30 seconds; or until the network is back. */
export function pause({ retryAfter }, attempt, signal) {
  const seconds = Number(retryAfter) || Math.min(30, 2 ** (attempt - 1)) * (0.75 + Math.random() / 2);
  return new Promise((resolve) => {
    setTimeout(resolve, seconds * 1000);
    addEventListener("online", resolve, { once: true, signal });
    signal.addEventListener("abort", resolve);
  });
}
