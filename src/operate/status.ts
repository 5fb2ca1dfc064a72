import type { Issue } from "../core/errors.ts";
import { VERSION } from "../core/version.ts";
import type { ChannelState } from "../delivery/health.ts";
import type { Snapshot } from "../intake/types.ts";
import type { ServiceStatus } from "../plugin/services.ts";
import { breakerView } from "./records/views.ts";

/** The progress of a gateway's start and end. */
export interface Progress {
  readonly startedAt: number;
  url: string | undefined;
  workers: boolean;
  draining: boolean;
}

interface StatusContext {
  snapshot(): Snapshot;
  reloader: { loaded(): { stateDir: string }; problems(): readonly Issue[] };
  services: { states(): readonly ServiceStatus[] };
  health: { states(): readonly ChannelState[] };
  parking: { states(): Parameters<typeof breakerView>[0][] };
  progress: Progress;
}

export type RuntimeStatus = ReturnType<typeof describeStatus>;

/** Describes a gateway as it is now. */
export function describeStatus(context: StatusContext) {
  const { reloader, services, health, parking, progress } = context;
  const snapshot = context.snapshot();
  return {
    version: VERSION,
    pid: process.pid,
    ...progress,
    snapshot: snapshot.hash,
    configFile: snapshot.configFile,
    stateDir: reloader.loaded().stateDir,
    /** Set while the last reload failed and the snapshot before it is still in use. */
    reloadProblems: reloader.problems(),
    warnings: snapshot.warnings,
    /** The reports of the services of plugins; none without workers. */
    services: services.states(),
    /** The state of channels when they were looked at last. */
    channels: health.states(),
    /** The states of the MCP servers; those that no agent uses are idle. */
    mcpServers: snapshot.runtime.mcpServers(),
    /** The breakers of models and channels at this gateway: those that are open or limited, or have calls under way. */
    breakers: parking.states().map(breakerView),
  };
}
