/**
 * The server, as this page sees it: JSON requests, streamed answers, and what is known about the connection.
 *
 * Promise: whatever goes wrong arrives as a `Problem` that says whether trying again can help. Every request tells
 * `Connection` how it went, so the state that people see is that of real requests, not of a guess.
 */

const SILENCE_SECONDS = 60; // the server sends a comment every few seconds; nothing for so long is a dead connection
const BEACON_BYTES = 60_000; // browsers take 64 kB of beacons at a time
const ARCHIVE_BYTES = 500_000;
const MOST_MESSAGES = 50;
const PROBE_SECONDS = 5;

/** Why a request failed. `status` is 0 if no answer came at all. */
export class Problem extends Error {
  /**
   * @param told What the server says about it, `{detail}`; a proxy in between says nothing.
   */
  constructor(status, told, retryAfterSeconds = null) {
    const { detail } = told; // a sentence, or FastAPI's list of what is wrong with a request
    super(Array.isArray(detail) ? detail.map(({ msg }) => msg).join(" ") : detail || told.title);
    this.name = "Problem";
    this.status = status;
    this.retryAfterSeconds = retryAfterSeconds;
    this.isTold = detail !== undefined;
  }

  /** The conversation is not there any more. */
  get isGone() {
    return this.status === 404 || this.status === 410;
  }

  /** The same request can succeed later. */
  get isTemporary() {
    return this.status === 0 || this.isBusy || (!this.isTold && [408, 425, 502, 504].includes(this.status));
  }

  get isBusy() {
    return [429, 503].includes(this.status) || (this.status === 409 && this.retryAfterSeconds !== null);
  }
}

/** Whether the server can be reached: "online", "connecting", "offline" or "busy"; fires "change". */
export class Connection extends EventTarget {
  state = navigator.onLine ? "connecting" : "offline";
  #probe = null;

  constructor() {
    super();
    addEventListener("offline", () => this.#enter("offline"));
    addEventListener("online", () => this.#enter("connecting"));
  }

  succeeded() {
    this.#enter("online");
  }

  failed(problem) {
    if (problem.status === 0) this.#enter(navigator.onLine ? "connecting" : "offline");
    else this.#enter(problem.isBusy ? "busy" : "online");
  }

  /** Ask the server now and then while it is away, also when nothing waits to be sent. */
  probeWith(ask) {
    this.#probe = ask;
    setInterval(() => {
      if (this.state !== "online" && navigator.onLine) this.#probe().catch(() => {});
    }, PROBE_SECONDS * 1000);
    addEventListener("online", () => this.#probe().catch(() => {}));
  }

  #enter(state) {
    if (state === this.state) return;
    this.state = state;
    this.dispatchEvent(new Event("change"));
  }
}

/** Wait, but no longer than until the network is back; throws if the signal is aborted. */
export function pause(seconds, signal) {
  return new Promise((resolve, reject) => {
    const end = () => {
      clearTimeout(timer);
      removeEventListener("online", end);
      signal?.removeEventListener("abort", end);
      if (signal?.aborted) reject(signal.reason);
      else resolve();
    };
    const timer = setTimeout(end, seconds * 1000);
    addEventListener("online", end);
    signal?.addEventListener("abort", end);
    if (signal?.aborted) end();
  });
}

/**
 * Do something until it succeeds, as long as trying again can help: after what the server asks for in Retry-After, else
 * after 0.5, 1, 2 … 30 seconds, each a little off so that many pages do not come back at the same moment.
 */
export async function retrying(attempt, { signal, onWait = () => {}, mostAttempts = Infinity } = {}) {
  for (let count = 1; ; count += 1) {
    try {
      return await attempt();
    } catch (error) {
      if (!(error instanceof Problem) || !error.isTemporary || count >= mostAttempts) throw error;
      const backoff = Math.min(30, 2 ** (count - 2)) * (0.75 + Math.random() / 2);
      const seconds = error.retryAfterSeconds ?? backoff;
      onWait(error, seconds);
      await pause(seconds, signal);
    }
  }
}

/** The chat API. */
export class Api {
  #connection;
  #root;

  constructor(connection, root = "/api/chat") {
    this.#connection = connection;
    this.#root = root;
  }

  /**
   * Say something and hand the events of the answer to `onEvent(name, data)` as they come.
   *
   * Returns when the answer is complete. The same message again never runs twice: the server knows it by its id.
   */
  async say(message, { sessionId, agentId, signal, onEvent }) {
    const body = { new_messages: [message], session_id: sessionId, agent_id: agentId, stream: true };
    const response = await this.#request("", { method: "POST", body, signal, accept: "text/event-stream" });
    let isComplete = false;
    for await (const { name, data } of this.#events(response, signal)) {
      if (name === "error") throw this.#failed(problemOf(data.status ?? 500, data));
      if (name === "done") isComplete = true;
      onEvent(name, data);
    }
    if (!isComplete) throw this.#failed(new Problem(0, { title: "The connection broke in mid-answer" }));
  }

  /** Make messages durable; `onStored(ids)` hears of each batch that is. One that is refused holds up no other. */
  async archive(sessionId, agentId, messages, onStored) {
    for (const batch of batchesOf(messages, ARCHIVE_BYTES)) {
      try {
        const body = { session_id: sessionId, agent_id: agentId, messages_batch: batch };
        const response = await this.#request("/session/archive_messages", { method: "POST", body });
        onStored((await response.json()).stored_ids);
      } catch (error) {
        if (error.status !== 413 && error.status !== 422) throw error;
        if (batch.length > 1) for (const message of batch) await this.archive(sessionId, agentId, [message], onStored);
      }
    }
  }

  /**
   * The same while the page goes away: no answer can be waited for. Returns the ids that the browser took over.
   */
  archiveByBeacon(sessionId, agentId, messages) {
    const sent = [];
    for (const batch of batchesOf(messages, BEACON_BYTES)) {
      const body = JSON.stringify({ session_id: sessionId, agent_id: agentId, messages_batch: batch });
      const blob = new Blob([body], { type: "application/json" });
      if (!navigator.sendBeacon(`${this.#root}/session/archive_messages`, blob)) break;
      sent.push(...batch.map((message) => message.id));
    }
    return sent;
  }

  /** The conversations, last active first, and where the next page begins. */
  async sessions({ limit = 30, before = null } = {}) {
    return (await this.#request(`/sessions${query({ limit, before })}`)).json();
  }

  /** The newest messages before a place, oldest first, and where the page before begins. */
  async messages(sessionId, { limit = 50, before = null } = {}) {
    const path = `/sessions/${encodeURIComponent(sessionId)}/messages${query({ limit, before })}`;
    return (await this.#request(path)).json();
  }

  async deleteSession(sessionId) {
    await this.#request(`/sessions/${encodeURIComponent(sessionId)}`, { method: "DELETE" });
  }

  async #request(path, { method = "GET", body, signal, accept = "application/json" } = {}) {
    const headers = { Accept: accept, ...(body && { "Content-Type": "application/json" }) };
    let response;
    try {
      response = await fetch(this.#root + path, { method, headers, signal, body: body && JSON.stringify(body) });
    } catch (error) {
      throw this.#failed(error);
    }
    if (response.ok) {
      this.#connection.succeeded();
      return response;
    }
    const told = await response.json().catch(() => ({}));
    throw this.#failed(problemOf(response.status, told, response.headers.get("Retry-After")));
  }

  async *#events(response, signal) {
    const reader = response.body.getReader();
    const decoder = new TextDecoder();
    let rest = "";
    try {
      for (;;) {
        const { value, done } = await soon(reader.read());
        if (done) return;
        const blocks = (rest + decoder.decode(value, { stream: true })).split(/\r?\n\r?\n/);
        rest = blocks.pop();
        for (const block of blocks) {
          const event = eventOf(block);
          if (event) yield event;
        }
      }
    } catch (error) {
      if (signal?.aborted) throw signal.reason;
      throw this.#failed(error);
    } finally {
      reader.cancel().catch(() => {});
    }
  }

  /** Take note of a failure and return it as a problem; a request that was called off is none. */
  #failed(error) {
    if (error.name === "AbortError") return error;
    const problem = error instanceof Problem ? error : new Problem(0, { title: "The server cannot be reached" });
    this.#connection.failed(problem);
    return problem;
  }
}

function query(parameters) {
  const given = Object.entries(parameters).filter(([, value]) => value !== null);
  return `?${new URLSearchParams(given)}`;
}

function problemOf(status, told, retryAfter = null) {
  const seconds = Number(retryAfter ?? told.retry_after ?? NaN);
  return new Problem(status, { title: `The server answered ${status}`, ...told }, seconds >= 0 ? seconds : null);
}

/** One event of a stream: its lines are `event: name` and `data: …`; comments keep the connection open. */
function eventOf(block) {
  let name = "message";
  const data = [];
  for (const line of block.split(/\r?\n/)) {
    const [, field, value] = /^(\w*): ?(.*)$/s.exec(line) ?? [];
    if (field === "event") name = value;
    if (field === "data") data.push(value);
  }
  return data.length ? { name, data: JSON.parse(data.join("\n")) } : null;
}

async function soon(reading) {
  let timer;
  const silence = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Problem(0, { title: "The connection fell silent" })), SILENCE_SECONDS * 1000);
  });
  try {
    return await Promise.race([reading, silence]);
  } finally {
    clearTimeout(timer);
  }
}

/** Messages in batches of so many bytes; one that is larger than that is a batch of its own. */
function batchesOf(messages, bytes) {
  const encoder = new TextEncoder();
  const batches = [];
  let left = 0;
  for (const message of messages) {
    const size = encoder.encode(JSON.stringify(message)).length + 1;
    if (size > left || batches.at(-1).length === MOST_MESSAGES) {
      batches.push([]);
      left = bytes - 200; // for what stands around the batch
    }
    batches.at(-1).push(message);
    left -= size;
  }
  return batches;
}
