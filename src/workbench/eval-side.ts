import { createToolBox, type ToolBoxOptions } from "../agent/tools.ts";
import type { AgentRuntime, ResolvedModel } from "../agent/types.ts";
import { RouseError } from "../core/errors.ts";
import type { Snapshot } from "../intake/types.ts";
import type { CaseToolsOptions, KnownTool } from "./eval-tools.ts";
import type { EvalChange } from "./eval-task.ts";

export type SideName = "now" | "before" | "after";

/** One of the configs that are compared, with what is changed in it. */
export interface EvalSide {
  name: SideName;
  snapshot: Snapshot;
  change: EvalChange;
  /**
   * Returns the server that answers calls that were not recorded.
   * @throws RouseError `usage` if `mcp.servers` has none of the name.
   */
  getSandbox(name: string | undefined): CaseToolsOptions["sandbox"];
  close(): Promise<void>;
}

/** What the runs of an evaluation have in common. */
export interface EvalSet {
  tools: readonly KnownTool[];
  sandbox: string | undefined;
  /** All sides have the same judge. */
  judge: { runtime: AgentRuntime; resolve(model: string | undefined): ResolvedModel };
}

type Environment = Pick<ToolBoxOptions, "clock" | "log" | "cwd" | "env" | "fetch">;

/** Makes a side of an evaluation. Connects to a sandbox when a case first needs it. */
export function createSide(
  name: SideName,
  snapshot: Snapshot,
  change: EvalChange,
  environment: Environment,
): EvalSide {
  const boxes = new Map<string, ReturnType<typeof createToolBox>>();
  const { servers } = snapshot.config.mcp;
  return {
    name,
    snapshot,
    change,
    getSandbox(server) {
      if (server === undefined) return undefined;
      const found = Object.hasOwn(servers, server) ? servers[server] : undefined;
      if (!found) {
        const known = Object.keys(servers).join(", ") || "none";
        throw new RouseError({
          code: "usage",
          message: `the sandbox ${server} is not in mcp.servers; there is ${known}`,
        });
      }
      const box =
        boxes.get(server) ??
        createToolBox({ ...environment, servers: { [server]: found }, tools: [] });
      boxes.set(server, box);
      return { name: server, box };
    },
    async close() {
      await Promise.all([...boxes.values()].map((box) => box.close()));
    },
  };
}
