import type { Failure } from "../core/errors.ts";
import type { Intake } from "../intake/receive.ts";
import type { RawInput, IntakeReceipt as RecordedReceipt, Received } from "../intake/types.ts";
import type { ActionReceipt, Denied, Gateway, Handshake, HookError, HookInput, HookOrigin, Receipt } from "./types.ts";

function toError({ code, message, issues, retryAfterSeconds }: Failure): HookError {
  return { code, message, ...(issues && { issues }), ...(retryAfterSeconds !== undefined && { retryAfterSeconds }) };
}

function toActionReceipt(action: RecordedReceipt["actions"][number]): ActionReceipt {
  if (!action.ok) return { ok: false, error: toError(action.error) };
  const { mapping, runId, sessionKey, status, systemEventId, warnings = [], duplicate = false } = action;
  return { ok: true, mapping, runId, sessionKey, status, systemEventId, warnings, duplicate };
}

function toResult(received: Received): Receipt | Denied | Handshake {
  if (received.kind === "handshake") {
    const { status, headers, body } = received.answer;
    return { kind: "handshake", status, headers, body };
  }
  if (received.kind === "denied") return { kind: "denied", error: toError(received.error) };
  const { eventId, outcome, reason, mapping, warnings = [], nearest, error, repeats } = received;
  return {
    kind: "receipt",
    eventId,
    outcome,
    reason,
    mapping,
    duplicateOf: repeats?.eventId,
    actions: (repeats?.receipt ?? received).actions.map(toActionReceipt),
    warnings: repeats?.receipt?.warnings ?? warnings,
    nearest,
    error: error && toError(error),
  };
}

const JSON_TYPE = { "content-type": "application/json" };

function toRawInput({ path, body = {}, method = "POST", headers = {}, query = {} }: HookInput, origin: string): RawInput {
  const named = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
  const clean = path.replace(/^\/+|\/+$/g, "");
  const parameters = new URLSearchParams(query).toString();
  return {
    method,
    path: clean,
    query: { ...query },
    headers: body instanceof Uint8Array ? named : { ...named, ...JSON_TYPE },
    body: body instanceof Uint8Array ? body : Buffer.from(JSON.stringify(body) ?? "null"),
    url: `${origin}/${clean}${parameters === "" ? "" : `?${parameters}`}`,
  };
}

/** Creates what the program that embeds a gateway hands events over by. `base` is the public address of the hooks. */
export function createReceive({ receive }: Pick<Intake, "receive">, base: () => string): Gateway["receive"] {
  function take(input: HookInput, origin?: { kind: "internal" }): Promise<Receipt | Denied>;
  function take(input: HookInput, origin: HookOrigin): Promise<Receipt | Denied | Handshake>;
  async function take(input: HookInput, origin: HookOrigin = { kind: "internal" }): Promise<Receipt | Denied | Handshake> {
    return toResult(await receive(toRawInput(input, base()), origin));
  }
  return take;
}
