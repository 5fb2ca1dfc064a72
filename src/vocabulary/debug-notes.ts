/** A line that a transform module printed. */
export interface ConsoleLine {
  stream: "stdout" | "stderr";
  text: string;
}

/** The failure of an operator's own code, in the words of that code, of its runtime or of JSONata. */
export interface CodeError {
  message: string;
  /** Of a module: its own stack frames, innermost first: `shop.ts:12:7 (total)`. */
  frames?: string[];
  /** Of an expression: where in it, counted from 1, and that line with a caret below it. */
  line?: number;
  column?: number;
  excerpt?: string;
}

/** The output of one piece of a mapping's code for one event. */
export interface DebugNote {
  mapping: string;
  /** The field that holds the code: `transform.module`, `match.when`, `messageTemplate`. */
  field: string;
  /** With `forEach`: which item, from 0. */
  item?: number;
  error?: CodeError;
  console?: ConsoleLine[];
  /** Further lines were printed and not kept. */
  cut?: true;
}

/**
 * Notes that help the operator to debug the mappings of an event. They may quote the event: it is kept as long as the event's body
 * and never reaches the sender or a log.
 */
export interface EventDebug {
  notes: DebugNote[];
  /** There were further notes. */
  cut?: true;
}
