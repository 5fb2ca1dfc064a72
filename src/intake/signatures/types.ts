import type { Issue } from "../../core/errors.ts";
import type { SchemeAuth } from "../../config/schema/mapping.ts";
import type {
  DuplicateRule,
  HandshakeConfig,
  Scheme,
  Sender,
} from "../../config/schema/signature.ts";

/** The part of a request that is known before its body is read. */
export type RequestHead = Pick<SignedRequest, "method" | "headers" | "query">;

/** A request as its sender signed it. Header names are lower-case; `url` is the public one, with its query. */
export interface SignedRequest {
  method: string;
  url: string;
  headers: Record<string, string>;
  query: Record<string, string>;
  raw: Buffer;
  /** The body without its content encoding, if it has one and the scheme reads fields of it. What is signed is `raw`. */
  content?: Buffer;
}

export type RefusalReason =
  | "no_signature"
  /** Headers of the sender and no signature: the sender has no secret. */
  | "not_signed"
  | "too_many_signatures"
  | "wrong_signature"
  | "no_timestamp"
  | "stale_timestamp"
  | "wrong_body_hash"
  | "wrong_token"
  | "wrong_topic"
  | "wrong_certificate"
  /** The keys could not be fetched. The sender should try again. */
  | "certificate_unavailable";

/** The key that identifies a repeat. That of a body is kept for `keepMs`; that of an id for `hooks.dedupe.ttl`, at least for `minKeepMs`. */
export type Duplicate =
  | { by: "body"; key: string; keepMs: number }
  | { by: "id"; key: string; minKeepMs?: number };

export type Verified =
  | {
      ok: true;
      /** Which of the secrets fitted, from 0. */
      secret: number;
      duplicate: Duplicate | undefined;
    }
  | { ok: false; reason: RefusalReason };

/** Names of headers (lower-case) and of query parameters. */
interface RequestNames {
  headers: readonly string[];
  query: readonly string[];
}

/** The headers and parameters that a scheme reads as data, and those that carry its credential. */
export interface SchemeNames {
  data: RequestNames;
  credentials: RequestNames;
  /** It reads fields of the body, too. */
  readsBody: boolean;
}

/** A scheme with its secrets, ready for requests. */
export interface Verifier {
  /** Checks a request. Never throws; returns a promise only if keys must be fetched. */
  verify(request: SignedRequest, now: number): Verified | Promise<Verified>;
  /**
   * Checks what does not depend on the body: whether there is a signature at all, and a time that is too old. A body whose
   * request fails here need not be read.
   */
  precheck(request: RequestHead, now: number): RefusalReason | undefined;
  readonly handshakes: readonly HandshakeConfig[];
  /** The sender's behaviour after errors, if the scheme describes it. */
  readonly sender: Sender | undefined;
  /** The rule that recognises repeats. */
  readonly duplicate: DuplicateRule;
  readonly secrets: readonly string[];
  /** The token that the sender shows in its handshake. */
  readonly verifyToken: string | undefined;
  readonly wantsVerifyToken: boolean;
  readonly names: SchemeNames;
  /** Lower-case names of the headers that the signature covers. */
  readonly coveredHeaders: readonly string[];
  /** True if the signature covers nothing (`equals`, `jwt-hs256`, `oidc`). Then headers are as trustworthy as the body. */
  readonly coversNothing: boolean;
  /** True if it accepts the tokens of any account of its issuer (`oidc` without `email`). */
  readonly anyAccount: boolean;
  /** True if the public address must be known. */
  readonly needsUrl: boolean;
  /** Fetches the address that confirms a handshake, if it is one of the sender's hosts. False: it did not answer 2xx. */
  confirm?(url: string): Promise<boolean>;
}

/**
 * The parts that differ between the kinds of schemes: by secrets, by certificates, by tokens of an identity provider.
 */
export type VerifierCheck = Pick<Verifier, "verify" | "precheck" | "confirm"> &
  Partial<Pick<Verifier, "coveredHeaders" | "needsUrl">>;

export interface VerifierOptions {
  scheme: Scheme;
  secrets: readonly string[];
  /** The `auth` of the path, and its place in the config for what is wrong with it. */
  auth: SchemeAuth;
  at: string;
  /** Gets the senders' certificates and keys. */
  fetch: typeof fetch;
}

export type CompiledVerifier = { ok: true; verifier: Verifier } | { ok: false; issues: Issue[] };
