import { Hono } from "hono";
import { z } from "zod";
import * as pairings from "../../operate/people/pairings.ts";
import type { AdminDeps } from "../../operate/types.ts";
import { jsonAnswer } from "./answer.ts";
import { jsonBody } from "./query.ts";

/** `/pairings`: people who have asked to write to the agent on a channel, and decisions about them. */
export function pairingRoutes(deps: AdminDeps) {
  return new Hono()
    .get("/", (c) => jsonAnswer(c, pairings.listPairings(deps)))
    .post("/:id", jsonBody(z.strictObject({ verdict: z.enum(["approve", "deny"]) })), (c) =>
      jsonAnswer(c, pairings.decidePairing(deps, c.req.param("id"), c.req.valid("json").verdict)),
    )
    .delete("/:id", (c) => jsonAnswer(c, pairings.revokePairing(deps, c.req.param("id"))));
}
