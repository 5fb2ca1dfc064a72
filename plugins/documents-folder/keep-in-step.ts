import { sleep } from "#channel-kit";
import type { SourceAudience, SourceEntry, SourceHost, SyncReport } from "#plugin";

/** A folder whose files are kept as documents. */
export interface SyncedFolder extends SourceAudience {
  /** Its path, as the config has it. */
  name: string;
  everyMs: number;
  list(): AsyncIterable<SourceEntry>;
  /** Calls `onChange` if something may have changed. Rejects if the folder cannot be watched: then it is only read after its time. */
  watch(onChange: () => void, signal: AbortSignal): Promise<void>;
}

/** Changes come in groups: a copied folder, a file that is written in pieces. */
const SETTLE_MS = 500;
const RETRY_MS = 30_000;

function renderReport({ added, replaced, removed, unchanged, failed, kept }: SyncReport): {
  ok: boolean;
  message: string;
} {
  const counts = `${added + replaced + unchanged} documents (${added} new, ${replaced} changed, ${removed} removed)`;
  if (kept > 0)
    return {
      ok: false,
      message: `the folder is empty: its ${kept} documents are kept until it has one again`,
    };
  const [first] = failed;
  if (!first) return { ok: true, message: counts };
  return {
    ok: false,
    message: `${counts}; ${failed.length} could not be read, such as ${first.id}: ${first.message}`,
  };
}

/** Syncs folders until `signal` aborts: at the start, whenever one may have changed, and after its time. Reports all in one line. */
export async function keepInStep(
  folders: readonly SyncedFolder[],
  signal: AbortSignal,
  host: Pick<SourceHost, "documents" | "report">,
): Promise<void> {
  const states = new Map<string, { ok: boolean; message: string }>();
  const report = (name: string, state: { ok: boolean; message: string }): void => {
    states.set(name, state);
    const all = [...states];
    host.report({
      ok: all.every(([, { ok }]) => ok),
      message: all.map(([of, { message }]) => `${of}: ${message}`).join(" · "),
    });
  };

  const run = async (folder: SyncedFolder): Promise<void> => {
    let wake = new AbortController();
    void folder.watch(() => wake.abort(), signal).catch(() => undefined);
    while (!signal.aborted) {
      wake = new AbortController();
      let pauseMs = folder.everyMs;
      try {
        report(
          folder.name,
          renderReport(
            await host.documents.sync(folder.name, folder.list(), { ...folder, signal }),
          ),
        );
      } catch (error) {
        if (signal.aborted) return;
        pauseMs = Math.min(RETRY_MS, folder.everyMs);
        report(folder.name, {
          ok: false,
          message: error instanceof Error ? error.message : "it cannot be listed",
        });
      }
      await sleep(pauseMs, AbortSignal.any([signal, wake.signal]));
      if (wake.signal.aborted) await sleep(SETTLE_MS, signal);
    }
  };
  await Promise.all(folders.map(run));
}
