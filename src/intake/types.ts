import type { ActionContext } from "../actions/types.ts";
import type { Issue } from "../core/errors.ts";
import type { MappingSet } from "../mapping/types.ts";
import type { Verifier } from "../signatures/types.ts";
import type { EventOutcome } from "../store/types.ts";
import type { SecretCandidate } from "./secret-candidates.ts";

/** Config, mappings and plugins, frozen: all that a request reads. Made at start and at each reload. */
export interface Snapshot extends ActionContext {
  /** SHA-256 of the config, the mapping files and the transform modules. */
  readonly hash: string;
  /** The same on every machine with the same settings and files: without addresses, ports and folders. */
  readonly commonHash: string;
  readonly configFile: string | undefined;
  readonly mappings: MappingSet;
  /** By path, for those whose callers sign. */
  readonly verifiers: ReadonlyMap<string, Verifier>;
  readonly plugins: readonly { id: string; origin: string; channel: boolean; configured: boolean }[];
  /** Things that work but are worth a look, each with the path of its field. */
  readonly warnings: readonly Issue[];
}

export interface SignatureState {
  path: string;
  /** `secret` counts from 0; `at` is in milliseconds since the epoch. */
  last: { secret: number; of: number; at: number } | undefined;
  /** Secrets that requests brought while that of the path is `pending`, oldest first. */
  candidates: readonly SecretCandidate[];
}

/** A request that was denied: kept in memory only, the last 1,000. */
export interface Denial {
  at: number;
  address: string;
  path: string;
  reason: string;
  /** Its credential was right; it was denied for another reason, such as a rate limit. */
  authenticated: boolean;
}

/** What a replay made, or would make with `dryRun`. */
export interface ReplayResult {
  eventId: string;
  /** The new event; absent with `dryRun`. */
  newEventId?: string;
  outcome: EventOutcome;
  reason?: string;
  mapping?: string;
  actions: { kind: "run" | "wake"; id?: string; mapping?: string; summary: string }[];
}
