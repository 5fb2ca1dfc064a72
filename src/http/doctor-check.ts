import type { CheckView } from "./admin-types.ts";
import type { Snapshot } from "../intake/types.ts";
import type { AdminDeps } from "./types.ts";

type Found = Omit<CheckView, "id">;

/** One check of `rouse doctor`. */
export type Check = (deps: AdminDeps, snapshot: Snapshot) => Found | Promise<Found>;

export const ok = (message: string): Found => ({ status: "ok", message });
export const warn = (message: string): Found => ({ status: "warn", message });
export const fail = (message: string): Found => ({ status: "fail", message });
