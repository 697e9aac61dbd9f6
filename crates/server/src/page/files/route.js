// The view that the address names, such as `#/plugins/turn_limit/history`. Links can be shared.

import { fill, h } from "/page/dom.js";
import { on } from "/page/state.js";

const routes = new Map();
let current = null;

// A view is `(place, parts, scope) => go`, where `go(parts)` is called when the address changes within it.
export function route(name, title, view) {
  routes.set(name, { title, view });
}

export function address(...parts) {
  return `#/${parts.map(encodeURIComponent).join("/")}`;
}

export function go(...parts) {
  location.hash = address(...parts);
}

// Shows the view of the address and moves the focus to it.
export function show({ focus } = { focus: true }) {
  const [name, ...parts] = asked();
  const found = routes.get(name) ?? routes.get("");
  const main = document.getElementById("main");
  for (const link of document.querySelectorAll("#nav a")) {
    const isHere = link.getAttribute("href") === address(...(name ? [name] : [""])) || (!name && link.getAttribute("href") === "#/");
    if (isHere) {
      link.setAttribute("aria-current", "page");
      // On a narrow screen, the menu scrolls.
      link.closest("nav").scrollLeft = link.offsetLeft - 60;
    } else link.removeAttribute("aria-current");
  }
  document.title = parts[0] ? `${parts[0]} · ${found.title} · Valvehouse` : `${found.title} · Valvehouse`;
  if (current?.name === name && current.go) {
    current.go(parts);
  } else {
    close();
    const place = h("div", { class: `view view-${name || "home"}` });
    const scope = new Scope();
    fill(main, place);
    current = { name, scope };
    current.go = found.view(place, parts, scope);
    scrollTo(0, 0);
  }
  if (focus) (main.querySelector("[data-focus]") ?? main).focus({ preventScroll: true });
}

export function close() {
  current?.scope.close();
  current = null;
}

function asked() {
  const hash = location.hash.replace(/^#\/?/, "");
  try {
    return hash.split("/").map(decodeURIComponent);
  } catch {
    return [""];
  }
}

// The subscriptions and timers of a view, which end when the view is closed.
export class Scope {
  #ends = [];
  closed = false;

  on(what, act) {
    this.#ends.push(on(what, act));
  }

  every(milliseconds, act) {
    const timer = setInterval(act, milliseconds);
    this.#ends.push(() => clearInterval(timer));
  }

  close() {
    this.closed = true;
    for (const end of this.#ends.splice(0)) end();
  }
}
