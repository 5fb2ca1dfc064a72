import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createWorld, TOKEN, type World } from "../e2e/world.ts";

let world: World;
beforeAll(async () => {
  world = await createWorld({ workers: false });
});
afterAll(() => world.stop());

const anonymous = (
  path: string,
  init: Omit<RequestInit, "headers"> & { headers?: Record<string, string> } = {},
) =>
  world.gateway.fetch(
    new Request(`http://127.0.0.1${path}`, {
      method: "POST",
      body: '{"message":"hi","text":"hi"}',
      ...init,
      headers: { "content-type": "application/json", ...init.headers },
    }),
  );

describe("authentication", () => {
  it("accepts the three forms of the token and warns about the query's", async () => {
    expect(
      (await anonymous("/hooks/agent", { headers: { authorization: `bEaReR ${TOKEN}` } })).status,
    ).toBe(202);
    expect(
      (await anonymous("/hooks/agent", { headers: { "x-gateway-token": TOKEN } })).status,
    ).toBe(202);
    const query = await anonymous(`/hooks/agent?token=${TOKEN}`);
    expect(query.status).toBe(202);
    expect(query.headers.get("deprecation")).toMatch(/^@\d+$/);
  });

  it("does not count another scheme than Bearer as a form of the token: a proxy's basic authentication may stand beside one", async () => {
    const basic = `Basic ${Buffer.from("proxy:password").toString("base64")}`;
    expect(
      (
        await anonymous("/hooks/agent", {
          headers: { authorization: basic, "x-gateway-token": TOKEN },
        })
      ).status,
    ).toBe(202);
    expect(
      (await anonymous(`/hooks/agent?token=${TOKEN}`, { headers: { authorization: basic } }))
        .status,
    ).toBe(202);
    const { eventId } = (await (
      await anonymous("/hooks/wake", {
        headers: { authorization: basic, "x-gateway-token": TOKEN },
      })
    ).json()) as { eventId: string };
    expect(
      (
        await world.get(`/hooks/events/${eventId}`, {
          authorization: basic,
          "x-gateway-token": TOKEN,
        })
      ).status,
    ).toBe(200);
    const wrong: Record<string, string>[] = [
      { authorization: basic },
      { authorization: basic, "x-gateway-token": "wrong" },
      { authorization: "Bearer", "x-gateway-token": TOKEN },
    ];
    for (const headers of wrong)
      expect([headers, (await anonymous("/hooks/agent", { headers })).status]).toEqual([
        headers,
        401,
      ]);
  });

  it("limits failures by address and still lets a right token through", async () => {
    const own = await createWorld({ workers: false });
    let last = 0;
    for (let i = 0; i < 25; i++) {
      const response = await own.gateway.fetch(
        new Request("http://127.0.0.1/hooks/wake", { method: "POST", body: "{}" }),
      );
      last = response.status;
      if (last === 429) expect(Number(response.headers.get("retry-after"))).toBeGreaterThan(0);
    }
    expect(last).toBe(429);
    expect((await own.post("/hooks/wake", { text: "still" })).status).toBe(200);
    const after = await own.gateway.fetch(
      new Request("http://127.0.0.1/hooks/wake", { method: "POST", body: "{}" }),
    );
    expect(after.status).toBe(401);
    const refusals = await own.admin("/admin/v1/refusals");
    expect(JSON.stringify(refusals.body)).toContain("no_token");
    await own.stop();
  });

  it("refuses a query token where the config says so", async () => {
    const own = await createWorld({
      workers: false,
      config: { hooks: { allowQueryToken: false } },
    });
    const response = await own.gateway.fetch(
      new Request(`http://127.0.0.1/hooks/wake?token=${TOKEN}`, {
        method: "POST",
        body: '{"text":"x"}',
      }),
    );
    expect(response.status).toBe(401);
    await own.stop();
  });
});

describe("POST /hooks/wake", () => {
  it("answers 200 with the event's id, and records the event", async () => {
    const answer = await world.post("/hooks/wake", {
      text: "Backup finished",
      mode: "next-heartbeat",
    });
    expect(answer.status).toBe(200);
    expect(answer.body).toEqual({
      ok: true,
      eventId: expect.stringMatching(/^evt_/),
      mode: "next-heartbeat",
    });
    expect(answer.headers.get("x-request-id")).toBe(answer.body.eventId);
    const receipt = await world.get(`/hooks/events/${answer.body.eventId}`);
    expect(receipt.body.event).toMatchObject({
      outcome: "accepted",
      path: "wake",
      actions: [{ kind: "wake" }],
    });
  });

  it.each([
    [{}, "text"],
    [{ text: "   " }, "text"],
    [{ text: 7 }, "text"],
    [{ text: null }, "text"],
    [{ text: "x", mode: "later" }, "mode"],
  ])("refuses %j", async (body, path) => {
    const answer = await world.post("/hooks/wake", body);
    expect(answer.status).toBe(400);
    expect(answer.body.error).toMatchObject({ code: "invalid_body", issues: [{ path }] });
  });
});

it("hooks: null is treated as absent for an optional field, and is refused for a required one", async () => {
  const wake = await world.post("/hooks/wake", { text: "x", mode: null, idempotencyKey: null });
  expect([wake.status, wake.body.mode]).toEqual([200, "now"]);
  const optional =
    "name agentId sessionKey wakeMode deliver channel to model thinking timeoutSeconds idempotencyKey".split(
      " ",
    );
  const nulls = Object.fromEntries(optional.map((field) => [field, null]));
  const { status, body } = await world.post("/hooks/agent", { message: "x", ...nulls });
  expect([status, body.warnings]).toEqual([202, undefined]);
  const { run } = (await world.get(`/hooks/runs/${body.runId}`)).body;
  expect(run).toMatchObject({
    name: "Hook",
    agentId: "main",
    sessionKey: expect.stringMatching(/^hook:/),
  });
  const strict = await createWorld({
    workers: false,
    config: { hooks: { allowRequestSessionKey: false, allowRequestRecipient: false } },
  });
  expect(
    (await strict.post("/hooks/agent", { message: "x", sessionKey: null, to: null, channel: null }))
      .status,
  ).toBe(202);
  await strict.stop();
});

describe("POST /hooks/agent", () => {
  it("answers 202 with where to look", async () => {
    const answer = await world.post("/hooks/agent", {
      message: "Summarise",
      sessionKey: "hook:a",
      unknownField: 1,
    });
    expect(answer.status).toBe(202);
    expect(answer.body).toMatchObject({
      ok: true,
      sessionKey: "hook:a",
      status: "queued",
      warnings: [expect.stringContaining("unknownField")],
    });
    expect(answer.headers.get("location")).toBe(`/hooks/runs/${answer.body.runId}`);
    const run = await world.get(`/hooks/runs/${answer.body.runId}`);
    expect(run.body.run).toMatchObject({
      status: "queued",
      agentId: "main",
      sessionKey: "hook:a",
      name: "Hook",
      attempts: 0,
    });
  });

  it.each([
    [{ message: "" }, "invalid_body", "message"],
    [{ message: null }, "invalid_body", "message"],
    [{ message: "x", deliver: "yes" }, "invalid_body", "deliver"],
    [{ message: "x", timeoutSeconds: 0 }, "invalid_body", "timeoutSeconds"],
    [{ message: "x", thinking: "much" }, "invalid_body", "thinking"],
    [{ message: "x", agentId: "nobody" }, "unknown_agent", "agentId"],
    [{ message: "x", channel: "carrierpigeon" }, "unknown_channel", "channel"],
    [{ message: "x", model: "nowhere/x" }, "unknown_model", "model"],
    [{ message: "x", sessionKey: "main" }, "session_key_not_allowed", "sessionKey"],
    [{ message: "x", sessionKey: "api:k:a:1" }, "session_key_not_allowed", "sessionKey"],
    [{ message: "x", sessionKey: "k".repeat(201) }, "session_key_not_allowed", "sessionKey"],
    [{ message: "x", channel: "console", to: " " }, "invalid_recipient", "to"],
  ])("refuses %j with %s", async (body, code, path) => {
    const answer = await world.post("/hooks/agent", body);
    expect(answer.status).toBe(400);
    expect(answer.body.error).toMatchObject({ code, issues: [{ path }] });
    const receipt = await world.get(`/hooks/events/${answer.body.requestId}`);
    expect(receipt.body.event).toMatchObject({ outcome: "rejected", actions: [] });
  });

  it("names all problems together", async () => {
    const answer = await world.post("/hooks/agent", { message: 1, deliver: 2, to: 3 });
    expect(
      answer.body.error.issues.map((issue: { path: string }) => issue.path).toSorted(),
    ).toEqual(["deliver", "message", "to"]);
  });

  it("accepts a channel that is known but not configured, with a warning", async () => {
    const answer = await world.post("/hooks/agent", { message: "x", channel: "tg", to: "@me" });
    expect(answer.status).toBe(202);
    expect(answer.body.warnings[0]).toContain("not configured");
  });

  it("cuts what is too long and says so", async () => {
    const answer = await world.post("/hooks/agent", {
      message: "x".repeat(40_000),
      name: "n\n".repeat(300),
      timeoutSeconds: 999_999,
    });
    expect(answer.body.warnings).toHaveLength(3);
  });

  it("makes session keys that the config allows, and takes `*` for all agents", async () => {
    const keyWith = async (allowedSessionKeyPrefixes: string[]) => {
      const hooks = { allowedSessionKeyPrefixes, allowedAgentIds: ["*"] };
      const own = await createWorld({
        workers: false,
        config: { hooks, agents: { list: [{ id: "a" }, { id: "b" }] } },
      });
      const { status, body } = await own.post("/hooks/agent", { message: "x", agentId: "b" });
      await own.stop();
      return [status, body.sessionKey];
    };
    expect(await keyWith(["team:", "hook:"])).toEqual([
      202,
      expect.stringMatching(/^hook:[0-9a-f-]{36}$/),
    ]);
    expect(await keyWith(["team:a:", "hook:github:"])).toEqual([
      202,
      expect.stringMatching(/^team:a:[0-9a-f-]{36}$/),
    ]);
  });

  it("binds what requests may choose to the config", async () => {
    const own = await createWorld({
      workers: false,
      config: {
        hooks: {
          allowRequestSessionKey: false,
          allowRequestRecipient: false,
          allowedAgentIds: ["a"],
        },
        agents: { list: [{ id: "a" }, { id: "b" }], defaults: { models: [] } },
      },
    });
    expect(
      (await own.post("/hooks/agent", { message: "x", sessionKey: "hook:y" })).body.error.code,
    ).toBe("session_key_not_allowed");
    expect(
      (await own.post("/hooks/agent", { message: "x", channel: "last" })).body.error.code,
    ).toBe("invalid_recipient");
    expect((await own.post("/hooks/agent", { message: "x", agentId: "b" })).body.error.code).toBe(
      "agent_not_allowed",
    );
    expect(
      (await own.post("/hooks/agent", { message: "x", model: "builtin/echo" })).body.error.code,
    ).toBe("model_not_allowed");
    expect((await own.post("/hooks/agent", { message: "x" })).status).toBe(202);
    await own.stop();
  });
});

describe("bodies", () => {
  it.each([
    ["{", "application/json", 400, "invalid_json"],
    ['{"a":1}', "image/png", 415, "unsupported_media_type"],
    ["[".repeat(5000) + "]".repeat(5000), "application/json", 400, "invalid_json"],
    ["[1]", "application/json", 400, "invalid_body"],
  ])("%#: refuses what it cannot read", async (body, type, status, code) => {
    const answer = await world.post("/hooks/agent", body, { "content-type": type });
    expect([answer.status, answer.body.error.code]).toEqual([status, code]);
    expect(JSON.stringify(answer.body)).not.toContain("[[[");
  });

  it("reads forms, a form's JSON payload, multipart fields, +json, and JSON that curl calls a form", async () => {
    const forms: [string | Uint8Array, string][] = [
      ["message=from+a+form", "application/x-www-form-urlencoded"],
      [
        `payload=${encodeURIComponent('{"message":"inside"}')}`,
        "application/x-www-form-urlencoded",
      ],
      ['{"message":"x"}', "application/cloudevents+json"],
      ['{"message":"x"}', "application/x-www-form-urlencoded"],
      [
        '--b\r\ncontent-disposition: form-data; name="message"\r\n\r\nmulti\r\n--b--\r\n',
        "multipart/form-data; boundary=b",
      ],
    ];
    for (const [body, type] of forms)
      expect((await world.post("/hooks/agent", body, { "content-type": type })).status, type).toBe(
        202,
      );
  });

  it.each([
    ["just words", "text/plain", "text"],
    ["5", "text/plain", "text"],
    ['"words"', "text/plain;charset=UTF-8", "text"],
    ['{"message":', "text/plain", "text"],
    ["[1]", "text/plain", "a list"],
    ["<p>", "text/html", "text"],
    ["[1]", "application/json", "a list"],
  ])("%j as %s: the error names the content type and what to send", async (body, type, kind) => {
    for (const path of ["agent", "wake"]) {
      const answer = await world.post(`/hooks/${path}`, body, { "content-type": type });
      const message = `the body must be a JSON object, and ${kind} came as ${type.split(";")[0]}: send a JSON object as application/json`;
      expect([answer.status, answer.body.error]).toEqual([400, { code: "invalid_body", message }]);
    }
  });

  it("names the content type in errors of a body that cannot be read, as far as it is one", async () => {
    const message = async (body: string, type: string): Promise<string> =>
      (await world.post("/hooks/agent", body, { "content-type": type })).body.error.message;
    expect(await message("{", "application/json")).toMatch(
      /^the body came as application\/json and is not valid JSON/,
    );
    expect(await message("x", "image/png; q=1")).toMatch(
      /^a body of the content type image\/png is not read/,
    );
    const canary = await message("\0", "canary canary/<script>");
    expect(canary).toMatch(/^a body of an unknown content type is not read/);
    expect(canary).not.toContain("canary");
  });

  it("leaves prototypes alone", async () => {
    const answer = await world.post(
      "/hooks/agent",
      '{"message":"x","__proto__":{"deliver":"bad"},"constructor":{"x":1}}',
    );
    expect(answer.status).toBe(202);
    expect(({} as { deliver?: unknown }).deliver).toBeUndefined();
  });
});

describe("duplicates", () => {
  it("answers a repeat as the first, and refuses another body under the same key", async () => {
    const first = await world.post(
      "/hooks/agent",
      { message: "once" },
      { "idempotency-key": "k1" },
    );
    const again = await world.post(
      "/hooks/agent",
      { message: "once" },
      { "idempotency-key": "k1" },
    );
    expect(again.body).toEqual(first.body);
    expect(again.headers.get("idempotent-replayed")).toBe("true");
    expect(
      (await world.get(`/hooks/events/${again.headers.get("x-request-id")}`)).body.event,
    ).toMatchObject({
      outcome: "duplicate",
      duplicateOf: first.body.eventId,
      reason: expect.stringContaining(
        "the idempotency key is the same, which counts for 24 h; `rouse events replay evt_",
      ),
    });
    const other = await world.post(
      "/hooks/agent",
      { message: "twice" },
      { "idempotency-key": "k1" },
    );
    expect([other.status, other.body.error.code]).toEqual([409, "idempotency_conflict"]);
  });

  it("runs two at the same moment once", async () => {
    const answers = await Promise.all(
      Array.from({ length: 8 }, () =>
        world.post("/hooks/agent", { message: "race", idempotencyKey: "k2" }),
      ),
    );
    expect(new Set(answers.map((answer) => answer.body.runId)).size).toBe(1);
    expect(
      answers.filter((answer) => answer.headers.get("idempotent-replayed") === "true"),
    ).toHaveLength(7);
  });

  it("answers a repeat by the body's key before anything is resolved, and sees another body under it", async () => {
    const first = await world.post("/hooks/agent", { message: "once", idempotencyKey: "kb" });
    expect(
      (await world.post("/hooks/agent", { message: "once", idempotencyKey: "kb" })).body,
    ).toEqual(first.body);
    expect((await world.post("/hooks/agent", { message: "", idempotencyKey: "kb" })).status).toBe(
      409,
    );
    expect(
      (await world.post("/hooks/agent", { message: "x", idempotencyKey: "k".repeat(257) })).status,
    ).toBe(400);
  });

  it("does not bind a key to a refusal, and refuses a key that is too long", async () => {
    expect(
      (await world.post("/hooks/agent", { message: "" }, { "idempotency-key": "k3" })).status,
    ).toBe(400);
    expect(
      (await world.post("/hooks/agent", { message: "x" }, { "idempotency-key": "k3" })).status,
    ).toBe(202);
    expect(
      (await world.post("/hooks/agent", { message: "x" }, { "idempotency-key": "k".repeat(257) }))
        .status,
    ).toBe(400);
  });
});

describe("receipts and operations", () => {
  it("shows receipts to their credential and the operator only, and never by query", async () => {
    const { body } = await world.post("/hooks/agent", { message: "x" });
    expect((await world.get(`/hooks/runs/${body.runId}`, {})).status).toBe(404);
    expect((await world.get(`/hooks/runs/${body.runId}?token=${TOKEN}`, {})).status).toBe(404);
    expect(
      (
        await world.get(`/hooks/runs/${body.runId}`, {
          authorization: `Bearer ${world.gateway.operatorToken}`,
        })
      ).status,
    ).toBe(200);
    expect((await world.get("/hooks/runs/run_nothing")).status).toBe(404);
  });

  it("answers 404 for every hook while hooks are off", async () => {
    const own = await createWorld({ workers: false, config: { hooks: { enabled: false } } });
    expect((await own.post("/hooks/wake", { text: "x" })).status).toBe(404);
    await own.stop();
  });
});
