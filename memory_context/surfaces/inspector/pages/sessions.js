// The list of sessions.

import { get } from "./api.js";
import { h, note, plural, when } from "./dom.js";

async function list(main, { signal }) {
  document.title = "Sessions · Inspector";
  const { sessions } = await get("sessions", { signal });
  main.append(
    h("h1", {}, "Sessions"),
    sessions.length
      ? h("ul", {}, ...sessions.map((one) => h("li", {}, `${one.title || one.session_id} ${plural(one.message_count, "message")} ${when(one.last_activity_at)}`)))
      : note("No session is archived yet."),
  );
}

export const routes = { sessions: list };
