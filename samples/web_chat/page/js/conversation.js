/**
 * One conversation, from what is said to what is durable.
 *
 * What is said shows at once and is kept in localStorage, an entry a message, before anything else happens. From there
 * - it is asked, one message after the other, until the server has answered it; after a crash by the next page that
 *   opens the conversation. The server knows every message by its id and answers it once, however often it is asked;
 * - it is archived, in batches, until the server says that it is durable. Only then does this browser forget it.
 */

import { ask, pause, request } from "./api.js";

const PREFIX = "web-chat/pending/";
const PAGE = 50;
const BATCH_CHARACTERS = 150_000; // the server takes 1 MB, 100 messages, 200,000 characters a message

/** A random id. `crypto.randomUUID` is missing from pages over plain http. */
function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Keep a text in this browser; without room it is kept as long as the page is open. */
export function keep(key, text) {
  try {
    localStorage.setItem(key, text);
  } catch (error) {
    console.warn(`not kept: ${error.message}`);
  }
}

/** The conversations of which this browser keeps something. */
export function keptSessions() {
  const keys = Object.keys(localStorage).filter((key) => key.startsWith(PREFIX));
  return new Set(keys.map((key) => decodeURIComponent(key.slice(PREFIX.length).split("/")[0])));
}

/** Fires "change", and "answered" with the text in `detail`. */
export class Conversation extends EventTarget {
  /**
   * In order: {message, state, note, steps, wasSent, isStored}. States are "queued", "sending", "failed" and "sent" of
   * what was said, "writing", "stopped" and "sent" of an answer.
   */
  entries = [];
  isLoading = false;
  #older; // where the page of older messages begins; null if there are none
  #asked = null;
  #controller = null;

  /** Without an id, it is still to begin. */
  constructor(id) {
    super();
    this.id = id || newId();
    this.isKnown = Boolean(id); // the server may have it
    this.prefix = `${PREFIX}${encodeURIComponent(this.id)}/`;
    this.resume();
  }

  get hasBegun() {
    return this.isKnown || this.entries.length > 0;
  }

  has(...states) {
    return this.entries.some(({ state }) => states.includes(state));
  }

  /** Say something: it shows at once, is kept, and is asked when its turn comes. */
  say(text) {
    const message = { id: newId(), text: text.toWellFormed?.() ?? text, sender: "user", timestamp: this.#now() };
    this.retry(this.#add({ message, wasSent: false }));
  }

  /** Try again what has failed. */
  retry(entry) {
    this.#change(entry, { state: "queued", note: "" });
    this.#send();
  }

  /** Take back what was not answered. */
  discard(entry) {
    localStorage.removeItem(this.prefix + entry.message.id);
    this.#drop(entry);
    if (entry === this.#asked) this.stop();
  }

  /** Stop the answer; what was written of it stays. */
  stop() {
    this.#controller?.abort();
  }

  /** Go on with what an earlier page, or one that died, had not finished. */
  resume() {
    for (const key of Object.keys(localStorage).filter((key) => key.startsWith(this.prefix))) {
      const record = JSON.parse(localStorage.getItem(key));
      if (record.state === "sending") record.state = "queued";
      const entry = this.#entry(record.message.id) ?? this.#add(record);
      if (entry !== this.#asked) Object.assign(entry, record);
    }
    this.#send();
  }

  /** Ask what waits, in order. */
  async #send() {
    if (this.#asked) return;
    while ((this.#asked = this.entries.find(({ state }) => state === "queued"))) {
      this.#controller = new AbortController();
      const { signal } = this.#controller;
      for (let attempt = 0; this.#asked.state === "queued"; attempt += 1) {
        const problem = await this.#ask(this.#asked, signal);
        if (this.#asked.state === "queued") await pause(problem, attempt, signal);
      }
    }
  }

  /** Return why it has to be tried again, where it has to be. */
  async #ask(question, signal) {
    // what waited comes after what was answered meanwhile; once it was sent, its place is the server's
    if (!question.wasSent) question.message = { ...question.message, timestamp: this.#now() };
    this.#change(question, { state: "sending", wasSent: true, note: "" });
    const begun = { id: newId(), text: "", sender: "ai", timestamp: this.#now() };
    const answer = this.#add({ message: begun, state: "writing" });
    let isTaken = false;
    try {
      for await (const { name, data } of ask(this.id, question.message, signal)) {
        isTaken = this.isKnown = true;
        // so that an answer that is stopped just when it was finished does not stand there twice
        if (name === "session" && !this.#entry(data.answer_id)) begun.id = data.answer_id ?? begun.id;
        if (name === "delta") begun.text += data.text;
        if (name === "step") answer.steps.push(data);
        if (name === "message") {
          const known = this.#entry(data.id);
          if (known !== answer) this.#drop(known); // another tab may have brought it
          this.#change(answer, { message: data, state: "sent" });
          this.#change(question, { state: "sent" });
          this.dispatchEvent(new CustomEvent("answered", { detail: data.text }));
        }
        if (name === "done") this.#stored(data.stored_ids);
        this.#changed();
      }
      this.#change(question, { state: "sent" });
    } catch (error) {
      if (question.state !== "sending") return error; // it was answered or removed
      if (signal.aborted && isTaken) {
        if (begun.text.trim()) this.#change(answer, { state: "stopped" });
        this.#change(question, { state: "sent" });
        await this.archive(); // so that the agent hears what it said, before the next question
      } else {
        const note = signal.aborted || error.status === 0 ? "" : error.message;
        this.#change(question, { state: error.isTemporary ? "queued" : "failed", note });
      }
      return error;
    } finally {
      if (answer.state === "writing") this.#drop(answer);
    }
  }

  /** Now, but after everything that was sent: clocks differ. */
  #now() {
    const last = Math.max(0, ...this.entries.filter((entry) => !isWaiting(entry)).map(timeOf));
    return new Date(Math.max(Date.now(), last + 1)).toISOString();
  }

  /** Load the newest messages, also those of other tabs and devices. */
  async refresh() {
    const next = await this.#load("");
    if (this.#older === undefined) this.#older = next;
  }

  async loadOlder() {
    if (this.#older && !this.isLoading) this.#older = await this.#load(`&before=${this.#older}`);
  }

  async #load(before) {
    this.isLoading = true;
    this.#changed();
    try {
      const path = `/sessions/${encodeURIComponent(this.id)}/messages?limit=${PAGE}${before}`;
      const { messages, next } = await (await request(path)).json();
      for (const message of messages) {
        const entry = this.#entry(message.id) ?? this.#add({ message, state: "sent", isStored: true });
        entry.message = message;
      }
      return next;
    } finally {
      this.isLoading = false;
      this.#changed();
    }
  }

  /** What the server has seen or made and has not confirmed as durable. */
  get unarchived() {
    return this.entries.filter((one) => one.wasSent && !one.isStored && !["failed", "writing"].includes(one.state));
  }

  /** Make durable what is not, as much as fits into a request; what fails stays for the next time. */
  async archive() {
    const batch = [];
    for (const { message } of this.unarchived) {
      if (JSON.stringify([...batch, message]).length < BATCH_CHARACTERS) batch.push(message);
    }
    if (batch.length === 0) return;
    try {
      const body = { session_id: this.id, messages_batch: batch };
      const response = await request("/session/archive_messages", { body });
      this.#stored((await response.json()).stored_ids);
    } catch (error) {
      if (error.status === 410) this.forget();
    }
  }

  #stored(ids) {
    for (const entry of this.entries) if (ids.includes(entry.message.id)) this.#change(entry, { isStored: true });
  }

  /** The conversation was deleted: nobody wants to keep what this browser has of it. */
  forget() {
    for (const entry of this.entries) this.discard(entry);
  }

  #entry(id) {
    return this.entries.find(({ message }) => message.id === id);
  }

  #add(record) {
    const entry = { note: "", steps: [], wasSent: true, isStored: false, ...record };
    this.entries.push(entry);
    this.#changed();
    return entry;
  }

  #drop(entry) {
    if (entry) entry.state = "removed";
    this.entries = this.entries.filter((other) => other !== entry);
    this.#changed();
  }

  /** Once a message is durable and nothing is left to do about it, this browser need not keep it. */
  #change(entry, change) {
    Object.assign(entry, change);
    const key = this.prefix + entry.message.id;
    if (entry.isStored && ["sent", "stopped"].includes(entry.state)) localStorage.removeItem(key);
    else keep(key, JSON.stringify(entry));
    this.#changed();
  }

  #changed() {
    this.entries.sort((one, other) => isWaiting(one) - isWaiting(other) || timeOf(one) - timeOf(other));
    this.dispatchEvent(new Event("change"));
  }
}

/** It was never sent: it stands at the end, whenever it was written. */
const isWaiting = ({ state, wasSent }) => state === "queued" && !wasSent;

const timeOf = ({ message }) => Date.parse(message.timestamp);
