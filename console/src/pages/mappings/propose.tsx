import { useRef, useState } from "preact/hooks";
import { askLines } from "../../api.ts";
import type { ProposalLine } from "../../../../src/operate/proposals/proposals.ts";
import { useAction } from "../../resource.ts";
import { go, href } from "../../router.ts";
import { FormDialog } from "../../ui/dialog.tsx";
import { TextField } from "../../ui/fields.tsx";
import { plural } from "../../ui/format.ts";
import type { Workbench } from "./use-workbench.ts";

/** As many events as a proposal may have. */
const MAX_EVENTS = 20;

function toText(line: ProposalLine): string {
  if (line.type === "plan") {
    const { model, events } = line.plan;
    const limits = model
      ? `asks ${model.ref}, at most ${plural(model.maxRounds, "time")} and for ${plural(model.maxTokens, "token")}`
      : "asks no model";
    return `From ${plural(events, "event")}; ${limits}.`;
  }
  if (line.type === "round") return "An answer of the model was tried on the events.";
  return line.ok ? `${line.proposal.mapping} was written, in shadow.` : line.message;
}

/** The progress of the proposal, and what went wrong. */
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

/** Builds the request: a new mapping from the events of the hook. */
function toRequest(
  { eventId, events }: Workbench,
  { name, say, hasModel }: { name: string; say: string; hasModel: boolean },
) {
  return {
    name: name.trim(),
    events: [...new Set([eventId, ...events.map(({ id }) => id)])].slice(0, MAX_EVENTS),
    ...(say.trim() === "" ? {} : { say: say.trim() }),
    ...(hasModel ? {} : { model: false }),
  };
}

/** Makes a proposal, and follows how far it comes. */
function useProposal() {
  const [lines, setLines] = useState<readonly ProposalLine[]>([]);
  const [error, setError] = useState<Error | null>(null);
  const abort = useRef(new AbortController());
  const [propose, isBusy] = useAction(
    async (body: object) => {
      setLines([]);
      setError(null);
      for await (const line of askLines<ProposalLine>("/proposals", {
        method: "POST",
        body,
        signal: abort.current.signal,
      })) {
        setLines((before) => [...before, line]);
      }
    },
    (failed) => abort.current.signal.aborted || setError(failed),
  );
  const end = lines.at(-1);
  const made = end?.type === "end" && end.ok ? end.proposal : null;
  return { lines, error, propose, isBusy, made, stop: () => abort.current.abort() };
}

/** Lets the gateway propose a mapping from the events of this hook. */
export function ProposeDialog({ bench, onClose }: { bench: Workbench; onClose(): void }) {
  const [name, setName] = useState("");
  const [say, setSay] = useState("");
  const [hasModel, setModel] = useState(false);
  const { lines, error, propose, isBusy, made, stop } = useProposal();
  const close = (): void => {
    stop();
    onClose();
  };
  return (
    <FormDialog
      title="Propose a mapping"
      action={made ? "Open the mapping" : "Propose"}
      busy={isBusy}
      cancel={isBusy ? "Stop" : "Close"}
      onSubmit={() => {
        if (made) go(href("mappings", made.mapping, { event: bench.eventId }));
        else propose(toRequest(bench, { name, say, hasModel }));
      }}
      onClose={close}
    >
      <p>
        Writes a mapping file from up to {MAX_EVENTS} events of this hook, and a test of each. The
        mapping is in shadow: it starts nothing.
      </p>
      <TextField
        label="Name of the file"
        value={name}
        onInput={setName}
        required
        autoFocus
        hint="Lower-case letters, digits and -."
      />
      <label class="mappings-confirm">
        <input
          type="checkbox"
          checked={hasModel}
          onChange={(event) => setModel(event.currentTarget.checked)}
        />
        <span>Ask the model of the default agent. It gets masked bodies of at most 5 events.</span>
      </label>
      {hasModel ? (
        <TextField
          label="What is wanted"
          value={say}
          onInput={setSay}
          lines={3}
          hint="Such as: page me when a P1 ticket opens."
        />
      ) : null}
      <Progress lines={lines} error={error} />
    </FormDialog>
  );
}
