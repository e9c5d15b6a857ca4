/**
 * The chat store: one conversation, from what is said to what is durable.
 *
 * What is said shows at once and is kept (`Pending`) before anything else happens. From there on
 *
 * - it is sent, one message after the other, until the server has answered it; a tab that dies in between is followed
 *   by the next one that opens the conversation, or that has it open already;
 * - it is archived, in batches, until the server says that it is durable. Only then does this browser forget it.
 *
 * Both may happen twice, and do after a crash: the server knows every message by its id. Tabs that show the same
 * conversation tell each other every event, and one of them at a time sends (a Web Lock).
 */

import { retrying } from "./api.js";
import { Conversation } from "./conversation.js";
import { isDraft, newDraft, sessionIdOf } from "./drafts.js";

const PAGE = 50;
const SETTINGS = { archive_messages: 20, archive_seconds: 120 };
const GONE = "This conversation is not here any more. Trying again begins a new one.";

/** Fires "change", "named" when the session has its id, and "answered" with the message in `detail`. */
export class ChatStore extends EventTarget {
  agentId = null;
  isLoading = false;
  #api;
  #pending;
  #name;
  #conversation = new Conversation();
  #channel = new BroadcastChannel("web-chat");
  #life = new AbortController();
  /** The message that is being sent by this tab. */
  #run = null;
  #isSending = false;
  #hasMore = false;
  #works = 0;
  #takenByBeacon = new Set();
  #isLoaded = false;
  #isGone = false;
  /** Where the page of older messages begins; null: there are none. */
  #older = null;
  #settings = SETTINGS;

  /**
   * @param name The id of a session, or the name of one that is still to begin; null for a new one.
   * @param settings A promise of after how many messages and seconds it archives.
   */
  constructor(api, pending, name = null, settings = SETTINGS) {
    super();
    this.#api = api;
    this.#pending = pending;
    this.#name = name ?? newDraft();
    this.#conversation.takeKept(pending.of(this.name));
    this.#channel.onmessage = ({ data }) => this.#hear(data);
    this.#archiveNowAndThen(settings);
  }

  /** What the conversation is called in this browser: the session's id as soon as there is one. */
  get name() {
    return this.#name;
  }

  get hasBegun() {
    return !isDraft(this.#name);
  }

  get entries() {
    return this.#conversation.entries;
  }

  get hasOlder() {
    return this.#older !== null;
  }

  /** An answer is awaited or being written, by this tab or by another one. */
  get isBusy() {
    return this.#conversation.isBusy;
  }

  /** Something is still to be sent or archived by this tab. */
  get isAtWork() {
    return this.#isSending || this.#works > 0;
  }

  /** Show what this browser has, then the newest messages of the server; send what waits. */
  async open() {
    this.finish();
    this.#tell({ type: "hello" });
    if (!this.hasBegun) return;
    this.isLoading = true;
    this.#changed();
    try {
      await this.refresh();
    } finally {
      this.isLoading = false;
      this.#changed();
    }
  }

  /** Send and archive what an earlier visit could not. */
  async finish() {
    this.#conversation.takeKept(this.#pending.of(this.name));
    this.#works += 1;
    try {
      await Promise.all([this.#send(), this.archive()]);
    } finally {
      this.#works -= 1;
      this.#changed();
    }
  }

  /** Look for what other devices have added. */
  async refresh() {
    if (!this.hasBegun) return;
    try {
      const newest = () => this.#api.messages(this.#name, { limit: PAGE });
      const page = await retrying(newest, { signal: this.#life.signal });
      if (!this.#isLoaded) this.#older = page.next;
      this.#isLoaded = true;
      this.#conversation.take(page.messages);
      this.#changed();
    } catch (error) {
      // a conversation that began while the server was about to die is known here only
      if (error.status !== 404 || !this.#pending.of(this.name).length) throw error;
    }
  }

  async loadOlder() {
    if (this.#older === null || this.isLoading) return;
    this.isLoading = true;
    try {
      const page = await this.#api.messages(this.#name, { limit: PAGE, before: this.#older });
      this.#older = page.next;
      this.#conversation.take(page.messages);
    } finally {
      this.isLoading = false;
      this.#changed();
    }
  }

  /** Say something: it shows at once, is kept, and is sent when its turn comes. */
  say(text) {
    const message = { id: crypto.randomUUID(), text: text.toWellFormed?.() ?? text, sender: "user", timestamp: this.#conversation.now() };
    this.#act({ type: "said", message });
    this.#send();
  }

  /** Try again what has failed; if the conversation is gone, in a new one. */
  retry(id) {
    if (this.#isGone) this.#act({ type: "named", name: newDraft(), agentId: null });
    this.#isGone = false;
    this.#act({ type: "queued", id });
    this.#send();
  }

  /** Take back what was not sent. */
  discard(id) {
    this.#act({ type: "discarded", id });
    if (this.#run?.id === id) this.#run.abort();
  }

  /** Stop the answer that is being written, in whichever tab it is. */
  stop() {
    if (this.#run) this.#run.abort();
    else this.#tell({ type: "stop" });
  }

  /** Make durable what is not; what fails stays for the next time. */
  async archive() {
    const sessionId = sessionIdOf(this.#name);
    try {
      await this.#api.archive(sessionId, this.agentId, this.#toArchive(), (ids) => {
        this.#act({ type: "stored", ids });
        if (!this.hasBegun) this.#act({ type: "named", name: sessionId, agentId: this.agentId });
      });
    } catch (error) {
      if (error.status === 410) this.#pending.forget(this.name); // deleted: nobody wants to keep it
    }
  }

  async #archiveNowAndThen(settings) {
    this.#settings = { ...SETTINGS, ...(await settings) };
    if (this.#life.signal.aborted) return;
    const timer = setInterval(() => this.archive(), this.#settings.archive_seconds * 1000);
    this.#life.signal.addEventListener("abort", () => clearInterval(timer));
    await this.#archiveFullBatch();
  }

  async #archiveFullBatch() {
    if (this.#toArchive().length >= this.#settings.archive_messages) await this.archive();
  }

  /** The same while the page goes away. */
  archiveByBeacon() {
    const messages = this.#toArchive().filter(({ id }) => !this.#takenByBeacon.has(id));
    const taken = this.#api.archiveByBeacon(sessionIdOf(this.#name), this.agentId, messages);
    for (const id of taken) this.#takenByBeacon.add(id);
  }

  /** Leave the conversation for good; what is not finished stays for the next time. */
  close() {
    this.archive();
    this.#life.abort(new DOMException("left", "AbortError"));
    this.#channel.close();
  }

  // --- sending ------------------------------------------------------------------------------------------------------

  /**
   * Send what waits, in order; one tab at a time, and if that one dies the next takes over. What another tab has just
   * kept may not be readable here yet, but is when it is this tab's turn: so every tab stands in line.
   */
  async #send() {
    this.#hasMore = true;
    if (this.#isSending) return;
    this.#isSending = true;
    try {
      while (this.#hasMore) {
        this.#hasMore = false;
        await locked(`web-chat/${this.name}`, this.#life.signal, async () => {
          for (let record; (record = this.#nextToSend()); ) await this.#deliver(record.message.id);
        });
      }
    } catch (error) {
      if (error.name !== "AbortError") throw error;
    } finally {
      this.#isSending = false;
      this.#changed();
    }
  }

  /** What is next, as every tab sees it: what was begun comes first. */
  #nextToSend() {
    const isOpen = ({ message }) => this.#conversation.entry(message.id)?.state !== "sent";
    const records = this.#pending.of(this.name).filter(isOpen);
    this.#conversation.takeKept(records); // another tab may have kept it and not yet said so
    return records.find(({ state }) => state === "sending") ?? records.find(({ state }) => state === "queued");
  }

  async #deliver(id) {
    const run = new Run(id, this.#life.signal);
    this.#run = run;
    try {
      await retrying(() => this.#attempt(run), {
        signal: run.signal,
        onWait: (error) => this.#act({ type: "waiting", id, note: error.status ? error.message : "" }),
      });
    } catch (error) {
      if (this.#life.signal.aborted) throw error; // it stays "sending": whoever comes next goes on with it
      this.#isGone = Boolean(error.isGone) && this.hasBegun;
      if (!run.signal.aborted) this.#act({ type: "failed", id, note: this.#isGone ? GONE : error.message });
      else if (run.isTaken) await this.#stopped(id);
      else this.#act({ type: "failed", id, note: "Not sent." });
    } finally {
      this.#run = null;
    }
    await this.#archiveFullBatch();
  }

  /** What was written stays, as the answer that there is. */
  async #stopped(id) {
    const { text, timestamp } = this.#conversation.answerTo(id).message;
    const message = text.trim() ? { id: crypto.randomUUID(), text, sender: "ai", timestamp } : null;
    this.#act({ type: "stopped", id, message });
    await this.archive(); // before the next question, so that the agent knows what it said
  }

  async #attempt({ id, signal, take }) {
    if (this.#conversation.answerTo(id)?.state !== "sent") {
      const { wasSent } = this.#pending.get(this.name, id);
      const message = wasSent ? this.#conversation.entry(id).message : this.#conversation.stamped(id);
      this.#act({ type: "sending", id, message });
      await this.#api.say(message, {
        sessionId: sessionIdOf(this.#name),
        agentId: this.agentId,
        signal,
        onEvent: (name, data) => {
          take();
          if (name === "session") this.#act({ type: "named", name: data.session_id, agentId: data.agent_id });
          if (name === "delta") this.#act({ type: "delta", id, text: data.text });
          if (name === "step") this.#act({ type: "step", id, step: data });
          if (name === "message") this.#act({ type: "answered", id, message: data });
          if (name === "done") this.#act({ type: "stored", ids: data.stored_ids });
        },
      });
    }
    this.#act({ type: "settled", id });
  }

  // --- what happens: kept, told to the other tabs, shown ------------------------------------------------------------

  #act(event) {
    this.#keep(event);
    this.#tell(event);
    this.#apply(event);
  }

  #tell(event) {
    if (!this.#life.signal.aborted) this.#channel.postMessage({ name: this.name, event });
  }

  #hear({ name, event }) {
    if (name !== this.name) return;
    if (event.type === "hello") this.#greet();
    else if (event.type === "stop") this.#run?.abort();
    else this.#apply(event);
    if (event.type === "said" || event.type === "queued") this.#send(); // stands in line, should that tab die
  }

  /** Show a tab that has just come how far the answer is. */
  #greet() {
    if (!this.#run) return;
    for (const { id, text, steps } of this.#conversation.written) {
      this.#tell({ type: "sending", id, message: this.#conversation.entry(id).message });
      for (const step of steps) this.#tell({ type: "step", id, step });
      this.#tell({ type: "delta", id, text });
    }
  }

  #apply(event) {
    this.#conversation.apply(event);
    if (event.type === "named") {
      this.agentId = event.agentId;
      const isNew = event.name !== this.name;
      this.#name = event.name;
      if (isNew) this.dispatchEvent(new Event("named"));
    }
    if (event.type === "answered") this.dispatchEvent(new CustomEvent("answered", { detail: event.message }));
    this.#changed();
  }

  #keep(event) {
    switch (event.type) {
      case "said":
        this.#pending.put(recordOf(this.name, event.message, "queued"));
        break;
      case "sending":
        this.#update(event.id, { state: "sending", note: "", wasSent: true, message: event.message });
        break;
      case "answered":
        this.#pending.put(recordOf(this.name, event.message, "sent"));
        break;
      case "settled":
        this.#update(event.id, { state: "sent" });
        break;
      case "queued":
      case "failed":
        this.#update(event.id, { state: event.type, note: event.note ?? "" });
        break;
      case "stopped":
        this.#update(event.id, { state: "stopped" });
        if (event.message) this.#pending.put(recordOf(this.name, event.message, "sent"));
        break;
      case "discarded":
        this.#pending.remove(this.name, event.id);
        break;
      case "stored":
        for (const id of event.ids) this.#update(id, { isStored: true });
        break;
      case "named":
        if (event.name !== this.name) this.#pending.move(this.name, event.name);
    }
  }

  /** Change what is kept of a message; once it is durable and nothing is left to do about it, that is nothing. */
  #update(id, change) {
    const known = this.#pending.get(this.name, id);
    if (!known) return;
    const record = { ...known, ...change };
    if (record.isStored && (record.state === "sent" || record.state === "stopped")) this.#pending.remove(this.name, id);
    else this.#pending.put(record);
  }

  /** What is not known to be durable, of what the server has seen or made. */
  #toArchive() {
    const records = this.#pending.of(this.name);
    return records
      .filter(({ isStored, state }) => !isStored && state !== "queued" && state !== "failed")
      .map(({ message }) => message);
  }

  #changed() {
    this.dispatchEvent(new Event("change"));
  }
}

/** The sending of one message, until it is answered, fails or is called off. */
class Run {
  /** The server has it. */
  isTaken = false;
  #controller = new AbortController();

  constructor(id, life) {
    this.id = id;
    life.addEventListener("abort", () => this.#controller.abort(life.reason), { signal: this.signal });
  }

  get signal() {
    return this.#controller.signal;
  }

  take = () => {
    this.isTaken = true;
  };

  abort() {
    this.#controller.abort();
  }
}

function recordOf(name, message, state) {
  return { conversation: name, message, state, note: "", isStored: false, wasSent: false };
}

/** Do something while no other tab does the same; without Web Locks (plain http) the server sorts it out. */
function locked(name, signal, action) {
  return navigator.locks ? navigator.locks.request(name, { signal }, action) : action();
}
