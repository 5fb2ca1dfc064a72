import { closeSync, fstatSync } from "node:fs";
import { syncBuiltinESMExports, setSourceMapsSupport } from "node:module";
import { Socket } from "node:net";
import os from "node:os";
import v8 from "node:v8";
import { isRecord, parseJson } from "../../core/json.ts";
import { importBuiltModule } from "./built-module.ts";
import { captureConsole, describeThrown, type Thrown } from "../debug.ts";
import { evaluateOutside } from "../jsonata/expression.ts";
import {
  CHANNEL,
  type ModuleCall,
  moduleKey,
  READY,
  receiveMessages,
  writeMessage,
  type TransformCall,
  type TransformProgress,
  type Reply,
} from "./messages.ts";

/** The permissions of Node's model, with the setting that grants each. */
const GRANTS: Record<string, [what: string, field: string]> = {
  FileSystemRead: ["read", "read"],
  FileSystemWrite: ["write", "write"],
  ChildProcess: ["start a child process", "childProcess"],
  WorkerThreads: ["start a worker", "worker"],
  Addon: ["load a native addon", "addons"],
};

/** Explains an error of the permission model, with the path that was denied; undefined if it is another error. */
function explainDenial(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  const { code, permission, resource } = error as Error & {
    code?: unknown;
    permission?: unknown;
    resource?: unknown;
  };
  if (code !== "ERR_ACCESS_DENIED" && code !== "ERR_DLOPEN_DISABLED") return undefined;
  const grant = GRANTS[code === "ERR_DLOPEN_DISABLED" ? "Addon" : String(permission)];
  if (!grant) return error.message;
  const [what, field] = grant;
  const path =
    typeof resource === "string" && resource !== "" && field !== "childProcess"
      ? ` ${resource}`
      : "";
  return `transforms may not ${what}${path}: hooks.transformPermissions.${field} grants it`;
}

/**
 * Rights that a transform child gives away before it runs a module, because Node's permission model leaves them open.
 */

/** Descriptors above those that Node closes in its children by itself. */
const MAX_DESCRIPTOR = 1024;
/** The input and outputs lead nowhere. */
const FIRST_DESCRIPTOR = 3;

/** Signals and priorities reach the gateway and all else that runs as the same user; V8's flags can switch guards off. */
const TAKEN: readonly [owner: object, names: readonly string[]][] = [
  [process, ["kill", "_kill", "_debugProcess", "_debugEnd", "_linkedBinding"]],
  [os, ["setPriority"]],
  [v8, ["setFlagsFromString"]],
];

/** Files that were open in whatever started the gateway, and came down from there. Node itself keeps no file open. */
function closeInheritedFiles(): void {
  for (let descriptor = FIRST_DESCRIPTOR; descriptor < MAX_DESCRIPTOR; descriptor++) {
    try {
      const found = fstatSync(descriptor);
      if (found.isFile() || found.isDirectory() || found.isBlockDevice()) closeSync(descriptor);
    } catch {
      // There is no such descriptor.
    }
  }
}

function deny(what: string): never {
  throw Object.assign(new Error(`${what} is not available to transforms`), {
    code: "ERR_ACCESS_DENIED",
  });
}

/** Takes them away for good, from `import` and `require` alike. They stay as names: packages import what they may never call. */
function lockDown(): void {
  closeInheritedFiles();
  for (const [owner, names] of TAKEN)
    for (const name of names)
      Reflect.defineProperty(owner, name, { value: () => deny(name), enumerable: true });
  syncBuiltinESMExports();
}

/**
 * The main file of a transform child: runs one call after the other. Whatever a module does here (loops, allocates,
 * exits, rejects later) ends at most this process.
 */

/** The longest result of a module, as JSON: the gateway parses it in its own process. */
const MAX_RESULT_CHARS = 8_000_000;

lockDown();
// The stacks of a built module name lines of its TypeScript.
setSourceMapsSupport(true, { nodeModules: false, generatedCode: false });
// The rejection of a promise that is not awaited any more must not end the worker and its other calls.
process.on("unhandledRejection", () => undefined);
process.on("uncaughtException", () => undefined);

const loaded = new Map<string, Promise<Record<string, unknown>>>();

/** One import for each version of a file: a call that finds it there looks at no file. */
function load(call: ModuleCall): Promise<Record<string, unknown>> {
  const key = moduleKey(call);
  const known = loaded.get(key);
  if (known) return known;
  const module = importBuiltModule(call.file, call.version, call.built);
  loaded.set(key, module);
  module.catch(() => loaded.delete(key));
  return module;
}

function findFunction(
  module: Record<string, unknown>,
  name: string | undefined,
): ((input: unknown) => unknown) | undefined {
  const nested = module["default"];
  // A CommonJS module's exports are the default export of its namespace.
  const inner =
    typeof nested === "object" && nested !== null ? (nested as Record<string, unknown>) : {};
  const candidates =
    name === undefined
      ? [nested, inner["default"], module["transform"], inner["transform"]]
      : [module[name], inner[name]];
  // A class is a function that cannot be called.
  return candidates.find(
    (candidate) => typeof candidate === "function" && !/^class\b/.test(String(candidate)),
  ) as ((input: unknown) => unknown) | undefined;
}

/** Describes what was thrown. What the permission model denied is said in words that name the setting. */
function describe(error: unknown): Thrown {
  const denial = explainDenial(error);
  return { ...describeThrown(error), ...(denial === undefined ? {} : { message: denial }) };
}

const channel = new Socket({ fd: CHANNEL });
const send = (message: Reply | TransformProgress): void => void writeMessage(channel, message);

/** Writes large numbers as their digits, as a body has them here. */
const withDigits = (_name: string, value: unknown): unknown =>
  typeof value === "bigint" ? String(value) : value;

/** Returns whether JSON has nothing of an object that is not empty: a Map, a promise, a generator, a Response. */
function isOpaque(value: unknown): boolean {
  if (!isRecord(value) || "toJSON" in value || Object.keys(value).length > 0) return false;
  const prototype = Object.getPrototypeOf(value) as object | null;
  return prototype !== null && Object.getPrototypeOf(prototype) !== null;
}

async function answer(call: TransformCall): Promise<Reply> {
  if (call.kind === "jsonata") {
    const input = parseJson(call.input);
    const result = await evaluateOutside(call.source, input, call.now, call.timeoutMs);
    return result.ok
      ? { id: call.id, ok: true, value: result.value }
      : {
          id: call.id,
          ok: false,
          reason: "expression",
          message: result.message,
          ...(result.error ? { error: result.error } : {}),
          ...(result.isTooLong && { isTooLong: true }),
        };
  }
  let module: Record<string, unknown>;
  try {
    const isLoaded = loaded.has(moduleKey(call));
    module = await load(call);
    // From here on the time is the call's.
    if (!isLoaded) send({ id: call.id, loaded: true });
  } catch (error) {
    return { id: call.id, ok: false, reason: "load", thrown: describe(error) };
  }
  const transform = findFunction(module, call.exportName);
  if (!transform) return { id: call.id, ok: false, reason: "no_function" };
  if (call.kind === "check") return { id: call.id, ok: true, value: null };
  try {
    const given = await transform(call.input);
    // An async function in `map` gives a list of promises.
    const value: unknown = Array.isArray(given) ? await Promise.all(given as unknown[]) : given;
    if ([value].flat().some(isOpaque)) return { id: call.id, ok: false, reason: "no_json" };
    // Through JSON, so that what cannot be sent is found here, in this call.
    const text = JSON.stringify(value, withDigits) as string | undefined;
    if (text !== undefined && text.length > MAX_RESULT_CHARS)
      return { id: call.id, ok: false, reason: "too_large" };
    return {
      id: call.id,
      ok: true,
      value: text === undefined ? null : (JSON.parse(text) as unknown),
    };
  } catch (error) {
    const reason = explainDenial(error) === undefined ? "threw" : "denied";
    return { id: call.id, ok: false, reason, thrown: describe(error) };
  }
}

const withConsole = captureConsole(send);

let last: Promise<unknown> = Promise.resolve();
const end = (): never => process.exit(0);
channel.on("close", end);
receiveMessages(channel, {
  onMessage(call: TransformCall) {
    last = last.then(async () => send(await withConsole(call.id, () => answer(call))));
  },
  onBroken: end,
});
send({ id: READY });
