import {
  type ApprovalRecord,
  ID_TAKEN,
  type Ms,
  NOT_OPEN,
  RouseError,
  type Sql,
  type ToolCallRecord,
  type toStepRow,
  withChange,
  withRefused,
} from "#store-kit";
import type { StepOp } from "./write-log.ts";

/** What has to be read of the steps of runs before a group is planned. */
export interface WantedSteps {
  steps: { runId: string; index: number }[];
  calls: { runId: string; callId: string }[];
  results: string[];
  approvals: string[];
  codes: string[];
}

export interface LoadedSteps {
  /** Steps and stored results that are there, by `toKey` and by id. */
  steps: ReadonlySet<string>;
  results: ReadonlySet<string>;
  /** Tool calls by `toKey`, locked. */
  calls: ReadonlyMap<string, PlannedCall>;
  /** Approvals, locked: those that are asked for by id, and open ones with a code that is asked for. */
  approvals: readonly ApprovalRecord[];
}

export interface PlannedCall {
  fresh: boolean;
  runId: string;
  step: number;
  position: number;
  at: Ms;
  record: ToolCallRecord;
}

interface PlannedApproval {
  fresh: boolean;
  changed: boolean;
  approval: ApprovalRecord;
}

const toKey = (runId: string, of: string | number): string => `${runId}\n${of}`;

export const wantNoSteps = (): WantedSteps => ({
  steps: [],
  calls: [],
  results: [],
  approvals: [],
  codes: [],
});

/** Notes what has to be read for `op`. What is new is looked for only with `careful`: otherwise its insert fails if it is there. */
export function wantSteps(wanted: WantedSteps, op: StepOp, careful: boolean): void {
  if (op.op === "call") wanted.calls.push(op);
  if (op.op === "decision" || op.op === "refused") wanted.approvals.push(op.id);
  if (!careful) return;
  if (op.op === "step") wanted.steps.push(op.row);
  if (op.op === "result") wanted.results.push(op.id);
  if (op.op !== "approval") return;
  wanted.approvals.push(op.approval.id);
  wanted.codes.push(op.approval.code);
}

async function readCalls(sql: Sql, calls: WantedSteps["calls"]): Promise<LoadedSteps["calls"]> {
  if (calls.length === 0) return new Map();
  const rows = await sql.query<
    Omit<PlannedCall, "fresh" | "runId" | "record"> & { run_id: string; record: string }
  >(
    `SELECT run_id, step, position, at, record FROM tool_calls WHERE run_id = ANY($1::text[]) AND id = ANY($2::text[])
      ORDER BY run_id, step, position FOR NO KEY UPDATE`,
    [
      [...new Set(calls.map(({ runId }) => runId))],
      [...new Set(calls.map(({ callId }) => callId))],
    ],
  );
  return new Map(
    rows.map(({ run_id: runId, record, ...row }) => {
      const call = JSON.parse(record) as ToolCallRecord;
      return [toKey(runId, call.id), { ...row, fresh: false, runId, record: call }];
    }),
  );
}

export const NO_STEPS: LoadedSteps = {
  steps: new Set(),
  results: new Set(),
  calls: new Map(),
  approvals: [],
};

/** Reads what a group has to know of steps, with locks on what it may change. */
export async function loadSteps(sql: Sql, wanted: WantedSteps): Promise<LoadedSteps> {
  const { steps, calls, results, approvals, codes } = wanted;
  const read = async <Row>(
    ids: readonly unknown[],
    text: string,
    values: readonly unknown[],
  ): Promise<Row[]> => (ids.length === 0 ? [] : sql.query<Row>(text, values));
  const [stepRows, callRows, resultRows, approvalRows] = await Promise.all([
    read<{ run_id: string; step: number }>(
      steps,
      "SELECT run_id, step FROM steps WHERE (run_id, step) IN (SELECT * FROM unnest($1::text[], $2::int[]))",
      [steps.map(({ runId }) => runId), steps.map(({ index }) => index)],
    ),
    readCalls(sql, calls),
    read<{ id: string }>(results, "SELECT id FROM tool_results WHERE id = ANY($1::text[])", [
      results,
    ]),
    read<{ record: string }>(
      approvals,
      `SELECT record FROM approvals WHERE id = ANY($1::text[]) OR (code = ANY($2::text[]) AND state = 'open')
        ORDER BY id FOR NO KEY UPDATE`,
      [approvals, codes],
    ),
  ]);
  return {
    steps: new Set(stepRows.map(({ run_id: runId, step }) => toKey(runId, step))),
    calls: callRows,
    results: new Set(resultRows.map(({ id }) => id)),
    approvals: approvalRows.map(({ record }) => JSON.parse(record) as ApprovalRecord),
  };
}

export type PlannedResult = Extract<StepOp, { op: "result" }>;
export type PlannedStep = Omit<ReturnType<typeof toStepRow>, "calls">;

/** What a group does to steps, tool calls, stored results and approvals, folded. */
export class StepPlan {
  readonly #loaded: LoadedSteps;
  readonly steps = new Map<string, PlannedStep>();
  readonly calls = new Map<string, PlannedCall>();
  readonly results = new Map<string, PlannedResult>();
  readonly approvals: Map<string, PlannedApproval>;

  constructor(loaded: LoadedSteps) {
    this.#loaded = loaded;
    this.approvals = new Map(
      loaded.approvals.map((approval) => [approval.id, { fresh: false, changed: false, approval }]),
    );
  }

  /** @throws RouseError `internal` if one of `ops` is refused. */
  check(ops: readonly StepOp[]): void {
    const added = new Set<string>();
    const taken = (what: string, isThere: boolean): void => {
      if (isThere || added.has(what)) throw new RouseError(ID_TAKEN);
      added.add(what);
    };
    /** Approvals as the ops before left them. */
    const approvals = new Map(
      [...this.approvals].map(([id, { approval }]) => [
        id,
        { code: approval.code, open: !approval.decision },
      ]),
    );
    for (const op of ops) {
      if (op.op === "step") {
        const key = toKey(op.row.runId, op.row.index);
        taken(`step ${key}`, this.#loaded.steps.has(key) || this.steps.has(key));
      }
      if (op.op === "result")
        taken(`result ${op.id}`, this.#loaded.results.has(op.id) || this.results.has(op.id));
      if (op.op === "approval") {
        const { id, code, decision } = op.approval;
        taken(
          `approval ${id}`,
          approvals.has(id) || [...approvals.values()].some((one) => one.open && one.code === code),
        );
        approvals.set(id, { code, open: !decision });
      }
      if (op.op === "decision") {
        const known = approvals.get(op.id);
        if (!known?.open) throw new RouseError(NOT_OPEN);
        known.open = false;
      }
    }
  }

  /** Carries out what `check` has let through. */
  apply(op: StepOp): void {
    if (op.op === "step") this.#addStep(op.row);
    if (op.op === "result") this.results.set(op.id, op);
    if (op.op === "approval")
      this.approvals.set(op.approval.id, { fresh: true, changed: true, approval: op.approval });
    if (op.op === "call") {
      const key = toKey(op.runId, op.callId);
      const call = this.calls.get(key) ?? this.#loaded.calls.get(key);
      if (call) this.calls.set(key, { ...call, record: withChange(call.record, op.change) });
    }
    if (op.op === "decision")
      this.#changeApproval(op.id, (approval) => ({ ...approval, decision: op.decision }));
    if (op.op === "refused")
      this.#changeApproval(op.id, (approval) => withRefused(approval, op.refused));
  }

  #changeApproval(id: string, change: (approval: ApprovalRecord) => ApprovalRecord): void {
    const known = this.approvals.get(id);
    if (known)
      this.approvals.set(id, { ...known, changed: true, approval: change(known.approval) });
  }

  #addStep({ calls, ...row }: ReturnType<typeof toStepRow>): void {
    this.steps.set(toKey(row.runId, row.index), row);
    for (const { id, position, record } of calls) {
      const call = {
        fresh: true,
        runId: row.runId,
        step: row.index,
        position,
        at: row.at,
        record: JSON.parse(record) as ToolCallRecord,
      };
      this.calls.set(toKey(row.runId, id), call);
    }
  }
}
