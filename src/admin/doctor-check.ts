import type { Snapshot } from "../intake/types.ts";
import type { AdminDeps } from "./types.ts";

/** What a check has found. */
export interface Found {
  status: "ok" | "warn" | "fail";
  /** What was found, and what to change if it is not well. */
  message: string;
}

export type CheckView = Found & { id: string };

/** One check of `rouse doctor`. */
export type Check = (deps: AdminDeps, snapshot: Snapshot) => Found | Promise<Found>;

export const passedCheck = (message: string): Found => ({ status: "ok", message });
export const warningCheck = (message: string): Found => ({ status: "warn", message });
export const fail = (message: string): Found => ({ status: "fail", message });
