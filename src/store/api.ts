/** The contract of store drivers, and the code that they share: `import { … } from "#store-kit"`. */
export { createStepWatch, STEP_MS, type Clock } from "../core/clock.ts";
export { RouseError, safeError, type Issue } from "../core/errors.ts";
export { newId } from "../core/ids.ts";
export { lazy } from "../core/lazy.ts";
export { createLogger, type Logger } from "../core/log.ts";
export {
  checkReadable,
  createFailureLog,
  ID_TAKEN,
  NOT_OPEN,
  RUN_CHANGED,
  urlError,
} from "./sql/errors.ts";
export { createSignals, type Signals } from "./sql/signals.ts";
export * from "./sql/record-writes.ts";
export * from "./sql/rows.ts";
export type { OpenSql, Sql, SqlDatabase } from "./sql/sql.ts";
export * from "./sql/sweep.ts";
export { NUMBERED, TABLES } from "./sql/tables.ts";
export * from "./sql/transfer.ts";
export * from "./types.ts";
export { createReads } from "./sql/reads.ts";
