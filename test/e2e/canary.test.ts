import type { ServerResponse } from "node:http";
import { afterAll, beforeAll, expect, it } from "vitest";
import { createProvider, modelConfig, type Provider } from "./provider.ts";
import { createWorld, TOKEN, type World } from "./world.ts";

const BODY = "canary-body-3f9a";
const MODEL = "canary-model-77c1";
const WRONG_TOKEN = "canary-token-e2d0";
const MARKS = [BODY, MODEL, WRONG_TOKEN, TOKEN, "canary-api-key", "canary-plugin"];

let provider: Provider;
let world: World;
beforeAll(async () => {
  provider = await createProvider();
  const mapping = (id: string, more: object): object => ({
    id,
    match: { path: id },
    messageTemplate: "m {{text}}",
    ...more,
  });
  world = await createWorld({
    logLevel: "trace",
    config: {
      ...modelConfig(provider),
      channels: { broken: { secret: "canary-plugin-secret" } },
      hooks: {
        transformTimeoutSeconds: 1,
        mappings: [
          mapping("thrower", { transform: { module: "thrower.ts" } }),
          mapping("wrong-field", { transform: { module: "wrong-field.ts" } }),
          mapping("failing", { messageTemplate: "{{$number(text)}}" }),
          mapping("when", { match: { path: "when", when: "$number(text) = 1" } }),
          mapping("each", { forEach: "$number(text)" }),
          mapping("valid", {
            validate: { type: "object", properties: { text: { type: "number" } } },
          }),
          mapping("strict", { strict: true, messageTemplate: "{{gone}}" }),
        ],
      },
    },
    files: {
      "transforms/thrower.ts":
        'export default ({ payload }: { payload: { text: string } }) => { console.error(payload.text); throw new Error("failed on " + payload.text); };',
      "transforms/wrong-field.ts":
        "export default ({ payload }: { payload: { text: string } }) => ({ message: payload.text, allowUnsafeExternalContent: true });",
      "plugins/broken.ts":
        'import { definePlugin } from "rouse/plugin"; export default definePlugin({ id: "broken", channel: ({ config }) => ({ defaultTo: "x", send: async ({ text }) => { throw new Error("canary-plugin could not send " + text + JSON.stringify(config)); } }) });',
    },
  });
});
afterAll(async () => {
  await world.stop();
  await provider.close();
});

it("log: no token, body or model error reaches a line, whatever fails", async () => {
  const answers: string[] = [];
  const post = async (
    path: string,
    body: unknown,
    headers: Record<string, string> = {},
  ): Promise<{ runId?: string }> => {
    const answer = await world.post(path, body, headers);
    answers.push(JSON.stringify(answer.body));
    return answer.body as { runId?: string };
  };
  await post("/hooks/agent", { message: BODY }, { authorization: `Bearer ${WRONG_TOKEN}` });
  await post(`/hooks/agent?token=${WRONG_TOKEN}`, { message: BODY }, { authorization: "" });
  await world.gateway.fetch(
    new Request(`http://127.0.0.1/hooks/wake?token=${TOKEN}`, {
      method: "POST",
      body: JSON.stringify({ text: BODY }),
      headers: { "content-type": "application/json" },
    }),
  );
  await post("/hooks/agent", `{"message":"${BODY}`);
  await post("/hooks/agent", BODY, { "content-type": `image/${BODY}` });
  await post("/hooks/agent", { message: BODY, agentId: BODY, channel: "last" });
  await post("/hooks/agent", { message: BODY, model: BODY });
  await post("/hooks/agent", { message: BODY, thinking: BODY });
  for (const path of [
    "thrower",
    "wrong-field",
    "failing",
    "when",
    "each",
    "valid",
    "strict",
    "nothing-here",
  ])
    await post(`/hooks/${path}`, { text: BODY });

  const faults: ((response: ServerResponse) => void)[] = [
    (response) =>
      response
        .writeHead(401, { "content-type": "application/json" })
        .end(JSON.stringify({ error: { message: MODEL } })),
    (response) =>
      response
        .writeHead(400, { "content-type": "application/json" })
        .end(JSON.stringify({ error: { message: MODEL, type: MODEL } })),
    (response) => response.writeHead(429, { "retry-after": "60" }).end(MODEL),
    (response) => response.writeHead(500).end(MODEL),
    (response) =>
      response.writeHead(200, { "content-type": "application/json" }).end(`not json ${MODEL}`),
    (response) => {
      response.writeHead(200, { "content-type": "application/json", "content-length": "9999" });
      response.write(`{"choices":[{"message":{"content":"${MODEL}`);
      setTimeout(() => response.destroy(), 20);
    },
  ];
  for (const fault of faults) {
    const asked = provider.requests.length;
    provider.answer = (_request, response) => {
      fault(response);
      return undefined;
    };
    const { runId } = await post("/hooks/agent", { message: BODY, wakeMode: "next-heartbeat" });
    const run = await world.until(async () => {
      const { body } = await world.get(`/hooks/runs/${runId}`);
      return provider.requests.length > asked && body.run.error !== null && body.run;
    });
    expect(JSON.stringify(run)).not.toContain(MODEL);
  }
  provider.answer = () => "a reply";
  const { runId } = await post("/hooks/agent", {
    message: BODY,
    channel: "broken",
    wakeMode: "next-heartbeat",
  });
  await world.until(async () => {
    const { body } = await world.admin("/admin/v1/deliveries");
    return (
      JSON.stringify(body).includes("sending failed") ||
      body.deliveries?.some((delivery: { attempts: number }) => delivery.attempts > 0)
    );
  });
  expect(runId).toBeDefined();
  world.write("rouse.json5", `{ hooks: { token: "${BODY}", ${BODY}: `);
  expect((await world.gateway.reload()).ok).toBe(false);
  world.write(
    "rouse.json5",
    JSON.stringify({ gateway: { token: "x" }, hooks: { token: BODY, [BODY]: 1 } }),
  );
  expect((await world.gateway.reload()).ok).toBe(false);

  // The failures are there, with their places in the code: only their words are not.
  expect(
    world.logged.some(
      (line) => line.includes('"a model call failed"') && line.includes('"frames"'),
    ),
  ).toBe(true);
  expect(world.logged.length).toBeGreaterThan(10);
  const leaks = world.logged.filter((line) => MARKS.some((mark) => line.includes(mark)));
  // The name of an unknown key is the operator's own word in the config; nothing that came in is.
  expect(leaks.filter((line) => !line.includes(`hooks.${BODY}`))).toEqual([]);
  for (const answer of answers)
    for (const mark of [BODY, WRONG_TOKEN, TOKEN]) expect(answer).not.toContain(mark);
  const shown = JSON.stringify((await world.admin("/admin/v1/config")).body);
  for (const mark of [TOKEN, "canary-api-key", "canary-plugin-secret"])
    expect(shown).not.toContain(mark);
});
