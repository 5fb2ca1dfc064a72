import { Hono } from "hono";
import { z } from "zod";
import type { AdminDeps } from "../../operate/types.ts";
import { refuse } from "../../operate/records/operation.ts";
import { CONFIRMATION_NAMES } from "../../operate/edits/confirmation-names.ts";
import { describeMapping, listMappings, showMapping } from "../../operate/edits/mapping-view.ts";
import { proposalRequest } from "../../operate/proposals/proposal-request.ts";
import { DEFAULT_LAST } from "../../operate/what-if/selection.ts";
import type { Workbench } from "../../operate/workbench.ts";
import { answerLines, jsonBody, ok, since } from "./query.ts";

const text = z.string().min(1);
const replace = z.strictObject({
  kind: z.literal("replace"),
  mapping: text,
  text,
  from: z.string().optional(),
});
const add = z.strictObject({ kind: z.literal("add"), text, file: text.optional() });
const file = z.strictObject({ kind: z.literal("file"), file: text, text });
const enable = z.strictObject({ kind: z.literal("enable"), mapping: text });
const change = z.discriminatedUnion("kind", [replace, add, file, enable]);
const MAX_EVENTS = 100_000;
const MAX_IDS = 500;
const checked = z.strictObject({ change, whatIf: z.boolean().default(true) });
/** A change that is a text as it is being written. */
export const textChange = z.discriminatedUnion("kind", [replace, add]);
const evaluated = z.strictObject({ change: textChange, event: text.optional() });
const landed = z.strictObject({
  change,
  base: text.optional(),
  confirm: z.array(z.enum(CONFIRMATION_NAMES)).optional(),
});

/** `/changes`: changes of mappings, which are checked, shown and then written into the user's files. */
export function changeRoutes({ landing, whatIf }: Workbench) {
  return new Hono()
    .post("/check", jsonBody(checked), async (c) => {
      const { change: wanted, ...options } = c.req.valid("json");
      return ok(c, { check: await landing.check(wanted, options) });
    })
    .post("/evaluate", jsonBody(evaluated), async (c) => {
      const { change: wanted, event } = c.req.valid("json");
      return ok(c, { evaluation: await whatIf.evaluate(wanted, event) });
    })
    .post("/", jsonBody(landed), async (c) => {
      const { change: wanted, ...options } = c.req.valid("json");
      const { operator: by } = (c.env ?? {}) as { operator?: string };
      return ok(c, { result: await landing.land(wanted, { ...options, by }) });
    });
}

/** `/what-if`: what a change of the mappings would do with recorded events, one JSON document a line. */
export function whatIfRoutes({ clock }: AdminDeps, { whatIf }: Workbench) {
  const asked = z.strictObject({
    change,
    since: since(clock).optional(),
    last: z.int().min(1).max(MAX_EVENTS).default(DEFAULT_LAST),
    events: z.array(text).min(1).max(MAX_IDS).optional(),
    path: text.optional(),
  });
  return new Hono().post("/", jsonBody(asked), async (c) => {
    const { change: wanted, ...selection } = c.req.valid("json");
    if (selection.events && (selection.since !== undefined || selection.path !== undefined))
      refuse("`events` names the events: leave `since` and `path` out");
    return answerLines(c, await whatIf.compare({ change: wanted, selection }, c.req.raw.signal));
  });
}

/** `/proposals`: mappings that are made from recorded events. The answer has one line a step, and the mapping in the last one. */
export function proposalRoutes({ proposals }: Workbench) {
  return new Hono()
    .post("/check", jsonBody(proposalRequest), async (c) =>
      ok(c, { plan: await proposals.check(c.req.valid("json")) }),
    )
    .post("/", jsonBody(proposalRequest), async (c) =>
      answerLines(c, await proposals.propose(c.req.valid("json"), c.req.raw.signal)),
    );
}

/** `/mappings`: all in their order, and one with its text. */
export function mappingRoutes(deps: AdminDeps) {
  return new Hono()
    .get("/", (c) => ok(c, listMappings(deps.snapshot())))
    .get("/:id{.+}", (c) => ok(c, { mapping: showMapping(c.req.param("id"), deps.snapshot()) }));
}

/** `/mapping-schema`: what an editor of mappings completes and explains. */
export function schemaRoutes() {
  return new Hono().get("/", (c) => ok(c, describeMapping()));
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
export function fixtureRoutes({ freeze }: Workbench) {
  return new Hono().post("/", jsonBody(frozen), async (c) =>
    ok(c, { fixture: await freeze(c.req.valid("json")) }),
  );
}
