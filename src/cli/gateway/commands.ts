import { listed, type CommandList } from "../command-list.ts";

export const GATEWAY_COMMANDS: CommandList = {
  Start: [
    listed("init", "make a config, asking what it needs to know", () => import("../init/init.ts")),
    listed("start", "start the gateway", () => import("./start.ts")),
    listed("chat", "talk to an agent", () => import("./chat.ts")),
  ],
};
