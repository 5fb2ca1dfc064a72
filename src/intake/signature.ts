import type { Context } from "hono";
import type { Handshake } from "../config/schema/signature.ts";
import type { Clock } from "../core/clock.ts";
import type { Failure } from "../core/errors.ts";
import type { Metrics } from "../core/metrics.ts";
import { answerHandshake, readsBody, type HandshakeAnswer } from "../signatures/handshake.ts";
import type { Duplicate, SignedRequest, Verifier } from "../signatures/types.ts";
import { readBody } from "./body.ts";
import { createFailureLimiter } from "./authenticate.ts";
import type { SharedCounts } from "./shared-counts.ts";
import type { HookRequest } from "../http/request.ts";
import { SecretCandidates, type SecretCandidate } from "./secret-candidates.ts";

const MAX_HANDSHAKE_BYTES = 4096;
const HANDSHAKE_MS = 5000;

const stillPending: Failure = { code: "unauthorized", message: "the secret of this path is still `pending`" };
const noCertificate: Failure = {
  code: "overloaded",
  message: "the certificate that the sender signs with cannot be fetched just now; try again in a moment",
  retryAfterSeconds: 5,
};
const unconfirmed: Failure = {
  code: "internal",
  message: "the address that confirms the handshake is not the sender's, or did not answer: let the sender ask again",
};
const often: Failure = { code: "rate_limited", message: "too many handshakes from this address", retryAfterSeconds: 60 };

/** What is said of a signature that did not fit: never why, which is in the counters and the ring of refusals. */
const wrong: Failure = { code: "unauthorized", message: "the signature is missing, wrong or too old" };

/** Which secret of a path fitted last: tells when an old one may go. */
interface LastSecret {
  secret: number;
  of: number;
  at: number;
}

function publicAddress(address: string, publicUrl: string | undefined): string {
  if (publicUrl === undefined) return address;
  const { pathname, search } = new URL(address);
  return publicUrl.replace(/\/$/, "") + pathname + search;
}

/** The request as its sender signed it: by its public address. */
function signedRequest(c: Context, request: HookRequest, raw: Buffer, publicUrl: string | undefined): SignedRequest {
  return { method: request.method, url: publicAddress(c.req.url, publicUrl), headers: request.headers, query: request.query, raw };
}

function handshakeResponse(c: Context, { status, headers, body }: HandshakeAnswer): Response {
  return body === null ? c.body(null, { status: status as 204, headers }) : c.body(body, { status: status as 200, headers });
}

/** Whether a path answers GET: only for a handshake of its own. */
export function hasGetHandshake(verifier: Verifier | undefined): boolean {
  return verifier?.handshakes.some((handshake) => handshake.when.method === "GET") ?? false;
}

/** Whether the sender of a path has still to bring its secret. */
export function isPending({ secrets }: Pick<Verifier, "secrets">): boolean {
  return secrets.length > 0 && secrets.every((secret) => secret === "pending");
}

type Refused = { kind: "refused"; failure: Failure; reason: string };
type Answered = { kind: "answered"; response: Response };
/** Something of ours failed, so that the sender is to try again. */
type Failed = { kind: "failed"; failure: Failure; reason: string; authenticated: boolean };

/** The steps of the checks that signatures and handshakes need. */
export interface SignatureStage {
  /**
   * Handshakes that come without a signature: small, plain and not too often from one address. The body is read only
   * while the sender has not yet told its secret: then nothing else can be believed on that path.
   */
  unsigned(c: Context, request: HookRequest, verifier: Verifier): Promise<Answered | Refused | undefined>;
  /** What the headers alone say against a request, before its body is read. */
  precheck(request: HookRequest, verifier: Verifier): Refused | undefined;
  /** The signature over the raw bytes, then signed handshakes. `key` tells a repeat, where the sender has signed it. */
  check(
    c: Context,
    request: HookRequest,
    raw: Buffer,
    verifier: Verifier,
    publicUrl: string | undefined,
  ): Promise<Answered | Refused | Failed | { kind: "believed"; key: Duplicate | undefined }>;
  /** Which secret of a path fitted last, and which secrets came in a handshake while it has none. */
  state(path: string): { last: LastSecret | undefined; candidates: readonly SecretCandidate[] };
}

export function createSignatureStage(deps: {
  clock: Pick<Clock, "now">;
  metrics: Pick<Metrics, "signed">;
  shared: SharedCounts | undefined;
}): SignatureStage {
  const { clock, metrics } = deps;
  const limiter = createFailureLimiter(clock, deps.shared);
  const last = new Map<string, LastSecret>();
  const candidates = new SecretCandidates(clock);

  const firstBody = async (request: HookRequest, open: readonly Handshake[]): Promise<Buffer | Refused> => {
    if (request.method !== "POST" || !open.some(readsBody)) return Buffer.alloc(0);
    const limits = { maxBytes: MAX_HANDSHAKE_BYTES, timeoutMs: HANDSHAKE_MS };
    const body = await readBody(request.source, request.headers["content-length"], limits);
    return body.ok ? body.bytes : { kind: "refused", failure: body.failure, reason: "handshake_body" };
  };

  return {
    precheck(request, verifier) {
      const reason = verifier.precheck({ method: request.method, headers: request.headers, query: request.query }, clock.now());
      return reason && { kind: "refused", failure: wrong, reason: `signature_${reason}` };
    },
    state: (path) => ({ last: last.get(path), candidates: candidates.of(path) }),
    async unsigned(c, request, verifier) {
      const open = verifier.handshakes.filter((handshake) => !handshake.signed);
      if (open.length === 0) return undefined;
      const pending = isPending(verifier);
      const raw = pending ? await firstBody(request, open) : Buffer.alloc(0);
      if (!Buffer.isBuffer(raw)) return raw;
      const answer = answerHandshake(verifier, { method: request.method, headers: request.headers, query: request.query, raw }, false);
      if (answer && limiter.failed(request.address) > 0) return { kind: "refused", failure: often, reason: "handshakes" };
      if (answer) {
        // What the operator has to see goes to where the operator looks, not into the log.
        if (answer.note !== undefined) candidates.add(request.path, request.address, answer.note);
        return { kind: "answered", response: handshakeResponse(c, answer) };
      }
      return pending ? { kind: "refused", failure: stillPending, reason: "pending_secret" } : undefined;
    },
    async check(c, request, raw, verifier, publicUrl) {
      const signed = signedRequest(c, request, raw, publicUrl);
      const checking = verifier.verify(signed, clock.now());
      const verified = checking instanceof Promise ? await checking : checking;
      if (!verified.ok && verified.reason === "certificate_unavailable")
        return { kind: "failed", failure: noCertificate, reason: `signature_${verified.reason}`, authenticated: false };
      if (!verified.ok) return { kind: "refused", failure: wrong, reason: `signature_${verified.reason}` };
      last.set(request.path, { secret: verified.secret, of: verifier.secrets.length, at: clock.now() });
      metrics.signed({ path: request.path, secret: verified.secret });
      const answer = answerHandshake(verifier, signed, true);
      if (answer?.confirm !== undefined && !(await verifier.confirm?.(answer.confirm)))
        return { kind: "failed", failure: unconfirmed, reason: "unconfirmed", authenticated: true };
      return answer ? { kind: "answered", response: handshakeResponse(c, answer) } : { kind: "believed", key: verified.duplicate };
    },
  };
}
