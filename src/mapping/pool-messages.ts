/** What the transform pool and its children say to each other, and what the pool answers. */
import type { BuiltModule } from "./built-module.ts";

interface ModuleCall {
  id: number;
  file: string;
  version: string;
  /** The JavaScript of a TypeScript module; undefined if the child has it already, or the module is JavaScript. */
  built?: BuiltModule;
  exportName: string | undefined;
}

/** A call of a module, a look whether it could be called, or an expression that took too long in the gateway's own process. */
export type Call =
  | (ModuleCall & { kind: "check" })
  | (ModuleCall & { kind: "module"; input: unknown })
  | { id: number; kind: "jsonata"; source: string; input: unknown; now: number; timeoutMs: number };

export type CallFailure =
  | "load"
  | "no_function"
  | "threw"
  | "denied"
  | "too_large"
  | "timeout"
  | "load_timeout"
  | "died"
  | "expression"
  | "closed";
export type Reply = { id: number; ok: true; value: unknown } | { id: number; ok: false; reason: CallFailure; message?: string };
export type CallResult = { ok: true; value: unknown } | { ok: false; reason: CallFailure; message?: string };

/** What a child sends besides replies: it has started, or it has loaded the module of the call that it works on. */
export type Progress = { id: typeof READY } | { id: number; loaded: true };

/** The id of a child's first message. */
export const READY = 0;

/** What children know a module's version by. */
export const moduleKey = ({ file, version }: { file: string; version: string }): string => `${file}?${version}`;
