import { createHmac } from "node:crypto";
import { existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createLogger } from "../../src/core/log.ts";
import { createGateway, type StartedGateway } from "../gateway.ts";
import { createCli, TOKEN, type CliWorld } from "./world.ts";

const SHOWN = "whsec_of_the_sender_0123456789";
const PROVIDER_KEY = "sk-of-the-provider-0123456789";

let cli: CliWorld;
let gateway: StartedGateway;
let url: string;
const kept = (name: string): string =>
  readFileSync(join(cli.dir, ".rouse/secrets", name), "utf8").trim();
const mode = (name: string): number => statSync(join(cli.dir, ".rouse/secrets", name)).mode & 0o777;

beforeAll(async () => {
  cli = await createCli();
  await cli.write("shown.txt", SHOWN);
  await cli.write("key.txt", PROVIDER_KEY);
  const { code, err } = await cli.rouse([
    ..."init --yes --no-test --port 0 --preset github stripe --provider openai".split(" "),
    "--secret-file",
    "stripe=shown.txt",
    "--key-file",
    "key.txt",
  ]);
  expect([code, err]).toEqual([0, ""]);
  const own = `{ id: "own", auth: { token: "\${OWN_TOKEN}" }, mappings: [{ id: "own", match: { path: "own" }, messageTemplate: "x" }] }`;
  await cli.write("mappings/own.json5", own);
  gateway = await createGateway({
    cwd: cli.dir,
    env: { OWN_TOKEN: TOKEN },
    workers: false,
    log: createLogger("silent"),
    print: () => undefined,
  });
  ({ url } = await gateway.start());
});
afterAll(async () => {
  await gateway.stop();
  await cli.close();
});

const rouse = (line: string) => cli.rouse(line.split(" "));

interface Listed {
  name: string;
  fields: string[];
  place: string;
  since: string | null;
  valid: number;
  toRotate: string;
}
async function listed(name: string): Promise<Listed | undefined> {
  const { out } = await rouse("secrets --json");
  const { secrets } = JSON.parse(out) as { secrets: Listed[] };
  return secrets.find((secret) => secret.name === name);
}

const post = async (path: string, body: string, headers: Record<string, string>) =>
  (
    await fetch(`${url}/hooks/${path}`, {
      method: "POST",
      body,
      headers: { "content-type": "application/json", ...headers },
    })
  ).status;
let deliveries = 0;
const signed = (secret: string): Promise<number> => {
  const body = JSON.stringify({
    action: "opened",
    issue: { number: ++deliveries, title: "Lamps" },
    repository: { full_name: "shop/lamps" },
  });
  return post("github", body, {
    "x-github-event": "issues",
    "x-github-delivery": `delivery-${deliveries}`,
    "x-hub-signature-256": `sha256=${createHmac("sha256", secret).update(body).digest("hex")}`,
  });
};
/** No mapping takes the type: that is 200. */
const stripe = (secret: string): Promise<number> => {
  const body = JSON.stringify({ id: `evt_${++deliveries}`, type: "x" });
  const at = Math.floor(Date.now() / 1000);
  const hmac = createHmac("sha256", secret).update(`${at}.${body}`).digest("hex");
  return post("stripe", body, { "stripe-signature": `t=${at},v1=${hmac}` });
};
const called = (token: string): Promise<number> =>
  post("example", `{"title":"${++deliveries}"}`, { authorization: `Bearer ${token}` });

describe("rouse secrets", () => {
  it("shows the secrets of the config, with their places and their rotation, and never a value", async () => {
    expect(await listed("github")).toEqual({
      name: "github",
      fields: ["hooks.presets[0].secret"],
      place: join(cli.dir, ".rouse/secrets/github"),
      since: statSync(join(cli.dir, ".rouse/secrets/github")).mtime.toISOString(),
      valid: 1,
      toRotate: "rouse secrets rotate github",
    });
    expect(await listed("OWN_TOKEN")).toMatchObject({
      fields: ["mappings/own.json5: auth.token"],
      place: "the variable OWN_TOKEN",
      since: null,
    });
    const { out, err } = await rouse("secrets");
    for (const value of [SHOWN, PROVIDER_KEY, kept("github"), kept("hook-token")])
      expect(out + err).not.toContain(value);
    expect(out).toContain("hook-token");
  });
});

describe("rouse secrets rotate", () => {
  it("makes a value that the sender is given once; both count until the old one is ended", async () => {
    const before = kept("github");
    expect(await signed(before)).toBe(202);
    const { code, out, err } = await rouse("secrets rotate github");
    const after = kept("github");
    expect([code, err, after === before]).toEqual([0, "", false]);
    expect(out.split(after)).toHaveLength(2);
    expect(out).toContain("Settings → Webhooks");
    expect([mode("github"), mode("github.previous")]).toEqual([0o600, 0o600]);
    expect([await signed(before), await signed(after), await signed("x".repeat(32))]).toEqual([
      202, 202, 401,
    ]);
    expect(await listed("github")).toMatchObject({ valid: 2, fields: ["hooks.presets[0].secret"] });
    const again = await rouse("secrets rotate github");
    expect([again.code, again.err]).toEqual([1, expect.stringContaining("--finish")]);
    const ended = await rouse("secrets rotate github --finish");
    expect([ended.code, ended.err]).toEqual([0, ""]);
    expect([await signed(before), await signed(after)]).toEqual([401, 202]);
    expect(await listed("github")).toMatchObject({ valid: 1 });
    expect(existsSync(join(cli.dir, ".rouse/secrets/github.previous"))).toBe(false);
    expect((await rouse("secrets")).out + ended.out + again.err).not.toContain(after);
  });

  it("takes what a sender shows from a file, if a gateway would start with it", async () => {
    expect(await rouse("secrets rotate stripe")).toMatchObject({
      code: 1,
      err: expect.stringMatching(/its sender makes it \(Developers → Webhooks.*--secret-file/),
    });
    await cli.write("new.txt", "short");
    const text = readFileSync(join(cli.dir, "rouse.json5"), "utf8");
    expect(await rouse("secrets rotate stripe --secret-file new.txt")).toMatchObject({
      code: 3,
      err: expect.stringMatching(/hooks\.presets\[1\]\.secret.*at least/),
    });
    expect([readFileSync(join(cli.dir, "rouse.json5"), "utf8"), kept("stripe")]).toEqual([
      text,
      SHOWN,
    ]);
    const given = "whsec_new_of_the_sender_0123456789";
    await cli.write("new.txt", given);
    const { code, out } = await rouse("secrets rotate stripe --secret-file new.txt");
    expect([code, out.includes(given)]).toEqual([0, false]);
    expect([await stripe(SHOWN), await stripe(given)]).toEqual([200, 200]);
    expect((await rouse("secrets rotate stripe --finish")).code).toBe(0);
    expect([await stripe(SHOWN), await stripe(given)]).toEqual([401, 200]);
    expect(readFileSync(join(cli.dir, "rouse.json5"), "utf8")).toBe(text);
  });

  it.each([
    ["openai-key", "models.providers.openai.apiKey takes one value at a time", "(OpenAI)"],
    ["OWN_TOKEN", "the variable OWN_TOKEN", "[new, old]"],
    ["githb", "github", "rouse secrets"],
  ])("refuses %s with the reason and what to do", async (name, ...texts) => {
    const { code, err } = await cli.rouse(`secrets rotate ${name}`);
    expect(code).not.toBe(0);
    for (const text of texts) expect(err).toContain(text);
    expect(kept("openai-key")).toBe(PROVIDER_KEY);
  });

  it("refuses the token of a channel, and says where its vendor makes one", async () => {
    const other = await createCli();
    const env = { TELEGRAM_BOT_TOKEN: "123456:abcdefghijklmnopqrstuvwxyzABCDEFGHI" };
    const set = "init --yes --no-test --channel telegram".split(" ");
    expect((await other.rouse(set, { env })).code).toBe(0);
    await other.fails(
      "secrets rotate TELEGRAM_BOT_TOKEN",
      1,
      /takes one value at a time.*BotFather.*TELEGRAM_BOT_TOKEN/,
    );
    await other.close();
  });
});

it("rouse secrets rotate hooks.token: callers may send both tokens until the old one is ended, and none is printed", async () => {
  const before = kept("hook-token");
  const rotated = await rouse("secrets rotate hooks.token");
  const after = kept("hook-token");
  expect([rotated.code, rotated.err, after === before]).toEqual([0, "", false]);
  expect([await called(before), await called(after)]).toEqual([202, 202]);
  const ended = await rouse("secrets rotate hook-token --finish");
  expect([await called(before), await called(after)]).toEqual([401, 202]);
  for (const value of [before, after]) expect(rotated.out + ended.out).not.toContain(value);
});
