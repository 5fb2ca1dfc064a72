import { isAllowedHost } from "../agent/links.ts";
import { divideWords, type View } from "../agent/provenance.ts";
import type { Config } from "../config/schema/index.ts";
import { addNamed, addReached, addReachedByInput, isLoneAddress, type Reach } from "./addresses.ts";

/** Most hosts that a warning names. */
const MAX_NAMED = 10;

/** Finds links and recipients that the operator, the owner and the caller have not named. */
export interface OutsideWords {
  inCall(input: unknown): Reach;
  inReply(text: string): string[];
}

const newReach = (): Reach => ({ hosts: new Set(), recipients: new Set() });

/** Collects the addresses in `texts`, and those that the operator's template shows by themselves. */
function collectNamed(view: View, texts: readonly string[]): Reach {
  const named = newReach();
  for (const text of texts) addNamed(text, named);
  const isTemplate =
    view.kind === "hook" &&
    view.input.some((part) => !part.outside && part.by !== "sender" && part.text.trim() !== "");
  if (isTemplate)
    for (const part of view.input)
      if (part.outside && isLoneAddress(part.text)) addNamed(part.text, named);
  return named;
}

/**
 * Reads what a turn sees. `operator` are texts of the config that the model gets. A field that the operator's template shows
 * by itself, and that is an address and nothing else, counts as named by the template.
 */
export function createOutsideWords(
  view: View,
  operator: readonly string[],
  { hooks }: Pick<Config, "hooks">,
): OutsideWords {
  // Most turns reach nothing: then nothing of what they have seen is searched.
  let words: ReturnType<typeof divideWords> | undefined;
  const getWords = () => (words ??= divideWords(view));
  let known: Reach | undefined;
  const getNamed = (): Reach => (known ??= collectNamed(view, [...operator, ...getWords().named]));
  let seen: string | undefined;
  const isSeen = (word: string): boolean =>
    (seen ??= getWords().outside().normalize("NFKC").toLowerCase()).includes(word);
  const keepUnnamed = ({ hosts, recipients }: Reach): Reach => ({
    hosts: new Set(
      [...hosts].filter(
        (host) => !getNamed().hosts.has(host) && !isAllowedHost(host, hooks.allowedLinkHosts ?? []),
      ),
    ),
    recipients: new Set([...recipients].filter((one) => !getNamed().recipients.has(one))),
  });
  return {
    inCall(input) {
      const found = newReach();
      addReachedByInput(input, found, isSeen);
      return keepUnnamed(found);
    },
    inReply(text) {
      const found = newReach();
      addReached(text, found, { isSeen });
      return [...keepUnnamed(found).hosts];
    },
  };
}

/** Names hosts in a warning: never more of a link than its host. */
export function renderHosts(hosts: readonly string[]): string {
  const more = hosts.length - MAX_NAMED;
  return hosts.slice(0, MAX_NAMED).join(", ") + (more > 0 ? ` and ${more} more` : "");
}
