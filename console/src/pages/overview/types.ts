import type { listFailures } from "../../../../src/operate/watch/failures.ts";
import type { readUsage, showStatus } from "../../../../src/operate/watch/system.ts";
import type { Answer } from "../../api.ts";

export type { UsageSum } from "../../../../src/store/sums.ts";
export type { ActivityView } from "../../../../src/operate/watch/activity.ts";
export type { CheckView } from "../../../../src/operate/watch/doctor-checks.ts";
export type { Finding } from "../../../../src/operate/watch/system.ts";

/** The failures that are not dealt with. */
export type OpenFailures = Answer<typeof listFailures>;

/** The answer of `/status`. */
export type GatewayStatus = Answer<typeof showStatus>["status"];

export type UsageAnswer = Answer<typeof readUsage>;
