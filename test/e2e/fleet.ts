import { mkdtempSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { serve } from "../channels/wire.ts";
import { scale } from "../soak.ts";
import { startProgram, type Program } from "./program.ts";
import { createProvider, modelConfig, type Provider } from "./provider.ts";

const ROOT = resolve(import.meta.dirname, "../..");
export const TOKEN = "fleet-hook-token-0123456789";

/** A channel that posts its messages to `url`, with the key by which a receiver can tell a repeat. */
const channelTo = (url: string): string => `
import { z } from "zod";
import { definePlugin } from "rouse/plugin";
export default definePlugin({
  id: "parcel",
  config: z.strictObject({}),
  channel: () => ({
    defaultTo: "box",
    async send({ text, idempotencyKey }, signal) {
      const answer = await globalThis.fetch("${url}", { method: "POST", body: text, headers: { "x-key": idempotencyKey }, signal });
      return answer.ok ? { status: "sent", messageIds: [idempotencyKey] } : { status: "retry", reason: "refused" };
    },
  }),
});
`;

export interface Acknowledged {
  n: number;
  runId: string;
  key: string;
}

/** The answers that senders got. */
export interface Account {
  runs: Acknowledged[];
  wakes: string[];
  /** Answers by status. */
  statuses: Map<number, number>;
  /** Answers that no sender may get: other than 2xx, and 503 with Retry-After. */
  odd: string[];
  /** Requests without an answer: their gateway was killed, or took too long. */
  unanswered: number;
}

/** Gateways with one config, a model, a channel whose messages arrive here, and senders. */
export interface Fleet {
  /** The folder of the config. */
  dir: string;
  provider: Provider;
  account: Account;
  /** The keys of messages that arrived, with how often each did. */
  arrived: Map<string, number>;
  start(storeUrl: string): Promise<Program>;
  /**
   * Sends until `over`: each sender has a session of its own at a time, and the next hook goes out when the last is answered,
   * after a pause.
   */
  send(
    senders: number,
    urls: () => readonly string[],
    over: () => boolean,
    pauseMs?: number,
  ): Promise<void>;
  close(): Promise<void>;
}

/** So many hooks in one session: histories stay short. */
const PER_SESSION = 40;
const PAUSE_MS = scale(200, 60);
const PATIENCE_MS = 25_000;

const pause = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms));

export async function createFleet(heartbeat: object): Promise<Fleet> {
  const dir = mkdtempSync(join(tmpdir(), "rouse-fleet-"));
  const provider = await createProvider();
  provider.answer = async (request) => {
    await pause(10 + Math.random() * 40);
    return provider.text(request).includes("This is a heartbeat") ? "HEARTBEAT_OK" : "done";
  };
  const arrived = new Map<string, number>();
  const receiver = await serve(({ headers }) => {
    const key = String(headers["x-key"]);
    arrived.set(key, (arrived.get(key) ?? 0) + 1);
    return { status: 200 };
  });
  const model = modelConfig(provider) as { agents: { defaults: object } };
  const config = {
    gateway: { port: 0, drainSeconds: 5 },
    store: { url: "${STORE_URL}" },
    hooks: { enabled: true, token: TOKEN, allowRequestSessionKey: true },
    channels: { parcel: {} },
    ...model,
    agents: { defaults: { ...model.agents.defaults, heartbeat, maxConcurrent: 16 } },
  };
  mkdirSync(join(dir, "plugins"));
  writeFileSync(join(dir, "plugins/parcel.ts"), channelTo(receiver.url));
  writeFileSync(join(dir, "rouse.json5"), JSON.stringify(config));
  const account: Account = { runs: [], wakes: [], statuses: new Map(), odd: [], unanswered: 0 };
  let next = 0;

  const post = async (url: string, key: string): Promise<void> => {
    const n = next++;
    const isWake = n % 10 === 9;
    const body = isWake
      ? { text: `wake ${n}.`, mode: "next-heartbeat" }
      : { message: `task ${n}.`, sessionKey: key, channel: "parcel", wakeMode: "next-heartbeat" };
    const answer = await fetch(`${url}/hooks/${isWake ? "wake" : "agent"}`, {
      method: "POST",
      headers: { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(PATIENCE_MS),
    });
    const { status } = answer;
    const { runId } = (await answer.json()) as { runId?: string };
    account.statuses.set(status, (account.statuses.get(status) ?? 0) + 1);
    if (status === 202 && runId !== undefined) account.runs.push({ n, runId, key });
    else if (status === 200) account.wakes.push(`wake ${n}.`);
    else if (status !== 503 || !/^\d+$/.test(answer.headers.get("retry-after") ?? ""))
      account.odd.push(`${status}`);
  };

  const sendOne = async (
    sender: number,
    urls: () => readonly string[],
    over: () => boolean,
    pauseMs: number,
  ): Promise<void> => {
    for (let sent = 0; !over(); sent++) {
      const known = urls();
      const url = known[Math.floor(Math.random() * known.length)];
      if (url !== undefined)
        await post(url, `hook:${sender}:${Math.floor(sent / PER_SESSION)}`).catch(
          () => void account.unanswered++,
        );
      await pause(pauseMs);
    }
  };

  return {
    dir,
    provider,
    account,
    arrived,
    start: (storeUrl) =>
      startProgram(process.execPath, [join(ROOT, "bin/rouse.js"), "start"], {
        cwd: dir,
        env: { STORE_URL: storeUrl, ROUSE_LOG_LEVEL: process.env["FLEET_LOG"] ?? "silent" },
      }),
    async send(senders, urls, over, pauseMs = PAUSE_MS) {
      await Promise.all(Array.from({ length: senders }, (_, n) => sendOne(n, urls, over, pauseMs)));
    },
    async close() {
      await provider.close();
      await receiver.close();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}
