import { approvals } from "./approvals.js";
import { deliveries } from "./deliveries.js";
import { events } from "./events.js";
import { overview } from "./overview.js";
import { refusals } from "./refusals.js";
import { runs } from "./runs.js";
import { sessions } from "./sessions.js";
import { system } from "./system.js";

/** The views by name: what to show, for a list's parameters or an id. */
export const VIEWS = { overview, approvals, events, runs, sessions, deliveries, refusals, system };
