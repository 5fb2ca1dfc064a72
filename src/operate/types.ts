import type { ChatParts } from "../chat/open.ts";
import type { Issue } from "../core/errors.ts";
import type { DeliveryParts } from "../delivery/open.ts";
import type { IntakeDeps } from "../intake/context.ts";
import type { Intake } from "../intake/receive.ts";
import type { KnowledgeParts } from "../knowledge/open.ts";
import type { Services, ServicesOptions } from "../plugin/services.ts";
import type { ScheduleParts } from "../turns/schedules/open.ts";
import type { ConfigLog } from "./records/config-log.ts";
import type { createDecidedBy } from "./records/decided-by.ts";
import type { Progress, RuntimeStatus } from "./status.ts";
import type { FailureStates } from "./watch/failure-states.ts";

/** The parts of a gateway that operators see and use. */
export interface OperateContext
  extends IntakeDeps, Intake, DeliveryParts, ScheduleParts, ChatParts, KnowledgeParts {
  configs: ConfigLog;
  progress: Progress;
  services: Services;
  /** Takes an event that a plugin sends, without the credential of its path. */
  sendEvent: ServicesOptions["hook"];
  reloader: IntakeDeps["reloader"] & {
    loaded(): { baseDir: string; stateDir: string };
    problems(): readonly Issue[];
    /** Builds a new snapshot from disk and swaps it in, or keeps the old one. */
    reload(): Promise<{ ok: true; hash: string } | { ok: false; issues: Issue[] }>;
  };
}

/** Everything that the operator's operations need. */
export interface AdminDeps extends OperateContext {
  decidedBy: ReturnType<typeof createDecidedBy>;
  status(): RuntimeStatus;
  failures: FailureStates;
}
