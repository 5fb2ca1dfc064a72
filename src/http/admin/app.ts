import { Hono } from "hono";
import type { AdminDeps } from "../../operate/types.ts";
import type { Workbench } from "../../operate/workbench.ts";
import type { Failure } from "../../core/errors.ts";
import { createErrorHandler, failureResponse } from "../errors.ts";
import { chatRoutes } from "./chat.ts";
import { knowledgeRoutes } from "./knowledge.ts";
import {
  approvalRoutes,
  memoryRoutes,
  pairingRoutes,
  peopleRoutes,
  scheduleRoutes,
  toolRoutes,
} from "./people.ts";
import { channelRoutes, keyRoutes, systemRoutes } from "./system.ts";
import {
  deliveryRoutes,
  eventRoutes,
  failureRoutes,
  overviewRoutes,
  runRoutes,
  sessionRoutes,
} from "./work.ts";
import {
  changeRoutes,
  fixtureRoutes,
  mappingRoutes,
  proposalRoutes,
  schemaRoutes,
  whatIfRoutes,
} from "./workbench.ts";

const NO_ROUTE: Failure = { code: "not_found", message: "there is no such admin route" };

/** The type by which clients know the routes, their queries, bodies and answers: `hc<AdminApp>(url)` of `hono/client`. */
export type AdminApp = ReturnType<typeof createAdminRoutes>;

/**
 * Creates the operator's interface, mounted at `/admin/v1` behind the gateway token: what the command line uses. Answers
 * are `{ ok: true, … }`, or a failure in the shape of every other one.
 */
export function createAdminRoutes(deps: AdminDeps, workbench: Workbench) {
  const routes = new Hono()
    .route("/events", eventRoutes(deps))
    .route("/runs", runRoutes(deps))
    .route("/approvals", approvalRoutes(deps))
    .route("/schedules", scheduleRoutes(deps))
    .route("/tools", toolRoutes(deps))
    .route("/pairings", pairingRoutes(deps))
    .route("/memory", memoryRoutes(deps))
    .route("/people", peopleRoutes(deps))
    .route("/sessions", sessionRoutes(deps))
    .route("/deliveries", deliveryRoutes(deps))
    .route("/failures", failureRoutes(deps))
    .route("/channels", channelRoutes(deps))
    .route("/keys", keyRoutes(deps))
    .route("/chat", chatRoutes(deps))
    .route("/knowledge", knowledgeRoutes(deps))
    .route("/mappings", mappingRoutes(deps))
    .route("/mapping-schema", schemaRoutes())
    .route("/fixtures", fixtureRoutes(workbench))
    .route("/changes", changeRoutes(workbench))
    .route("/proposals", proposalRoutes(workbench))
    .route("/what-if", whatIfRoutes(deps, workbench))
    .route("/", overviewRoutes(deps))
    .route("/", systemRoutes(deps));
  routes.onError(createErrorHandler(deps.log));
  routes.all("*", () => failureResponse(NO_ROUTE));
  return routes;
}
