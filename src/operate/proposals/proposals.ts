import type { ResolvedModel } from "../../agent/types.ts";
import { eventDetail, type EventDetail } from "../records/views.ts";
import { RouseError, safeError, type Failure } from "../../core/errors.ts";
import { newId } from "../../core/ids.ts";
import type { Logger } from "../../core/log.ts";
import type { Snapshot } from "../../intake/types.ts";
import type { EventRecord } from "../../store/types.ts";
import { draftMapping } from "./draft-mapping.ts";
import { writeFixture } from "../tests/fixture-files.ts";
import { recordFixture, type RecordedFixture } from "../tests/fixture-record.ts";
import { compareEvents, type CandidateResult } from "../edits/landing-checks.ts";
import type { Landing, LandingDeps } from "../edits/landing.ts";
import { findMapping, type MappingChange } from "../edits/planned-change.ts";
import type { AnswerContext, MappingParts } from "./proposal-answer.ts";
import { findNearestMapping, planMending, renderEdit } from "./proposal-edit.ts";
import { mendMapping } from "./proposal-mend.ts";
import {
  findModel,
  MAX_ROUNDS,
  MAX_TOKENS,
  planModel,
  runRounds,
  type Candidate,
  type RoundsEnd,
} from "./proposal-rounds.ts";
import { MAX_EVENTS, readSamples, type Samples } from "./proposal-samples.ts";
import {
  buildProposal,
  findFixed,
  getMappingId,
  getNewFile,
  type FixedMapping,
  type ProposalFrame,
} from "./proposal-text.ts";
import { tryMapping, type MappingTrial, type Wanted } from "./proposal-trial.ts";
import type { Proposal, ProposalLine, ProposalPlan, ProposalRequest } from "./proposal-types.ts";

/** What making proposals needs. */
export interface ProposalDeps extends LandingDeps {
  snapshot(): Snapshot;
  getEvent(id: string): Promise<EventRecord | undefined>;
  land: Landing["land"];
  log: Pick<Logger, "error">;
}

/** What is known before a model is asked. */
interface Prepared {
  snapshot: Snapshot;
  frame: ProposalFrame;
  context: AnswerContext;
  samples: Samples;
  model: ResolvedModel | null;
  plan: ProposalPlan;
  isWritten: boolean;
}

/** The most that the operator says. */
export const MAX_SAID = 2000;

const refuse = (message: string): never => {
  throw new RouseError({ code: "usage", message });
};

const WITHOUT_MODEL = "`--no-model` (`model: false`) drafts from the shape of the events alone";

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

async function findEvent(id: string, { getEvent }: ProposalDeps): Promise<EventRecord> {
  const event = await getEvent(id);
  if (!event) throw new RouseError({ code: "not_found", message: `there is no event ${id}` });
  return event;
}

async function readEvents(ids: readonly string[], deps: ProposalDeps): Promise<EventDetail[]> {
  const events: EventDetail[] = [];
  for (const id of new Set(ids)) events.push(eventDetail(await findEvent(id, deps), new Map()));
  return events;
}

/** The parts of a mapping from the shape of the events. */
function draftFromShape(
  { name, path }: ProposalFrame,
  { samples, standIns }: Samples,
): MappingParts {
  const payloads = samples.map(({ input }) => input.payload);
  const { match, id: _id, ...rest } = draftMapping(name, path, payloads);
  // Real events do not have a stand-in.
  const conditions = Object.entries(match.payload ?? {}).filter(
    ([, value]) => ![value].flat().some((one) => standIns.has(String(one))),
  );
  return { payload: Object.fromEntries(conditions), ...rest };
}

/** Builds the config with a proposed mapping live, for one use. */
function withLive<T>(
  { frame, snapshot }: Pick<Prepared, "frame" | "snapshot">,
  parts: MappingParts,
  deps: ProposalDeps,
  use: (candidate: CandidateResult) => Promise<T>,
): Promise<T> {
  const { live } = buildProposal(frame, parts, snapshot, deps.places());
  return deps.withCandidate(new Map([[live.file, live.after]]), use);
}

const tryParts = (
  prepared: Prepared,
  parts: MappingParts,
  wanted: Wanted,
  deps: ProposalDeps,
): Promise<MappingTrial> =>
  withLive(prepared, parts, deps, (candidate) =>
    tryMapping(candidate, getMappingId(prepared.frame), prepared.samples.samples, wanted),
  );

const takeAll = ({ samples }: Samples): Wanted => ({
  takes: new Set(samples.map((_, index) => index + 1)),
  leaves: new Set(),
});

/** @throws RouseError `config_invalid` if the config has problems with the proposed mapping. */
function requireSnapshot(candidate: CandidateResult): Snapshot {
  if (candidate.ok) return candidate.snapshot;
  const message = "the config has problems with the proposed mapping; nothing was written";
  throw new RouseError({ code: "config_invalid", message, issues: candidate.issues });
}

/** Makes sure that a mapping with the operator's settings can be compiled, before a model is paid for. */
async function checkSettings(prepared: Prepared, deps: ProposalDeps): Promise<void> {
  const parts = prepared.frame.fixed ? {} : draftFromShape(prepared.frame, prepared.samples);
  await withLive(prepared, parts, deps, async (candidate) => requireSnapshot(candidate));
}

/** What a proposal may read and write of a mapping; the rest may hold secrets. */
function pickParts({ value }: FixedMapping): NonNullable<AnswerContext["fixed"]> {
  const parts = ["match", "name", "sessionKey", "messageTemplate"];
  return Object.fromEntries(Object.entries(value).filter(([name]) => parts.includes(name)));
}

/** The id of the mapping that is to be mended; undefined if a new one is proposed. */
async function findFix(
  { fix, events: [first = ""] }: ProposalRequest,
  snapshot: Snapshot,
  deps: ProposalDeps,
): Promise<string | undefined> {
  return fix === true ? findNearestMapping(await findEvent(first, deps), snapshot) : fix;
}

async function prepare(wanted: ProposalRequest, deps: ProposalDeps): Promise<Prepared> {
  checkRequest(wanted);
  const snapshot = deps.snapshot();
  const { say, agent, deliver } = wanted;
  const places = deps.places();
  const fix = await findFix(wanted, snapshot, deps);
  const fixed = fix === undefined ? undefined : findFixed(fix, snapshot, places);
  const name = fix ?? wanted.name ?? "";
  const file =
    fix === undefined
      ? getNewFile(name, snapshot, places)
      : findMapping(fix, snapshot, places).file;
  const samples = await readSamples(
    await readEvents(wanted.events, deps),
    snapshot,
    fixed?.value["match"],
  );
  const { path, masked, leftOut } = samples;
  const paths = snapshot.mappings.mappings.find(({ id }) => id === fix)?.paths ?? [];
  if (paths.length > 0 && !paths.includes(path))
    refuse(`the events came to ${path}, and "${fix}" is a mapping of ${paths.join(", ")}`);
  const notes: string[] = [];
  const model = findModel(wanted.model, snapshot, notes);
  if (!model && say !== undefined)
    notes.push(
      "what you say is kept in the description alone: without a model nothing can follow it",
    );
  const frame: ProposalFrame = {
    name,
    file,
    say,
    path,
    events: samples.samples.length,
    settings: { agent, deliver },
    fixed,
  };
  const context: AnswerContext = { name, samples, say, ...(fixed && { fixed: pickParts(fixed) }) };
  const plan: ProposalPlan = {
    name,
    file,
    path,
    events: samples.samples.length,
    model: planModel(model, context, snapshot),
    mends: fixed ? await planMending(fixed, samples, snapshot) : null,
    masked,
    leftOut,
    notes,
  };
  const prepared = {
    snapshot,
    frame,
    context,
    samples,
    model,
    plan,
    isWritten: !fixed && wanted.write !== false,
  };
  await checkSettings(prepared, deps);
  return prepared;
}

/** Makes a mapping from the shape of the events, or mends one by it. */
async function proposeFromShape(prepared: Prepared, deps: ProposalDeps): Promise<Candidate> {
  const { frame, samples, snapshot } = prepared;
  const { parts, notes } = frame.fixed
    ? await mendMapping(frame.fixed, samples, snapshot)
    : { parts: draftFromShape(frame, samples), notes: [] };
  if (Object.keys(parts).length === 0)
    refuse(
      `nothing of "${frame.fixed?.id}" can be mended from the shape of the events${notes.length > 0 ? `: ${notes.join("; ")}` : ": it takes them"}`,
    );
  return { parts, notes, trial: await tryParts(prepared, parts, takeAll(samples), deps) };
}

/** Why the rounds ended without a good answer. */
function describeEnd({ ended, rounds, failure }: RoundsEnd): string {
  if (ended === "failed") return `the model gave no answer: ${failure}`;
  const limit =
    ended === "tokens"
      ? `the limit of ${MAX_TOKENS.toLocaleString("en")} tokens`
      : `the limit of ${MAX_ROUNDS} rounds`;
  return `no answer of the model was good enough in ${rounds} ${rounds === 1 ? "round" : "rounds"} (${limit})`;
}

/** @throws RouseError `model_failed` if no answer gave a mapping that takes an event. */
function pickBest(end: RoundsEnd): Candidate {
  if (!end.best)
    throw new RouseError({
      code: "model_failed",
      message: `${describeEnd(end)}; nothing was written. ${WITHOUT_MODEL}`,
    });
  if (end.ended === "good") return end.best;
  return { ...end.best, notes: [...end.best.notes, `${describeEnd(end)}; this is the best one`] };
}

/** A fixture of an event, which is written nowhere yet. */
interface NewFixture {
  eventId: string;
  file: RecordedFixture["file"];
}

/** Makes a fixture of each event, with what the mappings do once the proposed one is live. */
async function recordFixtures(
  { samples }: Samples,
  snapshot: Snapshot,
): Promise<{ fixtures: NewFixture[]; notes: string[] }> {
  const [fixtures, notes]: [NewFixture[], string[]] = [[], []];
  for (const { event } of samples) {
    const { file, changedBy } = await recordFixture(event, snapshot, {});
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
  { config }: Snapshot,
): Promise<Pick<Proposal, "fixtures" | "notes">> {
  const written: Pick<Proposal, "fixtures" | "notes"> = { fixtures: [], notes: [] };
  for (const { eventId, file } of fixtures) {
    const { outcome, mapping = null } = file.expect;
    const { path } = file.request;
    const place = { testsDir: config.hooks.testsDir, path, base: mapping ?? outcome };
    try {
      const name = await writeFixture(file, { ...place, name: undefined });
      written.fixtures.push({ file: name, eventId, outcome, mapping });
    } catch (error) {
      const { code = "error" } = error as NodeJS.ErrnoException;
      written.notes.push(`${eventId} has no fixture: it cannot be written (${code})`);
    }
  }
  return written;
}

type WrittenPart = Pick<Proposal, "fixtures" | "whatIf" | "unwritten" | "notes">;

/** Writes the mapping in shadow with its fixtures, and compares what it does once it is live. */
async function write(
  prepared: Prepared,
  parts: MappingParts,
  change: MappingChange,
  deps: ProposalDeps,
): Promise<WrittenPart> {
  const { made, whatIf } = await withLive(prepared, parts, deps, async (candidate) => {
    const live = requireSnapshot(candidate);
    return {
      made: await recordFixtures(prepared.samples, live),
      whatIf: await compareEvents(live, deps),
    };
  });
  const landed = await deps.land(change, { by: "propose", confirm: ["failing-tests"] });
  if (!landed.landed) return { ...made, fixtures: [], whatIf, unwritten: landed };
  const written = await writeFixtures(made.fixtures, prepared.snapshot);
  return { ...written, whatIf, unwritten: null, notes: [...made.notes, ...written.notes] };
}

const UNWRITTEN: WrittenPart = { fixtures: [], whatIf: null, unwritten: null, notes: [] };

async function finish(
  prepared: Prepared,
  { parts, trial, notes }: Candidate,
  model: Proposal["model"],
  deps: ProposalDeps,
): Promise<Proposal> {
  const { frame, snapshot, isWritten } = prepared;
  const { change, live } = buildProposal(frame, parts, snapshot, deps.places());
  const { text } = change;
  const written = isWritten ? await write(prepared, parts, change, deps) : UNWRITTEN;
  return {
    name: frame.name,
    file: live.file,
    text,
    mapping: getMappingId(frame),
    edit: frame.fixed ? renderEdit(frame.fixed, text, live) : null,
    model,
    events: trial.events,
    problems: trial.problems,
    ...written,
    notes: [...prepared.plan.notes, ...notes, ...written.notes],
  };
}

async function* run(
  prepared: Prepared,
  signal: AbortSignal,
  deps: ProposalDeps,
): AsyncGenerator<ProposalLine> {
  const { model, context, snapshot, plan } = prepared;
  yield { type: "plan", plan };
  if (!model) {
    yield {
      type: "end",
      ok: true,
      proposal: await finish(prepared, await proposeFromShape(prepared, deps), null, deps),
    };
    return;
  }
  const rounds = runRounds({
    context,
    model,
    runtime: snapshot.runtime,
    runId: newId("run", deps.now()),
    signal,
    tryParts: (parts, wanted) => tryParts(prepared, parts, wanted, deps),
  });
  let step = await rounds.next();
  for (; !step.done; step = await rounds.next()) yield { type: "round", ...step.value };
  // The caller has left: nothing is written that it does not see.
  if (signal.aborted) return;
  const end = step.value;
  const best = pickBest(end);
  const used = { ref: model.ref, rounds: end.rounds, usage: end.usage };
  yield { type: "end", ok: true, proposal: await finish(prepared, best, used, deps) };
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
export function createProposals(deps: ProposalDeps): Proposals {
  const toFailure = (error: unknown): Failure => {
    if (error instanceof RouseError) return error;
    deps.log.error({ err: safeError(error) }, "a proposal failed");
    return {
      code: "internal",
      message: "something failed inside the gateway; its log has the details",
    };
  };
  async function* runSafely(prepared: Prepared, signal: AbortSignal): AsyncGenerator<ProposalLine> {
    try {
      yield* run(prepared, signal, deps);
    } catch (error) {
      const { code, message } = toFailure(error);
      yield { type: "end", ok: false, code, message };
    }
  }
  return {
    check: async (wanted) => (await prepare(wanted, deps)).plan,
    propose: async (wanted, signal) => runSafely(await prepare(wanted, deps), signal),
  };
}
