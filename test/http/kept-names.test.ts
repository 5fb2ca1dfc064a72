import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createHmac } from "node:crypto";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createWorld, type Answer, type World } from "../e2e/world.ts";

const DUMP = '$string(headers) & " " & $string(query)';
const MODULE =
  "export default ({ headers, query }) => ({ message: JSON.stringify([headers, query]) });";
const named =
  "Names: {{headers.x-plain}} {{ headers.`x-quoted` }} {{ $lookup(headers, 'X-Looked-Up') & query.\"page\" }}";
const SECRET = "a-secret-of-the-sender-0123";
const hook = (id: string, more: object) => ({
  id,
  match: { path: id },
  messageTemplate: "x",
  deliver: false,
  ...more,
});

let world: World;
beforeAll(async () => {
  world = await createWorld({
    workers: false,
    files: { "transforms/dump.mjs": MODULE },
    config: {
      hooks: {
        allowQueryToken: false,
        mappings: [
          hook("template", { messageTemplate: named }),
          hook("whole", { messageTemplate: `{{ ${DUMP} }}` }),
          hook("module", {
            transform: { module: "dump.mjs" },
            keepHeaders: ["X-Kept"],
            keepQuery: ["kept"],
          }),
          hook("expression", {
            transform: { jsonata: `{ "message": headers."x-quoted" & ${DUMP} }` },
          }),
          hook("nested", {
            match: {
              path: "nested",
              headers: { "X-Mode": "on" },
              query: { Area: "a", page: { $exists: true } },
            },
            coalesce: { windowSeconds: 60, key: "{{headers.x-nested}}{{query.window}}" },
          }),
          hook("cased", { match: { path: "cased", when: "headers.`X-Cased` = 'yes'" } }),
          hook("get", { methods: ["GET"], dedupeKey: "{{any}}" }),
          hook("gh", { auth: { scheme: "github", secret: SECRET } }),
          hook("own", {
            match: { path: "own", headers: { "x-check": { $exists: true } } },
            auth: {
              scheme: { algorithm: "equals", signature: { header: "X-Check" } },
              secret: SECRET,
            },
          }),
        ],
      },
    },
  });
});
afterAll(() => world.stop());

const stored = async (
  answer: Answer,
): Promise<{ headers: Record<string, string>; query: Record<string, string> }> =>
  (await world.admin(`/admin/v1/events/${answer.body.eventId}`)).body.event.request;
const input = async (runId: string): Promise<unknown> =>
  (await world.admin(`/admin/v1/runs/${runId}`)).body.run.input;

describe("of a request's headers and parameters", () => {
  it("only what mappings and the scheme name is kept, and a few harmless headers", async () => {
    const sent = {
      "x-plain": "1",
      "x-quoted": "2",
      "x-looked-up": "3",
      "x-other": "4",
      "user-agent": "test",
    };
    const request = await stored(await world.post("/hooks/template?page=5&other=6", {}, sent));
    expect(request.query).toEqual({ page: "5" });
    expect(request.headers).toEqual({
      "content-type": "application/json",
      "user-agent": "test",
      "x-plain": "1",
      "x-quoted": "2",
      "x-looked-up": "3",
    });
    const nested = await stored(
      await world.post(
        "/hooks/nested?Area=a&page=2&window=3&other=4",
        {},
        { "x-mode": "on", "x-nested": "n", "x-other": "o" },
      ),
    );
    expect([nested.query, nested.headers]).toEqual([
      { Area: "a", page: "2", window: "3" },
      { "content-type": "application/json", "x-mode": "on", "x-nested": "n" },
    ]);
    const kept = await stored(
      await world.post("/hooks/module?kept=1&other=2", {}, { "x-kept": "1", "x-other": "2" }),
    );
    expect([kept.query, kept.headers]).toEqual([
      { kept: "1" },
      { "content-type": "application/json", "x-kept": "1" },
    ]);
  });

  it("an expression finds a header in any case", async () => {
    const answers = [
      await world.post("/hooks/cased", {}, { "x-cased": "yes" }),
      await world.post("/hooks/cased", {}, { "x-cased": "no" }),
    ];
    expect(answers.map(({ status }) => status)).toEqual([202, 200]);
  });

  it("a test of a mapping shows no more than a request would", async () => {
    const body = join(world.dir, "empty.json");
    writeFileSync(body, "{}");
    const headers = ["--header", "X-Kept=1", "--header", "X-Other=2"];
    const query = ["--query", "kept=3", "--query", "other=4"];
    const line = ["hooks", "test", "--path", "module", "--payload", body, "--json"];
    const { out } = await world.rouse(...line, ...headers, ...query);
    expect(JSON.parse(JSON.parse(out).actions[0].content[0].text)).toEqual([
      { "x-kept": "1" },
      { kept: "3" },
    ]);
  });

  it("a scheme's own are kept, and never what carries its credential, whatever it is called and whoever names it", async () => {
    const body = JSON.stringify({ action: "opened" });
    const signature = `sha256=${createHmac("sha256", SECRET).update(body).digest("hex")}`;
    const sent = {
      authorization: "",
      "x-hub-signature-256": signature,
      "x-github-event": "issues",
      "x-github-delivery": "d-1",
      "x-other": "o",
    };
    const { headers } = await stored(await world.post("/hooks/gh", body, sent));
    expect(headers).toEqual({
      "content-type": "application/json",
      "x-github-event": "issues",
      "x-github-delivery": "d-1",
    });
    const own = await world.post("/hooks/own", {}, { authorization: "", "x-check": SECRET });
    expect(own.body.outcome).toBe("unmatched");
    expect((await stored(own)).headers).toEqual({ "content-type": "application/json" });
  });

  it("the query of a GET is its payload, and is kept whole but for credentials", async () => {
    const answer = await world.gateway.fetch(
      new Request("http://127.0.0.1/hooks/get?any=1&thing=2&api_key=no", {
        headers: { authorization: "Bearer test-hook-token-0123456789", "x-other": "o" },
      }),
    );
    const { headers, query } = await stored({
      status: answer.status,
      headers: answer.headers,
      body: await answer.json(),
    });
    expect([query, headers]).toEqual([{ any: "1", thing: "2" }, {}]);
  });

  it("a secret that no mapping names is nowhere on disk", async () => {
    const canary = "canary-of-an-internal-key";
    for (const path of ["template", "whole", "module", "expression", "nested", "agent", "nowhere"])
      await world.post(
        `/hooks/${path}?internal=${canary}`,
        { message: "m" },
        { "x-my-internal-key": canary, "x-forwarded-user": canary },
      );
    const state = join(world.dir, ".rouse");
    const files = readdirSync(state, { recursive: true, withFileTypes: true }).filter((file) =>
      file.isFile(),
    );
    expect(files.length).toBeGreaterThan(0);
    for (const file of files)
      expect([file.name, readFileSync(join(file.parentPath, file.name)).includes(canary)]).toEqual([
        file.name,
        false,
      ]);
  });

  it("a credential cannot be named in keepHeaders", async () => {
    const config = { hooks: { mappings: [hook("m", { keepHeaders: ["X-Api-Key"] })] } };
    await expect(createWorld({ start: false, config })).rejects.toThrow(
      "hooks.mappings[0].keepHeaders[0]: may carry a credential: such a value is never kept",
    );
  });
});

it("a replay sees exactly what the first run saw", async () => {
  const names = [
    "x-plain",
    "x-quoted",
    "x-looked-up",
    "x-kept",
    "x-other",
    "accept",
    "x-api-key",
    "__proto__",
  ];
  const parameters = ["page", "kept", "other", "secret", "Page"];
  const values = fc.stringMatching(/^[a-z0-9 ,;=%-]{0,12}[a-z]$/);
  const request = fc.record({
    path: fc.constantFrom("template", "whole", "module", "expression"),
    headers: fc.dictionary(fc.constantFrom(...names), values, { noNullPrototype: true }),
    query: fc.dictionary(fc.constantFrom(...parameters), values, { noNullPrototype: true }),
  });
  await fc.assert(
    fc.asyncProperty(request, async ({ path, headers, query }) => {
      const { body } = await world.post(
        `/hooks/${path}?${new URLSearchParams(query).toString()}`,
        {},
        headers,
      );
      const replayed = await world.admin(`/admin/v1/events/${body.eventId}/replay`, {
        method: "POST",
        body: "{}",
      });
      const [first, again] = [
        await input(body.runId as string),
        await input(replayed.body.result.actions[0].id as string),
      ];
      expect(again).toEqual(first);
    }),
    { numRuns: 40 },
  );
});
