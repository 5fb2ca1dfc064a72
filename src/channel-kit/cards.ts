import { cutText } from "../core/text.ts";
import { says } from "./dialect.ts";
import type { HeardPart } from "./heard.ts";
import { objectsIn } from "./kit.ts";

type Text = string | number | null | undefined;

const lines = (texts: readonly Text[]): string =>
  texts
    .map((text) => String(text ?? "").trim())
    .filter(Boolean)
    .join("\n");

/** A link as people point at it: its words and its address. */
export function renderLink(words: Text, url: Text): string {
  const [text, address] = [lines([words]), lines([url])];
  return text === "" || address === "" || says(text, address)
    ? text || address
    : `[${text}](${address})`;
}

/** A card of a program in a message: an attachment, an embed, a preview of a link. */
export interface Card {
  /** Before the card. */
  pretext?: Text;
  author?: Text;
  title?: Text;
  url?: Text;
  text?: Text;
  fields?: readonly { title?: Text; value?: Text }[] | null | undefined;
  footer?: Text;
  /** Shown by programs that show no cards: counts if the card has nothing else. */
  fallback?: Text;
}

/** The text of a card. */
export function renderCard({
  pretext,
  author,
  title,
  url,
  text,
  fields,
  footer,
  fallback,
}: Card): string {
  const values = objectsIn(fields ?? undefined).map((field) =>
    [field.title, field.value]
      .map((one) => lines([one]))
      .filter(Boolean)
      .join(": "),
  );
  const said = lines([pretext, author, renderLink(title, url), text, ...values]);
  return said === "" ? lines([fallback, footer]) : lines([said, footer]);
}

/** A message without such a part has none. */
const NO_PART: HeardPart = { kind: "own" };

/** A place on the map. Coordinates alone are a person's own words; what a place is called, others have written. */
export function toPlacePart(
  place: { latitude?: Text; longitude?: Text; name?: Text; address?: Text; url?: Text } | undefined,
): HeardPart {
  if (!place) return NO_PART;
  const { latitude, longitude, name, address, url } = place;
  const at = `[location: ${latitude}, ${longitude}]`;
  const named = lines([name, address, url]);
  return { kind: named === "" ? "own" : "embedded", text: lines([at, named]) };
}

/** The card of a person. `reach`: numbers and addresses. */
export function toContactPart(
  contact: { name?: Text; organization?: Text; reach?: readonly Text[] } | undefined,
): HeardPart {
  if (!contact) return NO_PART;
  const { name, organization, reach = [] } = contact;
  const about = [name, organization, ...reach].map((one) => lines([one])).filter(Boolean);
  return { kind: "embedded", text: `[contact: ${about.join(", ")}]` };
}

/** A poll, which its sender has written. */
export function toPollPart(
  poll: { question?: Text; options?: readonly Text[] | undefined } | undefined,
): HeardPart {
  if (!poll) return NO_PART;
  const options = (poll.options ?? []).map((one) => `- ${one ?? ""}`);
  return { kind: "own", text: lines([`[poll] ${poll.question ?? ""}`, ...options]) };
}

/** The rules for reading a tree of blocks. */
export interface TreeRules {
  /** The members that hold text, or more of the tree, in the order of reading. Others are not read. */
  members: readonly string[];
  /** The text of a node that says more than its members, as a link; undefined for others. */
  leaf?(node: Readonly<Record<string, unknown>>): string | undefined;
  /** Returns whether what a node holds stands in one line. */
  isInline?(node: Readonly<Record<string, unknown>>): boolean;
}

const MAX_DEPTH = 50;

/** The text of a tree of blocks, as programs send them, however deep. */
export function renderTree(tree: unknown, rules: TreeRules, depth = 0, between = "\n"): string {
  if (typeof tree === "string") return tree;
  if (typeof tree !== "object" || tree === null || depth > MAX_DEPTH) return "";
  const render = (inner: unknown, joined: string): string =>
    renderTree(inner, rules, depth + 1, joined);
  if (Array.isArray(tree))
    return tree
      .map((inner) => render(inner, between))
      .filter(Boolean)
      .join(between);
  const node = tree as Readonly<Record<string, unknown>>;
  const said = rules.leaf?.(node);
  if (said !== undefined) return said;
  const joined = rules.isInline?.(node) ? "" : between;
  return rules.members
    .map((member) => render(node[member], joined))
    .filter(Boolean)
    .join(joined);
}

const MAX_NAME = 40;

/**
 * A mention of a person by name, for the words of whoever mentions them. People choose their names: what could be an address, a
 * line or a mark goes.
 */
export function renderMention(name: string | null | undefined, id: string): string {
  const plain = (name ?? "").replace(/[^\p{L}\p{M}\p{N}'_ -]+/gu, " ").replace(/ {2,}/g, " ");
  const shown = cutText(plain.trim(), MAX_NAME).text;
  return `@${shown === "" ? id : shown}`;
}
