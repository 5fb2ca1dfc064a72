import { exportJWK, generateKeyPair, SignJWT, type CryptoKey } from "jose";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { createVerifiers } from "../../src/intake/signatures/verifiers.ts";
import { serve } from "../channels/wire.ts";
import { SCHEMES } from "../mapping/world.ts";

const AUDIENCE = "https://hooks.example.com/hooks/gmail";
const EMAIL = "push@project.iam.gserviceaccount.com";

let server: Awaited<ReturnType<typeof serve>>;
let jwks: string;
let fetched = 0;
let keys: { privateKey: CryptoKey; publicKey: CryptoKey };
let published: { kid: string; key: CryptoKey }[];
beforeAll(async () => {
  keys = await generateKeyPair("RS256");
  server = await serve(async () => {
    fetched++;
    const about = { alg: "RS256", use: "sig" };
    const keys = published.map(async ({ kid, key }) => ({
      ...(await exportJWK(key)),
      kid,
      ...about,
    }));
    return { status: 200, json: { keys: await Promise.all(keys) } };
  });
  jwks = `${server.url}/certs`;
});
afterAll(() => server.close());
beforeEach(() => {
  fetched = 0;
  published = [{ kid: "one", key: keys.publicKey }];
});

interface Claims {
  iss?: string;
  aud?: string;
  email?: string;
  email_verified?: boolean;
  iat?: number;
  exp?: number;
}
const now = (): number => Math.floor(Date.now() / 1000);
const token = (
  claims: Claims = {},
  { key = keys.privateKey, kid = "one" }: { key?: CryptoKey; kid?: string } = {},
): Promise<string> =>
  new SignJWT({
    iss: "https://accounts.google.com",
    aud: AUDIENCE,
    email: EMAIL,
    email_verified: true,
    iat: now(),
    exp: now() + 3600,
    ...claims,
  })
    .setProtectedHeader({ alg: "RS256", kid })
    .sign(key);

function verifier() {
  const auth = { scheme: "google-pubsub", audience: AUDIENCE, email: EMAIL, jwks };
  const { verifiers, issues } = createVerifiers(
    [{ path: "gmail", auth, at: "auth" }],
    SCHEMES,
    undefined,
    fetch,
  );
  expect(issues).toEqual([]);
  const made = verifiers.get("gmail");
  return async (bearer: string | undefined) =>
    made?.verify(
      {
        method: "POST",
        url: AUDIENCE,
        headers: bearer === undefined ? {} : { authorization: `Bearer ${bearer}` },
        query: {},
        raw: Buffer.from('{"message":{"messageId":"m1"}}'),
      },
      Date.now(),
    );
}

it("OpenID Connect: the config needs the account if the issuer signs for everybody, and not if the issuer is the operator's own", () => {
  const issuesOf = (scheme: unknown): string[] =>
    createVerifiers(
      [{ path: "in", auth: { scheme, audience: AUDIENCE } as never, at: "auth" }],
      SCHEMES,
      undefined,
      fetch,
    ).issues.map(({ path, message }) => `${path}: ${message}`);
  expect(issuesOf("google-pubsub")).toEqual([expect.stringMatching(/^auth\.email: is required/)]);
  const own = (privateIssuer: boolean) => ({
    algorithm: "oidc",
    signature: { header: "authorization", prefix: "Bearer " },
    signed: "",
    oidc: { issuers: ["https://id.example.com"], jwks, emailVerified: false, privateIssuer },
    handshakes: [],
  });
  expect(issuesOf(own(false))).toHaveLength(1);
  expect(issuesOf(own(true))).toEqual([]);
});

describe("a push with a token of OpenID Connect", () => {
  it("is authenticated by the issuer's keys, which are fetched once", async () => {
    const verify = verifier();
    expect(await verify(await token())).toEqual({
      ok: true,
      secret: 0,
      duplicate: { by: "id", key: "id:m1" },
    });
    expect(await verify(await token())).toMatchObject({ ok: true });
    expect(fetched).toBe(1);
  });

  it.each<[string, Claims]>([
    ["another audience", { aud: "https://other.example.com" }],
    ["another issuer", { iss: "https://evil.example.com" }],
    ["another account", { email: "somebody@example.com" }],
    ["an account that nobody verified", { email_verified: false }],
    ["a time that is over", { iat: now() - 7200, exp: now() - 3600 }],
  ])("is refused with %s", async (_name, claims) => {
    expect(await verifier()(await token(claims))).toEqual({ ok: false, reason: "wrong_token" });
  });

  it("is refused with another's key, no signature, or one made with the public key as a secret", async () => {
    const other = await generateKeyPair("RS256");
    const verify = verifier();
    expect(await verify(await token({}, { key: other.privateKey }))).toMatchObject({ ok: false });
    const [, payload] = (await token()).split(".");
    const head = (alg: string): string =>
      Buffer.from(JSON.stringify({ alg, kid: "one" })).toString("base64url");
    expect(await verify(`${head("none")}.${payload}.`)).toMatchObject({ ok: false });
    const confused = await new SignJWT({
      aud: AUDIENCE,
      iss: "https://accounts.google.com",
      email: EMAIL,
      email_verified: true,
      iat: now(),
      exp: now() + 60,
    })
      .setProtectedHeader({ alg: "HS256", kid: "one" })
      .sign(new TextEncoder().encode(JSON.stringify(await exportJWK(keys.publicKey))));
    expect(await verify(confused)).toMatchObject({ ok: false });
    for (const garbage of ["", "x", "a.b.c", "..", "x".repeat(9000)])
      expect((await verify(garbage))?.ok).toBe(false);
    expect(await verify(undefined)).toEqual({ ok: false, reason: "no_signature" });
  });

  it("asks for the keys again where one is not known, but not for each such token", async () => {
    const verify = verifier();
    await verify(await token());
    for (let n = 0; n < 5; n++)
      expect((await verify(await token({}, { kid: `unknown-${n}` })))?.ok).toBe(false);
    expect(fetched).toBeLessThanOrEqual(2);
  });
});
