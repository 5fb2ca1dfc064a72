import { loadConfig } from "../config/load.ts";
import type { EvalPlan } from "../workbench/eval-plan.ts";
import type { CliIo } from "./io.ts";
import type { Offline } from "./offline.ts";
import { configInvalid } from "./settings.ts";

/**
 * Checks that the providers and the sandboxes of an evaluation have their keys. All other secrets may be missing.
 * @throws RouseError `config_invalid` with each variable that is not set.
 */
export async function checkKeys(
  { providers, sandboxes }: EvalPlan,
  configs: readonly Offline[],
  io: CliIo,
): Promise<void> {
  const needed = [
    ...providers.map((name) => `models.providers.${name}.`),
    ...sandboxes.map((name) => `mcp.servers.${name}.`),
  ];
  for (const file of new Set(configs.flatMap(({ snapshot }) => snapshot.configFile ?? []))) {
    const loaded = await loadConfig({ cwd: io.cwd, env: io.env, file });
    const issues = loaded.ok
      ? []
      : loaded.issues.filter(({ path }) => needed.some((prefix) => path.startsWith(prefix)));
    if (issues.length > 0) throw configInvalid({ issues, file });
  }
}
