import { createHmac } from "node:crypto";
import { stat } from "node:fs/promises";
import { afterEach, beforeEach, expect, it } from "vitest";
import { createGateway, type StartedGateway } from "../gateway.ts";
import type { CheckView } from "../../src/operate/watch/doctor-checks.ts";
import { createCli, TOKEN, type CliWorld } from "./world.ts";

const SENDER = "secret_of_the_sender_0123456789";
const OTHER = "secret_of_somebody_else_0123456789";

let cli: CliWorld;
let gateway: StartedGateway;
const configOf = (secret: unknown) => ({
  gateway: { port: 0, trustedProxies: ["127.0.0.1"] },
  hooks: {
    enabled: true,
    token: TOKEN,
    mappings: [
      {
        id: "notion",
        match: { path: "team/notion" },
        auth: { scheme: "notion", secret },
        messageTemplate: "{{type}}",
      },
    ],
  },
});
beforeEach(async () => {
  cli = await createCli();
  await cli.write("rouse.json5", configOf("pending"));
  gateway = await createGateway({
    cwd: cli.dir,
    env: {},
    workers: false,
  });
  await gateway.start();
});
afterEach(async () => {
  await gateway.stop();
  await cli.close();
});

const post = (body: string, headers: Record<string, string>): Promise<Response> =>
  gateway.fetch(
    new Request("http://127.0.0.1/hooks/team/notion", {
      method: "POST",
      body,
      headers: { "content-type": "application/json", ...headers },
    }),
  );
const bring = async (secret: string, address: string): Promise<number> =>
  (await post(JSON.stringify({ verification_token: secret }), { "x-forwarded-for": address }))
    .status;
const signed = async (secret: string): Promise<number> => {
  const body = JSON.stringify({ type: "page.created" });
  return (
    await post(body, {
      "x-notion-signature": `sha256=${createHmac("sha256", secret).update(body).digest("hex")}`,
    })
  ).status;
};
interface Candidate {
  id: number;
  address: string;
  at: string;
  secret: string;
}
const listed = async (): Promise<Candidate[]> =>
  (
    await cli.json<{
      candidates: Candidate[];
    }>("hooks team/notion --accept")
  ).candidates;
const check = async (id: string): Promise<CheckView | undefined> => {
  const { checks } = await cli.json<{
    checks: CheckView[];
  }>("doctor");
  return checks.find((one) => one.id === id);
};

it("rouse hooks --accept: every secret that a request brought is listed with address and time, and only the accepted one counts", async () => {
  expect((await cli.rouse("hooks team/notion --accept")).out).toContain(
    "no request has brought a secret",
  );
  for (const [secret, address] of [
    [SENDER, "192.0.2.1"],
    [OTHER, "198.51.100.9"],
    [SENDER, "192.0.2.1"],
  ] as const)
    expect(await bring(secret, address)).toBe(200);
  const found = await listed();
  expect(found).toMatchObject([
    { address: "192.0.2.1", secret: SENDER },
    { address: "198.51.100.9", secret: OTHER },
  ]);
  const doctor = await check("signatures");
  expect(doctor?.status).toBe("warn");
  for (const { address, at, id } of found)
    expect(doctor?.message).toContain(`${id} from ${address} at ${at}`);
  expect(doctor?.message).toContain("rouse hooks team/notion --accept");
  expect(doctor?.message).not.toContain("secret_of");
  expect([await signed(SENDER), await signed(OTHER), await signed("pending")]).toEqual([
    401, 401, 401,
  ]);

  expect((await cli.rouse("hooks team/notion --accept 99")).code).toBe(1);
  const accepted = await cli.rouse(["hooks", "team/notion", "--accept", String(found[0]?.id)]);
  expect(accepted.code).toBe(0);
  expect(accepted.out).toContain(SENDER);
  const reference = /secret: \{ file: (".*?") \}/.exec(accepted.out)?.[1] ?? '""';
  const file = JSON.parse(reference) as string;
  expect((await stat(file)).mode & 0o777).toBe(0o600);
  expect(await signed(SENDER)).toBe(401);

  await cli.write("rouse.json5", configOf({ file }));
  await gateway.reload();
  expect([await signed(SENDER), await signed(OTHER)]).toEqual([202, 401]);
  expect((await check("signatures"))?.status).toBe("ok");
  expect(await bring(OTHER, "198.51.100.9")).toBe(401);
  expect(await listed()).toEqual([]);
});

it("rouse hooks --accept: three secrets of each address and ten in all are kept, so no address pushes out another's", async () => {
  await bring(SENDER, "192.0.2.1");
  for (let n = 0; n < 12; n++) await bring(`${OTHER}-${n}`, "198.51.100.9");
  expect((await listed()).map(({ secret }) => secret)).toEqual([
    SENDER,
    `${OTHER}-9`,
    `${OTHER}-10`,
    `${OTHER}-11`,
  ]);
  for (let n = 0; n < 12; n++) await bring(`${OTHER}-from-${n}`, `203.0.113.${n}`);
  expect(await listed()).toHaveLength(10);
  await bring("x".repeat(600), "192.0.2.7");
  expect((await listed()).some(({ address }) => address === "192.0.2.7")).toBe(false);
});

it("rouse doctor: problems of signatures are shown, with what to change", async () => {
  const oidc = {
    algorithm: "oidc",
    signature: { header: "authorization", prefix: "Bearer " },
    oidc: {
      issuers: ["https://id.example.com"],
      jwks: "https://id.example.com/keys",
      privateIssuer: true,
    },
  };
  const mappings = [
    {
      id: "raw",
      match: { path: "raw" },
      messageTemplate: "{{text}}",
      allowUnsafeExternalContent: true,
    },
    {
      id: "pushed",
      match: { path: "pushed" },
      messageTemplate: "{{text}}",
      auth: { scheme: oidc, audience: "me" },
    },
  ];
  await cli.write("rouse.json5", {
    gateway: { port: 0 },
    hooks: { enabled: true, token: TOKEN, mappings },
  });
  await gateway.reload();
  for (const [id, ...words] of [
    ["hook-token", "hooks.allowRequestSessionKey", "hooks.allowRequestRecipient"],
    ["unsafe-content", '"raw"', "allowUnsafeExternalContent", "instructions"],
    ["token-accounts", '"pushed"', "auth.email"],
    ["limits", "hooks.limits"],
  ] as const) {
    const found = await check(id);
    expect([id, found?.status]).toEqual([id, "warn"]);
    for (const word of words) expect(found?.message).toContain(word);
  }
  const better = [
    { ...mappings[0], allowUnsafeExternalContent: false },
    { ...mappings[1], auth: { scheme: oidc, audience: "me", email: "push@example.com" } },
  ];
  const hooks = {
    enabled: true,
    token: TOKEN,
    allowRequestRecipient: false,
    limits: { runsPerHour: 100 },
    mappings: better,
  };
  await cli.write("rouse.json5", { gateway: { port: 0 }, hooks });
  await gateway.reload();
  for (const id of ["hook-token", "unsafe-content", "token-accounts", "limits"])
    expect([id, (await check(id))?.status]).toEqual([id, "ok"]);
});
