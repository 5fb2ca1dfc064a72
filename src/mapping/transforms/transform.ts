import { dirname } from "node:path";
import type { MappingConfig } from "../../config/schema/mapping.ts";
import { findKind } from "../../config/schema-words.ts";
import { didYouMean } from "../../config/suggest.ts";
import type { Issue } from "../../core/errors.ts";
import { fileInside } from "../../core/files.ts";
import { isRecord } from "../../core/json.ts";
import { lazy } from "../../core/lazy.ts";
import { codeError, type Thrown } from "../debug.ts";
import { compileExpression, type JsonataRunner } from "../jsonata/expression.ts";
import { hashModule, type ModuleProblem, prepareModule } from "./build.ts";
import type { TransformPool } from "./pool.ts";
import type { CallFailure, CallResult, ModuleTarget } from "./messages.ts";
import { NOTES, type TemplateContext } from "../template-context.ts";
import {
  checkPlaces,
  createPermissions,
  type SecretPlace,
  type TransformPermissions,
} from "./permissions.ts";

export type TransformOutcome =
  | { ok: true; actions: Record<string, unknown>[]; list: boolean }
  | { ok: true; skipped: true }
  | { ok: false; message: string };
export interface CompiledTransform {
  run(scope: TemplateContext): Promise<TransformOutcome>;
  /** Absent for an expression. */
  module?: {
    /** The name that the mapping has for it. */
    name: string;
    /** Loads the module: what is wrong with it, and its files, whose change means a new snapshot. */
    check(): Promise<{ files: readonly string[]; problem?: ModuleProblem | undefined }>;
  };
}

const FIELDS =
  "action message text name agentId sessionKey instructions wakeMode deliver channel to model thinking timeoutSeconds dedupeKey".split(
    " ",
  );
/** Names that transforms written for a similar system use. */
const OTHER_NAMES: Record<string, string> = { kind: "action", mode: "wakeMode" };

/** A machine that has just started may be too busy for the first try. */
const LOAD_TRIES = 2;
/** Failures that another try may not have. */
const TRANSIENT: readonly CallFailure[] = ["load_timeout", "timeout", "died"];

const REASONS: Record<CallFailure, string> = {
  load: "could not be loaded; run it by itself to see why",
  no_function:
    "exports no function: export one as default or as `transform`, or name it in `transform.export`",
  threw: "threw an error",
  too_large: "gave more than 8 MB of JSON",
  no_json:
    "gave a value that is no JSON, such as a Map, a generator or a Response: give an object of action fields, a list of them, or null",
  denied: "did something that transforms may not do: see hooks.transformPermissions",
  timeout: "took longer than hooks.transformTimeoutSeconds",
  load_timeout: "took longer than hooks.transformLoadSeconds to load",
  died: "ended its process (out of memory, or process.exit)",
  expression: "failed",
  closed: "was not run: the gateway is stopping",
};

/** `at`: the place of the action in what the transform gave. */
function readAction(
  value: unknown,
  allowed: readonly string[],
  at: string,
): { ok: true; action: Record<string, unknown> } | { ok: false; message: string } {
  if (!isRecord(value))
    return {
      ok: false,
      message: `must give an object of action fields, a list of them, or null, and gave ${findKind(value)}${at}`,
    };
  const action: Record<string, unknown> = {};
  for (const [key, member] of Object.entries(value)) {
    const field = Object.hasOwn(OTHER_NAMES, key) ? (OTHER_NAMES[key] as string) : key;
    if (!allowed.includes(field))
      return {
        ok: false,
        message: `gave the field "${key.slice(0, 40)}"${at}, which it may not set.${didYouMean(key, allowed)}`,
      };
    // A key that is null is a key with a hole, and not one that was left to the template.
    if (member !== undefined && (member !== null || field === "sessionKey")) action[field] = member;
  }
  if (action["action"] !== undefined && action["action"] !== "wake" && action["action"] !== "agent")
    return { ok: false, message: `gave an \`action\`${at} that is neither "wake" nor "agent"` };
  const { dedupeKey } = action;
  // Ids are often numbers.
  if (typeof dedupeKey === "number") action["dedupeKey"] = String(dedupeKey);
  else if (dedupeKey !== undefined && typeof dedupeKey !== "string")
    return { ok: false, message: `gave a \`dedupeKey\`${at} that is neither text nor a number` };
  return { ok: true, action };
}

/** Reads the result of a transform, checked by name; the values are checked like a request's later. */
function readResult(value: unknown, allowed: readonly string[]): TransformOutcome {
  if (value === null || value === undefined) return { ok: true, skipped: true };
  const list = Array.isArray(value);
  const actions: Record<string, unknown>[] = [];
  for (const [index, entry] of (list ? (value as unknown[]) : [value]).entries()) {
    const read = readAction(entry, allowed, list ? ` at [${index}] of its list` : "");
    if (!read.ok) return read;
    actions.push(read.action);
  }
  return { ok: true, actions, list };
}

/** Keeps what a module printed and threw, for the operator. */
function note(
  result: CallResult,
  folder: string,
  { [NOTES]: notes, index }: TemplateContext,
): void {
  const thrown = result.ok ? undefined : result.thrown;
  notes?.add({
    field: "transform.module",
    ...(index === undefined ? {} : { item: index }),
    ...(thrown ? { error: codeError(thrown, folder) } : {}),
    ...(result.console ? { console: result.console } : {}),
  });
}

/** Builds the whole reason that a module cannot be loaded: the error that it threw and its place. */
function toLoadProblem(thrown: Thrown, folder: string): ModuleProblem {
  // There is no event yet that the message could quote.
  const { message, frames = [] } = codeError(thrown, folder);
  const [said = "", ...more] = message.split("\n");
  const detail = [...more, ...frames.map((frame) => `at ${frame}`)].join("\n");
  return { message: `cannot be loaded: ${said}`, ...(detail === "" ? {} : { detail }) };
}

/** Returns the problem of a module that was loaded to be checked; undefined if there is none. */
function toProblem(result: CallResult, folder: string): ModuleProblem | undefined {
  if (result.ok || result.reason === "closed") return undefined;
  // A machine that is busy, or short of memory, may do so as well.
  if (result.reason === "died")
    return { message: `${REASONS.died} when it was loaded`, transient: true };
  if (TRANSIENT.includes(result.reason))
    return { message: REASONS[result.reason], transient: true };
  return result.thrown ? toLoadProblem(result.thrown, folder) : { message: REASONS[result.reason] };
}

export interface TransformCompileOptions {
  id: string;
  transformsDir: string;
  permissions: TransformPermissions;
  /** Files of plugins by the name that stands for them. */
  pluginTransforms?: ReadonlyMap<string, string>;
  /** The places that modules must not see. */
  secretPlaces?: readonly SecretPlace[];
  /** The hashes that modules must have to be run, by name. Undefined: any. */
  moduleHashes?: ReadonlyMap<string, string> | undefined;
  loadMs: number;
  timeoutMs: number;
  pool: TransformPool;
  /** Runs expressions that may not run in this process. */
  runner: JsonataRunner;
}

/**
 * Loads the modules of mappings, unless their folder cannot be kept apart from the config and the state. Returns the files
 * of each. `at`: the place of a mapping in the config.
 */
export async function checkModules(
  mappings: readonly { info: { at: string }; transform: CompiledTransform | undefined }[],
  permissions: TransformPermissions,
  secretPlaces: readonly SecretPlace[] = [],
): Promise<{ issues: Issue[]; warnings: Issue[]; modules: Map<string, readonly string[]> }> {
  const modules = new Map<string, readonly string[]>();
  const found = mappings.flatMap(({ info: { at }, transform }) =>
    transform?.module ? [{ at, ...transform.module }] : [],
  );
  if (found.length === 0) return { issues: [], warnings: [], modules };
  const places = checkPlaces(permissions, secretPlaces);
  if (places.issues.length > 0) return { ...places, modules };
  const checked = await Promise.all(
    found.map(async ({ at, name, check }) => ({ at, name, ...(await check()) })),
  );
  for (const { name, files } of checked) modules.set(name, files);
  const issues = checked.flatMap(({ at, problem }) =>
    problem ? [{ path: `${at}.transform.module`, ...problem }] : [],
  );
  return { issues, warnings: places.warnings, modules };
}

/** Compiles a mapping's transform: a module in a child process, or an expression behind guards. */
export function compileTransform(
  transform: NonNullable<MappingConfig["transform"]>,
  options: TransformCompileOptions,
):
  | { ok: true; transform: CompiledTransform }
  | { ok: false; field: string; message: string; detail?: string } {
  if ("jsonata" in transform) {
    const { runner } = options;
    const compiled = compileExpression(transform.jsonata, { runner, field: "transform.jsonata" });
    if (!compiled.ok) return { ...compiled, field: "jsonata" };
    const allowed = FIELDS.filter((field) => field !== "instructions");
    const run = async (scope: TemplateContext): Promise<TransformOutcome> => {
      const result = await compiled.expression.evaluate(scope);
      const read = result.ok ? readResult(result.value, allowed) : result;
      return read.ok ? read : { ok: false, message: `transform.jsonata ${read.message}` };
    };
    return { ok: true, transform: { run } };
  }
  const file = options.pluginTransforms?.get(transform.module);
  if (file !== undefined) {
    // A plugin's module may read its own folder, which is not the one of the other modules.
    const permissions = createPermissions(dirname(file), options.permissions);
    const [opening] = checkPlaces(permissions, options.secretPlaces ?? []).issues;
    if (opening)
      return {
        ok: false,
        field: "module",
        message: `the folder ${dirname(file)} of the plugin's module ${opening.message}`,
      };
    return { ok: true, transform: moduleTransform(transform, file, { ...options, permissions }) };
  }
  const found = fileInside(options.transformsDir, transform.module);
  if (found.ok) return { ok: true, transform: moduleTransform(transform, found.file, options) };
  return options.moduleHashes
    ? { ok: true, transform: { run: async () => CHANGED } }
    : { ok: false, field: "module", message: found.message };
}

/** The error of a transform whose module has changed since it was recorded. */
export const MODULE_CHANGED = "the transform's module has changed since, and was not run";
const CHANGED: TransformOutcome = { ok: false, message: MODULE_CHANGED };

function moduleTransform(
  { module: name, export: exportName }: { module: string; export?: string | undefined },
  file: string,
  { id, permissions, loadMs, timeoutMs, pool, moduleHashes }: TransformCompileOptions,
): CompiledTransform {
  const prepare = lazy(() => prepareModule(file, permissions));
  /** Calls the pool with the module, once it is compiled. */
  const withModule = async (
    call: (target: ModuleTarget) => Promise<CallResult>,
  ): Promise<CallResult> => {
    const prepared = await prepare();
    if (!prepared.ok)
      return { ok: false, reason: "load", thrown: { message: prepared.message, stack: "" } };
    const { version, built } = prepared;
    return call({ owner: id, file, version, built, exportName, permissions, loadMs, timeoutMs });
  };
  return {
    async run(scope) {
      if (moduleHashes) {
        // The file may change at any time: it is looked at before each run.
        prepare.reset();
        const prepared = await prepare();
        if (!prepared.ok || hashModule([file, ...prepared.files]) !== moduleHashes.get(name))
          return CHANGED;
      }
      const result = await withModule((target) => pool.runModule({ ...target, input: scope }));
      note(result, permissions.folder, scope);
      const read = result.ok
        ? readResult(result.value, FIELDS)
        : { ok: false as const, message: REASONS[result.reason] };
      return read.ok ? read : { ok: false, message: `the transform ${name} ${read.message}` };
    },
    module: {
      name,
      async check() {
        if (moduleHashes) return { files: [] };
        const prepared = await prepare();
        if (!prepared.ok) {
          const { ok: _ok, ...problem } = prepared;
          return { files: [file], problem };
        }
        const files = [file, ...prepared.files];
        let result: CallResult;
        let tries = 0;
        do result = await withModule((target) => pool.checkModule(target));
        while (!result.ok && TRANSIENT.includes(result.reason) && ++tries < LOAD_TRIES);
        return { files, problem: toProblem(result, permissions.folder) };
      },
    },
  };
}
