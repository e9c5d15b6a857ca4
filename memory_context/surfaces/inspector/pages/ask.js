// Asking before something goes, and forgetting with consent: the dialog says what goes, and exactly that is forgotten.

import { get, id, send } from "./api.js";
import { announce, h, note, plural } from "./dom.js";
import { dialog } from "./item.js";

/** Ask; `act` runs with the answer yes, and its error stays in the dialog. Resolves to whether it was done. */
export function ask(title, verb, act, ...body) {
  return new Promise((resolve) => {
    const told = h("div", { role: "alert" });
    const yes = h("button", { class: /Forget|Delete/.test(verb) ? "danger" : "primary", onclick: () => work() }, verb);
    const box = dialog(title, h("div", { class: "asked" }, ...body), told,
      h("div", { class: "toolbar" }, yes, h("button", { autofocus: true, onclick: () => box.close() }, "Cancel")));
    box.classList.add("ask");
    box.addEventListener("close", () => resolve(false));
    async function work() {
      yes.disabled = true;
      try {
        const said = await act();
        resolve(true);
        box.close();
        announce(typeof said === "string" ? said : "Done.");
      } catch (error) {
        yes.disabled = false;
        told.replaceChildren(note(error.message, "error"));
      }
    }
  });
}

/** Forget items after asking; resolves to whether they are gone. */
export async function forget(key, title = "Forget this for good?") {
  const { items, made_from_it: made, sessions } = await get(`going?key=${id(key)}`);
  const twins = items.filter((one) => one.memory_key !== key);
  const named = items.find((one) => one.memory_key === key) ?? items[0];
  const list = (some, name) => h("ul", { class: "going" }, some.map((one) => h("li", {}, h("code", {}, one[name]), ` ${one.description}`)));
  return ask(title, "Forget", () => send("POST", "forget", { keys: [key], agreed: items.map((one) => one.memory_key) }),
    h("p", {}, h("b", {}, named.description), ` (${plural(named.token_count, "token")})`),
    h("p", {}, "Its text goes, with its summaries and its place in the search, and what was made from it."),
    twins.length > 0 && [h("p", {}, `So do ${plural(twins.length, "other item")} with the same content:`), list(twins, "memory_key")],
    made.length > 0 && [h("p", {}, `And ${plural(made.length, "article")} made from it:`), list(made, "key")],
    sessions.length > 0 && [h("p", {}, `${plural(sessions.length, "transcript")} will show [forgotten] in its place:`), h("ul", { class: "going" }, sessions.map((one) => h("li", {}, one.title || one.session_id, h("span", { class: "muted" }, ` ${one.session_id}`))))],
    h("p", { class: "muted" }, "Where it is quoted word for word, in messages and notes, the quotation goes too. Its key and the day stay. Backups and exports made before are not reached."));
}

/** Do something; its error stands in `told`. */
export async function tried(told, act) {
  try {
    told.replaceChildren();
    await act();
  } catch (error) {
    told.replaceChildren(note(error.message, "error"));
  }
}
