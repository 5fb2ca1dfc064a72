/**
 * How sending ended. `retry` may pass later (`afterMs`: the channel's own wish), `failed` never will,
 * `unknown` may have arrived and is not sent again. An `uncertain` retry may have arrived too: the next try is `resend`.
 * `reason` is kept and shown to the operator: no body, no credential.
 */
export type SendResult =
  | { status: "sent"; messageIds?: string[] }
  | { status: "retry"; reason: string; afterMs?: number; uncertain?: true }
  | { status: "failed"; reason: string }
  | { status: "unknown"; reason: string };
