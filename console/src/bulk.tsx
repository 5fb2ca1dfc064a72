import { useEffect, useRef, useState } from "preact/hooks";
import type { BulkLine } from "../../src/operate/records/bulk.ts";
import { AskError, askLines } from "./api.ts";
import { MOST, type BulkResult, type BulkWork } from "./bulk-types.ts";
import { Button, Status } from "./ui/basic.tsx";
import { Dialog } from "./ui/dialog.tsx";
import { number, plural, visibleText } from "./ui/format.ts";
import "./bulk.css";

const SHOWN = 200;
const DRAWN_EVERY_MS = 100;

interface Progress {
  phase: "looking" | "previewed" | "working" | "stopped" | "done";
  total: number;
  note: string | null;
  results: readonly BulkResult[];
  error: string | null;
}

const BEGIN: Progress = { phase: "looking", total: 0, note: null, results: [], error: null };

/** Reads the first line: the number there are, and what is left out. */
function toTotal(line: BulkLine): { total: number; note: string | null } | undefined {
  if (line.type !== "total") return undefined;
  const { total, skipped } = line;
  return {
    total,
    note:
      skipped > 0
        ? `${plural(skipped, "run is", "runs are")} left out: no hook has started ${skipped === 1 ? "it" : "them"}.`
        : null,
  };
}

const toResult = (line: Extract<BulkLine, { type: "result" }>): BulkResult =>
  line.ok
    ? { id: line.id, ok: true, status: line.status, text: line.summary }
    : { id: line.id, ok: false, status: line.failure.code, text: line.failure.message };

/** Runs the preview immediately, then the work when the reader asks for it. Both can be stopped. */
function useBulk(work: BulkWork): { progress: Progress; start(): void; stop(): void } {
  const [progress, setProgress] = useState<Progress>(BEGIN);
  const abort = useRef<AbortController | null>(null);
  /** `total`: how many there are, as far as that is known before the first line. */
  const follow = async (
    dryRun: boolean,
    body: Readonly<Record<string, unknown>>,
    total = 0,
  ): Promise<void> => {
    const own = new AbortController();
    abort.current = own;
    setProgress({ ...BEGIN, total, phase: dryRun ? "looking" : "working" });
    const results: BulkResult[] = [];
    let drawn = 0;
    try {
      for await (const line of askLines<BulkLine>(work.path, {
        method: "POST",
        body: { ...body, dryRun },
        signal: own.signal,
      })) {
        const found = toTotal(line);
        if (line.type === "result") results.push(toResult(line));
        const now = Date.now();
        // A thousand answers a second are drawn a few times only.
        if (!found && now - drawn < DRAWN_EVERY_MS) continue;
        drawn = now;
        setProgress((before) => ({ ...before, ...found, results: [...results] }));
      }
      setProgress((before) => ({ ...before, results, phase: dryRun ? "previewed" : "done" }));
    } catch (error) {
      if (own.signal.aborted)
        return setProgress((before) => ({ ...before, results, phase: "stopped" }));
      const message = error instanceof AskError ? error.message : String(error);
      setProgress((before) => ({ ...before, results, phase: "stopped", error: message }));
    }
  };
  useEffect(() => {
    void follow(true, "ids" in work.body ? work.body : { ...work.body, limit: MOST });
    return () => abort.current?.abort();
  }, []);
  const able = progress.results.filter(({ ok }) => ok);
  return {
    progress,
    start: () => void follow(false, work.chosen(able), able.length),
    stop: () => abort.current?.abort(),
  };
}

const countGood = ({ results }: Progress): number => results.filter(({ ok }) => ok).length;

/** Says what the preview found, or how far the work has come. */
function sentence(progress: Progress, { one, many, action, done: past }: BulkWork): string {
  const { phase, total, results } = progress;
  const good = countGood(progress);
  const rest = results.length - good;
  const verb = action.toLowerCase();
  if (phase === "looking")
    return `Looking what would happen: ${number(results.length)} of ${plural(total, one, many)}.`;
  if (phase === "previewed") {
    if (total === 0) return `There are no ${many} like that.`;
    return `${plural(good, one, many)} would be ${past}.${rest > 0 ? ` ${number(rest)} cannot be: the reason stands with each.` : ""}`;
  }
  const done = `${number(good)} of ${plural(total, one, many)} ${past}${rest > 0 ? `, ${number(rest)} failed` : ""}`;
  if (phase === "working") return `${done}.`;
  return phase === "done"
    ? `${done}.`
    : `Stopped: ${done}. What was not reached stays as it was; ${verb} again to go on.`;
}

function Results({ results }: { results: readonly BulkResult[] }) {
  return (
    <ul class="bulk-results">
      {results.slice(0, SHOWN).map(({ id, ok, status, text }) => (
        <li key={id}>
          <Status word={visibleText(status)} {...(ok ? {} : { tone: "bad" as const })} />
          <span class="mono quiet" title={id}>
            …{id.slice(-8)}
          </span>
          <span>{visibleText(text)}</span>
        </li>
      ))}
      {results.length > SHOWN ? (
        <li class="quiet">and {number(results.length - SHOWN)} more</li>
      ) : null}
    </ul>
  );
}

/**
 * Does something with many after a preview of what would happen to each. It does what the preview has shown: what came in
 * since is left out.
 */
export function BulkPanel({ work, onClose }: { work: BulkWork; onClose(): void }) {
  const { progress, start, stop } = useBulk(work);
  const { phase, total, note, results, error } = progress;
  const good = countGood(progress);
  const isActive = phase === "looking" || phase === "working";
  return (
    <Dialog title={work.title} onClose={onClose} wide>
      <div class="body bulk">
        <p class="quiet">{work.what}</p>
        <p role="status">{sentence(progress, work)}</p>
        {note ? <p class="warn">{note}</p> : null}
        {total === MOST && phase === "previewed" ? (
          <p class="quiet">These are the newest {number(MOST)}; do the rest afterwards.</p>
        ) : null}
        {error ? <p class="bad">{error}</p> : null}
        {isActive ? (
          <progress aria-label={work.title} max={Math.max(1, total)} value={results.length} />
        ) : null}
        <Results results={results} />
      </div>
      <footer>
        {isActive ? <Button onClick={stop}>Stop</Button> : <Button onClick={onClose}>Close</Button>}
        {phase === "previewed" || phase === "looking" ? (
          <Button kind="primary" disabled={phase === "looking" || good === 0} onClick={start}>
            {work.action} {good > 0 ? plural(good, work.one, work.many) : ""}
          </Button>
        ) : null}
      </footer>
    </Dialog>
  );
}
