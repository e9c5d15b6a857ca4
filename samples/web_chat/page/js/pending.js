/**
 * What the server has not yet confirmed as durable, kept in this browser: it survives a reload, a closed tab, a crash.
 *
 * - Every message is an entry of its own in localStorage. Writing one is atomic and synchronous, so it works while the
 *   page goes away, and two tabs never write over each other's messages.
 * - Browsers write localStorage to disk seconds later (Chromium: five) and give it 5 MB. So each entry also goes to
 *   IndexedDB, which is on disk when it says so and has room. It is read once, when the page is opened, for what a
 *   killed browser or a full localStorage did not keep. Nobody waits for that: `restored` says when it is done.
 * - A removed entry leaves a tombstone in localStorage until it is gone from IndexedDB too. A reload can abort that
 *   deletion; the next page finishes it, and the entry does not come back.
 */

const PREFIX = "web-chat/pending/";
const TOMBSTONE = "web-chat/removed/";
const DATABASE = "web-chat";
const TABLE = "pending";

/**
 * @typedef {{id: string, text: string, sender: "user" | "ai", timestamp: string}} Message
 * @typedef {{conversation: string, message: Message, state: string, note: string, isStored: boolean, wasSent: boolean,
 *   at: number}} Record
 */

export class Pending {
  /** What localStorage has no room for. */
  #overflow = new Map();
  #database = openDatabase(); // rejected in some private windows: localStorage does without
  /** The names of the conversations of which only the disk had something, once that is read. */
  restored = this.#restore();

  /** Keep a record, or its new state. */
  put(record) {
    const kept = { ...record, at: Date.now() };
    const key = keyOf(kept.conversation, kept.message.id);
    this.#write(key, kept);
    localStorage.removeItem(TOMBSTONE + key);
    this.#onDisk("readwrite", (table) => table.put(kept, key)).catch(() => {});
  }

  get(conversation, id) {
    return this.#get(keyOf(conversation, id));
  }

  remove(conversation, id) {
    const key = keyOf(conversation, id);
    localStorage.removeItem(key);
    this.#overflow.delete(key);
    try {
      localStorage.setItem(TOMBSTONE + key, "");
    } catch {
      // full of something else: the deletion alone has to do
    }
    this.#erase(key);
  }

  /** The records of a conversation in order. */
  of(conversation) {
    return this.#keys(keyOf(conversation, ""))
      .map((key) => this.#get(key))
      .filter(Boolean)
      .sort((one, other) => byTime(one.message, other.message));
  }

  /** The conversations that have any. */
  conversations() {
    const names = this.#keys(PREFIX).map((key) => decodeURIComponent(key.slice(PREFIX.length).split("/")[0]));
    return [...new Set(names)];
  }

  /** A conversation got its id from the server. */
  move(conversation, name) {
    for (const record of this.of(conversation)) {
      this.put({ ...record, conversation: name }); // first the new one: a crash in between leaves two, not none
      this.remove(conversation, record.message.id);
    }
  }

  forget(conversation) {
    for (const record of this.of(conversation)) this.remove(conversation, record.message.id);
  }

  #get(key) {
    const text = localStorage.getItem(key);
    return this.#overflow.get(key) ?? (text === null ? null : JSON.parse(text));
  }

  #write(key, record) {
    try {
      localStorage.setItem(key, JSON.stringify(record));
      this.#overflow.delete(key);
    } catch {
      localStorage.removeItem(key); // an older state of it
      this.#overflow.set(key, record);
    }
  }

  #keys(prefix) {
    const keys = new Set(this.#overflow.keys());
    for (let place = 0; place < localStorage.length; place += 1) keys.add(localStorage.key(place));
    return [...keys].filter((key) => key.startsWith(prefix));
  }

  /** Bring back what only the disk has, and finish deletions that an earlier page could not. */
  async #restore() {
    const names = new Set();
    for (const record of await this.#onDisk("readonly", (table) => table.getAll()).catch(() => [])) {
      const key = keyOf(record.conversation, record.message.id);
      const known = this.#get(key);
      if (localStorage.getItem(TOMBSTONE + key) !== null) this.#erase(key);
      else if (!known || known.at < record.at) {
        this.#write(key, record);
        names.add(record.conversation);
      }
    }
    return [...names];
  }

  #erase(key) {
    this.#onDisk("readwrite", (table) => table.delete(key))
      .then(() => localStorage.removeItem(TOMBSTONE + key))
      .catch(() => {}); // the tombstone stays for the next page
  }

  /** Make one request to the table and return its result, once the transaction is complete. */
  async #onDisk(mode, ask) {
    const transaction = (await this.#database).transaction(TABLE, mode);
    const request = ask(transaction.objectStore(TABLE));
    transaction.commit(); // not aborted by a page that goes away from now on
    await new Promise((resolve, reject) => {
      transaction.oncomplete = resolve;
      transaction.onabort = () => reject(transaction.error);
    });
    return request.result;
  }
}

/** The order of a conversation: by time, then by id. */
export function byTime(one, other) {
  return microseconds(one.timestamp) - microseconds(other.timestamp) || (one.id < other.id ? -1 : Number(one.id > other.id));
}

/** Dates know milliseconds only, the server's timestamps are finer. */
function microseconds(timestamp) {
  const fraction = /\.(\d+)/.exec(timestamp)?.[1] ?? "";
  return Date.parse(timestamp) * 1000 + Number(fraction.padEnd(6, "0").slice(3, 6));
}

function keyOf(conversation, id) {
  return `${PREFIX}${encodeURIComponent(conversation)}/${id}`;
}

function openDatabase() {
  return new Promise((resolve, reject) => {
    const opening = indexedDB.open(DATABASE, 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore(TABLE);
    opening.onsuccess = () => resolve(opening.result);
    opening.onerror = () => reject(opening.error);
  });
}
