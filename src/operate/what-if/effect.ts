import { resolveParsed } from "../../intake/resolve.ts";
import type { Item, ParsedHook, Resolution, Snapshot } from "../../intake/types.ts";
import { joinParts, plainText, type TextPart } from "../../core/text.ts";
import type { EventOutcome, HookAction } from "../../store/types.ts";

/** The end of a session key that is made for each event. */
export const UUID_END = /[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/;

/** One action that an event becomes. */
export interface EffectAction {
  action: HookAction;
  /** Template expressions that found nothing. */
  missing: readonly string[];
  /** Repeats with the same key are not done again. */
  dedupeKey?: string;
  /** Events with the same key are collected into one run. */
  batchKey?: string;
}

/** What becomes of an event by the mappings of a snapshot. Work of mappings in shadow is left out. */
export interface Effect {
  outcome: EventOutcome;
  mapping: string | null;
  reason: string | null;
  actions: EffectAction[];
  /** Template expressions that found nothing, of a hook that is rejected for that. */
  missing: readonly string[];
}

function toEffectAction(item: Item): EffectAction[] {
  if (!item.ok) return [];
  const { action, missing, key, batch } = item;
  return [
    { action, missing, ...(key && { dedupeKey: key.key }), ...(batch && { batchKey: batch.key }) },
  ];
}

/** Names the items that are refused beside others that are done. */
function refusedItems(items: readonly Item[]): string | null {
  const refused = items.flatMap((item) => (item.ok ? [] : [item.failure.message]));
  return refused.length === 0 ? null : refused.join("; ");
}

function toEffect(resolution: Resolution): Effect {
  const mapping = resolution.kind === "unmatched" ? null : (resolution.mapping ?? null);
  const none = { mapping, actions: [], missing: [] };
  switch (resolution.kind) {
    case "unmatched":
    case "skipped":
      return { ...none, outcome: resolution.kind, reason: resolution.reason };
    case "refused":
      return {
        ...none,
        outcome: resolution.outcome,
        reason: resolution.failure.message,
        missing: resolution.missing ?? [],
      };
    case "work":
      return {
        ...none,
        outcome: "accepted",
        reason: refusedItems(resolution.items),
        actions: resolution.items.flatMap(toEffectAction),
      };
  }
}

/** Decides about a hook by the mappings of a snapshot. Starts nothing and stores nothing; never throws. */
export async function getEffect(input: ParsedHook, snapshot: Snapshot): Promise<Effect> {
  return toEffect(await resolveParsed(input, snapshot));
}

/** Marks what came from outside, so that a change of the boundary alone can be seen. */
const markOutside = (parts: readonly TextPart[]): string =>
  joinParts(parts)
    .map(({ text, outside }) => (outside ? `⟦${text}⟧` : text))
    .join("");

/** The fields of an action by which two actions are compared. `message` is marked where only the marks can differ. */
export interface ComparedFields {
  action: "agent" | "wake";
  message: string;
  /** The message with what came from outside between ⟦ and ⟧. */
  marked: string;
  [name: string]: string | number | boolean | null;
}

/** Lists the fields of an action, each with its value or null, as the run would have them. */
export function getFields({ action, ...keys }: EffectAction): ComparedFields {
  const [dedupeKey, batchKey] = [keys.dedupeKey ?? null, keys.batchKey ?? null];
  if (action.kind === "wake") {
    const { text, agentId, mode, unsafe } = action;
    const message = plainText(text);
    return {
      action: "wake",
      message,
      marked: markOutside(text),
      agent: agentId,
      wakeMode: mode,
      boundary: !unsafe,
      dedupeKey,
      batchKey,
    };
  }
  const { session, input, name, deliver, target, unsafe, ...spec } = action.spec;
  return {
    action: "agent",
    name,
    message: plainText(input),
    marked: markOutside(input),
    instructions: spec.instructions ?? null,
    boundary: !unsafe,
    session: session.key,
    agent: session.agentId,
    model: spec.model ?? null,
    thinking: spec.thinking ?? null,
    timeoutSeconds: spec.timeoutSeconds ?? null,
    wakeMode: spec.wakeMode,
    deliver,
    channel: deliver ? target.channel : null,
    to: deliver ? (target.to ?? null) : null,
    dedupeKey,
    batchKey,
  };
}
