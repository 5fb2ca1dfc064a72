import type { Clock } from "../core/clock.ts";
import type { Traces } from "../core/http/trace-context.ts";
import type { Logger } from "../core/log.ts";
import type { Metrics } from "../core/metrics.ts";
import type { SqlSource } from "./sql/sql.ts";
import type { StoreHandle } from "./types.ts";

/** The context that each part of a gateway is opened with, besides the parts below it. */
export interface PartContext extends StoreHandle {
  clock: Clock;
  log: Logger;
  metrics: Metrics;
  traces: Traces;
  options: { env: Record<string, string | undefined>; fetch: typeof fetch };
  stateDir: string;
  /** The store's database, if documents are kept there. */
  sql: SqlSource | undefined;
  /** Aborts when the gateway stops. */
  ended: AbortController;
  /** Closes everything that was opened, in reverse order. */
  opened: AsyncDisposableStack;
}
