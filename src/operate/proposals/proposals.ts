import { RouseError, safeError, type Failure } from "../../core/errors.ts";
import { newId } from "../../core/ids.ts";
import type { Logger } from "../../core/log.ts";
import { compareEvents, requireSnapshot } from "../edits/landing-checks.ts";
import type { Landing, LandingDeps } from "../edits/landing.ts";
import { freezeTest } from "../tests/freeze.ts";
import type { WhatIfReport } from "../what-if/what-if.ts";
import { renderProposal, tryMapping, withLive, type ProposalJob } from "./job.ts";
import { askForMapping, wantAll, type Made, type RoundLine } from "./model.ts";
import {
  INVALID,
  prepare,
  type PrepareDeps,
  type PreparedProposal,
  type ProposalPlan,
} from "./prepare.ts";
import type { ProposalRequest } from "./proposal-request.ts";
import { draftFromShape } from "./samples.ts";

/** The dependencies of making proposals. */
interface ProposalDeps extends LandingDeps, PrepareDeps {
  land: Landing["land"];
  log: Pick<Logger, "error">;
}

/** The files that a proposal has become. */
interface Written {
  fixtures: { file: string; eventId: string; outcome: string; mapping: string | null }[];
  /** Changes for the last 1,000 events once it is live; null if they cannot be compared, or nothing is written. */
  whatIf: WhatIfReport | null;
  /** If the file could not be written: why, and the file as a patch. */
  unwritten: { reason: string; patch: string } | null;
  notes: string[];
}

/** A mapping that was made, in shadow, and its effects. */
export type Proposal = Awaited<ReturnType<typeof finish>>;

/** The lines of a proposal that is being made, in this order: one `plan`, a `round` for each answer of the model, one `end`. */
export type ProposalLine =
  | { type: "plan"; plan: ProposalPlan }
  | RoundLine
  | { type: "end"; ok: true; proposal: Proposal }
  | { type: "end"; ok: false; code: string; message: string };

/** Writes the mapping in shadow, and a fixture of each event with what the mappings do once it is live. */
function write(job: ProposalJob, { parts }: Made, deps: ProposalDeps): Promise<Written> {
  return withLive(job, parts, deps, async (candidate) => {
    const live = requireSnapshot(candidate, INVALID);
    const whatIf = await compareEvents(live, deps);
    const { name } = job;
    const change = {
      kind: "file" as const,
      file: `${name}.json`,
      text: renderProposal(job, parts),
    };
    const landed = await deps.land(change, { by: "propose", confirm: ["failing-tests"] });
    const written: Written = { fixtures: [], notes: [], whatIf, unwritten: null };
    if (!landed.landed) return { ...written, unwritten: landed };
    for (const { event } of job.samples.samples) {
      const { id: eventId } = event;
      try {
        const frozen = await freezeTest({ event }, live, { mask: [], keep: [] });
        const { written: file, changedBy, expect } = frozen;
        const { mapping = null } = expect;
        if (file !== null)
          written.fixtures.push({ file, eventId, outcome: String(expect.outcome), mapping });
        else
          written.notes.push(
            `${eventId} has no fixture: masking ${changedBy?.join(", ")} changes what the mappings do (\`rouse test add\`)`,
          );
      } catch (error) {
        const { message } = error as Error;
        written.notes.push(`${eventId} has no fixture: ${message}`);
      }
    }
    return written;
  });
}

async function finish({ job, plan, isWritten }: PreparedProposal, made: Made, deps: ProposalDeps) {
  const { parts, notes, ...tried } = made;
  const written: Written = isWritten
    ? await write(job, made, deps)
    : { fixtures: [], whatIf: null, unwritten: null, notes: [] };
  return {
    name: job.name,
    file: job.file,
    text: renderProposal(job, parts),
    /** The id of the mapping. */
    mapping: job.mapping,
    ...tried,
    ...written,
    notes: [...plan.notes, ...notes, ...written.notes],
  };
}

/** Makes a proposal that is prepared: a mapping from a model or from the shape of the events, then its file and its fixtures. */
async function* run(
  prepared: PreparedProposal,
  signal: AbortSignal,
  deps: ProposalDeps,
): AsyncGenerator<ProposalLine> {
  const { job, model, plan } = prepared;
  yield { type: "plan", plan };
  const tryParts: Parameters<typeof askForMapping>[2]["tryParts"] = (parts, wanted) =>
    withLive(job, parts, deps, (candidate) => tryMapping(candidate, job, wanted));
  try {
    let made: Made;
    if (model) {
      const runId = newId("run", deps.now());
      made = yield* askForMapping(job, model, { runId, signal, tryParts });
    } else {
      const parts = draftFromShape(job);
      const { problems, events } = await tryParts(parts, wantAll(job));
      made = { parts, notes: [], problems, events, model: null };
    }
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

/** Creates what proposes mappings, with fixtures, from recorded events. What it writes is in shadow, and it starts no run. */
export const createProposals = (deps: ProposalDeps) => ({
  /**
   * Says what making a proposal will do and cost. Asks no model and writes nothing.
   * @throws RouseError `usage`, `not_found`, `unknown_model` or `config_invalid` if the proposal cannot be made.
   */
  check: async (wanted: ProposalRequest): Promise<ProposalPlan> =>
    (await prepare(wanted, deps)).plan,
  /**
   * Makes a proposal, line by line; what goes wrong after the plan is the last line.
   * @throws RouseError as `check` does.
   */
  propose: async (
    wanted: ProposalRequest,
    signal: AbortSignal,
  ): Promise<AsyncGenerator<ProposalLine>> => run(await prepare(wanted, deps), signal, deps),
});
