import { RouseError, type Issue } from "../../core/errors.ts";
import type { FileTexts } from "../../core/files.ts";
import type { Snapshot } from "../../intake/types.ts";
import type { Reads } from "../../store/types.ts";
import { readFixtures } from "../tests/fixture-files.ts";
import { runFixture, type FixtureDifference } from "../tests/fixture-run.ts";
import { isFixture } from "../tests/fixture.ts";
import { whatIf, type WhatIfReport } from "../what-if/what-if.ts";

/** The most recorded events that are compared before a change. */
const MAX_EVENTS = 1000;

/** A snapshot that was built for one use, or why it cannot be built. */
export type CandidateResult = { ok: true; snapshot: Snapshot } | { ok: false; issues: Issue[] };

/** @throws RouseError `config_invalid` if the snapshot cannot be built. */
export function requireSnapshot(candidate: CandidateResult, message: string): Snapshot {
  if (candidate.ok) return candidate.snapshot;
  throw new RouseError({ code: "config_invalid", message, issues: candidate.issues });
}

export interface ComparisonDeps {
  /** The snapshot in use. */
  snapshot(): Snapshot;
  /** Builds a snapshot from the files, with `texts` in place of some, for one use. */
  withCandidate<T>(texts: FileTexts, use: (result: CandidateResult) => Promise<T>): Promise<T>;
  /** Reads the store for one use. Returns null if there is none that can be read. */
  withStore<T>(use: (store: Reads) => Promise<T>): Promise<T | null>;
  /** Milliseconds since the epoch. */
  now(): number;
}

/** The results of the tests of `hooks.testsDir` with a config. */
export type TestSummary = Awaited<ReturnType<typeof runTests>>;

/** Runs the tests of a config, with a turn for all else between them. `issues`: why files cannot be read as tests. */
export async function runTests(snapshot: Snapshot) {
  const { fixtures, issues } = readFixtures(snapshot.config.hooks.testsDir);
  const failed: { name: string; differences: FixtureDifference[] }[] = [];
  const tests = fixtures.filter(isFixture);
  for (const fixture of tests) {
    const { ok, differences } = await runFixture(fixture, snapshot);
    if (!ok) failed.push({ name: fixture.name, differences });
    await new Promise((done) => setImmediate(done));
  }
  return { passed: tests.length - failed.length, failed, issues };
}

/** Compares what today's mappings and those of a change do with the last events. Returns null if they cannot be compared. */
export function compareEvents(after: Snapshot, deps: ComparisonDeps): Promise<WhatIfReport | null> {
  return deps.withStore(async (store) => {
    let last: WhatIfReport | null = null;
    const options = { store, selection: { last: MAX_EVENTS }, now: deps.now() };
    for await (const line of whatIf(deps.snapshot(), after, options))
      if (line.type === "end") last = line;
    return last;
  });
}
