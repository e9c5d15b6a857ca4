/**
 * What the server has not yet confirmed as durable, kept in this browser: it survives a reload, a closed tab, a crash.
 *
 * - Every message is an entry of its own in localStorage. Writing one is atomic and synchronous, so it works while the
 *   page goes away, and two tabs never write over each other's messages.
 * - Browsers write localStorage to disk seconds later (Chromium: five) and give it 5 MB. So each entry also goes to
 *   IndexedDB, which is on disk when it says so and has room. It is read once, when the page is opened, for what a
 *   killed browser or a full localStorage did not keep.
 *
 * An entry that comes back although it was removed does no harm: the server knows every message by its id.
 */

const PREFIX = "web-chat/pending/";
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
  #database = null;

  /** Open what is kept and bring back what only the disk has. */
  static async open() {
    const pending = new Pending();
    pending.#database = await openDatabase().catch(() => null); // some private windows have none
    for (const record of await pending.#mirrored().catch(() => [])) {
      const key = keyOf(record.conversation, record.message.id);
      const known = pending.#get(key);
      if (!known || known.at < record.at) pending.#write(key, record);
    }
    return pending;
  }

  /** Keep a record, or its new state. */
  put(record) {
    const kept = { ...record, at: Date.now() };
    const key = keyOf(kept.conversation, kept.message.id);
    this.#write(key, kept);
    this.#mirror((table) => table.put(kept, key));
  }

  get(conversation, id) {
    return this.#get(keyOf(conversation, id));
  }

  remove(conversation, id) {
    const key = keyOf(conversation, id);
    localStorage.removeItem(key);
    this.#overflow.delete(key);
    this.#mirror((table) => table.delete(key));
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

  #mirror(change) {
    if (!this.#database) return;
    try {
      change(this.#database.transaction(TABLE, "readwrite").objectStore(TABLE));
    } catch {
      this.#database = null; // closed by the browser; localStorage goes on
    }
  }

  #mirrored() {
    if (!this.#database) return Promise.resolve([]);
    return answerOf(this.#database.transaction(TABLE).objectStore(TABLE).getAll());
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
  const opening = indexedDB.open(DATABASE, 1);
  opening.onupgradeneeded = () => opening.result.createObjectStore(TABLE);
  return answerOf(opening);
}

function answerOf(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}
