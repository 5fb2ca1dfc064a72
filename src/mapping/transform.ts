import type { MappingConfig } from "../config/schema/mapping.ts";
import { fileInside } from "../core/files.ts";
import { lazy } from "../core/lazy.ts";
import { compileExpression } from "./expression.ts";
import type { ModuleTarget, TransformPool } from "./pool.ts";
import type { CallFailure, CallResult } from "./pool-messages.ts";
import type { Scope } from "./scope.ts";
import { prepareModule } from "./transform-build.ts";
import type { TransformPermissions } from "./transform-permissions.ts";

export type TransformOutcome =
  | { ok: true; actions: Record<string, unknown>[]; list: boolean }
  | { ok: true; skipped: true }
  | { ok: false; message: string };
export interface CompiledTransform {
  run(scope: Scope): Promise<TransformOutcome>;
  /** The files of the module that are known, whose change means a new snapshot. */
  files?(): Promise<readonly string[]>;
  /** Loads the module and says what is wrong with it. */
  check?(): Promise<string | undefined>;
}

const FIELDS =
  "action message text name agentId sessionKey instructions wakeMode deliver channel to model thinking timeoutSeconds dedupeKey".split(" ");
/** Names that transforms written for a similar system use. */
const OTHER_NAMES: Record<string, string> = { kind: "action", mode: "wakeMode" };

/** A machine that has just started may be too busy for the first try. */
const LOAD_TRIES = 2;

const REASONS: Record<CallFailure, string> = {
  load: "could not be loaded; run it by itself to see why",
  no_function: "exports no function: export one as default or as `transform`, or name it in `transform.export`",
  threw: "threw an error",
  too_large: "gave more than 8 MB of JSON",
  denied: "did something that transforms may not do: see hooks.transformPermissions",
  timeout: "took longer than hooks.transformTimeoutSeconds",
  load_timeout: "took longer than hooks.transformLoadSeconds to load",
  died: "ended its process (out of memory, or process.exit)",
  expression: "failed",
  closed: "was not run: the gateway is stopping",
};

function readAction(
  value: unknown,
  allowed: readonly string[],
): { ok: true; action: Record<string, unknown> } | { ok: false; message: string } {
  if (typeof value !== "object" || value === null || Array.isArray(value))
    return { ok: false, message: "must give an object of action fields, a list of them, or null" };
  const action: Record<string, unknown> = {};
  for (const [key, member] of Object.entries(value)) {
    const field = Object.hasOwn(OTHER_NAMES, key) ? (OTHER_NAMES[key] as string) : key;
    if (!allowed.includes(field)) return { ok: false, message: `gave the field "${key.slice(0, 40)}", which it may not set` };
    // A key that is null is a key with a hole, and not one that was left to the template.
    if (member !== undefined && (member !== null || field === "sessionKey")) action[field] = member;
  }
  if (action["action"] !== undefined && action["action"] !== "wake" && action["action"] !== "agent")
    return { ok: false, message: 'gave an `action` that is neither "wake" nor "agent"' };
  return { ok: true, action };
}

/** What a transform gave, checked by name; the values are checked like a request's later. */
function readResult(value: unknown, allowed: readonly string[]): TransformOutcome {
  if (value === null || value === undefined) return { ok: true, skipped: true };
  const list = Array.isArray(value);
  const actions: Record<string, unknown>[] = [];
  for (const entry of list ? (value as unknown[]) : [value]) {
    const read = readAction(entry, allowed);
    if (!read.ok) return read;
    actions.push(read.action);
  }
  return { ok: true, actions, list };
}

export interface TransformOptions {
  id: string;
  transformsDir: string;
  permissions: TransformPermissions;
  loadMs: number;
  timeoutMs: number;
  pool: TransformPool;
}

/** Compiles a mapping's transform: a module in a child process, or an expression behind guards. */
export function compileTransform(
  transform: NonNullable<MappingConfig["transform"]>,
  options: TransformOptions,
): { ok: true; transform: CompiledTransform } | { ok: false; field: string; message: string } {
  const { id, pool, timeoutMs } = options;
  if ("jsonata" in transform) {
    const runner = (source: string, input: Record<string, unknown>, now: number) =>
      pool.runExpression({ owner: id, source, input, now, timeoutMs });
    const compiled = compileExpression(transform.jsonata, { runner });
    if (!compiled.ok) return { ok: false, field: "jsonata", message: compiled.message };
    const allowed = FIELDS.filter((field) => field !== "instructions");
    const run = async (scope: Scope): Promise<TransformOutcome> => {
      const result = await compiled.expression.evaluate(scope);
      const read = result.ok ? readResult(result.value, allowed) : result;
      return read.ok ? read : { ok: false, message: `transform.jsonata ${read.message}` };
    };
    return { ok: true, transform: { run } };
  }
  const found = fileInside(options.transformsDir, transform.module);
  if (!found.ok) return { ok: false, field: "module", message: found.message };
  return { ok: true, transform: moduleTransform(transform, found.file, options) };
}

/** What went wrong with a module that was loaded to be checked; undefined if nothing did. */
function loadProblem(result: CallResult): string | undefined {
  if (result.ok || result.reason === "closed") return undefined;
  if (result.reason === "load") return `cannot be loaded: ${result.message ?? "its process says nothing"}`;
  return result.reason === "died" ? `${REASONS.died} when it was loaded` : REASONS[result.reason];
}

function moduleTransform(
  { module, export: exportName }: { module: string; export?: string | undefined },
  file: string,
  { id, permissions, loadMs, timeoutMs, pool }: TransformOptions,
): CompiledTransform {
  const prepare = lazy(() => prepareModule(file, permissions));
  /** Calls the pool with the module, once it is compiled. */
  const withModule = async (call: (target: ModuleTarget) => Promise<CallResult>): Promise<CallResult> => {
    const prepared = await prepare();
    if (!prepared.ok) return { ok: false, reason: "load", message: prepared.message };
    const { version, built } = prepared;
    const target: ModuleTarget = { owner: id, file, version, permissions, loadMs, timeoutMs };
    if (exportName !== undefined) target.exportName = exportName;
    return call(built ? { ...target, built } : target);
  };
  return {
    async run(scope) {
      const result = await withModule((target) => pool.runModule({ ...target, input: scope }));
      const read = result.ok ? readResult(result.value, FIELDS) : { ok: false as const, message: REASONS[result.reason] };
      return read.ok ? read : { ok: false, message: `the transform ${module} ${read.message}` };
    },
    async check() {
      let result: CallResult | undefined;
      for (let tries = 0; tries < LOAD_TRIES; tries++) {
        result = await withModule((target) => pool.checkModule(target));
        if (result.ok || !["load_timeout", "timeout", "died"].includes(result.reason)) break;
      }
      return result && loadProblem(result);
    },
    async files() {
      const prepared = await prepare();
      return prepared.ok ? [file, ...prepared.files] : [file];
    },
  };
}
