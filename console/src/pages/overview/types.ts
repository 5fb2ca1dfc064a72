import type { BreakerView } from "../../../../src/operate/records/views.ts";
import type { FailureGroup } from "../../../../src/operate/watch/failures.ts";
import type { UsageSum } from "../../../../src/store/sums.ts";

export type { UsageSum } from "../../../../src/store/sums.ts";
export type { ActivityView } from "../../../../src/operate/watch/activity.ts";
export type { Finding } from "../../../../src/operate/watch/system.ts";

/** The failures that are not dealt with. `lastDay` says how many of them came in the last 24 hours; null if none. */
export interface OpenFailures {
  failures: FailureGroup[];
  total: number;
  lastDay: string | null;
}

/** The result of a check of the doctor. */
export interface CheckView {
  id: string;
  status: "ok" | "warn" | "fail";
  message: string;
}

/** The answer of `/status`. */
export interface GatewayStatus {
  version: string;
  startedAt: string;
  workers: boolean;
  draining: boolean;
  configFile?: string | null;
  stateDir: string;
  url?: string;
  pid: number;
  snapshot: string;
  reloadProblems: readonly { path: string; message: string }[];
  counts: Readonly<Record<string, number>>;
  waiting: Record<"turn" | "delivery", { count: number; oldestSeconds: number }>;
  breakers: readonly BreakerView[];
  services: readonly { id: string; ok: boolean; message: string; since: number }[];
  mcpServers: readonly {
    name: string;
    state: string;
    tools: number;
    since?: number;
    error?: string;
    nextTryAt?: number;
  }[];
}

export interface UsageAnswer {
  rows: readonly UsageSum[];
  total: UsageSum;
}
