import { resolve } from "node:path";
import { z } from "zod";

export const COSTS_FILE = resolve(import.meta.dirname, "../costs.json");

const cost = z.strictObject({
  unit: z.enum(["µs", "bytes", "MB/s", "count", "s"]),
  /** The measured value; null if there is none. */
  value: z.number().positive().nullable(),
  /** The value for computations if there is no measurement. It is marked wherever it is shown. */
  estimate: z.number().positive().optional(),
  /** The way of the measurement, or the reason for the estimate. */
  how: z.string().min(20),
  /** The machine it was measured on. */
  on: z.string().optional(),
});
const file = z.strictObject({ note: z.string(), costs: z.record(z.string(), cost) });

export type Cost = z.infer<typeof cost>;
export type CostsFile = z.infer<typeof file>;

/** A cost as the simulation needs it. */
export interface Known {
  name: string;
  value: number;
  unit: Cost["unit"];
  kind: "measured" | "estimate" | "missing";
  how: string;
}

/** @throws Error that names what is wrong in the file. */
export function parseCosts(text: string): CostsFile {
  const parsed = file.safeParse(JSON.parse(text));
  if (!parsed.success) throw new Error(`bench/costs.json: ${z.prettifyError(parsed.error)}`);
  return parsed.data;
}

/** A cost in seconds, bytes, bytes a second or pieces. One that is neither measured nor estimated counts as nothing, and says so. */
export function getCost({ costs }: CostsFile, name: string): Known {
  const found = costs[name];
  if (!found)
    return {
      name,
      value: 0,
      unit: "s",
      kind: "missing",
      how: "bench/costs.json has no such entry",
    };
  const { unit, how } = found;
  const scale = { µs: 1e-6, "MB/s": 1e6, bytes: 1, count: 1, s: 1 }[unit];
  if (found.value !== null)
    return { name, value: found.value * scale, unit, kind: "measured", how };
  if (found.estimate !== undefined)
    return { name, value: found.estimate * scale, unit, kind: "estimate", how };
  return { name, value: 0, unit, kind: "missing", how };
}
