import { hash, randomBytes, timingSafeEqual } from "node:crypto";

/** A new token: 256 random bits in base64url. */
export function newToken(): string {
  return randomBytes(32).toString("base64url");
}

/** The digest's hex digits as bytes: one call for a string costs a fifth of what a digest object does. */
function digest(text: string): Buffer {
  return Buffer.from(hash("sha256", text, "hex"), "latin1");
}

/**
 * Compares a presented value with all `secrets`, in time that does not depend on any of them.
 * Returns `matches(presented) → index | -1`. Every secret is compared each time.
 */
export function secretMatcher(secrets: readonly string[]): (presented: string) => number {
  const digests = secrets.map(digest);
  return (presented) => {
    const given = digest(presented);
    let found = -1;
    for (const [index, expected] of digests.entries()) {
      if (timingSafeEqual(given, expected) && found < 0) found = index;
    }
    return found;
  };
}

/** Returns true if a presented value is the secret or the signature, in time that depends on neither. */
export const sameSecret = (presented: string, secret: string): boolean =>
  timingSafeEqual(digest(presented), digest(secret));

/** Says that a secret is too short, and how to make one. The secret is not repeated. */
export const describeShortSecret = ({ length }: string, least: number): string =>
  `must have at least ${least} characters, and has ${length}; \`openssl rand -hex 32\` makes one`;

/** SHA-256 in hex. */
export function sha256Hex(data: string | Uint8Array): string {
  return hash("sha256", data, "hex");
}

const LEAST_KEY_BYTES = 24;

/** The bytes of a Standard Webhooks secret: base64, with or without `whsec_` before it. Undefined if it is not a secret, or too short. */
export function callbackKey(secret: string): Buffer | undefined {
  const text = secret.replace(/^whsec_/, "");
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(text)) return undefined;
  const key = Buffer.from(text, "base64");
  return key.length >= LEAST_KEY_BYTES ? key : undefined;
}
