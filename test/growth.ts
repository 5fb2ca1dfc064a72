import { expect } from "vitest";

const FACTOR = 8;
/** Growth with the square would be 64 times; the rest is what processors make of caches that other programs use, too. */
const MOST = 28;
/** Shorter times say little. */
const LITTLE_MS = 60;

/** The processor time of this thread that some work takes, in milliseconds. */
async function measure(work: (size: number) => unknown, size: number): Promise<number> {
  const before = process.threadCpuUsage();
  await work(size);
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1000;
}

/** Expects that work on eight times as much takes about eight times as much processor time, however fast the machine is. */
export async function expectProportional(
  work: (size: number) => unknown,
  size: number,
  what?: string,
): Promise<void> {
  const seen: string[] = [];
  // A small text may fit into a cache that a larger one does not; from there on both are as slow.
  for (const base of [size, FACTOR * size]) {
    let more = Infinity;
    let less = Infinity;
    // Other programs may disturb the caches in one measurement, but not in all of them.
    for (let attempt = 0; attempt < 4; attempt++) {
      more = Math.min(more, await measure(work, FACTOR * base));
      less = Math.min(less, await measure(work, base));
      if (more < LITTLE_MS || more / less < MOST) return;
      seen.push(`${less} ms, and ${more} ms with ${FACTOR} times as much`);
    }
  }
  expect.fail(`${what ?? "the work"} took ${seen.join("; ")}`);
}
