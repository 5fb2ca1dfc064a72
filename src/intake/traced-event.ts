import type { SpanEnd, Telemetry } from "../telemetry/types.ts";
import { resolve } from "./resolve.ts";
import type { ReceivedHook } from "./types.ts";

/** Paths that are there without a mapping. */
export const OWN_PATHS = new Set(["wake", "agent"]);

/** Describes what the mappings made of a hook. */
function describeResolution({ resolution }: ReceivedHook): SpanEnd {
  if (!resolution) return {};
  const mapping = resolution.kind === "unmatched" ? undefined : resolution.mapping;
  const failure = resolution.kind === "refused" ? resolution.failure.code : undefined;
  return {
    attributes: {
      "rouse.mapping": mapping,
      "rouse.mapping.result": resolution.kind,
      "rouse.error.code": failure,
    },
    error: resolution.kind === "refused" && resolution.outcome === "failed" ? failure : undefined,
  };
}

/** Resolves the work of a hook, within a span if mappings decide it and traces are collected. */
export function resolveTraced(
  hook: ReceivedHook,
  { telemetry }: { telemetry?: Telemetry | undefined },
): undefined | Promise<undefined> {
  if (!telemetry || OWN_PATHS.has(hook.path)) return resolve(hook);
  return telemetry.evaluate(
    hook.rules?.path,
    () => resolve(hook),
    () => describeResolution(hook),
  );
}
