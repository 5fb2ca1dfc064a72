import { Hono } from "hono";
import { z } from "zod";
import * as system from "../../operate/watch/system.ts";
import type { AdminDeps } from "../../operate/types.ts";
import { getConsoleMode } from "../../config/console-mode.ts";
import {
  describeMapping,
  listPlacedMappings,
  showMapping,
} from "../../operate/edits/mapping-view.ts";
import type { Workbench } from "../../operate/workbench.ts";
import { jsonAnswer } from "./answer.ts";
import { jsonBody } from "./query.ts";
import { textChange } from "./workbench.ts";

/** `/mappings`: all in their order, and one with its text. */
export function mappingRoutes(deps: AdminDeps) {
  return new Hono()
    .get("/", (c) => {
      const snapshot = deps.snapshot();
      const listed = {
        ...system.listMappings(deps),
        mappings: listPlacedMappings(snapshot),
      };
      const { gateway } = snapshot.config;
      const publicUrl = gateway.publicUrl?.replace(/\/$/, "") ?? null;
      const tokenInShell = snapshot.hookTokenInShell ?? null;
      const mode = getConsoleMode(gateway);
      return jsonAnswer(c, { ...listed, publicUrl, tokenInShell, console: mode });
    })
    .get("/:id{.+}", (c) =>
      jsonAnswer(c, { mapping: showMapping(c.req.param("id"), deps.snapshot()) }),
    );
}

/** `/mapping-schema`: what an editor of mappings completes and explains. */
export function schemaRoutes() {
  return new Hono().get("/", (c) => jsonAnswer(c, describeMapping()));
}

const fields = z.array(z.string().min(1)).default([]);
const frozen = z.strictObject({
  event: z.string().min(1),
  change: textChange.optional(),
  name: z.string().min(1).optional(),
  mask: z.union([fields, z.literal(false)]).default([]),
  keep: fields,
});

/** `/fixtures`: recorded events that are kept as tests. */
export function fixtureRoutes({ fixtures }: Workbench) {
  return new Hono().post("/", jsonBody(frozen), async (c) =>
    jsonAnswer(c, { fixture: await fixtures.freeze(c.req.valid("json")) }),
  );
}
