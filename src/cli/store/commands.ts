import { listed, type CommandList } from "../command-list.ts";

export const STORE_COMMANDS: CommandList = {
  "People and keys": [
    listed("secrets", "secrets of the config, and rotation", () => import("./secrets.ts")),
  ],
  Operate: [
    listed("store", "show, migrate, copy, export, import it", () => import("./store.ts")),
    listed("backup", "all that another machine needs, in a file", () => import("./backup.ts")),
    listed("restore", "bring a backup back", () => import("./restore.ts")),
  ],
};
