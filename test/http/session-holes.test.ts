import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createWorld, type Answer, type World } from "../e2e/world.ts";

const UUID = "[0-9a-f]{8}-[0-9a-f-]{27}";
const hook = (id: string, more: object) => ({
  id,
  match: { path: id },
  messageTemplate: "x",
  ...more,
});
const gives = (text: string) => ({ transform: { jsonata: text } });

let world: World;
beforeAll(async () => {
  world = await createWorld({
    workers: false,
    files: {
      "transforms/key.ts":
        'export default ({ payload }) => ({ message: "m", sessionKey: payload.key });',
    },
    config: {
      hooks: {
        mappings: [
          hook("jira", { sessionKey: "hook:jira:{{issue.key}}" }),
          hook("parts", { sessionKey: "hook:gitlab:{{project.id}}:issue:{{iid}}" }),
          hook("adjacent", { sessionKey: "hook:{{a}}{{b}}" }),
          hook("expression", { sessionKey: "hook:x:{{ $lookup(labels, 'host') }}" }),
          hook("bare", { sessionKey: "{{key}}" }),
          hook("each", {
            forEach: "items",
            sessionKey: "hook:each:{{item.id}}",
            messageTemplate: "item {{index}}",
          }),
          hook("strict", { strict: true, sessionKey: "hook:s:{{key}}" }),
          hook("strictly", { strict: true, transform: { module: "key.ts" } }),
          hook("module", { sessionKey: "hook:module:{{id}}", transform: { module: "key.ts" } }),
          hook("plain", { transform: { module: "key.ts" } }),
          hook("static", { sessionKey: "hook:all", transform: { module: "key.ts" } }),
          hook("jsonata", gives('{ "message": "m", "sessionKey": key }')),
          hook("once", { dedupeKey: "order:{{id}}" }),
          hook("together", {
            coalesce: { windowSeconds: 60, key: "{{customer}}" },
            sessionKey: "hook:c:{{customer}}",
          }),
        ],
      },
    },
  });
});
afterAll(() => world.stop());

const post = (path: string, body: object): Promise<Answer> => world.post(`/hooks/${path}`, body);
/** Posts twice, and holds the answers to: a fresh key each, and a warning in answer, run and event. */
async function expectFresh(path: string, body: object, prefix: string): Promise<void> {
  const answers = [await post(path, body), await post(path, body)];
  const keys = answers.map((answer) => answer.body.sessionKey as string);
  for (const key of keys) expect(key).toMatch(new RegExp(`^${prefix}${UUID}$`));
  expect(new Set(keys).size).toBe(2);
  const [{ body: answer }] = answers as [Answer, Answer];
  const warnings = [expect.stringMatching(/^sessionKey: .* a conversation of its own$/)];
  expect(answer.warnings).toEqual(warnings);
  expect((await world.get(`/hooks/runs/${answer.runId}`)).body.run).toMatchObject({
    sessionKey: keys[0],
    warnings,
  });
  expect((await world.admin(`/admin/v1/events/${answer.eventId}`)).body.event.warnings).toEqual(
    warnings,
  );
}

describe("a session key with a hole", () => {
  it.each<[string, string, object, string]>([
    ["missing", "jira", {}, "hook:jira:"],
    ["null", "jira", { issue: { key: null } }, "hook:jira:"],
    ["empty", "jira", { issue: { key: "" } }, "hook:jira:"],
    ["blank", "jira", { issue: { key: " \n" } }, "hook:jira:"],
    ["an empty list", "jira", { issue: { key: [] } }, "hook:jira:"],
    ["an empty object", "jira", { issue: { key: {} } }, "hook:jira:"],
    ["the second part missing", "parts", { project: { id: 77 } }, "hook:gitlab:"],
    ["the first part missing", "parts", { iid: 5 }, "hook:gitlab:"],
    ["the second of two adjacent parts missing", "adjacent", { a: "a" }, "hook:"],
    ["the first of two adjacent parts empty", "adjacent", { a: "", b: "b" }, "hook:"],
    ["an expression that gives nothing", "expression", { labels: { job: "x" } }, "hook:x:"],
    ["nothing but a hole", "bare", {}, "hook:"],
    ["a module that gives an empty text", "module", { id: 1, key: "" }, "hook:module:"],
    ["a module that gives null", "module", { id: 1, key: null }, "hook:module:"],
    ["a module that gives a blank text, without a template", "plain", { key: "  " }, "hook:"],
    ["a module that gives null, without a template", "plain", { key: null }, "hook:"],
    ["a module that gives null beside a static key", "static", { key: null }, "hook:all:"],
    ["a module that gives none, and a template with a hole", "module", {}, "hook:module:"],
    ["an expression as transform that gives null", "jsonata", { key: null }, "hook:"],
  ])(
    "%s: a fresh key after the literal beginning, and a warning",
    async (_name, path, body, prefix) => {
      await expectFresh(path, body, prefix);
    },
  );

  it("names the expression, never a value", async () => {
    const { body } = await post("parts", { project: { id: "canary-id" } });
    expect(body.warnings).toEqual([
      "sessionKey: {{ iid }} is missing or empty, so that this event has a conversation of its own",
    ]);
  });

  it("is no matter for a whole key, whatever its parts are", async () => {
    expect((await post("parts", { project: { id: 0 }, iid: false })).body.sessionKey).toBe(
      "hook:gitlab:0:issue:false",
    );
    const { body } = await post("module", { id: 1 });
    expect([body.sessionKey, body.warnings]).toEqual(["hook:module:1", undefined]);
    expect((await post("module", { key: "hook:own" })).body).toMatchObject({
      sessionKey: "hook:own",
    });
    expect((await post("static", {})).body.sessionKey).toBe("hook:all");
  });

  it("stands alone among items", async () => {
    const { body } = await post("each", { items: [{ id: 1 }, {}, { id: "" }] });
    const keys = body.results.map((one: { sessionKey: string }) => one.sessionKey);
    expect(keys[0]).toBe("hook:each:1");
    for (const key of keys.slice(1)) expect(key).toMatch(new RegExp(`^hook:each:${UUID}$`));
    expect(body.results.map((one: { warnings?: string[] }) => one.warnings?.length ?? 0)).toEqual([
      0, 1, 1,
    ]);
  });

  it.each([
    ["missing", "strict", {}],
    ["empty", "strict", { key: "" }],
    ["empty, by a module", "strictly", { key: "" }],
    ["null, by a module", "strictly", { key: null }],
  ])("%s under `strict`: 400", async (_name, path, payload) => {
    const { status, body } = await post(path, payload);
    expect([status, body.error.code]).toEqual([400, "mapping_incomplete"]);
    expect(JSON.stringify(body.error.issues)).toMatch(/sessionKey|"key"/);
  });

  it("in the key of a window: the event is collected with no other", async () => {
    const whole = [
      await post("together", { customer: "a" }),
      await post("together", { customer: "a" }),
    ];
    expect(new Set(whole.map(({ body }) => body.runId)).size).toBe(1);
    const answers = [await post("together", {}), await post("together", {})];
    expect(answers.map(({ body }) => body.status)).toEqual(["queued", "queued"]);
    expect(new Set(answers.map(({ body }) => body.runId)).size).toBe(2);
    expect(answers[0]?.body.warnings).toContain(
      "coalesce.key: {{ customer }} is missing or empty, so that this event is not collected with others",
    );
  });

  it("is shown by a test of the mapping", async () => {
    const file = join(world.dir, "empty.json");
    writeFileSync(file, "{}");
    const { out } = await world.rouse("hooks", "test", "jira", "--payload", file, "--json");
    const [action] = JSON.parse(out).actions;
    expect(action.warnings).toEqual([
      expect.stringContaining("{{ issue.key }} is missing or empty"),
    ]);
    expect(action.fields.sessionKey).toBeUndefined();
  });
});

it("a fresh key obeys hooks.allowedSessionKeyPrefixes", async () => {
  const own = await createWorld({
    workers: false,
    config: {
      hooks: {
        allowedSessionKeyPrefixes: ["team:"],
        mappings: [
          hook("inside", { sessionKey: "team:jira:{{key}}" }),
          hook("outside", { sessionKey: "{{key}}" }),
        ],
      },
    },
  });
  expect((await own.post("/hooks/inside", {})).body.sessionKey).toMatch(
    new RegExp(`^team:jira:${UUID}$`),
  );
  expect((await own.post("/hooks/outside", {})).body.sessionKey).toMatch(
    new RegExp(`^team:${UUID}$`),
  );
  await own.stop();
});

it("a duplicate key with an empty part is none: orders without a number are not one order", async () => {
  const answers = [
    await post("once", { n: 1 }),
    await post("once", { n: 2 }),
    await post("once", { id: 7 }),
    await post("once", { id: 7 }),
  ];
  const [first, second, third, again] = answers.map(({ body }) => body.runId as string);
  expect(new Set([first, second, third]).size).toBe(3);
  expect(again).toBe(third);
  const warning =
    "dedupeKey: {{ id }} is missing or empty, so that the event is compared with no other";
  expect(answers.map(({ body }) => body.warnings?.includes(warning) ?? false)).toEqual([
    true,
    true,
    false,
    false,
  ]);
});
