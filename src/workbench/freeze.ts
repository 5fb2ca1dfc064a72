import { eventDetail } from "../admin/views.ts";
import { RouseError } from "../core/errors.ts";
import type { Snapshot } from "../intake/types.ts";
import type { EventRecord } from "../store/types.ts";
import type { FixtureExpectation } from "./fixture.ts";
import { checkFixtureName, writeFixture } from "./fixture-files.ts";
import { recordFixture } from "./fixture-record.ts";
import type { LandingDeps } from "./landing.ts";
import { planChange } from "./planned-change.ts";
import type { TextChange } from "./what-if-job.ts";

/** An event that is to be kept as a test. */
export interface FreezeRequest {
  event: string;
  /** The test expects what the mappings do with this change in place; undefined: what they do today. */
  change?: TextChange | undefined;
  name?: string | undefined;
  /** Fields whose values are not masked. */
  keep?: readonly string[] | undefined;
}

/** A test that was written. */
export interface FrozenEvent {
  file: string;
  expect: FixtureExpectation;
  /** The fields that have stand-ins in place of their values. */
  masked: string[];
}

export interface FreezeDeps extends Pick<LandingDeps, "withCandidate" | "places"> {
  snapshot(): Snapshot;
  getEvent(id: string): Promise<EventRecord | undefined>;
}

/** Keeps recorded events as tests of `hooks.testsDir`. */
export interface Freezer {
  /**
   * Writes a recorded event into a file of its own, as a test. Values that look private are masked.
   * @throws RouseError `not_found`, `usage` if a mask would change what the mappings do or the file is there, or
   * `config_invalid` if the config has problems with the change.
   */
  freeze(request: FreezeRequest): Promise<FrozenEvent>;
}

async function record({ event: id, name, keep = [] }: FreezeRequest, snapshot: Snapshot, { getEvent }: FreezeDeps): Promise<FrozenEvent> {
  const event = await getEvent(id);
  if (!event) throw new RouseError({ code: "not_found", message: "there is no event with this id" });
  const { file: content, masks, changedBy } = await recordFixture(eventDetail(event, new Map()), snapshot, { mask: [], keep: [...keep] });
  if (changedBy) {
    const message = `the mappings would do something else with the masked body: keep the values of ${changedBy.join(", ")}`;
    throw new RouseError({ code: "usage", message, extra: { keep: changedBy } });
  }
  const { expect, request } = content;
  const base = expect.mapping ?? expect.outcome ?? "event";
  const file = await writeFixture(content, { testsDir: snapshot.config.hooks.testsDir, path: request.path, name, base });
  return { file, expect, masked: masks.flatMap(({ fields }) => fields) };
}

/** Creates what keeps events as tests. */
export function createFreezer(deps: FreezeDeps): Freezer {
  return {
    async freeze(request) {
      const name = request.name === undefined ? undefined : checkFixtureName(request.name);
      const named = { ...request, name };
      const today = deps.snapshot();
      if (!request.change) return record(named, today, deps);
      const { change } = await planChange(request.change, today, deps.places());
      return deps.withCandidate(new Map([[change.file, change.after]]), (found) => {
        if (found.ok) return record(named, found.snapshot, deps);
        throw new RouseError({ code: "config_invalid", message: "the config has problems with this change", issues: found.issues });
      });
    },
  };
}
