import type { Issue } from "../core/errors.ts";
import { VERSION } from "../core/version.ts";
import type { ChannelState } from "../delivery/health.ts";
import type { Snapshot } from "../intake/types.ts";
import type { ServiceStatus } from "../plugin/services.ts";
import { breakerView, type BreakerView } from "./records/views.ts";

/** How far a gateway has come. */
export interface Progress {
  readonly startedAt: number;
  url: string | undefined;
  workers: boolean;
  draining: boolean;
}

export interface RuntimeStatus extends Progress {
  version: string;
  pid: number;
  snapshot: string;
  configFile: string | undefined;
  stateDir: string;
  /** Set while the last reload failed and the snapshot before it is still in use. */
  reloadProblems: readonly Issue[];
  warnings: readonly Issue[];
  /** What the services of plugins report; empty without workers. */
  services: readonly ServiceStatus[];
  /** Whether channels could be reached when they were looked at last. */
  channels: readonly ChannelState[];
  /** How the MCP servers do; those that no agent uses are idle. */
  mcpServers: ReturnType<Snapshot["runtime"]["mcpServers"]>;
  /** The breakers of models and channels at this gateway: those that are open or limited, or have calls under way. */
  breakers: readonly BreakerView[];
}

interface StatusContext {
  snapshot(): Snapshot;
  reloader: { loaded(): { stateDir: string }; problems(): readonly Issue[] };
  services: { states(): readonly ServiceStatus[] };
  health: { states(): readonly ChannelState[] };
  parking: { states(): Parameters<typeof breakerView>[0][] };
  hookShapes: { warnings(): readonly Issue[] };
  progress: Progress;
}

/** Describes a gateway as it is now. */
export function describeStatus(context: StatusContext): RuntimeStatus {
  const { reloader, services, health, parking, hookShapes, progress } = context;
  const snapshot = context.snapshot();
  return {
    version: VERSION,
    pid: process.pid,
    ...progress,
    snapshot: snapshot.hash,
    configFile: snapshot.configFile,
    stateDir: reloader.loaded().stateDir,
    reloadProblems: reloader.problems(),
    warnings: [...snapshot.warnings, ...hookShapes.warnings()],
    services: services.states(),
    channels: health.states(),
    mcpServers: snapshot.runtime.mcpServers(),
    breakers: parking.states().map(breakerView),
  };
}
