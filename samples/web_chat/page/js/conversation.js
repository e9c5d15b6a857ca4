/**
 * The messages of one conversation as people see them, and how each event changes that. No network, no storage.
 *
 * An entry is {key, message, state, note, steps, wasSent, revision}; `state` is
 *   of what was said   "queued" | "sending" | "sent" | "failed"
 *   of an answer       "writing" | "sent" | "stopped"
 * An answer keeps its key from its first word on, so that it stays where it is when its real id arrives.
 */

import { byTime } from "./pending.js";

const ANSWER = "answer-to-";

export class Conversation {
  /** The entries in order. What was never sent stands at the end, whenever it was written. */
  entries = [];

  /** An answer is awaited or being written. */
  get isBusy() {
    return this.entries.some(({ state }) => state === "writing" || state === "sending");
  }

  entry(id) {
    return this.entries.find(({ key, message }) => key === id || message.id === id);
  }

  answerTo(id) {
    return this.entries.find(({ key }) => key === ANSWER + id);
  }

  /** The messages that are being answered, with what there is of the answer. */
  get written() {
    const answers = this.entries.filter(({ state }) => state === "writing");
    return answers.map(({ key, message, steps }) => ({ id: key.slice(ANSWER.length), text: message.text, steps }));
  }

  /** Now, but after everything there is: clocks differ. */
  now(entries = this.entries) {
    const last = Math.max(0, ...entries.map(({ message }) => Date.parse(message.timestamp)));
    return new Date(Math.max(Date.now(), last + 1)).toISOString();
  }

  /** A message that waited, as it is when it is sent: it comes after what was answered meanwhile. */
  stamped(id) {
    const { message } = this.entry(id);
    const others = this.entries.filter((other) => !isWaiting(other) && other.message.id !== id);
    const hasComeLater = others.some((other) => byTime(message, other.message) < 0);
    return hasComeLater ? { ...message, timestamp: this.now(others) } : message;
  }

  /** Take over messages of the server; what became of them is known here only. */
  take(messages) {
    for (const message of messages) {
      const entry = this.entry(message.id);
      if (entry) entry.message = message;
      else this.#insert({ key: message.id, message, state: "sent" });
    }
    this.#sort();
  }

  /** Take over what this browser has kept. */
  takeKept(records) {
    for (const { message, state, note, wasSent } of records) {
      if (!this.entry(message.id)) this.#insert({ key: message.id, message, state, note, wasSent });
    }
    this.#sort();
  }

  apply(event) {
    const id = event.id ?? (event.type === "said" ? event.message.id : null);
    const entry = id && this.entry(id);
    switch (event.type) {
      case "said":
        if (!entry) this.#insert({ key: event.message.id, message: event.message, state: "queued" });
        break;
      case "sending":
        this.#drop(ANSWER + event.id); // of an attempt before
        if (entry) Object.assign(entry, { state: "sending", note: "", wasSent: true, message: event.message });
        this.#answerOf(event.id);
        break;
      case "delta":
        this.#answerOf(event.id).message.text += event.text;
        break;
      case "step":
        this.#answerOf(event.id).steps.push(event.step);
        break;
      case "answered":
        if (this.entry(event.message.id)?.key === event.message.id) this.#drop(event.message.id);
        Object.assign(this.#answerOf(event.id), { message: event.message, state: "sent" });
        break;
      case "settled":
        if (entry) entry.state = "sent";
        break;
      case "waiting":
      case "queued":
      case "failed":
        this.#drop(ANSWER + event.id);
        if (entry) Object.assign(entry, { state: event.type === "failed" ? "failed" : "queued", note: event.note ?? "" });
        break;
      case "stopped":
        if (entry) entry.state = "sent";
        if (event.message) Object.assign(this.#answerOf(event.id), { message: event.message, state: "stopped" });
        else this.#drop(ANSWER + event.id);
        break;
      case "discarded":
        this.#drop(event.id);
        this.#drop(ANSWER + event.id);
    }
    for (const changed of [entry, event.id && this.answerTo(event.id)]) if (changed) changed.revision += 1;
    this.#sort();
  }

  /** The answer to a message, which begins now if there is none yet. */
  #answerOf(id) {
    const known = this.answerTo(id);
    if (known) return known;
    const sent = this.entries.filter((entry) => !isWaiting(entry));
    const message = { id: ANSWER + id, text: "", sender: "ai", timestamp: this.now(sent) };
    return this.#insert({ key: ANSWER + id, message, state: "writing" });
  }

  #insert(entry) {
    this.#drop(entry.key);
    const whole = { note: "", steps: [], wasSent: false, revision: 0, ...entry };
    this.entries.push(whole);
    return whole;
  }

  #drop(key) {
    this.entries = this.entries.filter((entry) => entry.key !== key);
  }

  #sort() {
    this.entries.sort((one, other) => isWaiting(one) - isWaiting(other) || byTime(one.message, other.message));
  }
}

/** It was never sent. */
function isWaiting({ state, wasSent }) {
  return state === "queued" && !wasSent;
}
