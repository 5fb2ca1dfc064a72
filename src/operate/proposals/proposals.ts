import type { ResolvedModel } from "../../agent/types.ts";
import { RouseError, safeError, type Failure } from "../../core/errors.ts";
import { newId } from "../../core/ids.ts";
import type { Logger } from "../../core/log.ts";
import type { Snapshot } from "../../intake/types.ts";
import type { EventRecord } from "../../store/types.ts";
import { compareEvents, requireSnapshot, type CandidateResult } from "../edits/landing-checks.ts";
import type { Landing, LandingDeps } from "../edits/landing.ts";
import type { MappingChange } from "../edits/planned-change.ts";
import { toTexts } from "../edits/user-files.ts";
import { unknownId } from "../../vocabulary/unknown-id.ts";
import { eventDetail, type EventDetail } from "../records/views.ts";
import { writeFixture } from "../tests/fixture-files.ts";
import { recordFixture, type RecordedFixture } from "../tests/fixture-record.ts";
import {
  buildProposal,
  findFixed,
  getNewFile,
  renderEdit,
  tryMapping,
  type MappingTrial,
  type ProposalJob,
  type Wanted,
} from "./job.ts";
import { findNearestMapping, traceConditions } from "./mend.ts";
import { findModel, planModel, runRounds, type Candidate } from "./model.ts";
import type {
  MendedPlan,
  Proposal,
  ProposalLine,
  ProposalPlan,
  ProposalRequest,
  RoundReport,
} from "./proposal-types.ts";
import { draftFromShape, MAX_EVENTS, readSamples, type MappingParts } from "./samples.ts";

/** The context of proposals. */
interface ProposalDeps extends LandingDeps {
  getEvent(id: string): Promise<EventRecord | undefined>;
  land: Landing["land"];
  log: Pick<Logger, "error">;
}

/** The plan of a proposal, before a model is asked. */
interface Prepared {
  job: ProposalJob;
  model: ResolvedModel | null;
  plan: ProposalPlan;
  isWritten: boolean;
}

/** The most that the operator says. */
export const MAX_SAID = 2000;

const refuse = (message: string): never => {
  throw new RouseError({ code: "usage", message });
};

function checkRequest({ name, fix, events, say = "", agent, deliver }: ProposalRequest): void {
  if (name === undefined && fix === undefined)
    refuse("name the new mapping file, or the mapping that is to be mended");
  if (events.length === 0 || events.length > MAX_EVENTS) refuse(`name 1 to ${MAX_EVENTS} events`);
  if (say.length > MAX_SAID) refuse(`say what is wanted in at most ${MAX_SAID} characters`);
  const settings = [agent, ...(deliver ? [deliver.channel, deliver.to] : [])];
  if (settings.some((value) => value?.includes("{{")))
    refuse(
      "the agent, the channel and the recipient of a proposal are no templates: edit the mapping if an event is to choose them",
    );
  if (fix !== undefined && (agent !== undefined || deliver !== undefined))
    refuse("a mapping that is mended keeps its agent, channel and recipient");
}

/** Builds the config with a proposed mapping live, for one use. */
function withLive<T>(
  job: ProposalJob,
  parts: MappingParts,
  deps: ProposalDeps,
  use: (candidate: CandidateResult) => Promise<T>,
): Promise<T> {
  const { live } = buildProposal(job, parts);
  return deps.withCandidate(toTexts(live), use);
}

const tryParts = (
  job: ProposalJob,
  parts: MappingParts,
  wanted: Wanted,
  deps: ProposalDeps,
): Promise<MappingTrial> =>
  withLive(job, parts, deps, (candidate) => tryMapping(candidate, job, wanted));

const INVALID = "the config has problems with the proposed mapping; nothing was written";

/** Says why a mapping does not take the events; null if a new one is proposed. */
async function planMending({ fixed, samples, snapshot }: ProposalJob): Promise<MendedPlan | null> {
  if (!fixed) return null;
  const failed = await traceConditions(fixed, samples, snapshot);
  const reasons = [...failed].map(([condition, [first]]) => ({
    condition,
    reason: first?.reason ?? "",
  }));
  return { mapping: fixed.id, reasons };
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

/** Reads what a proposal is made from, and makes sure that its mapping can be compiled, before a model is paid for. */
async function prepare(wanted: ProposalRequest, deps: ProposalDeps): Promise<Prepared> {
  checkRequest(wanted);
  const snapshot = deps.snapshot();
  const { say, agent, deliver } = wanted;
  const events: EventRecord[] = [];
  for (const id of new Set(wanted.events)) {
    const event = await deps.getEvent(id);
    if (!event) throw new RouseError(unknownId("event", id));
    events.push(event);
  }
  const fix =
    wanted.fix === true ? await findNearestMapping(events[0] as EventRecord, snapshot) : wanted.fix;
  const fixed = fix === undefined ? undefined : findFixed(fix, snapshot);
  const name = fix ?? wanted.name ?? "";
  const file = fixed?.file ?? getNewFile(name, snapshot);
  const details: EventDetail[] = events.map((event) => eventDetail(event, new Map()));
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
  const plan: ProposalPlan = {
    name,
    file,
    path,
    events: samples.samples.length,
    model: model && planModel(model, job),
    mends: await planMending(job),
    masked,
    leftOut,
    notes,
  };
  return { job, model, plan, isWritten: !fixed && wanted.write !== false };
}

/** Makes a mapping from the shape of the events. */
async function proposeFromShape(job: ProposalJob, deps: ProposalDeps): Promise<Candidate> {
  const parts = draftFromShape(job);
  const takes = new Set(job.samples.samples.map((_, index) => index + 1));
  const trial = await tryParts(job, parts, { takes, leaves: new Set() }, deps);
  return { parts, notes: [], trial };
}

type Made = Candidate & Pick<Proposal, "model">;

/**
 * Lets a model propose.
 * @throws RouseError `model_failed` if no answer gave a mapping that takes an event.
 */
async function* proposeWithModel(
  job: ProposalJob,
  model: ResolvedModel,
  signal: AbortSignal,
  deps: ProposalDeps,
): AsyncGenerator<RoundReport, Made> {
  const { best, rounds, usage, failure } = yield* runRounds(job, model, {
    runId: newId("run", deps.now()),
    signal,
    tryParts: (parts, wanted) => tryParts(job, parts, wanted, deps),
  });
  if (!best)
    throw new RouseError({
      code: "model_failed",
      message: `${failure}; nothing was written${job.fixed ? "" : ". `--no-model` (`model: false`) drafts from the shape of the events alone"}`,
    });
  const more = failure === undefined ? [] : [`${failure}; this is the best one`];
  return { ...best, notes: [...best.notes, ...more], model: { ref: model.ref, rounds, usage } };
}

/** A fixture of an event, which is written nowhere yet. */
interface NewFixture {
  eventId: string;
  file: RecordedFixture["file"];
}

type WrittenPart = Pick<Proposal, "fixtures" | "whatIf" | "unwritten" | "notes">;

/** Makes a fixture of each event, with what the mappings do once the proposed one is live. */
async function recordFixtures(
  { samples: { samples } }: ProposalJob,
  live: Snapshot,
): Promise<{ fixtures: NewFixture[]; notes: string[] }> {
  const [fixtures, notes]: [NewFixture[], string[]] = [[], []];
  for (const { event } of samples) {
    const { file, changedBy } = await recordFixture(event, live, {});
    if (!changedBy) fixtures.push({ eventId: event.id, file });
    else
      notes.push(
        `${event.id} has no fixture: masking ${changedBy.join(", ")} changes what the mappings do (\`rouse fixtures add\`)`,
      );
  }
  return { fixtures, notes };
}

/** Writes fixtures, each into a new file. What cannot be written is a note. */
async function writeFixtures(
  fixtures: readonly NewFixture[],
  { config: { hooks } }: Snapshot,
  notes: string[],
): Promise<Proposal["fixtures"]> {
  const written: Proposal["fixtures"] = [];
  for (const { eventId, file } of fixtures) {
    const { outcome, mapping = null } = file.expect;
    const { testsDir } = hooks;
    const place = { testsDir, path: file.request.path, base: mapping ?? outcome, name: undefined };
    try {
      written.push({ file: await writeFixture(file, place), eventId, outcome, mapping });
    } catch (error) {
      const { code = "error" } = error as NodeJS.ErrnoException;
      notes.push(`${eventId} has no fixture: it cannot be written (${code})`);
    }
  }
  return written;
}

/** Writes the mapping in shadow with its fixtures, and compares what it does once it is live. */
async function write(
  job: ProposalJob,
  parts: MappingParts,
  change: MappingChange,
  deps: ProposalDeps,
): Promise<WrittenPart> {
  const { fixtures, notes, whatIf } = await withLive(job, parts, deps, async (candidate) => {
    const live = requireSnapshot(candidate, INVALID);
    return { ...(await recordFixtures(job, live)), whatIf: await compareEvents(live, deps) };
  });
  const landed = await deps.land(change, { by: "propose", confirm: ["failing-tests"] });
  if (!landed.landed) return { fixtures: [], notes, whatIf, unwritten: landed };
  return {
    fixtures: await writeFixtures(fixtures, job.snapshot, notes),
    notes,
    whatIf,
    unwritten: null,
  };
}

async function finish(
  { job, plan, isWritten }: Prepared,
  { parts, trial, notes, model }: Made,
  deps: ProposalDeps,
): Promise<Proposal> {
  const { change, live } = buildProposal(job, parts);
  const { text } = change;
  const written: WrittenPart = isWritten
    ? await write(job, parts, change, deps)
    : { fixtures: [], whatIf: null, unwritten: null, notes: [] };
  return {
    name: job.name,
    file: live.file,
    text,
    mapping: job.mapping,
    edit: job.fixed ? renderEdit(job.fixed, text, live) : null,
    model,
    events: trial.events,
    problems: trial.problems,
    ...written,
    notes: [...plan.notes, ...notes, ...written.notes],
  };
}

/** Makes a proposal that is prepared: a mapping from the shape of the events or from a model, then its file and its fixtures. */
async function* run(
  prepared: Prepared,
  signal: AbortSignal,
  deps: ProposalDeps,
): AsyncGenerator<ProposalLine> {
  const { job, model, plan } = prepared;
  yield { type: "plan", plan };
  try {
    let made: Made;
    if (model) {
      const rounds = proposeWithModel(job, model, signal, deps);
      let step = await rounds.next();
      for (; !step.done; step = await rounds.next()) yield { type: "round", ...step.value };
      made = step.value;
    } else made = { ...(await proposeFromShape(job, deps)), model: null };
    // A caller that has left would not see what is written.
    if (signal.aborted) return;
    yield { type: "end", ok: true, proposal: await finish(prepared, made, deps) };
  } catch (error) {
    const { code, message } = toFailure(error, deps.log);
    yield { type: "end", ok: false, code, message };
  }
}

function toFailure(error: unknown, log: ProposalDeps["log"]): Failure {
  if (error instanceof RouseError) return error;
  log.error({ err: safeError(error) }, "a proposal failed");
  const message = "something failed inside the gateway; its log has the details";
  return { code: "internal", message };
}

/** Proposes mappings, with fixtures, from recorded events. What it writes is in shadow, and it starts no run. */
export interface Proposals {
  /**
   * Says what making a proposal will do and cost. Asks no model and writes nothing.
   * @throws RouseError `usage`, `not_found`, `unknown_model` or `config_invalid` if the proposal cannot be made.
   */
  check(wanted: ProposalRequest): Promise<ProposalPlan>;
  /**
   * Makes a proposal, line by line; what goes wrong after the plan is the last line.
   * @throws RouseError as `check` does.
   */
  propose(wanted: ProposalRequest, signal: AbortSignal): Promise<AsyncGenerator<ProposalLine>>;
}

/** Creates what makes proposals. */
export const createProposals = (deps: ProposalDeps): Proposals => ({
  check: async (wanted) => (await prepare(wanted, deps)).plan,
  propose: async (wanted, signal) => run(await prepare(wanted, deps), signal, deps),
});
