import type {
  SecretCandidate,
  RawInput,
  ReceivedHook,
  SignatureState,
  Snapshot,
  StageResult,
} from "./types.ts";
import type { Clock, Stopwatch } from "../core/clock.ts";
import type { HandshakeConfig } from "../config/schema/signature.ts";
import type { Failure } from "../core/errors.ts";
import type { Metrics } from "../core/metrics.ts";
import { decompress } from "../core/http/body.ts";
import { getFirstValues } from "../core/http/payload.ts";
import { answerHandshake, readsBody } from "./signatures/handshake.ts";
import type { Verifier } from "./signatures/types.ts";
import { bodyFailure, collectBytes, type BodyResult, getMaxBodyBytes } from "./body.ts";
import { createFailureLimiter, type FailureLimiter } from "./authenticate.ts";
import type { Denials, SharedCounts } from "./callers.ts";

/** Candidates of one path, and of one address there: anyone may send one. */
const MAX_CANDIDATES = 10;
const MAX_OF_ADDRESS = 3;
const MAX_LENGTH = 512;

/** The candidates of all paths, in memory alone. */
export class SecretCandidates {
  readonly #paths = new Map<string, SecretCandidate[]>();
  readonly #clock: Pick<Clock, "now">;
  #ids = 0;

  constructor(clock: Pick<Clock, "now">) {
    this.#clock = clock;
  }

  /** Adds a candidate. The oldest of its address makes room, or, if the path has too many, the oldest of the address with most. */
  add(path: string, address: string, secret: string): void {
    if (secret.length > MAX_LENGTH) return;
    const known = this.#paths.get(path) ?? [];
    this.#paths.set(path, known);
    const same = known.find((one) => one.address === address && one.secret === secret);
    if (same) {
      same.at = this.#clock.now();
      return;
    }
    known.push({ id: ++this.#ids, address, at: this.#clock.now(), secret });
    const groups = [...Map.groupBy(known, (one) => one.address).values()];
    const largest = groups.toSorted((a, b) => b.length - a.length)[0] ?? [];
    if (largest.length > MAX_OF_ADDRESS || known.length > MAX_CANDIDATES)
      known.splice(known.indexOf(largest[0] as SecretCandidate), 1);
  }

  /** The candidates of a path, oldest first. */
  of(path: string): readonly SecretCandidate[] {
    return this.#paths.get(path) ?? [];
  }
}

const MAX_HANDSHAKE_BYTES = 4096;
const HANDSHAKE_MS = 5000;

const stillPending: Failure = {
  code: "unauthorized",
  message: "the secret of this path is still `pending`",
  challenge: "Signature",
};
const noCertificate: Failure = {
  code: "overloaded",
  message:
    "the certificate that the sender signs with cannot be fetched just now; try again in a moment",
  retryAfterSeconds: 5,
};
const unconfirmed: Failure = {
  code: "internal",
  message:
    "the address that confirms the handshake is not the sender's, or did not answer: let the sender ask again",
};
const often: Failure = {
  code: "rate_limited",
  message: "too many handshakes from this address",
  retryAfterSeconds: 60,
};

/** The message for a wrong signature. It never has the reason: counters and the list of denied requests have it. */
const wrong: Failure = {
  code: "unauthorized",
  message: "the signature is missing, wrong or too old",
  challenge: "Signature",
};

/** The state of signatures and handshakes, kept in memory only. */
export interface SignatureMemory {
  /** For each signed path, the secret that matched last. It shows when an old secret can be removed. */
  readonly last: Map<string, NonNullable<SignatureState["last"]>>;
  readonly candidates: SecretCandidates;
  /** Counts unsigned handshakes. */
  readonly limiter: FailureLimiter;
}

/** Creates the state of signatures. It includes the counts of other gateways. */
export function createSignatureMemory(
  clock: Stopwatch,
  shared: SharedCounts | undefined,
): SignatureMemory {
  return {
    last: new Map(),
    candidates: new SecretCandidates(clock),
    limiter: createFailureLimiter(clock, shared),
  };
}

export interface SignatureDeps {
  clock: Clock;
  metrics: Metrics;
  /** Counts failed attempts by address. */
  limiter: FailureLimiter;
  denials: Denials;
  signatures: SignatureMemory;
}

/** The address that the sender knows, and signs. */
const toPublicUrl = (
  { origin, target }: NonNullable<RawInput["url"]>,
  publicUrl: string | undefined,
): string => (publicUrl?.replace(/\/$/, "") ?? origin) + target;

/** Returns whether the secret of a path is still pending. */
function isPending({ secrets }: Pick<Verifier, "secrets">): boolean {
  return secrets.length > 0 && secrets.every((secret) => secret === "pending");
}

/** Returns, for each signed path, the secret that matched last and the candidates for a pending secret. */
export function listSignatures(
  { verifiers }: Snapshot,
  { last, candidates }: SignatureMemory,
): SignatureState[] {
  return [...verifiers].map(([path, verifier]) => ({
    path,
    last: last.get(path),
    candidates: isPending(verifier) ? candidates.of(path) : [],
  }));
}

/**
 * Reads the body of a request that may be an unsigned handshake. Unless the secret of the path is pending, only one that says
 * that it is short: it is kept for the stages that follow.
 */
async function readFirstBody(
  { input }: ReceivedHook,
  open: readonly HandshakeConfig[],
  pending: boolean,
): ReturnType<typeof collectBytes> {
  const isAsked = open.some(
    (handshake) =>
      handshake.when.method === "POST" &&
      readsBody(handshake) &&
      (pending || !handshake.when.pendingSecret),
  );
  const declared = input.headers["content-length"];
  const isShort = pending || Number(declared) <= MAX_HANDSHAKE_BYTES;
  if (input.method !== "POST" || !isAsked || !isShort) return { ok: true, bytes: Buffer.alloc(0) };
  const read = await collectBytes(input.body, declared, {
    maxBytes: MAX_HANDSHAKE_BYTES,
    timeoutMs: HANDSHAKE_MS,
  });
  if (read.ok) input.body = read.bytes;
  return read;
}

async function answerUnsigned(
  hook: ReceivedHook,
  verifier: Verifier,
  open: readonly HandshakeConfig[],
  { denials, signatures }: SignatureDeps,
): Promise<StageResult> {
  const { method, headers } = hook.input;
  const query = getFirstValues(hook.input.query);
  const pending = isPending(verifier);
  const body = await readFirstBody(hook, open, pending);
  if (!body.ok) return denials.denyUnauthenticated(hook, body.failure, "handshake_body");
  const answer = answerHandshake(verifier, { method, headers, query, raw: body.bytes }, false);
  if (!answer)
    return pending && method === "POST"
      ? denials.denyUnauthenticated(hook, stillPending, "pending_secret")
      : undefined;
  if (signatures.limiter.failed(hook.address) > 0)
    return denials.denyUnauthenticated(hook, often, "handshakes");
  // The operator has to see it, and the log must not have it.
  if (answer.note !== undefined) signatures.candidates.add(hook.path, hook.address, answer.note);
  return { kind: "handshake", answer };
}

/**
 * Answers unsigned handshakes, with limits on their size, form and rate per address. A body is read only for a handshake that
 * needs it, and never more than 4 KB.
 */
export function answerUnsignedHandshake(
  hook: ReceivedHook,
  deps: SignatureDeps,
): StageResult | Promise<StageResult> {
  const { verifier } = hook;
  const open = verifier?.handshakes.filter((handshake) => !handshake.signed);
  return verifier && open && open.length > 0
    ? answerUnsigned(hook, verifier, open, deps)
    : undefined;
}

/** Denies a signed hook whose headers alone are invalid, before its body is read. */
export function precheckSignature(
  hook: ReceivedHook,
  { clock, denials }: SignatureDeps,
): StageResult {
  const { method, headers } = hook.input;
  const query = getFirstValues(hook.input.query);
  const reason = hook.verifier?.precheck({ method, headers, query }, clock.now());
  return reason && denials.denyUnauthenticated(hook, wrong, `signature_${reason}`);
}

/** Undoes the content encoding of a body that is to show its signature, within the memory for such bodies. Undefined: it has none. */
async function decompressSigned({
  path,
  input,
  snapshot,
  bytes,
  allowance,
}: ReceivedHook): Promise<BodyResult | undefined> {
  const encoding = input.headers["content-encoding"];
  if (encoding === undefined) return undefined;
  const maxBytes = getMaxBodyBytes(path, snapshot);
  const content = await decompress(bytes, encoding, maxBytes);
  return !content.ok || allowance?.take(content.bytes.length) !== false
    ? content
    : { ok: false, failure: bodyFailure("no_room", { maxBytes }) };
}

async function verify(
  hook: ReceivedHook,
  verifier: Verifier,
  deps: SignatureDeps,
): Promise<StageResult> {
  const { clock, metrics, limiter, denials, signatures } = deps;
  const { path, input, snapshot, bytes } = hook;
  const { method, headers, url = { origin: "", target: "/" } } = input;
  const content = verifier.names.readsBody ? await decompressSigned(hook) : undefined;
  if (content?.ok === false) return denials.deny(hook, content.failure);
  if (content) hook.content = content.bytes;
  const signed = {
    method,
    url: toPublicUrl(url, snapshot.config.gateway.publicUrl),
    headers,
    query: getFirstValues(input.query),
    raw: bytes,
    ...(content && { content: content.bytes }),
  };
  const checking = verifier.verify(signed, clock.now());
  const verified = checking instanceof Promise ? await checking : checking;
  if (!verified.ok) {
    const reason = `signature_${verified.reason}`;
    if (verified.reason === "certificate_unavailable")
      return denials.deny(hook, noCertificate, false, reason);
    return denials.denyUnauthenticated(hook, wrong, reason);
  }
  signatures.last.set(path, {
    secret: verified.secret,
    of: verifier.secrets.length,
    at: clock.now(),
  });
  metrics.signed({ path, secret: verified.secret });
  const answer = answerHandshake(verifier, signed, true);
  if (answer?.confirm !== undefined && !(await verifier.confirm?.(answer.confirm)))
    return denials.deny(hook, unconfirmed, true, "unconfirmed");
  limiter.succeeded(hook.address);
  if (answer) return { kind: "handshake", answer };
  if (verified.duplicate) hook.signedKey = verified.duplicate;
  return undefined;
}

/** Verifies the signature over the raw bytes, then answers signed handshakes. */
export function verifySignature(
  hook: ReceivedHook,
  deps: SignatureDeps,
): StageResult | Promise<StageResult> {
  const { verifier, allowance } = hook;
  if (!verifier) return undefined;
  return verify(hook, verifier, deps).finally(() => allowance?.release());
}
