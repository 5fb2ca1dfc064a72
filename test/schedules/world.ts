/** A gateway with schedules, whose model says what it was asked. */
import { systemClock, type Clock } from "../../src/core/clock.ts";
import { definePlugin, type OutgoingMessage, type Plugin } from "../../src/plugin/api.ts";
import { createProvider, modelConfig, type Provider } from "../e2e/provider.ts";
import { createWorld, type Answer, type World, type WorldOptions } from "../e2e/world.ts";

export interface ScheduleView {
  name: string;
  id: string;
  source: string;
  next: string[];
  handledTo: string | null;
  fired: number;
  skipped: number;
  skips: { count: number; reason: string; from: string; to: string }[];
  outside: boolean;
  last: {
    dueAt: string;
    firedAt: string;
    runId: string | null;
    status: string | null;
    manual: boolean;
  } | null;
  approved: { by: string } | null;
}

export interface ScheduleWorld extends World {
  provider: Provider;
  sent: OutgoingMessage[];
  schedules(): Promise<ScheduleView[]>;
  schedule(name: string): Promise<ScheduleView>;
  /** Waits until the gateway has looked at a schedule. */
  ready(name: string): Promise<ScheduleView>;
  /** Posts to a schedule's route. */
  act(name: string, verb: "run"): Promise<Answer>;
  close(): Promise<void>;
}

/** A clock that a test sets. Who sleeps is woken as if the time had passed by which it is set forward. */
export function createSetClock(): {
  clock: Clock;
  advance(ms: number): void;
  at(ms: number): string;
} {
  let ahead = 0;
  let passed = 0;
  const clock: Clock = {
    now: () => Date.now() + ahead,
    monotonic: () => performance.now(),
    async sleep(ms, signal) {
      const until = performance.now() + passed + ms;
      for (let left = ms; left > 0 && !signal?.aborted; left = until - performance.now() - passed)
        await systemClock.sleep(Math.min(20, left), signal);
    },
  };
  return {
    clock,
    advance(ms) {
      ahead += ms;
      passed += Math.max(0, ms);
    },
    at: (ms) => new Date(clock.now() + ms).toISOString(),
  };
}

/** A channel that keeps what it is to send. */
export function createDesk(sent: OutgoingMessage[]): Plugin {
  return definePlugin({
    id: "desk",
    channel: () => ({
      send: async (message) => {
        sent.push(message);
        return { status: "sent" };
      },
    }),
  });
}

type Options = Omit<WorldOptions, "config"> & {
  agents: object[];
  defaults?: object;
  storeUrl?: string | undefined;
  more?: object;
  provider?: Provider;
};

export async function scheduleWorld({
  agents,
  defaults = {},
  storeUrl,
  more = {},
  provider: given,
  ...options
}: Options): Promise<ScheduleWorld> {
  const provider = given ?? (await createProvider());
  const sent: OutgoingMessage[] = [];
  const { agents: model, ...config } = modelConfig(provider) as { agents: { defaults: object } };
  const world = await createWorld({
    ...options,
    plugins: [createDesk(sent), ...(options.plugins ?? [])],
    config: {
      ...config,
      channels: { desk: {} },
      ...(storeUrl !== undefined && { store: { url: storeUrl } }),
      agents: { defaults: { ...model.defaults, ...defaults }, list: agents },
      ...more,
    },
  });
  const schedules = async (): Promise<ScheduleView[]> =>
    (await world.admin("/admin/v1/schedules")).body.schedules;
  const schedule = async (name: string): Promise<ScheduleView> =>
    (await world.admin(`/admin/v1/schedules/${name}`)).body.schedule;
  return {
    ...world,
    provider,
    sent,
    schedules,
    schedule,
    ready: (name) =>
      world.until(async () => ((found) => found.handledTo !== null && found)(await schedule(name))),
    act: (name, verb) => world.admin(`/admin/v1/schedules/${name}/${verb}`, { method: "POST" }),
    async close() {
      await world.stop();
      if (!given) await provider.close();
    },
  };
}
