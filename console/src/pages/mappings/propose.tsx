import { useRef, useState } from "preact/hooks";
import { askLines } from "../../api.ts";
import type { ProposalLine } from "../../../../src/workbench/proposal-types.ts";
import { useAction } from "../../resource.ts";
import { go, href } from "../../router.ts";
import { Button } from "../../ui/basic.tsx";
import { Dialog } from "../../ui/dialog.tsx";
import { TextField } from "../../ui/fields.tsx";
import { plural } from "../../ui/format.ts";
import type { Workbench } from "./use-workbench.ts";

/** As many events as a proposal may have. */
const MAX_EVENTS = 20;

function toText(line: ProposalLine): string {
  if (line.type === "plan") {
    const { model, events } = line.plan;
    const limits = model ? `asks ${model.ref}, at most ${model.maxRounds} times and for ${model.maxTokens} tokens` : "asks no model";
    return `From ${plural(events, "event")}; ${limits}.`;
  }
  if (line.type === "round") return "An answer of the model was tried on the events.";
  return line.ok ? `The draft ${line.proposal.name} was written. It is not live.` : line.message;
}

/** How far the proposal came, and what went wrong. */
function Progress({ lines, error }: { lines: readonly ProposalLine[]; error: Error | null }) {
  return (
    <>
      <ul class="mappings-progress" aria-live="polite">
        {lines.map((line, index) => (
          <li key={index}>{toText(line)}</li>
        ))}
      </ul>
      {error ? (
        <p class="bad" role="alert">
          {error.message}
        </p>
      ) : null}
    </>
  );
}

/** Lets the gateway draft a mapping from the events of this hook. */
export function ProposeDialog({ bench, onClose }: { bench: Workbench; onClose(): void }) {
  const [name, setName] = useState("");
  const [say, setSay] = useState("");
  const [hasModel, setModel] = useState(false);
  const [lines, setLines] = useState<readonly ProposalLine[]>([]);
  const [error, setError] = useState<Error | null>(null);
  const abort = useRef(new AbortController());
  const [propose, isBusy] = useAction(
    async () => {
      setLines([]);
      setError(null);
      const events = [bench.eventId, ...bench.events.map(({ id }) => id).filter((id) => id !== bench.eventId)].slice(0, MAX_EVENTS);
      const body = { name: name.trim(), events, ...(say.trim() === "" ? {} : { say: say.trim() }), ...(hasModel ? {} : { model: false }) };
      for await (const line of askLines<ProposalLine>("/proposals", { method: "POST", body, signal: abort.current.signal }))
        setLines((before) => [...before, line]);
    },
    (failed) => abort.current.signal.aborted || setError(failed),
  );
  const end = lines.at(-1);
  const made = end?.type === "end" && end.ok ? end.proposal : null;
  const close = (): void => {
    abort.current.abort();
    onClose();
  };
  return (
    <Dialog title="Propose a mapping" onClose={close}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (made) go(href("mappings", `draft:${made.name}`));
          else propose();
        }}
      >
        <div class="body">
          <p>Drafts a mapping from up to {MAX_EVENTS} events of this hook, and writes a test of each beside it. A draft is not live.</p>
          <TextField label="Name of the draft" value={name} onInput={setName} required autoFocus hint="Lower-case letters, digits and -." />
          <label class="mappings-confirm">
            <input type="checkbox" checked={hasModel} onChange={(event) => setModel(event.currentTarget.checked)} />
            <span>Ask the model of the default agent. It gets masked bodies of at most 5 events.</span>
          </label>
          {hasModel ? (
            <TextField label="What is wanted" value={say} onInput={setSay} lines={3} hint="Such as: page me when a P1 ticket opens." />
          ) : null}
          <Progress lines={lines} error={error} />
        </div>
        <footer>
          <Button onClick={close}>{isBusy ? "Stop" : "Close"}</Button>
          <Button kind="primary" submit busy={isBusy}>
            {made ? "Open the draft" : "Propose"}
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}
