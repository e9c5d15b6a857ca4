/** Elements without HTML: whatever is put in is text. */

export const byId = (id) => document.getElementById(id);

/** `element("a", { href }, "text", child)`; attributes that are null or false and empty children are left out. */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made[name] = value;
    else if (value !== null && value !== false) made.setAttribute(name, value);
  }
  made.append(...children.filter(Boolean));
  return made;
}
