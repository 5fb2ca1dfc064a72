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
  const seen: string[] = [];
  // What other programs do to the caches may come between two measurements, and not between all of them.
  for (let attempt = 0; attempt < 3; attempt++) {
    const more = await measure(work, FACTOR * size);
    const less = await measure(work, size);
    if (more < LITTLE_MS || more / less < MOST) return;
    seen.push(`${less} ms, and ${more} ms with ${FACTOR} times as much`);
  }
  expect.fail(`${what ?? "the work"} took ${seen.join("; ")}`);
}
