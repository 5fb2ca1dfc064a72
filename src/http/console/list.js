import { ask, h, renderQuery, table } from "./dom.js";

/** A list with filters and a way to older ones. */
export function list({ path, member, filters = [], columns, empty }) {
  return async (parameters, go) => {
    const answer = await ask(`${path}?${renderQuery({ limit: 50, ...parameters })}`);
    const controls = filters.map(([name, values]) => {
      const change = (event) => go({ ...parameters, [name]: event.target.value, before: "" });
      if (!values) return h("input", { placeholder: name, "aria-label": name, value: parameters[name] ?? "", onchange: change });
      const option = (value) => h("option", { value, selected: (parameters[name] ?? "") === value }, value || `any ${name}`);
      return h("select", { "aria-label": name, onchange: change }, ["", ...values].map(option));
    });
    const older = answer.next ? h("button", { type: "button", onclick: () => go({ ...parameters, before: answer.next }) }, "Older") : null;
    return [controls.length > 0 ? h("div", { class: "filters" }, controls) : null, table(answer[member], columns, empty), older];
  };
}
