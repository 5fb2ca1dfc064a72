import { useEffect, useState } from "preact/hooks";
import type { ProposalLine } from "../../../../src/operate/proposals/proposal-types.ts";
import { askLines, isPassing } from "../../api.ts";
import { useTries } from "../../resource.ts";
import type { EventDetail, PlacedMapping } from "./types.ts";

const MOST_OF_NAME = 40;

/** A name for a mapping file: lower-case letters, digits and "-". */
const toFileName = (id: string): string =>
  id
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, "-")
    .slice(0, MOST_OF_NAME)
    .replaceAll(/^-+|-+$/g, "") || "hook";

/** Gives a mapping's text another id, so that a copy of a preset's mapping can stand beside it. */
export function withOwnId(text: string, id: string): string {
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

/** What a new mapping is written for. */
export interface NewFor {
  path: string | undefined;
  event: EventDetail | undefined;
  /** Whether no event can be expected any more if there is none. */
  isSettled: boolean;
  mappings: readonly PlacedMapping[];
}

/** The text that a new mapping begins with: a first draft from its event, or a bare one. Undefined until it is known. */
export function useNewText({ path, event, isSettled, mappings }: NewFor): string | undefined {
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
