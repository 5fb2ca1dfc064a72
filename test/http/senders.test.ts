import { createHmac } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createWorld, type Answer, type World } from "../e2e/world.ts";

const SECRET = "a-secret-of-the-sender-0123456789";
const gitlab = { scheme: "gitlab", secret: SECRET };
const github = { scheme: "github", secret: SECRET };

const hook = (id: string, auth: object, more: object = {}) => ({
  id,
  match: { path: id },
  auth,
  messageTemplate: "got {{n}}",
  ...more,
});
const FAILING = {
  incomplete: { messageTemplate: "{{n}}" },
  strict: { strict: true },
  checked: { validate: { type: "object", required: ["id"] } },
  failing: { messageTemplate: "{{ $number(text) }}" },
  when: { match: { path: "lab-when", when: "$number(text) > 1" } },
  thrown: { messageTemplate: "x", transform: { module: "throw.ts" } },
  items: { forEach: "items", messageTemplate: "{{item.n}}" },
  agent: { agentId: "{{text}}" },
};
const mappings = (auth: object, prefix: string, fixed = false) =>
  Object.entries(FAILING).map(([id, more]) =>
    hook(
      `${prefix}${id}`,
      auth,
      fixed
        ? {}
        : {
            ...more,
            ...("match" in more ? { match: { ...more.match, path: `${prefix}${id}` } } : {}),
          },
    ),
  );
const config = (fixed = false) => ({
  hooks: {
    mappings: [
      ...mappings(gitlab, "lab-", fixed),
      ...mappings(github, "hub-"),
      hook("lab", gitlab, { maxBodyBytes: 200 }),
    ],
  },
});

let world: World;
beforeAll(async () => {
  world = await createWorld({
    workers: false,
    logLevel: "trace",
    files: { "transforms/throw.ts": 'export default () => { throw new Error("canary-thrown"); };' },
    config: config(),
  });
});
afterAll(() => world.stop());

const BODY = '{"text":"canary-text","items":[{"a":1}]}';
const fromGitlab = (
  path: string,
  body = BODY,
  more: Record<string, string> = {},
): Promise<Answer> =>
  world.post(`/hooks/${path}`, body, { authorization: "", "x-gitlab-token": SECRET, ...more });
const fromGithub = (path: string): Promise<Answer> => {
  const signature = createHmac("sha256", SECRET).update(BODY).digest("hex");
  return world.post(`/hooks/${path}`, BODY, {
    authorization: "",
    "x-hub-signature-256": `sha256=${signature}`,
  });
};

describe("a mapping that fails, for a sender that disables hooks", () => {
  const reasons = {
    incomplete: [400, "mapping_incomplete", "message came out empty"],
    strict: [400, "mapping_incomplete", "the mapping is strict"],
    checked: [400, "validation_failed", "schema"],
    failing: [500, "mapping_failed", "$number"],
    when: [500, "mapping_failed", "match.when"],
    thrown: [500, "transform_failed", "threw an error"],
    items: [400, "mapping_incomplete", "message came out empty"],
    agent: [400, "unknown_agent", "names no agent"],
  } as const;

  it.each(Object.entries(reasons))(
    "%s: 200, recorded as failed with its reason; other senders are answered %j",
    async (id, [status, code, reason]) => {
      const answer = await fromGitlab(`lab-${id}`, BODY, { "idempotency-key": `one-${id}` });
      expect([answer.status, answer.body]).toEqual([
        200,
        { ok: true, eventId: expect.any(String), outcome: "failed" },
      ]);
      const { event } = (await world.admin(`/admin/v1/events/${answer.body.eventId}`)).body;
      expect(event).toMatchObject({
        outcome: "failed",
        mapping: `lab-${id}`,
        reason: expect.stringContaining(reason),
        answerStatus: null,
      });
      // It binds no key: the sender's own redelivery is tried again.
      expect(
        (await fromGitlab(`lab-${id}`, BODY, { "idempotency-key": `one-${id}` })).body.eventId,
      ).not.toBe(event.id);
      const other = await fromGithub(`hub-${id}`);
      expect([other.status, other.body.error.code]).toEqual([status, code]);
      const kept = (await world.admin(`/admin/v1/events/${other.body.requestId}`)).body.event;
      expect(kept).toMatchObject({
        outcome: status === 500 ? "failed" : "rejected",
        answerStatus: status,
      });
    },
  );

  it("is counted, logged without the body, and replayed once the mapping is right", async () => {
    const metrics = String((await world.admin("/metrics")).body);
    expect(metrics).toContain('rouse_failed_events_acknowledged_total{path="lab-thrown"} 2\n');
    expect(metrics).toContain('rouse_failed_events_acknowledged_total{path="hub-thrown"} 0\n');
    const line = world.logged.find(
      (one) => one.includes("acknowledged") && one.includes("lab-thrown"),
    );
    expect(JSON.parse(line ?? "{}")).toMatchObject({
      level: "warn",
      path: "lab-thrown",
      code: "transform_failed",
      requestId: expect.stringMatching(/^evt_/),
    });
    expect(world.logged.join("")).not.toContain("canary");
    world.write("rouse.json5", {
      gateway: { port: 0 },
      hooks: { enabled: true, token: "test-hook-token-0123456789", ...config(true).hooks },
    });
    expect(await world.gateway.reload()).toMatchObject({ ok: true });
    for (const id of Object.keys(FAILING)) {
      const replayed = await world.gateway.fetch(
        new Request("http://127.0.0.1/admin/v1/events/replay", {
          method: "POST",
          headers: {
            authorization: `Bearer ${world.gateway.operatorToken}`,
            "content-type": "application/json",
          },
          body: JSON.stringify({ select: "failed", path: `lab-${id}` }),
        }),
      );
      const lines = (await replayed.text())
        .trim()
        .split("\n")
        .map((one) => JSON.parse(one) as { result?: { outcome: string } });
      expect([id, lines.flatMap(({ result }) => result?.outcome ?? [])]).toEqual([
        id,
        ["accepted", "accepted"],
      ]);
    }
  });

  it("a body that is no JSON, and too large a one, are errors of the sender all the same", async () => {
    expect((await fromGitlab("lab", "{")).status).toBe(400);
    expect((await fromGitlab("lab", `"${"x".repeat(300)}"`)).status).toBe(413);
  });
});
