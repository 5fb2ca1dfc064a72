import { definePlugin } from "rouse/plugin";

/** The address of a module beside this one, in TypeScript as in JavaScript. */
const beside = (name: string): string =>
  new URL(`./${name}${import.meta.url.endsWith(".ts") ? ".ts" : ".js"}`, import.meta.url).href;

/** Makes work of the events of Acme. */
export default definePlugin({
  id: "acme",
  transforms: { orders: beside("orders") },
});
