import { Hono } from "hono";
import { fail } from "./admin-answer.ts";
import { channelRoutes } from "./admin-channels.ts";
import { chatRoutes } from "./admin-chat.ts";
import { eventRoutes } from "./admin-events.ts";
import { knowledgeRoutes } from "./admin-knowledge.ts";
import { keyRoutes } from "./admin-keys.ts";
import { systemRoutes } from "./admin-system.ts";
import { deliveryRoutes, runRoutes, sessionRoutes } from "./admin-work.ts";
import type { AdminDeps } from "./types.ts";

/**
 * The operator's interface, mounted at `/admin/v1` behind the gateway token: what the command line uses.
 * Answers are `{ ok: true, … }` (see `admin-types.ts`) or a failure in the shape of every other one.
 */
export function createAdminRoutes(deps: AdminDeps): Hono {
  const app = new Hono();
  app.route("/events", eventRoutes(deps));
  app.route("/runs", runRoutes(deps));
  app.route("/sessions", sessionRoutes(deps));
  app.route("/deliveries", deliveryRoutes(deps));
  app.route("/channels", channelRoutes(deps));
  app.route("/keys", keyRoutes(deps));
  app.route("/chat", chatRoutes(deps));
  app.route("/knowledge", knowledgeRoutes(deps));
  app.route("/", systemRoutes(deps));
  app.all("*", (c) => fail(c, { code: "not_found", message: "there is no such admin route" }));
  return app;
}
