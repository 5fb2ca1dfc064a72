import { expect, it, type TestContext } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { openStore } from "../../src/store/open.ts";
import type { RunRecord } from "../../src/store/types.ts";
import { scale } from "../soak.ts";
import { silent } from "../store/home.ts";
import { describePrivatePostgres, startPrivatePostgres } from "./private-postgres.ts";
import {
  createProcessWorld,
  OPERATOR_TOKEN,
  pause,
  TOKEN,
  until,
  type GatewayProcess,
} from "./process-world.ts";
import type { Provider } from "./provider.ts";

const KEY = "rk_outage-key-0123456789-0123456789";
/** The time that a sender waits for an answer. It comes after 4 s. Statements that nothing else ends fail after 13 s. */
const PATIENCE_MS = 11_000;
/** The time that a test waits for an expected state. */
const COMES_MS = 90_000;
const TIMEOUT_MS = 400_000;

/** A server of its own with a model; gateways of it are started with `start`. */
async function createOutage({ onTestFinished }: TestContext) {
  const postgres = await startPrivatePostgres();
  onTestFinished(() => postgres.remove());
  const world = await createProcessWorld({
    store: { url: postgres.url.href },
    platform: { apiKeys: [{ id: "desk", key: KEY }] },
    agents: { defaults: { model: "local/big", heartbeat: { every: 0 }, maxConcurrent: 6 } },
  });
  onTestFinished(() => world.close());
  /** Waits until runs have ended, as the database has them. */
  const ended = async (ids: readonly string[]): Promise<(RunRecord | undefined)[]> => {
    const { store } = await openStore({ url: postgres.url.href, clock: systemClock, log: silent });
    try {
      const read = (): Promise<(RunRecord | undefined)[]> =>
        Promise.all(ids.map((id) => store.runs.get(id)));
      await until(async () => (await read()).every((run) => run?.endedAt !== undefined), COMES_MS);
      return await read();
    } finally {
      await store.close();
    }
  };
  return { ...world, postgres, ended };
}

const accept = (to: GatewayProcess, message: string): Promise<string> =>
  to.accept(message, { sessionKey: `hook:${message}` });

/** Answers nothing until it is released. */
function holdAnswers(provider: Provider): () => void {
  const { promise, resolve } = Promise.withResolvers<void>();
  provider.answer = () => promise.then(() => "paid");
  return resolve;
}

describePrivatePostgres("turns under way while PostgreSQL is away", () => {
  it.concurrent(
    "again and again, for longer than a lease too: none is started a second time, and none is given up",
    { timeout: TIMEOUT_MS },
    async (context) => {
      const { provider, postgres, start, ended } = await createOutage(context);
      const gateways = [await start(), await start()] as const;
      const release = holdAnswers(provider);
      const ids = await Promise.all(
        Array.from({ length: 12 }, (_, n) =>
          accept(gateways[n % 2] as GatewayProcess, `order-${n}.`),
        ),
      );
      await until(() => provider.requests.length === 12);
      for (const seconds of scale([14], [4, 14, 4])) {
        await postgres.stop("fast");
        await pause(seconds * 1000);
        await postgres.start();
        // Long enough for jobs of a gateway that is silent to be freed.
        await pause(16_000);
        expect(provider.requests).toHaveLength(12);
      }
      release();
      const runs = await ended(ids);
      expect(runs.map((run) => [run?.status, run?.attempts])).toEqual(
        ids.map(() => ["succeeded", 1]),
      );
      expect(provider.requests).toHaveLength(12);
    },
  );

  it.concurrent(
    "and whose gateway was suspended while another one took its jobs: the late one is aborted, and writes nothing",
    { timeout: TIMEOUT_MS },
    async (context) => {
      const { provider, start, ended } = await createOutage(context);
      const first = await start();
      const closed: string[] = [];
      provider.answer = (_request, response) => {
        const n = provider.requests.length;
        response.on("close", () => void (response.writableEnded || closed.push(`call ${n}`)));
        return n === 1 ? new Promise(() => undefined) : "second";
      };
      const id = await accept(first, "order-0.");
      await until(() => provider.requests.length === 1);
      const second = await start();
      first.child.kill("SIGSTOP");
      await until(() => provider.requests.length === 2);
      const [run] = await ended([id]);
      expect(run).toMatchObject({ status: "succeeded", reply: "second", attempts: 2 });
      expect(closed).toEqual([]);
      first.child.kill("SIGCONT");
      await until(() => closed.length > 0);
      expect(closed).toEqual(["call 1"]);
      expect((await ended([id]))[0]).toEqual(run);
      expect(await second.stop()).toBe(0);
      expect(provider.requests).toHaveLength(2);
    },
  );
});

describePrivatePostgres("PostgreSQL that is suspended", () => {
  it.concurrent(
    "gets every caller a 503 before senders give up, and none of them is taken later",
    { timeout: TIMEOUT_MS },
    async (context) => {
      const { provider, postgres, start, ended } = await createOutage(context);
      const gateway = await start();
      const first = await accept(gateway, "before.");
      await ended([first]);
      const ask = (path: string, token: string, body?: object): Promise<Response> =>
        fetch(`${gateway.url}/${path}`, {
          ...(body && { method: "POST", body: JSON.stringify(body) }),
          headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
          signal: AbortSignal.timeout(PATIENCE_MS),
        });
      const task = { message: "frozen.", deliver: false, wakeMode: "next-heartbeat" };
      const chat = { model: "main", messages: [{ role: "user", content: "hello" }] };
      const calls: [string, () => Promise<Response>][] = [
        ["hook", () => ask("hooks/agent", TOKEN, task)],
        ["wake", () => ask("hooks/wake", TOKEN, { text: "frozen." })],
        ["receipt", () => ask(`hooks/runs/${first}`, TOKEN)],
        ["runs", () => ask("admin/v1/runs", OPERATOR_TOKEN)],
        ["events", () => ask("admin/v1/events", OPERATOR_TOKEN)],
        ["retry", () => ask(`admin/v1/runs/${first}/retry`, OPERATOR_TOKEN, {})],
        ["chat", () => ask("v1/chat/completions", KEY, chat)],
      ];
      const countEvents = async (): Promise<number> => {
        const answer = await gateway.admin("/admin/v1/events?limit=100");
        return ((await answer.json()) as { events: [] }).events.length;
      };
      // Connections and prepared statements are there.
      for (const [, call] of calls.slice(0, 3)) await (await call()).arrayBuffer();
      const before = await countEvents();
      provider.answer = () => pause(20_000).then(() => "late");
      await postgres.freeze();
      const answers: [string, number, boolean][] = [];
      // In a first round each is the first to find out; in the later ones it is known, and connections are broken.
      for (let round = 0; round < scale(3, 5); round++) {
        await Promise.all(
          calls.map(async ([name, call]) => {
            const answer = await call();
            await answer.arrayBuffer();
            answers.push([name, answer.status, answer.headers.has("retry-after")]);
          }),
        );
        await pause(1000);
      }
      await postgres.thaw();
      expect(
        answers.filter(([, status, hasRetryAfter]) => status !== 503 || !hasRetryAfter),
      ).toEqual([]);
      await until(async () => (await gateway.statusOf("/readyz")) === 200, COMES_MS);
      await gateway.accept("after.");
      // Only what had been sent to the server before it was known to hang can be there.
      expect((await countEvents()) - before).toBeLessThanOrEqual(1 + 2);
    },
  );
});
