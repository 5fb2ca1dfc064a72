import { constants, setPriority } from "node:os";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** Bytes of garbage that may gather before it is collected: V8 waits for more, since it knows nothing of other processes. */
const MAX_GARBAGE = 12e6;

/** Lowers the priority of the process. Returns what is to be called now and then: it keeps the memory of the process small. */
export function stepBack(): () => void {
  setPriority(constants.priority.PRIORITY_LOW);
  setFlagsFromString("--expose-gc");
  setFlagsFromString("--semi-space-growth-factor=1");
  let collect: (() => void) | undefined;
  const measure = (): number => {
    const { heapUsed, external } = process.memoryUsage();
    return heapUsed + external;
  };
  // To start leaves garbage too. It waits, since the first result should not.
  let kept = measure();
  return () => {
    if (measure() - kept < MAX_GARBAGE) return;
    collect ??= runInNewContext("gc") as () => void;
    collect();
    kept = measure();
  };
}
