import { ask, AskError } from "../../api.ts";
import type { Change, Landed, LandingCheck } from "./types.ts";

/** How a change was agreed to. */
export interface Agreement {
  base: string;
  confirm: readonly string[];
}

/** Asks what a change would do. What it changes of events is compared apart from that. */
export const checkChange = async (change: Change, signal?: AbortSignal): Promise<LandingCheck> =>
  (
    await ask<{ check: LandingCheck }>("/changes/check", {
      method: "POST",
      body: { change, whatIf: false },
      ...(signal ? { signal } : {}),
    })
  ).check;

/** Makes a change. */
export const landChange = async (change: Change, agreement: Agreement): Promise<Landed> =>
  (await ask<{ result: Landed }>("/changes", { method: "POST", body: { change, ...agreement } }))
    .result;

/** Whether the gateway asks for its token before it changes a file. */
export const needsToken = (error: unknown): boolean =>
  error instanceof AskError && error.code === "token_needed";

/** Gives a text to the browser as a file. */
export function download(name: string, text: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
