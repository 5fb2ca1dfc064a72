// Everything that is shown goes through here, as text: what hooks bring in is never read as markup.

/**
 * An element with attributes, listeners (`onclick`) and children, in lists of any depth; strings and numbers become text.
 * @param {string} tag
 * @param {Record<string, any>} [attributes]
 * @param {...any} children
 */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== false) element.setAttribute(name, String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === "") continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}

/** Asks the gateway. A session that is over leads back to the sign-in. */
export async function ask(path, { method = "GET", body } = {}) {
  const response = await fetch(`/admin/v1${path}`, {
    method,
    headers: { "x-rouse-console": "1", ...(body === undefined ? {} : { "content-type": "application/json" }) },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  if (response.status === 401) {
    location.reload();
    throw new Error("signed out");
  }
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error?.message ?? `the gateway answered ${response.status}`);
  return answer;
}

const DATE = new Intl.DateTimeFormat(undefined, { dateStyle: "short", timeStyle: "medium" });

/** A time for people, with the exact one in its title. */
export function time(iso) {
  return iso ? h("time", { datetime: iso, title: iso }, DATE.format(new Date(iso))) : h("span", { class: "quiet" }, "–");
}

/** How long something took, such as `320 ms` or `4.2 s`. */
export function elapsed(from, to) {
  if (!to) return "not ended";
  const ms = new Date(to) - new Date(from);
  return ms < 1000 ? `${ms} ms` : `${(ms / 1000).toFixed(1)} s`;
}

const TONES = {
  good: ["accepted", "succeeded", "delivered", "ok", "done", "connected"],
  warn: [
    "unmatched",
    "parked",
    "warn",
    "unknown",
    "no_route",
    "timed_out",
    "cancelled",
    "collecting",
    "waiting",
    "denied",
    "open",
    "testing",
  ],
  bad: ["failed", "rejected", "fail", "failing"],
};

/** A state in its colour; the word itself says it as well. */
export function state(word) {
  const tone = Object.keys(TONES).find((name) => TONES[name].includes(word));
  return h("span", tone ? { class: tone } : {}, word ?? "–");
}

/** A table; `columns` are pairs of a heading and what to show of a row. */
export function table(rows, columns, empty) {
  if (rows.length === 0) return h("p", { class: "quiet" }, empty);
  const head = h(
    "tr",
    {},
    columns.map(([name]) => h("th", { scope: "col" }, name)),
  );
  const body = rows.map((row) =>
    h(
      "tr",
      {},
      columns.map(([, show]) => h("td", {}, show(row))),
    ),
  );
  return h("div", { class: "scroll" }, h("table", {}, h("thead", {}, head), h("tbody", {}, body)));
}

/** Names and values, one a line; empty ones are left out. */
export function facts(pairs) {
  const rows = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "" && value.length !== 0);
  return h(
    "table",
    {},
    h(
      "tbody",
      {},
      rows.map(([name, value]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, value))),
    ),
  );
}

/** Text of which the outside parts are marked. */
export function parts(list) {
  return h(
    "pre",
    {},
    list.map((part) => (part.outside ? h("mark", { title: "from outside" }, part.text) : part.text)),
  );
}

/** A link to the detail of a view. */
export const link = (kind, id, text = id) => h("a", { href: `#/${kind}/${encodeURIComponent(id)}` }, text);
/** A query string, without empty values. */
export const renderQuery = (values) => new URLSearchParams(Object.entries(values).filter(([, value]) => value)).toString();

/** A button that asks before it acts, and shows what came of it. */
export function act(label, question, run, after) {
  const said = h("span", { role: "status" });
  const click = async () => {
    if (question && !confirm(question)) return;
    try {
      said.textContent = `${await run()}`;
      after?.();
    } catch (error) {
      said.textContent = error.message;
    }
  };
  return h("span", {}, h("button", { type: "button", onclick: click }, label), " ", said);
}
