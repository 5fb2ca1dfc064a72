import type { SendResult } from "./channel.ts";
import { neverConnected } from "./kit.ts";

/** How a send ended that did not end well. */
export type Failure = Exclude<SendResult, { status: "sent" }>;

/** What an error of the vendor's means. A text alone is advice on what to do about it, and means that it is final. `reason` is the whole of what is told. */
type Verdict = string | { status: Failure["status"]; advice?: string; reason?: string };

/** Codes or statuses that mean the same, for `errors`. */
export function alike(codes: readonly (string | number)[], verdict: Verdict): Record<string, Verdict> {
  return Object.fromEntries(codes.map((code) => [code, verdict]));
}

/** How a vendor's failures are told and sorted. */
export interface Vendor {
  /** What reasons call it. */
  name: string;
  /** By the vendor's own code, or else by the status. Others: 408, 429 and from 500 on may pass, the rest is final. */
  errors?: Readonly<Record<string, Verdict>>;
  /** The status alone is told, and its code, in this way. Default: ` (code)`. */
  shown?(code: string): string;
  /** The wait where a 429 names none, in milliseconds. */
  defaultWaitMs?: number;
  /** What an error of the vendor's SDK says, as far as sorting needs it, or how it is answered; undefined for any other error. */
  sort?(error: object): Answered | Failure | undefined;
}

/** An answer that is an error, as far as sorting needs it. */
export interface Answered {
  /** Of HTTP; none where the vendor tells errors in another way. */
  status?: number | undefined;
  /** The vendor's own code, where it has a text for one; told only where it looks like a code. */
  code?: unknown;
  /** How long the vendor wants to be left alone, in milliseconds. 0 is no wish. */
  afterMs?: number | undefined;
  /** Overrules the tables. */
  passing?: boolean | undefined;
}

/** An error of which it is known how a send that it ends is answered. Its message may be shown: no body, no credential. */
export class Trouble extends Error {
  readonly failure: Failure;
  /** What the vendor answered, where it did. */
  readonly answered: Answered | undefined;

  constructor(failure: Failure | string, answered?: Answered, options?: ErrorOptions) {
    const given: Failure = typeof failure === "string" ? { status: "retry", reason: failure } : failure;
    super(given.reason, options);
    this.failure = given;
    this.answered = answered;
  }
}

/** `Retry-After` in milliseconds, where it names seconds. */
export function retryAfter(headers: Headers): number | undefined {
  const seconds = headers.get("retry-after") ?? "";
  return /^\d{1,6}(?:\.\d{1,6})?$/.test(seconds) ? Number(seconds) * 1000 : undefined;
}

/** What an answer means that is an error. One without a status and a code that can be told is none of the vendor's: nobody knows what was done. */
export function sortAnswer(vendor: Vendor, { status, code: given, afterMs, passing }: Answered): Failure {
  const { name, errors = {}, shown = (known) => ` (${known})`, defaultWaitMs } = vendor;
  const code = typeof given === "string" ? given : undefined;
  const told = code !== undefined && /^[\w.' -]{1,100}$/.test(code) ? code : undefined;
  const known = [code ?? "", String(status)].find((key) => Object.hasOwn(errors, key));
  const found = known === undefined ? undefined : errors[known];
  const verdict: Exclude<Verdict, string> | undefined = typeof found === "string" ? { status: "failed", advice: found } : found;
  const mayPass = status === 408 || status === 429 || (status ?? 0) >= 500;
  const byStatus = mayPass ? "retry" : status === undefined && told === undefined ? "unknown" : "failed";
  const result = passing === undefined ? (verdict?.status ?? byStatus) : passing ? "retry" : "failed";
  const advice = verdict?.advice === undefined ? "" : `: ${verdict.advice}`;
  const answer = status === undefined ? (told ?? "what is not its format") : `${status}${told === undefined ? "" : shown(told)}`;
  const reason = verdict?.reason ?? `${name} answered ${answer}${advice}`;
  const wait = afterMs || (status === 429 ? defaultWaitMs : undefined);
  return result === "retry" && wait !== undefined ? { status: result, reason, afterMs: wait } : { status: result, reason };
}

/** The code of an error of the network, however deep an SDK has wrapped it; nothing else of it, since messages quote addresses. */
export function networkCode(error: unknown): string | undefined {
  const { code, cause, original, error: inner } = (typeof error === "object" && error !== null ? error : {}) as Record<string, unknown>;
  if (typeof code === "string" && /^[A-Z_0-9]{1,60}$/.test(code)) return code;
  const below = cause ?? original ?? inner;
  return below === undefined || below === error ? undefined : networkCode(below);
}

/** How a send ended that threw: what a `Trouble` or the vendor's error says; of any other, whether the message may have got there. */
export function failureOf(vendor: Vendor, error: unknown): Failure {
  if (error instanceof Trouble) return error.failure;
  const sorted = typeof error === "object" && error !== null ? vendor.sort?.(error) : undefined;
  if (sorted) return "reason" in sorted ? sorted : sortAnswer(vendor, sorted);
  const code = networkCode(error) ?? (error instanceof DOMException ? error.name : undefined);
  if (neverConnected(code ?? "")) return { status: "retry", reason: `${vendor.name} cannot be reached (${code})` };
  return { status: "unknown", reason: `the connection ended before ${vendor.name} answered${code === undefined ? "" : ` (${code})`}` };
}

/**
 * Sends in two steps. What `prepare` does sends nothing, as finding out where a message goes: where it fails it may be
 * done again. Throws nothing.
 */
export async function sendAfter<T>(
  vendor: Vendor,
  prepare: () => Promise<T> | T,
  send: (prepared: T) => Promise<SendResult>,
): Promise<SendResult> {
  let prepared: T;
  try {
    prepared = await prepare();
  } catch (error) {
    const failure = failureOf(vendor, error);
    return failure.status === "unknown" ? { ...failure, status: "retry" } : failure;
  }
  return sending(vendor, () => send(prepared));
}

/** A send whose errors are answered as the vendor's. Throws nothing. */
export async function sending(vendor: Vendor, send: () => Promise<SendResult>): Promise<SendResult> {
  return send().catch((error: unknown) => failureOf(vendor, error));
}

/** A channel's `probe`, of an action that throws where the channel cannot be reached. */
export async function probing(vendor: Vendor, action: () => Promise<unknown>): Promise<{ ok: true } | { ok: false; message: string }> {
  try {
    await action();
    return { ok: true };
  } catch (error) {
    return { ok: false, message: failureOf(vendor, error).reason };
  }
}

const MISSING = new Set(["ERR_MODULE_NOT_FOUND", "MODULE_NOT_FOUND"]);

/** Loads a package that may not be there, as those of `optionalDependencies`. Throws a `Trouble` that says what to install. */
export async function loadPackage<T>(name: string, load: () => Promise<T>, advice = `install ${name} (npm install ${name})`): Promise<T> {
  return load().catch((cause: unknown) => {
    const missing = MISSING.has((cause as { code?: string }).code ?? "");
    throw new Trouble(
      { status: "failed", reason: missing ? advice : `${name} could not be loaded: install it anew (npm install ${name})` },
      undefined,
      { cause },
    );
  });
}
