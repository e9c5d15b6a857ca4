// What tokens cost: a provider's price list or the application's own, kept in this browser.

import { get, id } from "./api.js";
import { brief, h } from "./dom.js";

let about = null;
const kept = (name) => localStorage.getItem(`inspector-${name}`) ?? "";
const dollars = new Intl.NumberFormat("en", { style: "currency", currency: "USD", maximumSignificantDigits: 3 });

/** The server's answer to "about": the user, the policy, the lists of prices. */
export const aboutServer = async () => (about ??= await get("about"));

/** The query of a request for costs; "" are the prices that were recorded with each call. */
export const pricesQuery = () => (kept("prices") ? `?prices=${id(kept("prices"))}` : "");

const perMillion = () => Number(kept("dollars")) || about.prices[kept("prices") || about.policy.cache.prices] || 0;

/** A cost in prices of an ordinary input token, as money, or as tokens where no price is known. */
export function money(cost) {
  const price = perMillion();
  return price ? dollars.format((cost * price) / 1e6) : `${brief(cost)} tokens`;
}

/** The two fields; `changed` is called after each choice. */
export function priceFields(changed) {
  const list = h(
    "select",
    { id: "prices" },
    h("option", { value: "" }, "As recorded"),
    ...Object.keys(about.prices).map((name) => h("option", { value: name, selected: name === kept("prices") }, name)),
  );
  const own = h("input", { id: "dollars", type: "number", min: "0", step: "0.01", inputmode: "decimal" });
  const update = () => (own.placeholder = about.prices[list.value || about.policy.cache.prices]?.toFixed(2) ?? "no price");
  own.value = kept("dollars");
  const store = () => {
    localStorage.setItem("inspector-prices", list.value);
    localStorage.setItem("inspector-dollars", own.value);
    update();
    changed();
  };
  list.addEventListener("change", () => ((own.value = ""), store()));
  own.addEventListener("change", store);
  update();
  return [
    h("div", { class: "field" }, h("label", { for: "prices" }, "Cache prices"), list),
    h("div", { class: "field short" }, h("label", { for: "dollars" }, "$ per million tokens"), own),
  ];
}
