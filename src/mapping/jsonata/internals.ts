import type { CpuLimit } from "./cpu-time.ts";

/** Parts of JSONata that we rely on beyond its documented interface. */

/** A frame of an evaluation: what its variables are bound to. */
export interface Frame {
  lookup(name: string): unknown;
  /** Gives `$toMillis` the parts of a date that a text leaves out. */
  timestamp: Date;
  /** The outermost frame, with the options that the expression was compiled with. */
  base: { lookup(name: string): unknown; options: { limit: CpuLimit } };
}

/** `this` of a function that an expression calls. */
export interface Focus {
  environment: Frame;
  /** Creates a list that is replaced by its member if it has only one. */
  createSequence(): unknown[];
}

export type Implementation = (this: Focus, ...args: unknown[]) => unknown;

/** A function as a variable holds it. */
export interface Definition {
  _jsonata_function: true;
  implementation: Implementation;
  signature: unknown;
}

/** JSONata calls what is bound to this name with the result of every step. */
export const AFTER_EACH_STEP = Symbol.for("jsonata.__evaluate_exit") as unknown as string;
