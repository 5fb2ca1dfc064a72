import type { Snapshot } from "../../intake/types.ts";
import type { EventRecord } from "../../store/types.ts";
import { unknownId } from "../../vocabulary/unknown-id.ts";
import { requireSnapshot, type ComparisonDeps } from "../edits/landing-checks.ts";
import { found, refuse } from "../records/operation.ts";
import { eventDetail } from "../records/views.ts";
import { getNewFile, withLive, type ProposalJob } from "./job.ts";
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

function checkRequest({ agent, deliver }: ProposalRequest): void {
  const settings = [agent, ...(deliver ? [deliver.channel, deliver.to] : [])];
  if (settings.some((value) => value?.includes("{{")))
    refuse(
      "the agent, the channel and the recipient of a proposal are no templates: edit the mapping if an event is to choose them",
    );
}

/** Chooses the model that is asked, if any, with what is to be said of it. */
function chooseModel({ model: wanted, say }: ProposalRequest, snapshot: Snapshot) {
  const notes: string[] = [];
  const model = findModel(wanted, snapshot, notes);
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
  const { name, say, agent, deliver } = wanted;
  const events: EventRecord[] = [];
  for (const id of new Set(wanted.events))
    events.push(found(await deps.getEvent(id), unknownId("event", id)));
  const file = getNewFile(name, snapshot);
  const details = events.map((event) => eventDetail(event, new Map()));
  const samples = await readSamples(details, snapshot);
  const { path, masked, leftOut } = samples;
  const { model, notes } = chooseModel(wanted, snapshot);
  const mapping = `${name}.event`;
  const job: ProposalJob = { name, file, mapping, say, agent, deliver, samples, snapshot };
  await withLive(job, draftFromShape(job), deps, async (candidate) =>
    requireSnapshot(candidate, INVALID),
  );
  const plan = {
    /** Of the new mapping file. */
    name,
    file,
    path,
    events: samples.samples.length,
    /** Null: the proposal is made from the shape of the events alone. */
    model: model && planModel(model, job),
    masked,
    leftOut,
    notes,
  };
  return { job, model, plan, isWritten: wanted.write };
}
