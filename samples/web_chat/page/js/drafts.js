/** What a conversation is called in this browser until the server has given it an id. */

const DRAFT = "new-";

/** Whether a name stands for a conversation that the server does not know yet. */
export function isDraft(name) {
  return name?.startsWith(DRAFT) ?? false;
}

/** The id of a conversation's session, which this browser makes: it can be archived before there is an answer. */
export function sessionIdOf(name) {
  return isDraft(name) ? name.slice(DRAFT.length) : name;
}

/** A name of its own for a conversation that is still to begin. */
export function newDraft() {
  return DRAFT + crypto.randomUUID();
}
