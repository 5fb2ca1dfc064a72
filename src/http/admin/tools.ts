import { Hono } from "hono";
import { z } from "zod";
import { listTools, testTool } from "../../operate/people/tools.ts";
import type { AdminDeps } from "../../operate/types.ts";
import { jsonAnswer } from "./answer.ts";
import { jsonBody, query } from "./query.ts";

const LIST = z.strictObject({ agent: z.string().min(1).optional() });
const CALL = z.strictObject({ arguments: z.record(z.string(), z.unknown()).default({}) });

/** `/tools`: which tools agents are offered, and a call of one. */
export function toolRoutes(deps: AdminDeps) {
  return new Hono()
    .get("/", query(LIST), (c) => jsonAnswer(c, listTools(deps, c.req.valid("query").agent)))
    .post("/:id/test", jsonBody(CALL), async (c) => {
      const { signal } = c.req.raw;
      const { arguments: input } = c.req.valid("json");
      return jsonAnswer(c, testTool(deps, { tool: c.req.param("id"), input, signal }));
    });
}
