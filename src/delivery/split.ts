import type { Definition, Nodes, Parents, RootContent, TableCell } from "mdast";
import { parseMarkdown, writeMarkdown } from "../core/markdown.ts";

/** A place that fills so much of a piece is taken before a better kind of place that fills less. */
const FILLED = 0.5;
/** The share of a piece that an address, or the marks of a block of code, may take. */
const MOST_OVERHEAD = 0.5;
/** A block with this share of marks, or so many, takes long to read, and is hardly meant as markdown. */
const DENSEST = 1 / 3;
const MOST_SIGNS = 4000;
const LONG_TO_READ = 1000;
/** The least that a piece is cut to where a channel counts it longer than its text is. */
const LEAST_PIECE = 20;

const graphemes = new Intl.Segmenter("en", { granularity: "grapheme" });

/**
 * Splits a markdown text into pieces of at most `limit` UTF-16 units (20 or more), for channels with a longest message.
 * Breaks after blocks, items, lines, sentences or words, in this order. What is open at a break, as bold text, a link, code,
 * a quote or a table, is closed in the piece and opened again in the next, so that each piece shows by itself what the
 * whole shows; no surrogate pair, no grapheme and no link that fits is cut. White space at a break goes; no piece is blank.
 */
export const splitText = (text: string, limit: number): string[] => [...cutPieces(text, limit)];

function* cutPieces(text: string, limit: number): Generator<string> {
  if (text.trim() === "") return;
  if (text.length <= limit) return yield text;
  let rest = readBlocks(text, limit);
  while (rest.length > 0) {
    const { piece, tail } = cut(rest, text, limit);
    if (piece.trim() !== "") yield piece;
    rest = tail;
  }
}

type Measure = (text: string) => number;

/**
 * Splits a text so that each piece fits as its channel counts it: `measure` gives the length of a piece in the channel's
 * dialect, which may be more or less than that of its text. A piece is cut when it is asked for: who needs the first alone
 * does not wait for a long text.
 */
export function* cutMeasured(text: string, limit: number, measure?: Measure): Generator<string> {
  if (!measure) return yield* cutPieces(text, limit);
  const measurePiece = (piece: string): number => {
    try {
      return measure(piece);
    } catch {
      // A plugin that cannot count a text has to send it all the same.
      return piece.length;
    }
  };
  for (const piece of cutPieces(text, limit)) {
    const length = measurePiece(piece);
    const room = Math.max(
      LEAST_PIECE,
      Math.floor(Math.min(piece.length - 1, (piece.length * limit) / length)),
    );
    if (length <= limit || piece.length <= LEAST_PIECE) yield piece;
    else yield* cutMeasured(piece, room, scaled(measurePiece, limit, room));
  }
}

/** The measure for pieces that are cut to `room`, where `limit` is what they may come to. */
const scaled =
  (measure: Measure, limit: number, room: number): Measure =>
  (text) =>
    (measure(text) / limit) * room;

const startOf = ({ position }: Nodes): number | undefined => position?.start.offset;
const endOf = ({ position }: Nodes): number | undefined => position?.end.offset;

/** Returns a copy of a node that is written again, since its source no longer says what it is. */
function change<N extends Nodes>(node: N, more: object): N {
  const { position: _source, ...rest } = node;
  return { ...rest, ...more } as N;
}

const isDense = (block: string): boolean =>
  block.length > LONG_TO_READ &&
  (block.match(/[*_~`[\]]/g)?.length ?? 0) >= Math.min(block.length * DENSEST, MOST_SIGNS);

/** Reads a text: its blocks, in which links by reference have their address, and nothing is left that no piece can hold. */
function readBlocks(text: string, limit: number): RootContent[] {
  // HTML in the tree stays as it was written.
  if (text.split(/\n[ \t]*\n/).some(isDense)) return [{ type: "html", value: text }];
  const { children } = parseMarkdown(text);
  const definitions = new Map<string, Definition>();
  for (const node of children)
    if (node.type === "definition" && !definitions.has(node.identifier))
      definitions.set(node.identifier, node);
  const used = new Set<Nodes>();
  const resolve = (node: RootContent): RootContent => {
    if (node.type === "linkReference" || node.type === "imageReference") {
      const found = definitions.get(node.identifier);
      if (!found) return node;
      used.add(found);
      const type = node.type === "linkReference" ? "link" : "image";
      return resolve(change(node, { type, url: found.url, title: found.title }));
    }
    const length = (endOf(node) ?? 0) - (startOf(node) ?? 0);
    // Of HTML in two pieces neither is any: it is shown as it was written.
    if (node.type === "html" && length > limit) {
      const shown = { type: "text" as const, value: node.value };
      return node.value.includes("\n") ? { type: "paragraph", children: [shown] } : shown;
    }
    if ("url" in node && node.type !== "definition" && node.url.length > limit * MOST_OVERHEAD)
      return { type: "html", value: text.slice(startOf(node), endOf(node)) };
    if (
      node.type === "code" &&
      (node.lang ?? "").length + (node.meta ?? "").length > (limit * MOST_OVERHEAD) / 2
    )
      return change(node, { lang: null, meta: null });
    if (!("children" in node)) return node;
    const inside = (node.children as RootContent[]).map(resolve);
    return inside.some((child, index) => child !== node.children[index])
      ? change(node, { children: inside })
      : node;
  };
  return children.map(resolve).filter((node) => !used.has(node));
}

/** Writes blocks: as they were written in `text`, as far as they are whole. */
function render(nodes: readonly Nodes[], text: string): string {
  let written = "";
  let end: number | undefined;
  for (const node of nodes) {
    const start = startOf(node);
    const between = end !== undefined && start !== undefined ? text.slice(end, start) : "";
    if (written !== "") written += between !== "" && between.trim() === "" ? between : "\n\n";
    end = endOf(node);
    written += start === undefined ? writeMarkdown(node) : text.slice(start, end);
  }
  return written;
}

/** The kinds of places to cut, the best first. */
const KINDS = ["block", "item", "line", "code", "sentence", "word", "sign"] as const;
type Kind = (typeof KINDS)[number];

/** A place to cut: the indexes of children that lead to it, and at last an offset in a text if it is in one. */
interface Place {
  kind: Kind;
  path: readonly number[];
}

interface Search {
  text: string;
  limit: number;
  /** True if what a piece can hold is cut too, and words: no other place was found. */
  cutsMore: boolean;
  /** The length of the values that were searched. */
  searched: number;
}

/** The share of a piece up to which nodes stay whole. */
const KEPT_WHOLE: Partial<Record<Nodes["type"], number>> = {
  link: 1,
  inlineCode: 0.5,
  code: 1,
  table: 1,
};
const PLACES = /\n|\s+|[.!?…][)"'\]”’*_]*(?=\s)|[。！？]/g;

function toValueKind(found: string, type: Nodes["type"]): Kind {
  if (found.includes("\n")) return type === "code" ? "code" : "line";
  return /\s/.test(found) ? "word" : "sentence";
}

/** Finds the places in the value of a node, as far as a piece can reach. */
function* findInValue(
  node: Nodes & { value: string },
  path: readonly number[],
  search: Search,
): Generator<Place> {
  const value = node.value.slice(0, search.limit + LEAST_PIECE);
  search.searched += value.length;
  const kinds = new Map<number, Kind>();
  for (const { 0: found, index } of value.matchAll(PLACES)) {
    const kind = toValueKind(found, node.type);
    const at = kind === "sentence" ? index + found.length : index;
    if (!kinds.has(at)) kinds.set(at, kind);
  }
  const offsets = search.cutsMore ? findSigns(value) : kinds.keys();
  for (const at of offsets) yield { kind: kinds.get(at) ?? "sign", path: [...path, at] };
}

/** Finds where signs begin: graphemes, and characters of one with more marks than anybody sees. */
function* findSigns(text: string): Generator<number> {
  for (const { segment, index } of graphemes.segment(text))
    if (segment.length <= LEAST_PIECE) yield index;
    else
      for (let at = index; at < index + segment.length; at++)
        if (!/[\udc00-\udfff]/.test(text.charAt(at))) yield at;
}

/** Finds the places inside a node, in order. */
function* findPlaces(node: Nodes, path: readonly number[], search: Search): Generator<Place> {
  if (node.type === "html" && node.value.length <= search.limit) return;
  if ("value" in node) return yield* findInValue(node, path, search);
  if (!("children" in node)) return;
  for (const [index, child] of node.children.entries()) {
    if (search.searched > search.limit) return;
    const here = [...path, index];
    const isApart = child.type === "break" || (!isPhrasing(child) && child.type !== "tableCell");
    if (index > 0 && isApart && isCuttable(node, index))
      yield { kind: toKind(node, path), path: here };
    const whole = search.cutsMore ? undefined : KEPT_WHOLE[child.type];
    if (whole !== undefined && render([child], search.text).length <= search.limit * whole)
      search.searched += countSeen(child);
    else yield* findPlaces(child, here, search);
  }
}

/** Counts the signs of the values in a node. */
function countSeen(node: Nodes): number {
  if ("value" in node) return node.value.length;
  const children: readonly Nodes[] = "children" in node ? node.children : [];
  return children.reduce((sum, child) => sum + countSeen(child), 0);
}

/** The head of a table is not cut from its first row. */
const isCuttable = ({ type }: Nodes, index: number): boolean => type !== "table" || index > 1;

const toKind = ({ type }: Nodes, path: readonly number[]): Kind =>
  path.length === 0 ? "block" : path.length === 1 && type === "list" ? "item" : "line";

const PHRASING = new Set(
  "text emphasis strong delete inlineCode break link image footnoteReference linkReference imageReference".split(
    " ",
  ),
);
const isPhrasing = ({ type }: Nodes): boolean => PHRASING.has(type);

/** A node in two. What was an item is none any more behind the break: its mark is before it. */
interface Halves {
  head: Nodes[];
  tail: Nodes[];
}

const EMPTY: TableCell = { type: "tableCell", children: [] };

/** Divides a node at a place. */
function divide(node: Nodes, [index = 0, ...path]: readonly number[]): Halves {
  if ("value" in node) {
    const [before, behind] = [node.value.slice(0, index), node.value.slice(index)];
    const values =
      node.type === "code"
        ? [before, behind.replace(/^\s/, "")]
        : [before.trimEnd(), behind.trimStart()];
    const [head, tail] = values.map((value) => (value === "" ? [] : [change(node, { value })])) as [
      Nodes[],
      Nodes[],
    ];
    return { head, tail };
  }
  if (!("children" in node)) return { head: [], tail: [node] };
  const children: readonly Nodes[] = node.children;
  const middle = children[index] as Nodes;
  const inside = path.length === 0 ? { head: [], tail: [middle] } : divide(middle, path);
  return {
    head: wrap(node, [...children.slice(0, index), ...inside.head]),
    tail: toTail(node, index, inside.tail),
  };
}

const isGap = (node: Nodes | undefined): boolean =>
  node?.type === "break" || (node?.type === "text" && node.value.trim() === "");

/** Returns a node with other children, without white space at their edges; nothing if none is left. */
function wrap(node: Nodes, children: readonly Nodes[]): Nodes[] {
  const first = children.findIndex((child) => !isGap(child));
  const last = children.findLastIndex((child) => !isGap(child));
  if (first < 0) return [];
  const kept = children.slice(first, last + 1).map((child, index) => {
    if (child.type !== "text") return child;
    const value = index === 0 ? child.value.trimStart() : child.value;
    return change(child, { value: first + index === last ? value.trimEnd() : value });
  });
  return [change(node, { children: kept })];
}

/** Returns the part of a node behind a break; `inside` is that of the child with the break. */
function toTail(node: Parents, index: number, inside: readonly Nodes[]): Nodes[] {
  const behind: readonly Nodes[] = node.children.slice(index + 1);
  const [first] = inside;
  switch (node.type) {
    case "listItem":
    case "footnoteDefinition":
      return [...inside, ...behind].map((child) => change(child, {}));
    case "list": {
      const isWhole = first?.type === "listItem";
      const items = isWhole ? [...inside, ...behind] : behind;
      const start = (node.start ?? 1) + index + (isWhole ? 0 : 1);
      const list = wrap(node.ordered ? { ...node, start } : node, items);
      return isWhole ? list : [...inside.map((child) => change(child, {})), ...list];
    }
    case "table":
      return wrap(node, [node.children[0] as Nodes, ...inside, ...behind]);
    case "tableRow":
      return wrap(node, [...Array.from({ length: index }, () => EMPTY), ...inside, ...behind]);
    default: {
      const [begin, ...others] = [...inside, ...behind];
      // At the begin of a line it would be a block, and hide what follows.
      const isTag =
        node.type === "paragraph" && begin?.type === "html" && begin.value.startsWith("<");
      return isTag
        ? wrap(node, [{ type: "text", value: begin.value }, ...others])
        : wrap(node, [...inside, ...behind]);
    }
  }
}

/** Cuts a piece off the beginning of a text, at the best place. */
function cut(
  blocks: readonly RootContent[],
  text: string,
  limit: number,
): { piece: string; tail: RootContent[] } {
  // Blocks that fill a piece at least.
  let count = 0;
  let seen = 0;
  for (; count < blocks.length && seen <= limit; count++)
    seen += countSeen(blocks[count] as RootContent);
  const near = blocks.slice(0, count);
  const whole = seen <= limit ? render(near, text) : undefined;
  if (whole !== undefined && whole.length <= limit) return { piece: whole, tail: [] };
  const root = { type: "root" as const, children: near };
  const found =
    findBest(root, { text, limit, cutsMore: false, searched: 0 }) ??
    findBest(root, { text, limit, cutsMore: true, searched: 0 });
  if (found) {
    const tail = unrooted(divide(root, found.path).tail);
    return { piece: found.piece, tail: [...tail, ...blocks.slice(count)] };
  }
  // Nothing keeps its forms.
  const value = render(near.slice(0, 1), text);
  const rest = blocks.slice(1);
  return value.trim() === ""
    ? { piece: "", tail: rest }
    : cut([{ type: "html", value }, ...rest], text, limit);
}

const unrooted = (nodes: readonly Nodes[]): RootContent[] =>
  nodes.flatMap((node) => (node.type === "root" ? node.children : [node]));

/** Finds the best place whose piece fits. */
function findBest(
  root: Extract<Nodes, { type: "root" }>,
  search: Search,
): { path: readonly number[]; piece: string } | undefined {
  const { text, limit } = search;
  const places = [...findPlaces(root, [], search)];
  const pieceAt = ({ path }: Place): string => render(unrooted(divide(root, path).head), text);
  let low = 0;
  let high = places.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (pieceAt(places[middle] as Place).length <= limit) low = middle + 1;
    else high = middle;
  }
  const fitting = places.slice(0, low);
  const lasts = KINDS.flatMap((kind) => fitting.findLast((place) => place.kind === kind) ?? []);
  const candidates = lasts
    .map((place) => ({ ...place, piece: pieceAt(place) }))
    .filter(({ piece }) => piece.trim() !== "" && piece.length <= limit);
  return (
    candidates.find(({ piece }) => piece.length >= limit * FILLED) ??
    candidates.toSorted((one, other) => other.piece.length - one.piece.length)[0]
  );
}
