import { ask, h, renderQuery, table, time } from "./dom.js";

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
    const { next, searchedTo } = answer;
    const goOn = () => go({ ...parameters, before: next });
    const older = next ? h("button", { type: "button", onclick: goOn }, searchedTo ? "Search older ones" : "Older") : null;
    // A search that ended early says how far it came: an empty page is not the end of the list.
    const reach = searchedTo ? h("p", { class: "quiet" }, "Searched back to ", time(searchedTo), ". There are older ones.") : null;
    const rows = searchedTo && answer[member].length === 0 ? null : table(answer[member], columns, empty);
    return [controls.length > 0 ? h("div", { class: "filters" }, controls) : null, rows, reach, older];
  };
}
