import { useMemo, useState } from "preact/hooks";
import { copy } from "./basic.tsx";
import { visibleText } from "./format.ts";
import { isNested, WrittenNumber } from "../exact-json.ts";

export interface JsonTreeProps {
  value: unknown;
  /** A click on a field: its path as mappings write it, `data.items[0].id`. Without it, the path is copied. */
  onPath?(path: string, value: unknown): void;
  /** The number of levels that are open at first. */
  open?: number;
  /** Fields whose path or value holds this text are shown open and marked. */
  search?: string;
}

/** So many members of one object or list are drawn before a button asks for more. */
const STEP = 100;
/** Deeper values are shown as text: drawing hundreds of nested lists makes a page slow and says nothing. */
const DEEPEST = 60;

const join = (path: string, key: string | number): string => {
  if (typeof key === "number") return `${path}[${key}]`;
  if (/^[A-Za-z_]\w*$/.test(key)) return path === "" ? key : `${path}.${key}`;
  return `${path}${path === "" ? "" : "."}\`${key}\``;
};

/** The paths that hold the searched text, with all that lead there. At most a thousand values match. */
function findPaths(value: unknown, text: string): Set<string> {
  const found = new Set<string>();
  let left = 1000;
  const visit = (node: unknown, path: string, depth: number): boolean => {
    if (left <= 0 || depth > DEEPEST) return false;
    let hit =
      path.toLowerCase().includes(text) ||
      (!isNested(node) && String(node).toLowerCase().includes(text));
    if (isNested(node)) {
      const members = Array.isArray(node)
        ? node.map((one, index) => [index, one] as const)
        : Object.entries(node);
      for (const [key, one] of members) hit = visit(one, join(path, key), depth + 1) || hit;
    }
    if (hit) {
      found.add(path);
      left--;
    }
    return hit;
  };
  visit(value, "", 0);
  return found;
}

/** Longer texts are cut: laying out megabytes of one line makes a page stand still. */
const LONGEST = 2000;

function Scalar({ value }: { value: unknown }) {
  const text = typeof value === "string" ? JSON.stringify(value) : String(value);
  const cut =
    text.length > LONGEST ? <span class="quiet">… {text.length} characters in all</span> : null;
  return (
    <span
      class={`json-${value === null ? "null" : value instanceof WrittenNumber ? "number" : typeof value}`}
    >
      {visibleText(text.slice(0, LONGEST))}
      {cut}
    </span>
  );
}

interface NodeProps {
  name: string | number | null;
  value: unknown;
  path: string;
  depth: number;
  open: number;
  found: Set<string> | null;
  pick(path: string, value: unknown): void;
}

function Node({ name, value, path, depth, open, found, pick }: NodeProps) {
  const wanted = found ? found.has(path) : depth < open;
  const [unfolded, setUnfolded] = useState<boolean | null>(null);
  const [shown, setShown] = useState(STEP);
  const isOpen = unfolded ?? wanted;
  const label =
    name === null ? null : (
      <button
        type="button"
        class={`json-key ${found?.has(path) ? "found" : ""}`}
        title={path}
        onClick={() => pick(path, value)}
      >
        {visibleText(String(name))}
      </button>
    );
  if (!isNested(value) || depth > DEEPEST) {
    return (
      <li>
        {label}
        {isNested(value) ? (
          <span class="quiet">nested deeper than is shown here</span>
        ) : (
          <Scalar value={value} />
        )}
      </li>
    );
  }
  const members: readonly (readonly [string | number, unknown])[] = Array.isArray(value)
    ? value.map((one, index) => [index, one] as const)
    : Object.entries(value);
  const summary = Array.isArray(value) ? `[${members.length}]` : `{${members.length}}`;
  return (
    <li>
      <button
        type="button"
        class="fold"
        aria-expanded={isOpen}
        aria-label={`${isOpen ? "Fold" : "Unfold"} ${path || "all"}`}
        onClick={() => setUnfolded(!isOpen)}
      >
        {isOpen ? "▾" : "▸"}
      </button>
      {label} <span class="quiet">{summary}</span>
      {isOpen ? (
        <ul>
          {members.slice(0, shown).map(([key, one]) => (
            <Node
              key={key}
              name={key}
              value={one}
              path={join(path, key)}
              depth={depth + 1}
              open={open}
              found={found}
              pick={pick}
            />
          ))}
          {members.length > shown ? (
            <li>
              <button
                type="button"
                class="button plain"
                onClick={() => setShown(shown + 10 * STEP)}
              >
                Show more of {members.length}
              </button>
            </li>
          ) : null}
        </ul>
      ) : null}
    </li>
  );
}

/** JSON as a tree that folds. What is shown is text whatever it holds: markup and control characters never act. */
export function JsonTree({ value, onPath, open = 2, search = "" }: JsonTreeProps) {
  const text = search.trim().toLowerCase();
  const found = useMemo(() => (text === "" ? null : findPaths(value, text)), [value, text]);
  const pick = onPath ?? ((path: string) => void copy(path, path));
  return (
    <ul class="json">
      <Node name={null} value={value} path="" depth={0} open={open} found={found} pick={pick} />
    </ul>
  );
}
