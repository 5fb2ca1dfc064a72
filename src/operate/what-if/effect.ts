import type { EffectAction } from "../../intake/resolve.ts";
import { markOutside, plainText } from "../../core/text.ts";

/** The end of a session key that is made for each event. */
export const UUID_END = /[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/;

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
