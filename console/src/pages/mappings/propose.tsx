import { useRef, useState } from "preact/hooks";
import { askLines } from "../../api.ts";
import type { ProposalLine } from "../../../../src/operate/proposals/proposals.ts";
import { useAction } from "../../resource.ts";
import { go, href } from "../../router.ts";
import { FormDialog } from "../../ui/dialog.tsx";
import { Select, TextField } from "../../ui/fields.tsx";
import { plural, visibleText } from "../../ui/format.ts";
import { proposedEdit, type ProposedEdit } from "./proposed.tsx";
import type { Mappings } from "./types.ts";
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
  if (line.ok && line.proposal.edit)
    return `A change of ${line.proposal.edit.mapping} is proposed.`;
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

/** A mapping that does not take the event, and why. */
interface Near {
  id: string;
  held: number;
  reason: string;
}

/** The mappings of the user's files that do not take the event: that of the page first, then the nearest. */
function listNear({ id, isNew, evaluated }: Workbench, { mappings }: Mappings): Near[] {
  const own = new Set(mappings.filter((one) => one.own).map((one) => one.id));
  const traces = evaluated.good?.result?.traces ?? [];
  const near = traces
    .filter(({ verdict, mapping }) => verdict === "no" && own.has(mapping))
    .map(({ mapping, conditions }): Near => ({
      id: mapping,
      held: conditions.filter(({ result }) => result === true).length,
      reason: conditions.find(({ result }) => result !== true)?.reason ?? "",
    }))
    .toSorted((a, b) => b.held - a.held);
  const isHere = (one: Near): boolean => !isNew && one.id === id;
  return [...near.filter(isHere), ...near.filter((one) => !isHere(one))];
}

/** Builds the request: a new mapping from the events of the hook, or a change of one from the event. */
function toRequest(
  { eventId, events }: Workbench,
  { fix, name, say, hasModel }: { fix: string; name: string; say: string; hasModel: boolean },
) {
  const asked = say.trim() === "" ? {} : { say: say.trim() };
  if (fix !== "") return { fix, events: [eventId], ...asked };
  return {
    name: name.trim(),
    events: [...new Set([eventId, ...events.map(({ id }) => id)])].slice(0, MAX_EVENTS),
    ...asked,
    ...(hasModel ? {} : { model: false }),
  };
}

/** Makes a proposal, and follows how far it comes. */
function useProposal(onEdit: (proposed: ProposedEdit) => void) {
  const [lines, setLines] = useState<readonly ProposalLine[]>([]);
  const [error, setError] = useState<Error | null>(null);
  const abort = useRef(new AbortController());
  const [propose, isBusy] = useAction(
    async (body: object) => {
      setLines([]);
      setError(null);
      let reasons: ProposedEdit["reasons"] = [];
      for await (const line of askLines<ProposalLine>("/proposals", {
        method: "POST",
        body,
        signal: abort.current.signal,
      })) {
        if (line.type === "plan") reasons = line.plan.mends?.reasons ?? [];
        const edit = line.type === "end" && line.ok ? line.proposal.edit : null;
        if (line.type === "end" && line.ok && edit) onEdit({ ...line.proposal, edit, reasons });
        setLines((before) => [...before, line]);
      }
    },
    (failed) => abort.current.signal.aborted || setError(failed),
  );
  const end = lines.at(-1);
  const made = end?.type === "end" && end.ok && !end.proposal.edit ? end.proposal : null;
  return { lines, error, propose, isBusy, made, stop: () => abort.current.abort() };
}

interface KindProps {
  /** The mapping that is mended; empty for a new one. */
  fix: string;
  setFix(fix: string): void;
  name: string;
  setName(name: string): void;
  near: readonly Near[];
}

/** The choice between mending a mapping and proposing a new one. */
function Kind({ fix, setFix, name, setName, near }: KindProps) {
  const options = [
    ...near.map(({ id }) => [id, `Mend ${id}`] as const),
    ["", "A new mapping, in shadow"] as const,
  ];
  const reason = near.find(({ id }) => id === fix)?.reason ?? "";
  return (
    <>
      <Select label="What is proposed" value={fix} options={options} onChange={setFix} />
      {fix === "" ? (
        <>
          <p>
            Writes a mapping file from up to {MAX_EVENTS} events of this hook, and a test of each.
            The mapping is in shadow: it starts nothing.
          </p>
          <TextField
            label="Name of the file"
            value={name}
            onInput={setName}
            required
            autoFocus
            hint="Lower-case letters, digits and -."
          />
        </>
      ) : (
        <p>
          It does not take the event: {visibleText(reason)}. The change is shown in the editor;
          nothing is written.
        </p>
      )}
    </>
  );
}

interface ModelProps {
  /** True if a mapping is mended, which takes a model. */
  isMending: boolean;
  hasModel: boolean;
  setModel(hasModel: boolean): void;
  say: string;
  setSay(say: string): void;
}

/** The choice of asking a model, and for what. */
function Model({ isMending, hasModel, setModel, say, setSay }: ModelProps) {
  return (
    <>
      <label class="mappings-confirm">
        <input
          type="checkbox"
          checked={hasModel || isMending}
          disabled={isMending}
          onChange={(event) => setModel(event.currentTarget.checked)}
        />
        <span>Ask the model of the default agent. It gets masked bodies of at most 5 events.</span>
      </label>
      {hasModel || isMending ? (
        <TextField
          label="What is wanted"
          value={say}
          onInput={setSay}
          lines={3}
          hint="Such as: page me when a P1 ticket opens."
        />
      ) : null}
    </>
  );
}

/** Lets the gateway propose a mapping from the events of this hook, or mend one that does not take the event. */
export function ProposeDialog({
  bench,
  mappings,
  onClose,
}: {
  bench: Workbench;
  mappings: Mappings;
  onClose(): void;
}) {
  const near = listNear(bench, mappings);
  const isUnmatched = bench.evaluated.good?.result?.outcome === "unmatched";
  const isMended = isUnmatched || near[0]?.id === bench.id;
  const [fix, setFix] = useState(isMended ? (near[0]?.id ?? "") : "");
  const [name, setName] = useState("");
  const [say, setSay] = useState("");
  const [hasModel, setModel] = useState(false);
  const { lines, error, propose, isBusy, made, stop } = useProposal((proposed) => {
    proposedEdit.value = proposed;
    onClose();
    if (proposed.edit.mapping !== bench.id)
      go(href("mappings", proposed.edit.mapping, { event: bench.eventId }));
  });
  const close = (): void => {
    stop();
    onClose();
  };
  const isInTheWay = fix === bench.id && bench.isChanged;
  return (
    <FormDialog
      title="Propose a mapping"
      action={made ? "Open the mapping" : "Propose"}
      busy={isBusy}
      disabled={isInTheWay}
      cancel={isBusy ? "Stop" : "Close"}
      onSubmit={() => {
        if (made) go(href("mappings", made.mapping, { event: bench.eventId }));
        else if (!isInTheWay) propose(toRequest(bench, { fix, name, say, hasModel }));
      }}
      onClose={close}
    >
      <Kind {...{ fix, setFix, name, setName, near }} />
      {isInTheWay ? (
        <p class="warn">
          Save or drop your own change first: the proposal is made from the text of the file.
        </p>
      ) : null}
      <Model isMending={fix !== ""} {...{ hasModel, setModel, say, setSay }} />
      <Progress lines={lines} error={error} />
    </FormDialog>
  );
}
