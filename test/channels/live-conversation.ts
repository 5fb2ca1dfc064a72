import { createFastClock } from "../approvals/world.ts";
import { isDiskBusy } from "../delivery/support.ts";
import { createWorld, type World, type WorldOptions } from "../e2e/world.ts";
import { pass, whenListening } from "./contents.ts";
import type { FarSide, Vendor } from "./vendors.ts";

const LOOK_MS = 20;
/** Looks in a row that find the process idle. */
const QUIET_LOOKS = 4;
const MAX_LOOKS = 500;

/** Waits until everything that is due has been sent: gateway, model and vendor are in this process, which has nothing to do then. */
export async function settle(): Promise<void> {
  for (let looks = 0, quiet = 0; quiet < QUIET_LOOKS && looks < MAX_LOOKS; looks++) {
    const before = performance.eventLoopUtilization();
    await new Promise((passed) => setTimeout(passed, LOOK_MS));
    const { utilization } = performance.eventLoopUtilization(before);
    quiet = utilization < 0.3 && !isDiskBusy() ? quiet + 1 : 0;
  }
}

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

/** Opens a conversation: `close` gets what ends it. With `inThread` it is in a thread, for vendors that show something there only. */
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
  await whenListening(world, id);
  const write = async (text: string): Promise<void> =>
    pass(world, await (inThread ? far.writes?.thread : far.speak)?.(text));
  return { far, world, clock, write, before: far.arrived().length };
}

export const lastRun = async (world: World) => (await world.admin("/admin/v1/runs")).body.runs[0];
