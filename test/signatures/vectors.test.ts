import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { SignedRequest, Verified, Verifier } from "../../src/intake/signatures/types.ts";
import type { SchemeDocument } from "../../src/config/schema/signature.ts";
import { listJson } from "../../src/core/files.ts";
import { loadScheme } from "../../src/intake/signatures/load.ts";
import { signRequest } from "../../src/intake/signatures/sign.ts";
import { createVerifiers } from "../../src/intake/signatures/verifiers.ts";
import { testScheme } from "../../src/testing/scheme.ts";
import { PRESETS, SCHEMES } from "../mapping/world.ts";
import { bodyOf, SENDERS, type Sender } from "./senders.ts";

const URL_ = "https://hooks.example.com/hooks/in?a=1";
const NOW = 1_760_000_000;

function verifierOf(scheme: string, secret: string | string[]): Verifier {
  const { verifiers, issues } = createVerifiers(
    [{ path: "in", auth: { scheme, secret, verifyToken: "the-verify-token" }, at: "auth" }],
    SCHEMES,
    "https://hooks.example.com",
    fetch,
  );
  expect(issues).toEqual([]);
  return verifiers.get("in") as Verifier;
}

function requestOf(
  sender: Sender,
  { time = NOW, secret = sender.secrets[0], body = bodyOf(sender, time) } = {},
): SignedRequest {
  const signed = sender.sign({ body, secret, time, url: URL_ });
  return {
    method: "POST",
    url: URL_,
    headers: { "content-type": "application/json", ...signed.headers },
    query: { a: "1", ...signed.query },
    raw: Buffer.from(body),
  };
}
const verify = (verifier: Verifier, request: SignedRequest, seconds = NOW): Verified =>
  verifier.verify(request, seconds * 1000) as Verified;

it("signatures: every scheme but those over OpenID Connect and certificates has its vectors", () => {
  const files = readdirSync(join(PRESETS, "schemes")).map((name) => name.replace(/\.json$/, ""));
  expect(
    files.filter(
      (name) =>
        !["google-pubsub", "aws-sns"].includes(name) &&
        !SENDERS.some((sender) => sender.scheme === name),
    ),
  ).toEqual([]);
});

it("signatures: every scheme names its sender and the page about the sender's behaviour on errors", () => {
  const folder = join(PRESETS, "schemes");
  const loaded = listJson(folder).map(
    (name) => [name, loadScheme({ dir: folder }, name, name)] as const,
  );
  const missing = loaded
    .filter(([, found]) => !found.ok || !found.scheme.sender?.docs)
    .map(([name]) => name);
  expect(missing).toEqual([]);
});

it.each([
  ["gitlab", "standard-webhooks", { coversNothing: false, sender: { name: "GitLab" } }],
  ["standard-webhooks", "svix", { coversNothing: false, sender: { name: "Standard Webhooks" } }],
])("%s: a request with the headers of %s is verified by them", (scheme, other, facts) => {
  const sender = SENDERS.find((one) => one.scheme === other) as Sender;
  const [token, wrong] = sender.secrets;
  const plain = scheme === "gitlab" ? "a-plain-secret-token-0123" : wrong;
  const verifier = verifierOf(scheme, [plain, token]);
  expect(verifier).toMatchObject(facts);
  const request = requestOf(sender);
  const duplicate = { by: "id", key: "id:msg_2b3c", minKeepMs: 600_000 };
  expect(verify(verifier, request)).toMatchObject({ ok: true, secret: 1, duplicate });
  expect(verifier.precheck(request, (NOW + 200_000) * 1000)).toBe("stale_timestamp");
  expect(verify(verifier, { ...request, raw: Buffer.from("{}") }).ok).toBe(false);
  const own = requestOf(SENDERS.find((one) => one.scheme === scheme) as Sender, { secret: plain });
  expect(verify(verifier, own)).toMatchObject({ ok: true, secret: 0 });
});

for (const sender of SENDERS) {
  const scheme = JSON.parse(
    readFileSync(join(PRESETS, "schemes", `${sender.scheme}.json`), "utf8"),
  ) as SchemeDocument;
  testScheme(`${sender.scheme} ${sender.secrets[0].slice(0, 5)}`, {
    ...sender,
    scheme,
    verifyToken: "the-verify-token",
  });
}

describe.each(
  SENDERS.map((sender) => [`${sender.scheme} ${sender.secrets[0].slice(0, 5)}`, sender] as const),
)("%s", (_name, sender) => {
  const verifier = verifierOf(sender.scheme, sender.secrets[0]);

  it("is signed by Rouse as well as by its sender, if the secret can sign", () => {
    const loaded = loadScheme(SCHEMES, sender.scheme, "scheme");
    if (!loaded.ok) throw new Error("no such scheme");
    const { headers, raw } = requestOf(sender, { time: NOW - 100_000 });
    const plain = { url: URL_, headers: { "content-type": headers["content-type"] ?? "" }, raw };
    const signed = signRequest(loaded.scheme, sender.secrets[0], plain, NOW * 1000);
    if (!signed.ok) {
      expect(["discord", "sendgrid", "standard-webhooks"]).toContain(sender.scheme);
      expect(signed.message).toContain("only the public one");
      return;
    }
    const { request } = signed;
    const query = Object.fromEntries(new URL(request.url).searchParams);
    expect(verify(verifier, { method: "POST", query, ...request })).toMatchObject({
      ok: true,
      secret: 0,
    });
  });

  it("never throws, whatever comes", () => {
    const names = Object.keys(requestOf(sender).headers);
    const headers = fc.dictionary(fc.constantFrom(...names), fc.string({ unit: "binary" }));
    fc.assert(
      fc.property(headers, fc.uint8Array({ maxLength: 200 }), (given, raw) => {
        expect(
          verify(verifier, {
            method: "POST",
            url: URL_,
            headers: given,
            query: {},
            raw: Buffer.from(raw),
          }).ok,
        ).toBe(false);
      }),
      { numRuns: 50 },
    );
  });
});

describe("what tells a repeat", () => {
  const duplicateOf = (scheme: string, change: Partial<SignedRequest> = {}) => {
    const sender = SENDERS.find((one) => one.scheme === scheme) as Sender;
    const verified = verify(verifierOf(scheme, sender.secrets[0]), {
      ...requestOf(sender),
      ...change,
    });
    return verified.ok ? verified.duplicate : undefined;
  };

  it("is what the scheme says: the sender's id, the body for a time, or nothing", () => {
    expect(duplicateOf("standard-webhooks")).toMatchObject({ by: "id", key: "id:msg_2b3c" });
    expect(duplicateOf("stripe")?.key).toBe("id:evt_1");
    expect(duplicateOf("slack")?.key).toBe("id:Ev1");
    const body = expect.stringMatching(/^body:[0-9a-f]{64}$/);
    expect(duplicateOf("github")).toEqual({ by: "body", key: body, keepMs: 30 * 86_400_000 });
    expect(duplicateOf("zoom")).toEqual({ by: "body", key: body, keepMs: 3 * 3_600_000 });
    expect(duplicateOf("dropbox")).toBeUndefined();
  });

  it("is kept, if it is a signed id, for as long as a copy of the request would be accepted", () => {
    expect(duplicateOf("standard-webhooks")).toHaveProperty("minKeepMs", 2 * 300_000);
    expect(duplicateOf("typeform")).toHaveProperty("minKeepMs", 30 * 86_400_000);
    const raw = Buffer.from('{"update_id":7}');
    expect(duplicateOf("telegram", { raw })).toEqual({ by: "id", key: "id:7" });
  });

  it("is said by every scheme, for as long as its sender retries; no retry is too old if an id protects", () => {
    for (const { scheme, tolerance } of SENDERS) {
      const loaded = loadScheme(SCHEMES, scheme, scheme);
      if (!loaded.ok) throw new Error(scheme);
      const { duplicate, sender, timestamp } = loaded.scheme;
      expect([scheme, duplicate]).not.toEqual([scheme, undefined]);
      // The empty events by which Asana asks whether the address is there are alike every eight hours.
      if (typeof duplicate === "object" && scheme !== "asana")
        expect([scheme, duplicate.for >= (sender?.retryWindow ?? 0)]).toEqual([scheme, true]);
      if (duplicate !== "id" || !timestamp || !sender?.retryWindow) continue;
      expect([scheme, tolerance]).toEqual([scheme, sender.retryWindow / 1000]);
    }
  });

  it("is an id only where no unsigned header can change it", () => {
    const sender = SENDERS.find((one) => one.scheme === "github") as Sender;
    const headers = { ...requestOf(sender).headers, "x-github-delivery": "another" };
    expect(duplicateOf("github", { headers })).toEqual(duplicateOf("github"));
  });
});

it("signatures: a list of states is accepted only if all are right", () => {
  const verifier = verifierOf("microsoft-graph", "client-state-0123456789");
  const post = (value: unknown) =>
    verify(verifier, {
      method: "POST",
      url: URL_,
      headers: {},
      query: {},
      raw: Buffer.from(JSON.stringify({ value })),
    }).ok;
  const good = { clientState: "client-state-0123456789" };
  expect(post([good, good])).toBe(true);
  for (const value of [
    [good, { clientState: "other" }],
    [good, {}],
    [{}],
    [],
    "x",
    [good, null],
    undefined,
  ])
    expect(post(value)).toBe(false);
});

describe("what is wrong with a secret or a scheme is said when the config is loaded", () => {
  const issuesOf = (auth: object, publicUrl: string | undefined = "https://h.example") =>
    createVerifiers(
      [{ path: "in", auth: auth as never, at: "hooks.mappings[0].auth" }],
      SCHEMES,
      publicUrl,
      fetch,
    ).issues.map((issue) => `${issue.path}: ${issue.message}`);
  const own = {
    algorithm: "hmac-sha256",
    signature: { header: "x-sig" },
    encoding: "hex",
    key: "utf8",
    minSecret: 16,
    handshakes: [],
  };

  it.each([
    [{ scheme: "github", secret: "short" }, "auth.secret: must have at least 12 characters"],
    [
      { scheme: "github", secret: ["long-enough-for-it", "short"] },
      "auth.secret[1]: must have at least",
    ],
    [
      { scheme: "githbu", secret: "x".repeat(20) },
      'auth.scheme: there is no scheme of this name. Did you mean "github"?',
    ],
    [
      { scheme: "../github", secret: "x".repeat(20) },
      "auth.scheme: there is no scheme of this name",
    ],
    [{ scheme: "github" }, "auth.secret: is required"],
    [
      { scheme: "discord", secret: "not a key at all, is it?" },
      "auth.secret: is no Ed25519 public key",
    ],
    [
      { scheme: "sendgrid", secret: "bm90IGEga2V5IGF0IGFsbA==" },
      "auth.secret: is no P-256 public key",
    ],
    [
      { scheme: "standard-webhooks", secret: "whsec_not base64 at all!" },
      "auth.secret: is not written in base64",
    ],
    [{ scheme: "google-pubsub" }, "auth.audience: is required"],
    [{ scheme: "meta", secret: "x".repeat(20) }, "auth.verifyToken: is required"],
    [{ scheme: { ...own, signed: "{row}" }, secret: "x".repeat(20) }, "has no placeholder {row}"],
  ])("%j", (auth, message) => expect(issuesOf(auth).join("\n")).toContain(message));

  it("a scheme that signs the address wants gateway.publicUrl", () => {
    expect(
      createVerifiers(
        [{ path: "in", auth: { scheme: "twilio", secret: "x".repeat(20) }, at: "auth" }],
        SCHEMES,
        undefined,
        fetch,
      ).issues[0]?.path,
    ).toBe("gateway.publicUrl");
  });

  it("a scheme of one's own is as good as one that ships", () => {
    expect(
      issuesOf({ scheme: { ...own, signed: "{header:x-time}.{raw}" }, secret: "x".repeat(20) }),
    ).toEqual([]);
  });
});
