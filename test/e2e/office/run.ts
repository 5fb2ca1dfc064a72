import type { Clock } from "../../../src/core/clock.ts";
import { createWorld, type World } from "../world.ts";
import { Day, type Size } from "./day.ts";
import { judge } from "./verdict.ts";

const HOUR_MS = 3_600_000;

/** A clock that goes as the real one, and can be set forward: who sleeps until then wakes up. */
export class DayClock implements Clock {
  #ahead = 0;
  readonly #sleepers = new Map<() => void, number>();
  now = (): number => Date.now() + this.#ahead;
  monotonic = (): number => performance.now() + this.#ahead;
  sleep = (ms: number, signal?: AbortSignal): Promise<void> =>
    new Promise((resolve) => {
      if (signal?.aborted) return resolve();
      const wake = (): void => {
        clearTimeout(timer);
        this.#sleepers.delete(wake);
        signal?.removeEventListener("abort", wake);
        resolve();
      };
      const timer = setTimeout(wake, Math.min(ms, 2 ** 31 - 1)).unref();
      this.#sleepers.set(wake, this.monotonic() + ms);
      signal?.addEventListener("abort", wake, { once: true });
      return undefined;
    });

  forward(ms: number): void {
    this.#ahead += ms;
    const now = this.monotonic();
    for (const [wake, at] of this.#sleepers) if (at <= now) wake();
  }
}

/** Whether a service of the gateway listens: what is written before that is for no gateway. */
export const isListening = ({ ok, message }: { ok: boolean; message: string }): boolean =>
  ok && !["starting", "another gateway runs it"].includes(message);

/** Waits until nothing is under way at the gateway. */
const rest = (world: World): Promise<unknown> =>
  world.until(async () => {
    const { counts } = (await world.admin("/admin/v1/status")).body.status;
    return ["runs.queued", "runs.running", "deliveries.pending"].every(
      (name) => counts[name] === 0,
    );
  });

/** What the gateway says of itself, where the day has ended early. */
async function describeState(world: World): Promise<string> {
  const { services, counts } = (await world.admin("/admin/v1/status")).body.status;
  const { runs } = (await world.admin("/admin/v1/runs?kind=all&limit=20")).body;
  return JSON.stringify({ services, counts, runs, log: world.logged.slice(-30) }, null, 1);
}

/**
 * Runs a gateway through a day in the office, and returns what was wrong and what happened. A database has a clock of its own, which
 * vendors share: with one, the day passes without the nights between its hours.
 */
export async function passDay(size: Size, store: object = {}) {
  const clock = new DayClock();
  let world: World | undefined;
  const day = await Day.open(size, clock.now, async (make) => {
    const request = make();
    const { method, headers, url } = request;
    const path = new URL(url).pathname;
    const response = await world?.gateway.fetch(
      new Request(`http://127.0.0.1${path}`, {
        method,
        headers,
        body: await request.arrayBuffer(),
      }),
    );
    if (response?.status !== 200) throw new Error(`slack was answered ${response?.status}`);
  });
  try {
    const here = (world = await createWorld({
      config: { ...day.config(), ...store },
      clock,
      logLevel: "warn",
    }));
    await here.until(
      async () =>
        (await here.admin("/admin/v1/status")).body.status.services.filter(isListening).length ===
        3,
    );
    const approve = async (code: string): Promise<void> => {
      const answer = await here.admin(`/admin/v1/pairings/${code}`, {
        method: "POST",
        body: '{"verdict":"approve"}',
      });
      if (answer.status !== 200) throw new Error(`the code ${code} was answered ${answer.status}`);
    };
    await day.live(approve, async () => {
      await rest(here);
      if (Object.keys(store).length === 0) clock.forward((24 * HOUR_MS) / size.hours);
    });
    return { verdict: judge(day.ledger), day };
  } catch (error) {
    const { leaks, misplaced, misread } = judge(day.ledger);
    const state = world && (await describeState(world).catch(String));
    throw new Error(
      `${String(error)}\nSo far: ${[...leaks, ...misplaced, ...misread].join("\n")}\n${state}`,
      { cause: error },
    );
  } finally {
    await world?.stop();
    await day.close();
  }
}
