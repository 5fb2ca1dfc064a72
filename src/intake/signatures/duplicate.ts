import { hash } from "node:crypto";
import type { DuplicateRule, Scheme } from "../../config/schema/signature.ts";
import type { SignedText } from "./signed.ts";
import { minKeepMs } from "./time.ts";
import type { Duplicate, SignedRequest } from "./types.ts";
import { getFirst, type Body } from "./values.ts";

const MAX_ID = 256;

/** The rule of a path: its own, else its scheme's, else by the id if the scheme names one. */
export const getDuplicateRule = (scheme: Scheme, own: DuplicateRule | undefined): DuplicateRule =>
  own ?? scheme.duplicate ?? (scheme.id ? "id" : "none");

/** Returns whether a scheme signs something of each request. The others only show that the caller is the sender. */
export const signsRequest = ({ algorithm }: Pick<Scheme, "algorithm">): boolean =>
  algorithm !== "equals" && algorithm !== "jwt-hs256" && algorithm !== "oidc";

/** Returns whether the signature covers the sender's id, so that only the sender can change it. */
export function coversId(scheme: Scheme, signed: SignedText): boolean {
  const { id, algorithm } = scheme;
  if (!id || !signsRequest(scheme)) return false;
  if (algorithm === "x509" || signed.names.has("id")) return true;
  return id.every(({ body, header }) => {
    if (body !== undefined) return signed.names.has("raw");
    if (header !== undefined) return signed.headers.includes(header.toLowerCase());
    return signed.names.has("url") || signed.names.has("decodedUrl");
  });
}

/**
 * Lets a signed time be as old as the sender's last retry, which may carry the time of the first try. Only for schemes whose
 * id keeps a copy of a request from being done again.
 */
export function withRetryWindow(scheme: Scheme): Scheme {
  const { timestamp, sender } = scheme;
  if (!timestamp || sender?.retryWindow === undefined) return scheme;
  const toleranceSeconds = Math.max(timestamp.toleranceSeconds, sender.retryWindow / 1000);
  return { ...scheme, timestamp: { ...timestamp, toleranceSeconds } };
}

/** Returns the key by which a repeat of a request is recognised; undefined if it cannot be. */
export function getDuplicate(
  rule: DuplicateRule,
  scheme: Scheme,
  request: SignedRequest,
  body: Body,
): Duplicate | undefined {
  if (rule === "none") return undefined;
  if (rule !== "id")
    return { by: "body", key: `body:${hash("sha256", request.raw, "hex")}`, keepMs: rule.for };
  const id = scheme.id && getFirst(scheme.id, request, body);
  if (!id) return undefined;
  const key = `id:${id.length > MAX_ID ? hash("sha256", id, "hex") : id}`;
  // If nothing is signed, the id tells the sender's own repeats and protects against no copies.
  return { by: "id", key, ...(signsRequest(scheme) && { minKeepMs: minKeepMs(scheme.timestamp) }) };
}
