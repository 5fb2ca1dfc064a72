import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createCli, shopConfig, type CliWorld } from "../cli/world.ts";
import { ask, createWorld, type World } from "./admin-world.ts";

const CHANGE = { kind: "replace", mapping: "none", text: "{ id: 'none' }" };
const EVENT = [`event "evt_none"`, "rouse events"] as const;
const RUN = [`run "run_none"`, "rouse runs"] as const;
const DELIVERY = [`delivery "dlv_none"`, "rouse deliveries"] as const;
const APPROVAL = [`approval "apr_none"`, "rouse approvals --all"] as const;
const SCHEDULE = [`schedule "main/none"`, "rouse schedules"] as const;
const SESSION = [`session "none"`, "rouse sessions"] as const;
const NOTE = [`note "nte_none"`, "rouse memory"] as const;
const DOCUMENT = [`document "doc_none"`, "rouse knowledge"] as const;
const MAPPING = [`mapping "none"`, "rouse hooks"] as const;
const FAILURE = [`failure "fgr_none"`, "rouse failures"] as const;
const AGENT = [`agent "none"`, "rouse agents"] as const;

type Case = [method: string, path: string, what: readonly [string, string], body?: object];

const CASES: Case[] = [
  ["GET", "/events/evt_none", EVENT],
  ["GET", "/events/evt_none/explain", EVENT],
  ["POST", "/events/evt_none/replay", EVENT, {}],
  ["POST", "/events/evt_none/discard", EVENT, { reason: "known" }],
  ["POST", "/fixtures", EVENT, { event: "evt_none" }],
  ["GET", "/runs/run_none", RUN],
  ["GET", "/runs/run_none/steps", RUN],
  ["POST", "/runs/run_none/cancel", RUN],
  ["POST", "/runs/run_none/retry", RUN],
  ["GET", "/deliveries/dlv_none", DELIVERY],
  ["POST", "/deliveries/dlv_none/retry", DELIVERY],
  ["GET", "/approvals/apr_none", APPROVAL],
  ["POST", "/approvals/apr_none", APPROVAL, { verdict: "approve" }],
  ["POST", "/approvals/apr_none/rule", APPROVAL, {}],
  ["DELETE", "/approvals/rules/none", [`approval rule "none"`, "rouse approvals --rules"]],
  ["GET", "/schedules/main/none", SCHEDULE],
  ["POST", "/schedules/main/none/run", SCHEDULE],
  ["DELETE", "/schedules/main/none", SCHEDULE],
  ["GET", "/sessions/show?key=none", SESSION],
  ["DELETE", "/sessions?key=none", SESSION],
  ["PATCH", "/memory/nte_none", NOTE, { text: "a note" }],
  ["DELETE", "/memory/nte_none", NOTE],
  ["DELETE", "/pairings/none", [`person "none"`, "rouse people"]],
  ["DELETE", "/people/none", [`person "none"`, "rouse people"]],
  ["DELETE", "/keys/none", [`key "none"`, "rouse keys"]],
  ["GET", "/knowledge/documents/doc_none", DOCUMENT],
  ["GET", "/knowledge/documents/doc_none/passages", DOCUMENT],
  ["POST", "/knowledge/documents/doc_none/reindex", DOCUMENT],
  ["DELETE", "/knowledge/documents/doc_none", DOCUMENT],
  ["GET", "/mappings/none", MAPPING],
  ["POST", "/changes", MAPPING, { change: CHANGE }],
  ["GET", "/failures/fgr_none", FAILURE],
  ["POST", "/failures/fgr_none", FAILURE, { action: "resolve" }],
  ["GET", "/tools?agent=none", AGENT],
  ["POST", "/tools/none/test", [`tool "none"`, "rouse tools"], {}],
  ["POST", "/channels/none/test", [`channel "none"`, "rouse channels"], {}],
];

describe("an id that names nothing", () => {
  let world: World;
  let cli: CliWorld;
  beforeAll(async () => {
    world = await createWorld();
    cli = await createCli();
    await cli.write("rouse.json5", shopConfig());
  });
  afterAll(async () => {
    await world.close();
    await cli.close();
  });

  it.each(CASES)("is answered 404 with one sentence: %s %s", async (method, path, what, body) => {
    const [named, command] = what;
    const { status, body: answer } = await ask(world, method, path, body);
    expect([status, answer.error]).toEqual([
      404,
      { code: "not_found", message: `there is no ${named}; \`${command}\` lists them` },
    ]);
  });

  it("is answered with the same sentence in a body, with the code of the field", async () => {
    for (const [path, body] of [
      ["/chat", { agent: "none", message: "hi" }],
      ["/keys", { id: "front", agents: ["none"] }],
    ] as const) {
      const { status, body: answer } = await ask(world, "POST", path, body);
      const message = 'there is no agent "none"; `rouse agents` lists them';
      expect([status, answer.error]).toEqual([400, { code: "unknown_agent", message }]);
    }
  });

  it("as a filter of a list leaves nothing", async () => {
    for (const [path, field] of [
      ["/runs?eventId=evt_none", "runs"],
      ["/approvals?runId=run_none", "approvals"],
      ["/sessions?agent=none", "sessions"],
      ["/memory?agent=none", "notes"],
      ["/failures?mapping=none", "failures"],
    ] as const) {
      const { status, body } = await ask(world, "GET", path);
      expect([path, status, body[field]]).toEqual([path, 200, []]);
    }
  });

  it.each([
    ["failures", "fgr_none", FAILURE],
    ["memory remove", "nte_none", NOTE],
    ["schedules", "main/none", SCHEDULE],
    ["keys revoke", "none", [`key "none"`, "rouse keys"]],
  ] as const)("ends `rouse %s` with 1 and that sentence", async (command, id, what) => {
    const { code, err } = await cli.rouse([...command.split(" "), id]);
    expect(err).toContain(`there is no ${what[0]}; \`${what[1]}\` lists them`);
    expect(code).toBe(1);
  });
});
