import { RouseError } from "../../core/errors.ts";
import { readRecordedInput } from "../../intake/replay.ts";
import type { Snapshot } from "../../intake/types.ts";
import type { MappingTrace } from "../../mapping/types.ts";
import type { EventRecord } from "../../store/types.ts";
import { unknownId } from "../../vocabulary/unknown-id.ts";
import { requireSnapshot, type ComparisonDeps } from "../edits/landing-checks.ts";
import { found, refuse } from "../records/operation.ts";
import { testInput } from "../records/test-hook.ts";
import { eventDetail } from "../records/views.ts";
import { findFixed, getNewFile, withLive, type ProposalJob } from "./job.ts";
import { findModel, planModel } from "./model.ts";
import type { ProposalRequest } from "./proposal-request.ts";
import { draftFromShape, readSamples } from "./samples.ts";

/** The state of a proposal before a model is asked. */
export type PreparedProposal = Awaited<ReturnType<typeof prepare>>;

/** The steps of making a proposal, and their cost, before any is taken. */
export type ProposalPlan = PreparedProposal["plan"];

/** The dependencies of preparing a proposal. */
export interface PrepareDeps extends Pick<ComparisonDeps, "snapshot" | "withCandidate"> {
  getEvent(id: string): Promise<EventRecord | undefined>;
}

export const INVALID = "the config has problems with the proposed mapping; nothing was written";

function checkRequest({ name, fix, agent, deliver }: ProposalRequest): void {
  if (name === undefined && fix === undefined)
    refuse("name the new mapping file, or the mapping that is to be mended");
  const settings = [agent, ...(deliver ? [deliver.channel, deliver.to] : [])];
  if (settings.some((value) => value?.includes("{{")))
    refuse(
      "the agent, the channel and the recipient of a proposal are no templates: edit the mapping if an event is to choose them",
    );
  if (fix !== undefined && (agent !== undefined || deliver !== undefined))
    refuse("a mapping that is mended keeps its agent, channel and recipient");
}

const countHeld = ({ conditions }: MappingTrace): number =>
  conditions.filter(({ result }) => result === true).length;

/**
 * Finds the mapping of the user's files that is nearest to taking an event: of those that do not match the one with the most
 * conditions that hold.
 * @throws RouseError `not_found` if the event's body is gone, or `usage` if there is no such mapping.
 */
async function findNearestMapping(event: EventRecord, snapshot: Snapshot): Promise<string> {
  const recorded = readRecordedInput(event, snapshot);
  if (!recorded.ok)
    throw new RouseError({ code: "not_found", message: `${event.id}: ${recorded.reason}` });
  const { traces } = await testInput(recorded.input, snapshot);
  const near = traces.filter(
    ({ verdict, origin }) => verdict === "no" && !origin.startsWith("preset:"),
  );
  const [nearest] = near.toSorted((a, b) => countHeld(b) - countHeld(a));
  if (nearest) return nearest.mapping;
  return refuse(
    `no mapping of your files is near to taking ${event.id}: name the one that is to be mended, or propose a new one`,
  );
}

/** Says why a mapping does not take events: its conditions that do not hold, each with how it came out first. It quotes them. */
async function explainMending({ fixed, samples: { samples }, snapshot }: ProposalJob) {
  if (!fixed) return null;
  const reasons = new Map<string, string>();
  for (const { input } of samples) {
    const { traces } = await testInput(input, snapshot);
    const { conditions = [] } = traces.find(({ mapping }) => mapping === fixed.id) ?? {};
    for (const { condition, result, reason } of conditions)
      if (result !== true && !reasons.has(condition)) reasons.set(condition, reason);
  }
  return {
    mapping: fixed.id,
    reasons: [...reasons].map(([condition, reason]) => ({ condition, reason })),
  };
}

/** Chooses the model that is asked, if any, with what is to be said of it. */
function chooseModel({ model: wanted, fix, say }: ProposalRequest, snapshot: Snapshot) {
  const notes: string[] = [];
  const model = findModel(wanted, snapshot, notes);
  if (!model && fix !== undefined)
    refuse("a mapping is mended by a model: configure one, or edit the mapping");
  if (!model && say !== undefined)
    notes.push("without a model your words choose no events: the agent reads them");
  return { model, notes };
}

/**
 * Reads what a proposal is made from, and makes sure that its mapping can be compiled, before a model is paid for.
 * @throws RouseError `usage`, `not_found`, `unknown_model` or `config_invalid` if the proposal cannot be made.
 */
export async function prepare(wanted: ProposalRequest, deps: PrepareDeps) {
  checkRequest(wanted);
  const snapshot = deps.snapshot();
  const { say, agent, deliver } = wanted;
  const events: EventRecord[] = [];
  for (const id of new Set(wanted.events))
    events.push(found(await deps.getEvent(id), unknownId("event", id)));
  const fix =
    wanted.fix === true ? await findNearestMapping(events[0] as EventRecord, snapshot) : wanted.fix;
  const fixed = fix === undefined ? undefined : findFixed(fix, snapshot);
  const name = fix ?? wanted.name ?? "";
  const file = fixed?.file ?? getNewFile(name, snapshot);
  const details = events.map((event) => eventDetail(event, new Map()));
  const samples = await readSamples(details, snapshot, fixed?.value["match"]);
  const { path, masked, leftOut } = samples;
  const paths = snapshot.mappings.mappings.find(({ id }) => id === fix)?.paths ?? [];
  if (paths.length > 0 && !paths.includes(path))
    refuse(`the events came to ${path}, and "${fix}" is a mapping of ${paths.join(", ")}`);
  const { model, notes } = chooseModel(wanted, snapshot);
  const mapping = fix ?? `${name}.event`;
  const job: ProposalJob = { name, file, mapping, say, agent, deliver, fixed, samples, snapshot };
  const draft = fixed ? {} : draftFromShape(job);
  await withLive(job, draft, deps, async (candidate) => requireSnapshot(candidate, INVALID));
  const plan = {
    /** Of the new mapping file, or the id of the mapping that is mended. */
    name,
    file,
    path,
    events: samples.samples.length,
    /** Null: the proposal is made from the shape of the events alone. */
    model: model && planModel(model, job),
    /** Null: a new mapping is drafted. */
    mends: await explainMending(job),
    masked,
    leftOut,
    notes,
  };
  return { job, model, plan, isWritten: !fixed && wanted.write !== false };
}
