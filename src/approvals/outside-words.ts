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

/**
 * Reads what a turn sees. `operator` are texts of the config that the model gets. A field that the operator's template shows
 * by itself, and that is an address and nothing else, counts as named by the template.
 */
export function createOutsideWords(view: View, operator: readonly string[], { hooks }: Pick<Config, "hooks">): OutsideWords {
  const { named: texts, outside } = divideWords(view);
  const named = newReach();
  for (const text of [...operator, ...texts]) addNamed(text, named);
  const isTemplate = view.kind === "hook" && view.input.some((part) => !part.outside && part.by !== "sender" && part.text.trim() !== "");
  if (isTemplate) for (const part of view.input) if (part.outside && isLoneAddress(part.text)) addNamed(part.text, named);
  let seen: string | undefined;
  const isSeen = (word: string): boolean => (seen ??= outside().normalize("NFKC").toLowerCase()).includes(word);
  const keepUnnamed = ({ hosts, recipients }: Reach): Reach => ({
    hosts: new Set([...hosts].filter((host) => !named.hosts.has(host) && !isAllowedHost(host, hooks.allowedLinkHosts ?? []))),
    recipients: new Set([...recipients].filter((one) => !named.recipients.has(one))),
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
