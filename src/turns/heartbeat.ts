import type { Agent } from "../agent/types.ts";
import { backOff, WAITS } from "../core/backoff.ts";
import { newId } from "../core/ids.ts";
import { plainText } from "../core/text.ts";
import { joinTraces } from "../core/http/trace-context.ts";
import {
  buildHeartbeatEvent,
  findHeartbeatRun,
  HEARTBEAT_RUN_KEY,
  isHopeless,
  renderBatch,
  selectBatch,
  type HeartbeatJob,
} from "../queue/heartbeat.ts";
import {
  mainSession,
  newRun,
  type HeartbeatRun,
  type HeartbeatSpec,
  type Job,
  type Ms,
  type RouteDecision,
  type SystemEvent,
  type ToolCallRecord,
} from "../store/types.ts";
import type { FailedTurn, Prepared, RunEnd, RunKind } from "./try.ts";
import { appendTurn, decideRoute, planAnswer } from "./end-run.ts";
import type { TurnDeps } from "./context.ts";

/** The reply to a heartbeat that found nothing for the owner. */
const TOKEN = "HEARTBEAT_OK";
const HEARTBEAT_RULES = `This is a heartbeat: look at the system events and do what your instructions say about them. If nothing needs the owner's attention, reply only ${TOKEN}.`;
const MAX_QUEUE = 200;
const ACKNOWLEDGED: RouteDecision = { status: "skipped", reason: "only an acknowledgement" };

/** Markup or punctuation that may stand around the token: at most four marks on each side. */
const MARKS = "[*_~`\"'.!,;:()\\[\\]<>#-]";
const AT_START = new RegExp(
  `^\\s*(?:<b>|<strong>|<code>|${MARKS}){0,4}\\s*${TOKEN}(?:</b>|</strong>|</code>|${MARKS}){0,4}(?=\\s|$)`,
);
const AT_END = new RegExp(
  `(?<=\\s|^)(?:<b>|<strong>|<code>|${MARKS}){0,4}${TOKEN}(?:</b>|</strong>|</code>|${MARKS}){0,4}\\s*$`,
);

function withoutToken(reply: string): { found: boolean; text: string } {
  const started = reply.replace(AT_START, "");
  const text = started.replace(AT_END, "");
  return { found: text.length !== reply.length, text: text.trim() };
}

/**
 * Tells whether a heartbeat's reply is only an acknowledgement: HEARTBEAT_OK at the start or the end, with at most
 * `ackMaxChars` of other text. Otherwise `text` is the reply without the token.
 */
export function parseAck(
  reply: string,
  ackMaxChars: number,
): { acknowledged: boolean; text: string } {
  const { found, text } = withoutToken(reply);
  if (!found) return { acknowledged: false, text: reply };
  return { acknowledged: text.length <= ackMaxChars, text };
}

/** A hook run's reply without the token; empty if the reply was only the token. */
export function stripAck(reply: string): string {
  const { found, text } = withoutToken(reply);
  return found ? text : reply;
}

function buildSpec({ id, heartbeat }: Agent, batch: readonly SystemEvent[]): HeartbeatSpec {
  return {
    session: mainSession(id),
    name: "Heartbeat",
    hook: "heartbeat",
    input:
      batch.length > 0
        ? renderBatch(batch)
        : [{ text: "Nothing has been queued since the last heartbeat.", outside: false }],
    instructions: [HEARTBEAT_RULES, heartbeat.instructions].filter(Boolean).join("\n"),
    target: {
      channel: heartbeat.channel,
      ...(heartbeat.to === undefined ? {} : { to: heartbeat.to }),
    },
    ...(heartbeat.model === undefined ? {} : { model: heartbeat.model }),
    ...joinTraces(batch),
  };
}

const buildRun = (
  agent: Agent,
  batch: readonly SystemEvent[],
  job: Job,
  createdAt: Ms,
): HeartbeatRun =>
  newRun<HeartbeatRun>({
    id: newId("run", createdAt),
    kind: "heartbeat",
    spec: buildSpec(agent, batch),
    attempts: job.attempts - 1,
    systemEventIds: batch.map(({ id }) => id),
    createdAt,
  });

interface FailedHeartbeat {
  run: HeartbeatRun;
  /** True if it has called a tool that may change something: another run over the same events would call it again. */
  hasActed: boolean;
  failure: FailedTurn;
  batch: readonly SystemEvent[];
  job: Job;
  /** Milliseconds since the epoch: when the turn ended. */
  now: Ms;
}

/** The system event about events that no heartbeat sees any more. */
function renderParked({ run, hasActed, batch }: FailedHeartbeat): string {
  const [first] = batch;
  const where = "`rouse events` and `rouse doctor` show";
  if (!hasActed)
    return `The system event ${first?.id} was parked: heartbeats that saw it failed ${(first?.failures ?? 0) + 1} times. ${where} it.`;
  return `${batch.length} system events were parked: the heartbeat ${run.id} failed after it had called tools, which a repeat would call again. ${where} them.`;
}

/**
 * Plans the end of a failed heartbeat: its events stay queued. They are parked if it has acted on them, or if there is one
 * that no smaller batch can be made of.
 */
function planFailure(failed: FailedHeartbeat, log: TurnDeps["log"]): RunEnd {
  const { run, hasActed, failure, batch, job, now } = failed;
  const ids = batch.map((event) => event.id);
  const parked = (hasActed && ids.length > 0) || isHopeless(batch);
  const failures = batch[0]?.failures ?? 0;
  return {
    write(tx) {
      tx.systemEvents.update(ids, parked ? { state: "parked", failed: true } : { failed: true });
      if (parked)
        tx.systemEvents.add(
          buildHeartbeatEvent(run.spec.session.agentId, now, "heartbeat", renderParked(failed)),
        );
      const waitMs = parked ? 0 : (failure.retryAfterMs ?? backOff(failures + 1, WAITS.heartbeat));
      tx.jobs.settle(job, now + waitMs, { resetAttempts: true });
    },
    after: () =>
      log.warn(
        { runId: run.id, code: failure.code, events: ids.length, parked },
        "a heartbeat failed; its events stay queued",
      ),
  };
}

const isAct = ({ state, readOnly }: ToolCallRecord): boolean =>
  !readOnly && !["planned", "waiting", "denied"].includes(state);

function prepareHeartbeat(
  { hook, instructions }: HeartbeatSpec,
  batch: readonly SystemEvent[],
): Prepared<HeartbeatRun> {
  return {
    input: { hook, instructions, heartbeat: true },
    // Without events there is nothing to look up: the input only says so.
    question: plainText(batch.flatMap((event) => event.text)),
  };
}

/** A heartbeat: one turn over the queued system events, which stay queued until it has succeeded. */
export function createHeartbeatRun(
  job: Job,
  { agentId }: HeartbeatJob,
  deps: TurnDeps,
): RunKind<HeartbeatRun> {
  const { store, clock } = deps;
  const context = deps.snapshot();
  const agent = context.agents.get(agentId);
  let batch: SystemEvent[] = [];

  /** Wakes that came while the heartbeat was under way could not ask for one more: its job was there. */
  const afterwards = async (): Promise<void> => {
    deps.heartbeat.ended(agentId);
    const left = await store.systemEvents.listQueued({ agentId, limit: MAX_QUEUE });
    if (left.some((event) => event.mode === "now")) deps.heartbeat.request(agentId);
  };

  return {
    context,
    job,
    // The job is tried again, but as another run: with the events that are queued then.
    isRetried: false,
    start: "never",
    async load() {
      const queued = await store.systemEvents.listQueued({ agentId, limit: MAX_QUEUE });
      const begun = await findHeartbeatRun(agentId, store);
      batch = begun
        ? queued.filter(({ id }) => begun.systemEventIds.includes(id))
        : selectBatch(queued);
      if (begun) return { run: begun, agent, isStored: true };
      if (!agent || (queued.length === 0 && agent.heartbeat.instructions === undefined)) {
        await store.commit((tx) => tx.jobs.settle(job), job);
        await afterwards();
        return undefined;
      }
      return { run: buildRun(agent, batch, job, clock.now()), agent, isStored: false };
    },
    writeFirst: (tx, run) => tx.values.set(HEARTBEAT_RUN_KEY + agentId, run.id),
    prepare: ({ spec }) => Promise.resolve(prepareHeartbeat(spec, batch)),
    async finish(run, result, now, steps) {
      const hasActed = steps.some(({ calls }) => calls.some(isAct));
      if (!result.ok)
        return planFailure({ run, hasActed, failure: result, batch, job, now }, deps.log);
      const ids = batch.map((event) => event.id);
      const { acknowledged, text } = parseAck(result.text, agent?.heartbeat.ackMaxChars ?? 0);
      const { target } = run.spec;
      const route = acknowledged
        ? ACKNOWLEDGED
        : await decideRoute(run, { target, agentId }, context, deps);
      return {
        ...(acknowledged
          ? { change: { reply: result.text, route } }
          : planAnswer(run, { ...result, text, route, target }, context, now)),
        write(tx) {
          appendTurn(tx, run, result, context, now);
          tx.systemEvents.update(ids, { state: "done" });
          tx.jobs.settle(job);
        },
        after: afterwards,
      };
    },
  };
}
