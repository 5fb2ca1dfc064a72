import { definePlugin } from "rouse/plugin";

/** The address of a module beside this one, in TypeScript as in JavaScript. */
const beside = (name: string): string =>
  new URL(`./${name}${import.meta.url.endsWith(".ts") ? ".ts" : ".js"}`, import.meta.url).href;

/** Reads documents of Acme for knowledge. */
export default definePlugin({
  id: "acme",
  extractors: [{ extensions: ["lines"], mediaTypes: ["text/x-lines"], module: beside("extract") }],
});
