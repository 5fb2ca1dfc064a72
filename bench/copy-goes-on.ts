/** A gateway on a store that was copied: what it has to know, and to finish. */
import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { startGateway, TOKEN, withServers } from "./servers.ts";

const OPERATOR = "bench-operator-token-0123456789";
const DESK = "rk_bench-key-0123456789-0123456789";
/** The hook of the source's events, and the scope of their duplicate keys. */
export const HOOK = "bench";
export const DEDUPE_SCOPE = `${HOOK}|hooks.token`;

const sleep = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms));
const seconds = (since: number): string => `${((performance.now() - since) / 1000).toFixed(1)} s`;

/** A model that answers at once and keeps what it was asked. */
async function createModel(): Promise<{ config: object; asked: string[]; close(): void }> {
  const asked: string[] = [];
  const model = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => void parts.push(part));
    request.on("end", () => {
      asked.push(Buffer.concat(parts).toString());
      response.setHeader("content-type", "application/json");
      const choices = [
        { index: 0, finish_reason: "stop", message: { role: "assistant", content: "done" } },
      ];
      response.end(
        JSON.stringify({ id: "c", object: "chat.completion", created: 1, model: "m", choices }),
      );
    });
  });
  await new Promise<void>((done) => model.listen(0, "127.0.0.1", done));
  const baseUrl = `http://127.0.0.1:${(model.address() as AddressInfo).port}/v1`;
  const config = {
    models: { providers: { local: { type: "openai-compatible", baseUrl } } },
    agents: { defaults: { model: "local/m", maxConcurrent: 16, heartbeat: { every: 0 } } },
  };
  return { config, asked, close: () => void model.close() };
}

interface Run {
  id: string;
  status: string;
  attempts: number;
}

/** The calls to the gateway at `base`, as its operator and as a sender. */
function createClient(base: string) {
  const ask = async (
    path: string,
    token: string,
    body?: object,
    headers: Record<string, string> = {},
  ) => {
    const method = body === undefined ? "GET" : "POST";
    const answer = await fetch(`${base}${path}`, {
      method,
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json", ...headers },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return { status: answer.status, body: (await answer.json()) as Record<string, unknown> };
  };
  const hook = (n: number, key: string) =>
    ask(`/hooks/${HOOK}`, TOKEN, { n }, { "idempotency-key": key });
  const getRun = async (id: unknown): Promise<Run> =>
    (await ask(`/admin/v1/runs/${String(id)}`, OPERATOR)).body["run"] as Run;
  const counts = async (): Promise<Record<string, number>> =>
    (await ask("/readyz?detail", OPERATOR)).body["counts"] as Record<string, number>;
  return { ask, hook, getRun, counts };
}

/** Throws where the gateway does not go on as the source would have. */
export async function goOn(copied: {
  url: string;
  events: number;
  waiting: number;
  documents: number;
}): Promise<void> {
  const model = await createModel();
  const mapping = {
    id: HOOK,
    match: { path: HOOK },
    sessionKey: "hook:{{n}}",
    deliver: false,
    wakeMode: "next-heartbeat",
  };
  const config = {
    ...model.config,
    gateway: { port: 0, drainSeconds: 5, token: OPERATOR },
    store: { url: copied.url },
    platform: { apiKeys: [{ id: "desk", key: DESK, tenant: "bench", scopes: ["knowledge:read"] }] },
    hooks: { mappings: [{ ...mapping, messageTemplate: "Again {{n}}" }] },
  };
  const began = performance.now();
  try {
    await withServers([startGateway(config)], async ([gateway]) => {
      const base = `http://127.0.0.1:${gateway.port}`;
      const { ask, hook, getRun, counts } = createClient(base);

      assert.equal((await fetch(`${base}/readyz`)).status, 200);
      const ready = seconds(began);

      const repeat = await hook(0, "key-0");
      assert.equal((await getRun(repeat.body["runId"])).status, "succeeded");

      const next = await hook(7, "a-new-one");
      assert.equal(next.status, 202);
      assert.notEqual(next.body["runId"], repeat.body["runId"]);
      for (const end = Date.now() + 600_000; Date.now() < end; await sleep(500)) {
        const now = await counts();
        if (now["runs.queued"] === 0 && now["runs.running"] === 0) break;
      }
      const all = await counts();
      assert.deepEqual(
        [all["runs.succeeded"], all["runs.queued"], all["runs.failed"]],
        [copied.events + 1, 0, 0],
      );
      assert.equal(model.asked.length, copied.waiting + 1);
      assert.equal((await getRun(next.body["runId"])).attempts, 1);
      const said = model.asked.filter((text) => text.includes("Again"));
      assert.equal(said.length, 1);
      assert.match(said[0] ?? "", /Event 7\b.*Answer to 7\b.*Again/s);
      const carriedOut = seconds(began);

      const found = await ask("/v1/knowledge/search", DESK, {
        query: `Document ${copied.documents - 1}`,
      });
      assert.ok((found.body["data"] as unknown[]).length > 0);
      console.log(
        `a gateway on the copy: ready after ${ready}; the ${copied.waiting} runs that waited, and a new one, carried out once each after ${carriedOut}; ` +
          "an old duplicate known, a session gone on with, a document found",
      );
    });
  } finally {
    model.close();
  }
}
