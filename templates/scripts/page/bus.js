// The bus: parts of a page speak to each other through it alone.

const listeners = new Map();

export function on(name, fn) {
  listeners.set(name, [...(listeners.get(name) ?? []), fn]);
}

export function emit(name, detail) {
  for (const fn of listeners.get(name) ?? []) {
    try {
      fn(detail);
    } catch (error) {
      console.error(error); // the other listeners still hear of it
    }
  }
}
