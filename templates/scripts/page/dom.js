// Elements, made in one call.

/** Make an element. A key that begins with "on" is a listener; true is an attribute without a value. */
export function el(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}
export const button = (label, action, attributes) => el("button", { type: "button", onclick: action, ...attributes }, ...[label].flat());
