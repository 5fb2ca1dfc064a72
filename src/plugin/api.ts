/**
 * The interface of plugins: `import { definePlugin } from "#plugin"` inside Rouse, `from "rouse/plugin"` outside. What channels
 * share is in `#channel-kit`, `rouse/channel-kit` outside.
 */
export type * from "../contract/channel.ts";
export type * from "../contract/define.ts";
export type * from "../contract/kinds.ts";
export { definePlugin } from "../contract/define.ts";
