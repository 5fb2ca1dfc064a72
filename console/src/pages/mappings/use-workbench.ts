import { useEffect, useState } from "preact/hooks";
import { isPassing, askLines } from "../../api.ts";
import { useResource, useTries, type Resource } from "../../resource.ts";
import { place } from "../../router.ts";
import type { Editor, Words } from "./editor/create.ts";
import {
  useComparison,
  useEvaluation,
  useExplained,
  type Compared,
  type Evaluated,
} from "./live.ts";
import { useWritten, type Written } from "./written.ts";
import type {
  Change,
  EventDetail,
  EventView,
  MappingText,
  Mappings,
  TextEvaluation,
  PlacedMapping,
} from "./types.ts";
import type { ProposalLine } from "../../../../src/operate/proposals/proposals.ts";

const MOST_OF_NAME = 40;

/** A name for a mapping file: lower-case letters, digits and "-". */
const toFileName = (id: string): string =>
  id
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, "-")
    .slice(0, MOST_OF_NAME)
    .replaceAll(/^-+|-+$/g, "") || "hook";

/** Gives a mapping's text another id, so that a copy of a preset's mapping can stand beside it. */
function withOwnId(text: string, id: string): string {
  return text.replace(
    /(\bid['"]?\s*:\s*)(['"])(.*?)\2/,
    (_all, before: string, quote: string) => `${before}${quote}${id}-own${quote}`,
  );
}

/** The text from which a mapping for a path is written if no event says more. */
function toBareText(path: string): string {
  const name = path === "" ? "my-hook" : path;
  return `{
  id: ${JSON.stringify(`${name.replaceAll("/", ".")}.new`)},
  match: { path: ${JSON.stringify(name)}, payload: {} },
  messageTemplate: "{{payload}}",
}`;
}

/** A name for the file of a path that no mapping, preset and mapping file has. */
function toFreeName(path: string, mappings: readonly PlacedMapping[]): string {
  const name = toFileName(path);
  const isTaken = (one: string): boolean =>
    mappings.some(
      ({ id, origin, place }) =>
        id === `${one}.event` || origin === `preset:${one}` || place.includes(`${one}.json`),
    );
  let free = name;
  for (let count = 2; isTaken(free); count++) free = `${name}-${count}`;
  return free;
}

/** Lets the gateway draft a mapping from an event, without a model. Null if it gives none. */
async function draftFrom(event: string, name: string, signal: AbortSignal): Promise<string | null> {
  const body = { name, events: [event], model: false, write: false };
  for await (const line of askLines<ProposalLine>("/proposals", { method: "POST", body, signal })) {
    if (line.type !== "end" || !line.ok) continue;
    const { mappings } = JSON.parse(line.proposal.text) as { mappings: [{ shadow: boolean }] };
    const [{ shadow: _shadow, ...mapping }] = mappings;
    // Keys as people write them: a line that begins with a text and a colon is a key.
    return JSON.stringify(mapping, null, 2).replaceAll(/^( *)"([A-Za-z]\w*)":/gm, "$1$2:");
  }
  return null;
}

/** The reason for a new mapping. */
interface NewFor {
  path: string | undefined;
  event: EventDetail | undefined;
  /** True if no event can be expected any more. */
  isSettled: boolean;
  mappings: readonly PlacedMapping[];
}

/** The text that a new mapping begins with: a first draft from its event, or a bare one. Undefined until it is known. */
function useNewText({ path, event, isSettled, mappings }: NewFor): string | undefined {
  const [text, setText] = useState<string>();
  const [isLeft, setLeft] = useState(false);
  const tries = useTries(isLeft);
  useEffect(() => {
    if (event === undefined || text !== undefined) return;
    const abort = new AbortController();
    const settle = (drafted: string | null): void => {
      if (!abort.signal.aborted) setText(drafted ?? toBareText(event.path));
    };
    draftFrom(event.id, toFreeName(event.path, mappings), abort.signal)
      .then(settle)
      .catch((error: unknown) => (isPassing(error) ? setLeft(true) : settle(null)));
    return () => abort.abort();
  }, [event?.id, text, tries]);
  return text ?? (event === undefined && isSettled ? toBareText(path ?? "") : undefined);
}

/** The id in the address of a new mapping. */
export const NEW = "new";

/** Marks and problems go into the editor as they come. */
function useEditorMarks(editor: Editor | null, { now }: Evaluated): void {
  useEffect(() => {
    if (!editor || !now) return;
    if (now.problems.length === 0)
      editor.setMarks(
        now.marks.map(({ at, result, reason }) => ({ at: at.start, result, reason })),
      );
    const shown = [
      ...now.problems.map((one) => ({ ...one, severity: "error" as const })),
      ...now.warnings.map((one) => ({ ...one, severity: "warning" as const })),
    ];
    editor.setProblems(
      shown.flatMap(({ at, path, message, severity }) =>
        at ? [{ ...at, severity, message: path === "" ? message : `${path}: ${message}` }] : [],
      ),
    );
  }, [editor, now]);
}

/** Gives the editor what it completes: the schema of mappings, and the fields of this hook. */
function useWords(editor: Editor | null, path: string | undefined): void {
  const schema = useResource<Omit<Words, "fields">>("/mapping-schema").data;
  const shape = useResource<{ shape: { fields: Words["fields"] } }>(
    path === undefined ? null : `/hooks/shape?path=${encodeURIComponent(path)}`,
  ).data;
  useEffect(() => {
    if (editor && schema) editor.setWords({ ...schema, fields: shape?.shape.fields ?? [] });
  }, [editor, schema, shape]);
}

/** The mapping that is edited: a mapping, or a new one, which may begin as a copy of `mapping`. */
export interface Edited {
  /** The id of the mapping, or `new`. */
  id: string;
  mapping?: MappingText | undefined;
}

export interface Workbench extends Edited {
  isNew: boolean;
  /** The text as the file has it now; undefined if there is none. */
  filed: string | undefined;
  /** True if the text is not that of the file. */
  isChanged: boolean;
  path: string | undefined;
  events: readonly EventView[];
  /** The same while they are asked for, and if that failed. */
  listed: Resource<{ events: EventView[] }>;
  /** The event that the text is evaluated against. */
  shown: Resource<{ event: EventDetail }>;
  eventId: string;
  written: Written;
  change: Change | null;
  editor: Editor | null;
  setEditor(editor: Editor | null): void;
  evaluated: Evaluated;
  compared: Compared;
  last: number;
  setLast(last: number): void;
  evaluateNow(): void;
}

/** True if the text is only shown, since it stands in no file of the user. */
export const isPreset = ({ id, mapping }: Edited): boolean => id !== NEW && mapping?.own === false;

/** The change that is saved: it is refused if the file has another text than that from which it was written. */
export function toSaved({ change, written: { base } }: Workbench): Change | null {
  if (change === null || base === null) return null;
  return change.kind === "replace" ? { ...change, from: base } : change;
}

/** The problems that keep a text from being saved. */
export const problemsOf = ({ now }: Evaluated): TextEvaluation["problems"] => now?.problems ?? [];

function useEvents(path: string | undefined) {
  const query = path === undefined ? "" : `&path=${encodeURIComponent(path)}`;
  const listed = useResource<{ events: EventView[] }>(`/events?limit=50${query}`, { live: true });
  const events = listed.data?.events ?? [];
  const eventId = place.value.query["event"] ?? events[0]?.id ?? "";
  const shown = useResource<{ event: EventDetail }>(
    eventId === "" ? null : `/events/${encodeURIComponent(eventId)}`,
  );
  // Of an event that is gone, or when there is none, nothing says the path.
  const asked = eventId === "" ? listed : shown;
  const isSettled =
    asked.data !== undefined || (asked.error !== undefined && !isPassing(asked.error));
  return { listed, shown, events, eventId, event: shown.data?.event, isSettled };
}

/** The text that the editor begins with; undefined until it is known. */
function useStart({ id, mapping }: Edited, about: NewFor): string | undefined {
  const isBegun = id === NEW && mapping === undefined;
  const drafted = useNewText({ ...about, event: isBegun ? about.event : undefined });
  if (isBegun) return drafted;
  return id === NEW && mapping ? withOwnId(mapping.text, mapping.id) : mapping?.text;
}

/** The change that saving the text would make; null until the text is there. */
function toChange({ id }: Edited, isAdded: boolean, { base, text }: Written): Change | null {
  if (base === null) return null;
  return isAdded ? { kind: "add", text } : { kind: "replace", mapping: id, text };
}

/** The gateway's answers: of a preset's mapping what it does today, of any other what its text would do. */
function useAnswers(
  change: Change | null,
  { isShownOnly, eventId, turn }: { isShownOnly: boolean; eventId: string; turn: number },
): Evaluated {
  const explained = useExplained(isShownOnly && eventId !== "" ? eventId : null);
  const typed = useEvaluation(
    isShownOnly ? null : change,
    eventId === "" ? undefined : eventId,
    turn,
  );
  return isShownOnly ? explained : typed;
}

const isGood = ({ now, busy }: Evaluated): boolean =>
  now !== null && now.problems.length === 0 && !busy;

/** All that the workbench of one mapping shows. Only who may write files is given a first draft (`/proposals`). */
export function useWorkbench(
  edited: Edited,
  { mappings, console: mode }: Pick<Mappings, "mappings" | "console">,
): Workbench {
  const { id, mapping } = edited;
  const { query } = place.value;
  const isNew = id === NEW;
  const [first] = mapping?.paths ?? [];
  const [named, setNamed] = useState(query["path"] ?? first);
  const ofPath = named ?? first;
  const { listed, shown, events, eventId, event, isSettled } = useEvents(ofPath);
  // Of a new mapping the event that it is written for says the path.
  const path = ofPath ?? event?.path;
  useEffect(() => {
    if (named === undefined && event) setNamed(event.path);
  }, [named, event]);
  const drafted = mode === "edit" ? event : undefined;
  const start = useStart(edited, { path, event: drafted, isSettled, mappings });
  const written = useWritten(isNew ? `${NEW}:${path ?? ""}` : id, start);
  const [editor, setEditor] = useState<Editor | null>(null);
  const [turn, setTurn] = useState(0);
  const [last, setLast] = useState(200);
  // A preset is not added to itself: what it does today is what is shown.
  const isShownOnly = isPreset(edited);
  const change = toChange(edited, isNew || isShownOnly, written);
  const evaluated = useAnswers(change, { isShownOnly, eventId, turn });
  const canCompare = !isShownOnly && isGood(evaluated);
  const compared = useComparison(canCompare ? change : null, last, path);
  useEditorMarks(editor, evaluated);
  useWords(editor, path);
  const evaluateNow = (): void => setTurn((before) => before + 1);
  return {
    ...edited,
    isNew,
    filed: isNew ? undefined : mapping?.text,
    isChanged: written.base !== null && written.text !== written.base,
    path,
    events,
    listed,
    shown,
    eventId,
    written,
    change,
    editor,
    setEditor,
    evaluated,
    compared,
    last,
    setLast,
    evaluateNow,
  };
}
