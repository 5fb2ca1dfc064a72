import { h } from "./dom.js";
import { VIEWS } from "./views.js";

const REFRESH_MS = 5000;
const main = document.getElementById("main");
const problem = document.getElementById("problem");
let shown = 0;

/** `#/events?outcome=failed` or `#/events/evt_…`. */
function place() {
  const [path = "", search = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [name = "overview", ...id] = path.split("/");
  return {
    name: VIEWS[name] ? name : "overview",
    id: decodeURIComponent(id.join("/")),
    parameters: Object.fromEntries(new URLSearchParams(search)),
  };
}

function go(parameters) {
  const { name } = place();
  const kept = Object.entries(parameters).filter(([, value]) => value);
  location.hash = `#/${name}?${new URLSearchParams(kept)}`;
}

async function show() {
  const turn = ++shown;
  const { name, id, parameters } = place();
  const view = VIEWS[name];
  for (const anchor of document.getElementById("nav").children) {
    if (anchor.getAttribute("href") === `#/${name}`) anchor.setAttribute("aria-current", "page");
    else anchor.removeAttribute("aria-current");
  }
  try {
    const content = id && view.detail ? await view.detail(id, show) : await view.show(parameters, go);
    // Somebody went on to another view meanwhile.
    if (turn !== shown) return;
    main.replaceChildren(h("div", {}, content));
    problem.textContent = "";
  } catch (error) {
    if (turn === shown) problem.textContent = error.message;
  }
}

document.getElementById("nav").append(...Object.entries(VIEWS).map(([name, { title }]) => h("a", { href: `#/${name}` }, title)));
addEventListener("hashchange", () => void show());
setInterval(() => {
  const { name, id } = place();
  const busy = main.contains(document.activeElement) && document.activeElement !== main;
  if (!document.hidden && !busy && !id && VIEWS[name].live) void show();
}, REFRESH_MS);
void show();
