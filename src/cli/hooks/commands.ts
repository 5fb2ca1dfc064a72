import { listed, type CommandList } from "../command-list.ts";

const tests = () => import("../tests/test.ts");

export const HOOK_COMMANDS: CommandList = {
  Watch: [listed("explain", "why a hook did what it did", () => import("./explain.ts"))],
  Shape: [
    listed("hooks", "list, test, compare and send hooks", () => import("./hooks.ts")),
    listed("test", "run or add fixtures: recorded requests and runs", tests),
    listed("presets", "mappings that ship", () => import("./presets.ts")),
    listed("propose", "a mapping from recorded events, in shadow", () => import("./propose.ts")),
    listed("import", "take over the webhooks of another program", () => import("./import.ts")),
  ],
};
