import type { EventRecord } from "../store/types.ts";
import type { Change, ChangeKind, ChangeValues } from "./what-if-changes.ts";
import { diffWords, type DiffPart } from "./word-diff.ts";

/** An event that a change concerns. For operators only: it quotes the event. */
export interface WhatIfExample {
  eventId: string;
  /** ISO 8601. */
  receivedAt: string;
  path: string;
  before: ChangeValues;
  after: ChangeValues;
  /** The message word by word, if it changed. */
  diff?: DiffPart[];
}

/** Events that change in the same way. */
export interface WhatIfGroup {
  kind: ChangeKind;
  /** The mapping that takes them: after the change, or before it if none takes them then. */
  mapping: string | null;
  count: number;
  /** The newest ones. */
  examples: WhatIfExample[];
}

const MAX_EXAMPLES = 3;

function toExample(
  { id, receivedAt, path }: EventRecord,
  { before, after, kind }: Change,
): WhatIfExample {
  const example: WhatIfExample = {
    eventId: id,
    receivedAt: new Date(receivedAt).toISOString(),
    path,
    before,
    after,
  };
  const [old, next] = [before["message"] ?? before["marked"], after["message"] ?? after["marked"]];
  return kind === "text" && typeof old === "string" && typeof next === "string"
    ? { ...example, diff: diffWords(old, next) }
    : example;
}

/** Collects changes by kind and mapping. Keeps the number of events and the first examples of each. */
export class ChangeGroups {
  readonly #groups = new Map<string, WhatIfGroup>();
  readonly #onExample: ((group: WhatIfGroup, example: WhatIfExample) => void) | undefined;

  /** `onExample` is called with every event of every group, also those that are not kept. */
  constructor(onExample?: (group: WhatIfGroup, example: WhatIfExample) => void) {
    this.#onExample = onExample;
  }

  /** Adds the changes of one event, which counts once in each group. */
  add(event: EventRecord, changes: readonly Change[]): void {
    const counted = new Set<WhatIfGroup>();
    for (const change of changes) {
      const { kind, mapping } = change;
      const key = `${kind} ${mapping ?? ""}`;
      const group = this.#groups.get(key) ?? { kind, mapping, count: 0, examples: [] };
      this.#groups.set(key, group);
      if (counted.has(group)) continue;
      counted.add(group);
      group.count++;
      const isKept = group.examples.length < MAX_EXAMPLES;
      if (!isKept && !this.#onExample) continue;
      const example = toExample(event, change);
      if (isKept) group.examples.push(example);
      this.#onExample?.(group, example);
    }
  }

  /** The groups so far, largest first. */
  list(): WhatIfGroup[] {
    return [...this.#groups.values()]
      .map((group) => ({ ...group, examples: [...group.examples] }))
      .toSorted((a, b) => b.count - a.count);
  }
}
