import { describe, expect, it } from "vitest";
import { schemeSchema, type SchemeDocument } from "../config/schema/signature.ts";
import { compileVerifier } from "../intake/signatures/compile.ts";
import type { SignedRequest, Verified, Verifier } from "../intake/signatures/types.ts";

/** The parts of a request that a sender signs. */
export interface Signing {
  body: string;
  secret: string;
  /** Seconds since the epoch. */
  time: number;
  /** The public address with its query. */
  url: string;
  /** The event's id, for senders that sign one. */
  id?: string;
}

/** A sender's way of signing, written from its documentation and not from the scheme, so that the two check each other. */
export interface Signer {
  /** A secret of the sender's form, and another. */
  secrets: [string, string];
  sign(signing: Signing): { headers: Record<string, string>; query?: Record<string, string> };
  /** The body of a request that was sent at this time, in seconds. Default: a JSON object. */
  body?(time: number): string;
  /** The seconds by which a signed time may differ, retries included; undefined if the sender signs none. */
  tolerance?: number;
  /** False if the signature does not cover the body. */
  coversBody?: boolean;
  /** False if the scheme recognises no repeats (`duplicate: "none"`). */
  tellsRepeats?: boolean;
  /** Writes the time into a body, for senders that have it there. */
  writeTime?(body: string, time: number): string;
  /** The secrets are public keys: `sign` has one private key, whichever of them is given. */
  isKeyPair?: boolean;
}

export interface SchemeSample extends Signer {
  scheme: SchemeDocument;
  /** The token that the sender shows in its handshake, if it does. */
  verifyToken?: string;
}

const URL_ = "https://hooks.example.com/hooks/in?a=1";
const NOW = 1_760_000_000;
const BODY = '{"id":"evt_1","event_id":"Ev1","type":"order.created","data":{"text":"grüße 日本"}}';

function createVerifier(
  { scheme, verifyToken }: SchemeSample,
  secrets: readonly string[],
): Verifier {
  const { certificate: _, oidc: __, ...checked } = schemeSchema.parse(scheme);
  const auth = { scheme: checked, verifyToken };
  const compiled = compileVerifier({ scheme: checked, secrets, auth, at: "auth", fetch });
  if (!compiled.ok)
    throw new Error(compiled.issues.map(({ path, message }) => `${path}: ${message}`).join("\n"));
  return compiled.verifier;
}

function signedRequest(sample: SchemeSample): SignedRequest {
  const body = sample.body?.(NOW) ?? BODY;
  const signed = sample.sign({
    body,
    secret: sample.secrets[0],
    time: NOW,
    url: URL_,
    id: "msg_2b3c",
  });
  const headers = { "content-type": "application/json", ...signed.headers };
  return {
    method: "POST",
    url: URL_,
    headers,
    query: { a: "1", ...signed.query },
    raw: Buffer.from(body),
  };
}

/**
 * Declares the tests that every signature scheme with a secret passes: it accepts what its sender signs and nothing else.
 * Schemes over OpenID Connect and certificates need their issuer's keys and are not for this suite.
 */
export function testScheme(name: string, sample: SchemeSample): void {
  describe(`scheme ${name}`, () => {
    const { secrets, tolerance } = sample;
    const verify = (
      request: SignedRequest,
      allowed: readonly string[] = [secrets[0]],
      seconds = NOW,
    ): Verified => createVerifier(sample, allowed).verify(request, seconds * 1000) as Verified;

    it("accepts what its sender signed", () => {
      expect(verify(signedRequest(sample))).toMatchObject({ ok: true, secret: 0 });
    });

    it("refuses another secret", () => {
      // If a key pair signs, another public key is what differs.
      expect(verify(signedRequest(sample), [secrets[1]]).ok).toBe(false);
    });

    it("accepts either secret during a rotation and says which, and afterwards the new one alone", () => {
      const [old, fresh] = secrets;
      expect(verify(signedRequest(sample), [fresh, old])).toMatchObject({ ok: true, secret: 1 });
      expect(verify(signedRequest(sample), [old, fresh])).toMatchObject({ ok: true, secret: 0 });
      expect(verify(signedRequest(sample), [fresh]).ok).toBe(false);
    });

    if (sample.coversBody !== false) testBytes(sample, createVerifier(sample, [secrets[0]]));
    testHeaders(sample, verify);
    it("states the time that its sender signs", () => {
      expect(schemeSchema.parse(sample.scheme).timestamp === undefined).toBe(
        tolerance === undefined,
      );
    });
    if (tolerance !== undefined) testTime(sample, tolerance, verify);
  });
}

function testBytes(sample: SchemeSample, verifier: Verifier): void {
  it("refuses each changed byte", () => {
    const request = signedRequest(sample);
    const accepts = (raw: Buffer): boolean =>
      (verifier.verify({ ...request, raw }, NOW * 1000) as Verified).ok;
    for (const at of request.raw.keys()) {
      const raw = Buffer.from(request.raw);
      raw[at] = (raw[at] as number) ^ 1;
      expect([at, accepts(raw)]).toEqual([at, false]);
    }
    expect(accepts(Buffer.concat([request.raw, Buffer.from(" ")]))).toBe(false);
  });
}

type Verify = (request: SignedRequest, secrets?: readonly string[], seconds?: number) => Verified;

function testHeaders(sample: SchemeSample, verify: Verify): void {
  it("needs each header of the signature, and survives garbage in it", () => {
    const request = signedRequest(sample);
    for (const name of Object.keys(
      sample.sign({ body: "", secret: sample.secrets[0], time: NOW, url: URL_ }).headers,
    )) {
      if (name === "content-type") continue;
      const headers = Object.fromEntries(
        Object.entries(request.headers).filter(([other]) => other !== name),
      );
      expect([name, verify({ ...request, headers }).ok]).toEqual([name, false]);
      for (const garbage of [
        "",
        " ",
        "x",
        ",".repeat(100),
        "=".repeat(9000),
        "\u0000",
        "0".repeat(64),
      ])
        expect([name, verify({ ...request, headers: { ...headers, [name]: garbage } }).ok]).toEqual(
          [name, false],
        );
    }
  });
}

function testTime(sample: SchemeSample, tolerance: number, verify: Verify): void {
  it("refuses a time that is too old, too far ahead, or altered", () => {
    const request = signedRequest(sample);
    for (const seconds of [NOW + tolerance, NOW - tolerance])
      expect(verify(request, undefined, seconds).ok).toBe(true);
    for (const seconds of [NOW + tolerance + 1, NOW - tolerance - 1])
      expect(verify(request, undefined, seconds)).toEqual({ ok: false, reason: "stale_timestamp" });
    const altered = Object.fromEntries(
      Object.entries(request.headers).map(([name, value]) => [
        name,
        value.replace(String(NOW), String(NOW + 10)),
      ]),
    );
    if (JSON.stringify(altered) !== JSON.stringify(request.headers))
      expect(verify({ ...request, headers: altered }).ok).toBe(false);
  });
}
