import {
  createHmac,
  createPublicKey,
  createSecretKey,
  timingSafeEqual,
  verify,
  type KeyObject,
} from "node:crypto";
import type { Scheme } from "../../config/schema/signature.ts";
import { sameSecret } from "../../core/secret.ts";

/** Checks one signature with one secret. `pieces` is the signed text; what is presented is as the sender wrote it. */
export interface SecretCheck {
  matches(pieces: readonly (string | Buffer)[], presented: readonly string[], now: number): boolean;
}

const BASE64 = /^[A-Za-z0-9+/_-]*={0,2}$/;
const HEX = /^(?:[0-9a-f]{2})*$/i;

/** Decodes a text. Undefined if it is not valid in the encoding. */
export function decodeSignature(text: string, encoding: "hex" | "base64"): Buffer | undefined {
  if (encoding === "hex") return HEX.test(text) ? Buffer.from(text, "hex") : undefined;
  return BASE64.test(text) ? Buffer.from(text, "base64") : undefined;
}

function hmacCheck(algorithm: string, bytes: Buffer, encoding: Scheme["encoding"]): SecretCheck {
  const key = createSecretKey(bytes);
  return {
    matches(pieces, presented) {
      const hmac = createHmac(algorithm, key);
      for (const piece of pieces) hmac.update(piece);
      const expected = hmac.digest();
      let found = false;
      for (const text of presented) {
        const given = decodeSignature(text, encoding);
        if (given?.length === expected.length && timingSafeEqual(given, expected)) found = true;
      }
      return found;
    },
  };
}

const joined = (pieces: readonly (string | Buffer)[]): Buffer =>
  Buffer.concat(pieces.map((piece) => (typeof piece === "string" ? Buffer.from(piece) : piece)));

function publicKeyCheck(
  digest: string | undefined,
  key: KeyObject,
  encoding: Scheme["encoding"],
): SecretCheck {
  return {
    matches(pieces, presented) {
      const text = joined(pieces);
      return presented.some((one) => {
        const signature = decodeSignature(one, encoding);
        try {
          return signature !== undefined && verify(digest, text, key, signature);
        } catch {
          return false;
        }
      });
    },
  };
}

const TOKEN_HEADER = Buffer.from('{"alg":"HS256","typ":"JWT"}').toString("base64url");

/** Signs a JSON Web Token (RFC 7519) with HMAC-SHA256. */
export function signToken(claims: object, key: Buffer): string {
  const text = `${TOKEN_HEADER}.${Buffer.from(JSON.stringify(claims)).toString("base64url")}`;
  return `${text}.${createHmac("sha256", key).update(text).digest("base64url")}`;
}

/** The members of a token's part; none if it is no JSON object. */
function readTokenPart(part: string): Record<string, unknown> {
  try {
    return (JSON.parse(Buffer.from(part, "base64url").toString("utf8")) ?? {}) as object as Record<
      string,
      unknown
    >;
  } catch {
    return {};
  }
}

const TOKEN = /^([\w-]+)\.([\w-]+)\.([\w-]+)$/;
/** The largest difference between the clocks of a sender and of this machine, in seconds. */
const CLOCK_SECONDS = 60;

/** Checks a token's HMAC before anything of it is read, then that it is for HMAC-SHA256 and has not expired. */
function tokenCheck(bytes: Buffer): SecretCheck {
  const key = createSecretKey(bytes);
  const fits = (token: string, now: number): boolean => {
    const [, head = "", claims = "", signature = ""] = TOKEN.exec(token) ?? [];
    const expected = createHmac("sha256", key).update(`${head}.${claims}`).digest();
    const given = Buffer.from(signature, "base64url");
    if (given.length !== expected.length || !timingSafeEqual(given, expected)) return false;
    const { exp, nbf = 0 } = readTokenPart(claims);
    const seconds = now / 1000;
    return (
      readTokenPart(head)["alg"] === "HS256" &&
      Number(exp) + CLOCK_SECONDS > seconds &&
      Number(nbf) - CLOCK_SECONDS <= seconds
    );
  };
  return { matches: (_pieces, presented, now) => presented.some((token) => fits(token, now)) };
}

/** DER of an Ed25519 public key, before its 32 bytes (RFC 8410). */
const ED25519_DER = Buffer.from("302a300506032b6570032100", "hex");

function publicKey(
  algorithm: "ed25519" | "ecdsa-p256",
  secret: string,
  key: Scheme["key"],
): KeyObject | undefined {
  try {
    if (key === "pem" || secret.includes("-----BEGIN")) return createPublicKey(secret);
    const bytes = decodeSignature(secret, key === "hex" ? "hex" : "base64");
    if (!bytes) return undefined;
    const der =
      algorithm === "ed25519" && bytes.length === 32 ? Buffer.concat([ED25519_DER, bytes]) : bytes;
    const made = createPublicKey({ key: der, format: "der", type: "spki" });
    return made.asymmetricKeyType === (algorithm === "ed25519" ? "ed25519" : "ec")
      ? made
      : undefined;
  } catch {
    return undefined;
  }
}

/** Returns the key of an HMAC, or undefined if the secret is not written in the encoding that the scheme names. */
export function hmacKey(secret: string, key: Scheme["key"]): Buffer | undefined {
  const bytes =
    key === "utf8" || key === "pem" ? Buffer.from(secret) : decodeSignature(secret, key);
  return bytes && bytes.length > 0 ? bytes : undefined;
}

/** A secret as its scheme's algorithm takes it. `signaturePrefix` is undefined if the scheme has no variants. */
export interface SecretForm {
  algorithm: Scheme["algorithm"];
  key: Scheme["key"];
  /** The secret without the prefix that only names its variant. */
  text: string;
  signaturePrefix: string | undefined;
}

/** Finds the variant of a secret by its prefix, and cuts the prefix off. */
export function toSecretForm(scheme: Scheme, secret: string): SecretForm {
  const variant =
    scheme.variants?.find((one) => secret.startsWith(one.secretPrefix)) ?? scheme.variants?.[0];
  const prefix = variant?.secretPrefix ?? scheme.secretPrefix ?? "";
  return {
    algorithm: variant?.algorithm ?? scheme.algorithm,
    key: variant?.key ?? scheme.key,
    text: secret.startsWith(prefix) ? secret.slice(prefix.length) : secret,
    signaturePrefix: variant?.signaturePrefix,
  };
}

/** Prepares a secret for its algorithm, or says what is wrong with it. */
export function compileSecret(
  algorithm: Exclude<Scheme["algorithm"], "oidc" | "x509">,
  secret: string,
  key: Scheme["key"],
  encoding: Scheme["encoding"],
): { ok: true; check: SecretCheck } | { ok: false; message: string } {
  switch (algorithm) {
    case "equals":
      return {
        ok: true,
        check: {
          matches: (_pieces, presented) =>
            presented.length > 0 && presented.every((text) => sameSecret(text, secret)),
        },
      };
    case "ed25519":
    case "ecdsa-p256": {
      const made = publicKey(algorithm, secret, key);
      if (!made)
        return {
          ok: false,
          message: `is no ${algorithm === "ed25519" ? "Ed25519" : "P-256"} public key`,
        };
      return {
        ok: true,
        check: publicKeyCheck(algorithm === "ed25519" ? undefined : "sha256", made, encoding),
      };
    }
    default: {
      const bytes = hmacKey(secret, key);
      if (!bytes) return { ok: false, message: `is not written in ${key}` };
      const isToken = algorithm === "jwt-hs256";
      const hash = algorithm.slice("hmac-".length);
      return { ok: true, check: isToken ? tokenCheck(bytes) : hmacCheck(hash, bytes, encoding) };
    }
  }
}
