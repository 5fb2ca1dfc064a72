import { createHmac } from "node:crypto";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { createWorld, type Answer, type World } from "../e2e/world.ts";

const SECRET = "a-secret-of-the-sender-0123456789";
const gitlab = { scheme: "gitlab", secret: SECRET };
const github = { scheme: "github", secret: SECRET };
const slack = { scheme: "slack", secret: SECRET };
/** A scheme of one's own whose sender disables hooks after hours of errors. */
const hourly = {
  scheme: {
    algorithm: "equals",
    signature: { header: "x-gitlab-token" },
    sender: { name: "Acme", disablesAfter: { failingHours: 2 } },
  },
  secret: SECRET,
};

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
      hook("chat", slack),
      hook("hourly", hourly),
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
const doctor = async (): Promise<{ status: string; message: string }> =>
  (await world.admin("/admin/v1/doctor")).body.checks.find(
    (check: { id: string }) => check.id === "senders",
  );

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

describe("doctor, about senders that disable hooks", () => {
  beforeEach(async () => {
    for (const path of ["lab", "hourly"]) await fromGitlab(path, '{"n":1}');
  });

  it("has nothing to say while answers are no errors, whatever other senders are answered", async () => {
    expect(await doctor()).toEqual({
      id: "senders",
      status: "ok",
      message: expect.stringContaining("no sender"),
    });
  });

  it("counts the errors in a row, and none from before the last success", async () => {
    await fromGitlab("lab", "{");
    await fromGitlab("lab", '{"n":2}');
    expect((await doctor()).status).toBe("ok");
    await fromGitlab("lab", "{");
    expect(await doctor()).toMatchObject({
      status: "warn",
      message: expect.stringContaining(
        "lab: the last answer was an error; GitLab disables this hook after 4",
      ),
    });
    await fromGitlab("lab", "{");
    await fromGitlab("lab", "[");
    const warned = await doctor();
    expect(warned).toMatchObject({
      status: "warn",
      message: expect.stringContaining(
        "lab: the last 3 answers were errors; GitLab disables this hook after 4",
      ),
    });
    expect(warned.message).toContain("rouse events --path lab");
    await fromGitlab("lab", "[");
    expect(await doctor()).toMatchObject({
      status: "fail",
      message: expect.stringContaining("enable it again"),
    });
    // A replay is no answer to the sender.
    const [event] = (await world.admin("/admin/v1/events?path=lab&outcome=rejected&limit=1")).body
      .events;
    await world.admin(`/admin/v1/events/${event.id}/replay`, { method: "POST", body: "{}" });
    expect((await doctor()).message).toContain("the last 4 answers");
  });

  it("takes a share of errors within a time for what it is", async () => {
    const time = Math.floor(Date.now() / 1000);
    const chat = (body: string) =>
      world.post("/hooks/chat", body, {
        authorization: "",
        "x-slack-request-timestamp": String(time),
        "x-slack-signature": `v0=${createHmac("sha256", SECRET).update(`v0:${time}:${body}`).digest("hex")}`,
      });
    expect((await chat('{"event_id":"E1"}')).status).toBe(202);
    for (let n = 0; n < 3; n++) expect((await chat("{".repeat(n + 1))).status).toBe(400);
    expect(await doctor()).toMatchObject({
      status: "warn",
      message: expect.stringContaining(
        "chat: 3 of 4 answers of the last 60 minutes were errors; Slack disables this hook above 95 %",
      ),
    });
  });

  it("takes hours with nothing but errors for what they are", async () => {
    await fromGitlab("hourly", "{");
    expect(await doctor()).toMatchObject({
      status: "warn",
      message: expect.stringMatching(
        /hourly: every answer since \d{4}-\S+Z was an error; Acme disables this hook after 2 hours of errors/,
      ),
    });
  });
});

it("a request that is refused although its credential is right is an answer that the sender counts", async () => {
  const own = await createWorld({
    workers: false,
    config: { hooks: { rateLimit: { requests: 2, per: "1h" }, mappings: [hook("lab", gitlab)] } },
  });
  const post = (token: string) =>
    own.post("/hooks/lab", { n: 1 }, { authorization: "", "x-gitlab-token": token });
  // Strangers are no senders.
  const statuses = [(await post("another-secret-0123456789")).status];
  for (let n = 0; n < 4; n++) statuses.push((await post(SECRET)).status);
  expect(statuses).toEqual([401, 202, 202, 429, 429]);
  const { checks } = (await own.admin("/admin/v1/doctor")).body;
  expect(checks.find((check: { id: string }) => check.id === "senders").message).toContain(
    "lab: the last 2 answers were errors",
  );
  await own.stop();
});
