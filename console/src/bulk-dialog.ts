import type { BulkWork } from "./bulk-types.ts";
import { lazy } from "./ui/lazy.tsx";

/** The dialog of what is done with many, which is loaded when it is opened. What its lines are, the work alone knows. */
export const BulkDialog = lazy<{ work: BulkWork; onClose(): void }>(
  async () => (await import("./bulk.tsx")).BulkPanel,
);
