/** The messages between the transform pool, its callers and its children. */
import type { Readable, Writable } from "node:stream";
import type { CodeError } from "../../vocabulary/debug-notes.ts";
import type { ConsoleBuffer, ConsoleMessage, Thrown } from "../debug.ts";
import type { TransformPermissions } from "./permissions.ts";

export interface ModuleCall {
  id: number;
  file: string;
  version: string;
  /** The text of the module; undefined if the child has it already. */
  built?: string;
  exportName: string | undefined;
}

/** A call of a module, a look whether it could be called, or an expression that took too long in the gateway's own process. */
export type TransformCall =
  | (ModuleCall & { kind: "check" })
  | (ModuleCall & { kind: "module"; input: unknown })
  /** `input` is JSON, whose numbers are written as in the body. */
  | { id: number; kind: "jsonata"; source: string; input: string; now: number; timeoutMs: number };

export type CallFailure =
  | "load"
  | "no_function"
  | "threw"
  | "denied"
  | "too_large"
  | "no_json"
  | "timeout"
  | "load_timeout"
  | "died"
  | "expression"
  | "closed";
/**
 * `thrown` is what the module threw, `error` why an expression failed: both for the operator alone. `isTooLong`: with a
 * shorter input the expression may not fail.
 */
type Failed = {
  ok: false;
  reason: CallFailure;
  message?: string;
  thrown?: Thrown;
  error?: CodeError;
  isTooLong?: true;
};
export type Reply = { id: number } & ({ ok: true; value: unknown } | Failed);
/** The result of a call, with the text that the module printed, however the call ended. */
export type CallResult = ({ ok: true; value: unknown } | Failed) & { console?: ConsoleBuffer };

/**
 * A child's messages besides replies: it has started, it has loaded the module of the call that it works on, or it has
 * printed a line.
 */
export type TransformProgress =
  | { id: typeof READY }
  | { id: number; loaded: true }
  | ConsoleMessage;

/** The id of a child's first message. */
export const READY = 0;

/** The descriptor of a child by which it and its parent talk. What comes by a channel of Node's own can end the parent. */
export const CHANNEL = 3;

/** Writes a message: a line of JSON. */
export const writeMessage = (channel: Writable, message: object): unknown =>
  channel.write(`${JSON.stringify(message)}\n`);

/** Receives messages as they come. At what is none, or has more than `most` characters, `onBroken` is called. */
export function receiveMessages<M>(
  channel: Readable,
  {
    most = Infinity,
    onMessage,
    onBroken,
  }: { most?: number; onMessage(message: M): void; onBroken(): void },
): void {
  let pieces: string[] = [];
  let length = 0;
  channel.setEncoding("utf8").on("error", onBroken);
  channel.on("data", (text: string) => {
    const [end = "", ...lines] = text.split("\n");
    pieces.push(end);
    length += end.length;
    for (const next of lines) {
      const message = parse(pieces.join(""));
      pieces = [next];
      length = next.length;
      if (message === undefined) onBroken();
      else onMessage(message as M);
    }
    if (length <= most) return;
    pieces = [];
    onBroken();
  });
}

function parse(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

/** Returns the key by which children know a module's version. */
export const moduleKey = ({ file, version }: { file: string; version: string }): string =>
  `${file}?${version}`;

/** A module's function, and what it may do. */
export interface ModuleTarget {
  /** The mapping; one mapping never holds the whole pool. */
  owner: string;
  file: string;
  version: string;
  built: string;
  exportName: string | undefined;
  permissions: TransformPermissions;
  /** Time to load the module, besides what a call may take. */
  loadMs: number;
  timeoutMs: number;
}

/** Converts a child's reply. A module can answer anything in its place. */
export function toResult(reply: Reply): CallResult {
  if (reply.ok) return { ok: true, value: reply.value };
  const { id: _id, ...failed } = reply as Reply & CallResult;
  delete failed.console;
  return failed;
}
