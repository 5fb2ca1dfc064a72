import { expect } from "vitest";

const FACTOR = 8;
/** Growth with the square would be 64 times; the rest is what processors make of caches that other programs use, too. */
const MOST = 28;
/** Shorter times say little. */
const LITTLE_MS = 60;

/** The processor time of this thread, in milliseconds: the least of three runs. */
async function measure(work: (size: number) => unknown, size: number): Promise<number> {
  let least = Infinity;
  for (let run = 0; run < 3 && least > LITTLE_MS; run++) {
    const before = process.threadCpuUsage();
    await work(size);
    const { user, system } = process.threadCpuUsage(before);
    least = Math.min(least, (user + system) / 1000);
  }
  return least;
}

/** Expects that work on eight times as much takes about eight times as much processor time, however fast the machine is. */
export async function expectProportional(
  work: (size: number) => unknown,
  size: number,
  what?: string,
): Promise<void> {
  const more = await measure(work, FACTOR * size);
  if (more < LITTLE_MS) return;
  const less = await measure(work, size);
  expect(
    more / less,
    `${what ?? "the work"} took ${less} ms, and ${more} ms with ${FACTOR} times as much`,
  ).toBeLessThan(MOST);
}
