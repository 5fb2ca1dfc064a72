import { expect } from "vitest";
import { createFastClock } from "../approvals/world.ts";
import { createWorld, type World, type WorldOptions } from "../e2e/world.ts";
import type { FarSide, Vendor } from "./vendors.ts";

/** Long enough for everything that is due to be sent. */
const A_WHILE_MS = 400;
export const settle = (): Promise<void> => new Promise((passed) => setTimeout(passed, A_WHILE_MS));

/** The far side of a conversation, as far as it is needed. */
export type FarEnd = Pick<FarSide, "url" | "arrived" | "speak" | "typing" | "close"> &
  Partial<Pick<FarSide, "writes" | "fail">>;
export type Place = Omit<Vendor, "start"> & { start(): Promise<FarEnd> };

/** A conversation on a channel, with a clock that the test sets forward. */
export interface LiveConversation {
  far: FarEnd;
  world: World;
  clock: ReturnType<typeof createFastClock>;
  write(text: string): Promise<void>;
  /** Messages that were there before. */
  before: number;
}

/** Opens a conversation: `close` gets what ends it. Where the vendor shows something in threads alone, `inThread` writes there. */
export async function openConversation(
  { id, section, start }: Place,
  options: WorldOptions & { settings?: object; inThread?: boolean },
  close: (() => Promise<void> | void)[],
): Promise<LiveConversation> {
  const { settings, inThread = false, config, ...rest } = options;
  const far = await start();
  close.push(async () => far.close());
  const clock = createFastClock();
  const world = await createWorld({
    ...rest,
    clock,
    config: { ...config, channels: { [id]: { ...section(far.url), ...settings } } },
  });
  close.push(() => world.stop());
  await world.until(async () =>
    (await world.admin("/admin/v1/status")).body.status.services.some(
      (one: { id: string; ok: boolean; message: string }) =>
        one.id === id && one.ok && one.message !== "starting",
    ),
  );
  const write = async (text: string): Promise<void> => {
    const request = await (inThread ? far.writes?.thread : far.speak)?.(text);
    if (!request) return;
    const url = request.url.replace(/^https?:\/\/[^/]+/, "http://127.0.0.1");
    const { method, headers } = request;
    const response = await world.gateway.fetch(
      new Request(url, { method, headers, body: await request.arrayBuffer() }),
    );
    expect(response.status).toBeLessThan(300);
  };
  return { far, world, clock, write, before: far.arrived().length };
}

export const lastRun = async (world: World) => (await world.admin("/admin/v1/runs")).body.runs[0];
