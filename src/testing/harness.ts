import { afterEach, beforeEach, expect } from "vitest";

/** The environment that a suite creates for each of its tests. */
export interface Harness {
  close?(): Promise<void> | void;
}

/** A harness, or what comes to be one. */
export type Open<H extends Harness> = () => Promise<H> | H;

/** Opens a harness before each test of the surrounding `describe`, and closes it after the test. */
export function openForEachTest<H extends Harness>(open: Open<H>): () => H {
  let harness: H | undefined;
  beforeEach(async () => {
    harness = await open();
  });
  afterEach(async () => {
    await harness?.close?.();
    harness = undefined;
  });
  return () => {
    if (harness === undefined) throw new Error("the harness is open only inside a test");
    return harness;
  };
}

/** Expects a text that says something. */
export function expectText(value: unknown): void {
  expect(value).toEqual(expect.any(String));
  expect(value).toMatch(/\S/);
}

/** Expects a text that holds none of the secrets. */
export function expectNoSecret(text: string, secrets: readonly string[]): void {
  for (const secret of secrets) expect(text).not.toContain(secret);
}

/**
 * Resolves like `work`.
 * @throws Error if it takes longer than `ms` milliseconds.
 */
export async function within<T>(ms: number, what: string, work: Promise<T> | T): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error(`${what} took longer than ${ms} ms`)), ms);
  try {
    return await Promise.race([work, promise]);
  } finally {
    clearTimeout(timer);
  }
}

/** Waits for a condition that comes by itself, in real time; at most `ms` milliseconds. */
export async function until(done: () => boolean, ms = 5000): Promise<void> {
  const end = Date.now() + ms;
  while (!done() && Date.now() < end) await new Promise((resolve) => setTimeout(resolve, 5));
}
