import type { Failure } from "../core/errors.ts";
import type { JobLine, WhatIfJob } from "../workbench/what-if-job.ts";

/** Where a gateway has its config from, and which one it uses. */
export interface ConfigInUse {
  cwd: string;
  configFile?: string | undefined;
  /** The config itself, if it came as an object. */
  config?: object | undefined;
  stateDir: string;
  /** Whether the gateway has a terminal, and with it the channel of that. */
  hasTerminal: boolean;
  /** The hash of the snapshot in use. */
  hash: string;
}

/** What a gateway sends to a what-if process. */
export type WhatIfCall =
  /** `now`: milliseconds since the epoch. */
  | { kind: "start"; id: number; job: WhatIfJob; inUse: ConfigInUse; now: number }
  /** The next line is wanted. */
  | { kind: "next"; id: number }
  /** No further line is wanted. */
  | { kind: "stop"; id: number };

/** What a what-if process sends. `ended` follows also a `stop`; the memory is in bytes. */
export type WhatIfReply =
  | { kind: "line"; id: number; line: JobLine }
  | { kind: "ended"; id: number; failure?: Failure; memory: number };
