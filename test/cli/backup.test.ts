import { createHmac } from "node:crypto";
import { execFileSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { Readable } from "node:stream";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { MANIFEST, writeArchive } from "../../src/cli/store/archive.ts";
import type { Prompts } from "../../src/cli/prompts.ts";
import { createGateway, type StartedGateway } from "../gateway.ts";
import { createCli, shopConfig, type CliWorld } from "./world.ts";

const PASS = ["--passphrase-file", "pass"];

let cli: CliWorld;
let secret: string;
let before: { events: string[]; runs: string[] };
/** A file of a folder in the world's. */
const at = (...names: string[]): string => join(cli.dir, ...names);
const config = (folder: string): string[] => ["-c", join(folder, "rouse.json5")];

async function hook(gateway: StartedGateway, delivery: string, key = secret): Promise<number> {
  const body = JSON.stringify({
    action: "opened",
    issue: { number: 7, title: "Login fails", body: "since Monday" },
    repository: { full_name: "acme/shop" },
  });
  const headers = {
    "content-type": "application/json",
    "x-github-event": "issues",
    "x-github-delivery": delivery,
    "x-hub-signature-256": `sha256=${createHmac("sha256", key).update(body).digest("hex")}`,
  };
  const request = new Request("http://127.0.0.1/hooks/github", { method: "POST", body, headers });
  return (await gateway.fetch(request)).status;
}

async function list(kind: "events" | "runs", folder: string): Promise<string[]> {
  const { out } = await cli.rouse([kind, "--json", ...config(folder)]);
  return (JSON.parse(out)[kind] as { id: string }[]).map(({ id }) => id);
}

beforeAll(async () => {
  cli = await createCli();
  await cli.rouse(
    "init old --yes --no-test --port 0 --preset github --model builtin/echo".split(" "),
  );
  secret = readFileSync(at("old/.rouse/secrets/github"), "utf8").trim();
  mkdirSync(at("old/node_modules/left"), { recursive: true });
  writeFileSync(at("old/node_modules/left/index.js"), "");
  writeFileSync(at("old/.env"), "KEY=value");
  writeFileSync(
    at("old/mappings/orders.json5"),
    '{ id: "orders", mappings: [{ match: { path: "orders" }, transform: { module: "order.ts" } }] }',
  );
  writeFileSync(at("old/transforms/order.ts"), "export default () => ({ message: 'an order' });\n");
  await cli.write("pass", "correct horse battery staple\n");
  await cli.write("other", "another passphrase\n");
  const gateway = await createGateway({ cwd: at("old"), env: {}, workers: true });
  await gateway.start();
  expect(await hook(gateway, "first")).toBe(202);
  writeFileSync(at("notes.md"), "# Opening hours\n\nThe shop opens at nine.\n");
  const added = await cli.rouse(["knowledge", "add", "notes.md", ...config("old")]);
  expect(added.err).not.toContain("rouse:");
  before = { events: await list("events", "old"), runs: await list("runs", "old") };
  expect([before.events.length, before.runs.length > 0]).toEqual([1, true]);
  const made = await cli.rouse(["backup", "a.backup", ...PASS, ...config("old")]);
  expect(made).toMatchObject({ code: 0, err: "" });
  await gateway.stop();
});
afterAll(() => cli.close());

describe("rouse backup, and rouse restore on an empty machine", () => {
  it("bring back a gateway that verifies GitHub's signature and knows what came before", async () => {
    const files = (folder: string): string[] =>
      (readdirSync(at(folder), { recursive: true }) as string[])
        .filter((name) => !/node_modules|gateway|\.db/.test(name))
        .map((name) => `${name} ${(statSync(at(folder, name)).mode & 0o777).toString(8)}`)
        .toSorted();
    const kept = files("old");
    cpSync(at("old"), at("away"), { recursive: true });
    rmSync(at("old"), { recursive: true });
    const { code, out, err } = await cli.rouse(["restore", "a.backup", "new/place", ...PASS]);
    cpSync(at("away"), at("old"), { recursive: true });
    expect([err, code]).toEqual(["", 0]);
    expect(out).toContain("Stop the gateway that this is a backup of");
    expect(out).toMatch(/start -c \S+\/new\/place\/rouse\.json5\n$/);
    expect(files("new/place")).toEqual(kept);
    expect(kept).toEqual(expect.arrayContaining([".rouse 700", ".rouse/secrets/github 600"]));
    expect(statSync(at("new/place/.rouse/rouse.db")).mode & 0o777).toBe(0o600);
    expect(existsSync(at("new/place/node_modules"))).toBe(false);

    const gateway = await createGateway({ cwd: at("new/place"), env: {}, workers: true });
    await gateway.start();
    try {
      expect(await hook(gateway, "second")).toBe(202);
      expect(await hook(gateway, "third", "a wrong secret")).toBe(401);
      expect(await list("events", "new/place")).toEqual(expect.arrayContaining(before.events));
      expect(await list("runs", "new/place")).toEqual(expect.arrayContaining(before.runs));
      const found = await cli.rouse(["knowledge", "--search", "opens", ...config("new/place")]);
      expect(found.out).toContain("nine");
    } finally {
      await gateway.stop();
    }
  });

  it("ask for the passphrase twice, then once, on a terminal", async () => {
    const asked: string[] = [];
    const password: Prompts["password"] = async ({ message, check }) => {
      asked.push(message);
      expect(check?.("short")).toBeDefined();
      return "from the terminal";
    };
    const prompts = { password } as Prompts;
    expect((await cli.rouse(["backup", "asked", ...config("old")], { prompts })).code).toBe(0);
    expect((await cli.rouse("restore asked asked-for", { prompts })).code).toBe(0);
    expect(asked).toHaveLength(3);
  });

  it("take nothing and write nothing without a passphrase", async () => {
    const { code, err } = await cli.rouse(["backup", "none", ...config("old")]);
    expect([code, existsSync(at("none"))]).toEqual([2, false]);
    expect(err).toContain("--passphrase-file <file>");
    const restored = await cli.rouse("restore a.backup none");
    expect([restored.code, existsSync(at("none"))]).toEqual([2, false]);
  });
});

describe("rouse restore writes nothing", () => {
  async function expectRefused(file: string, words: string, pass = "pass"): Promise<void> {
    await cli.fails(`restore ${file} no --passphrase-file ${pass}`, 2, words);
    expect(existsSync(at("no"))).toBe(false);
  }

  it("with another passphrase", () => expectRefused("a.backup", "another passphrase", "other"));

  it("of a file that is cut off, changed, or no backup", async () => {
    const whole = readFileSync(at("a.backup"));
    for (const length of [20, 60, 5_000, whole.length - 1]) {
      writeFileSync(at("cut"), whole.subarray(0, length));
      await expectRefused("cut", length === 20 ? "" : "damaged or not complete");
    }
    whole[whole.length - 1_000] = (whole.at(-1_000) ?? 0) ^ 1;
    writeFileSync(at("cut"), whole);
    await expectRefused("cut", "damaged or not complete");
    await expectRefused("pass", "is no backup");
    execFileSync("tar", ["czf", "other.tar.gz", "pass"], { cwd: cli.dir });
    await expectRefused("other.tar.gz", "is no backup");
  });

  it.each(["../outside", "/tmp/outside", "a/../../outside"])("to %s", async (path) => {
    async function* entries() {
      const manifest = { version: 1, config: null, state: ".rouse", store: null };
      for (const [name, text] of [
        [MANIFEST, JSON.stringify(manifest)],
        [path, "x"],
      ] as const)
        yield {
          path: name,
          mode: 0o600,
          size: text.length,
          content: Readable.from([Buffer.from(text)]),
        };
    }
    rmSync(at("evil"), { force: true });
    await writeArchive(
      at("evil"),
      entries(),
      "correct horse battery staple",
      new AbortController().signal,
    );
    await expectRefused("evil", "leads out of its folder");
  });

  it("into a folder that has a config, a state or a file of the backup", async () => {
    for (const name of ["rouse.json", ".rouse/rouse.db", "transforms/order.ts"]) {
      const folder = `used-${name.replace(/\W/g, "")}`;
      mkdirSync(join(at(folder), name, ".."), { recursive: true });
      writeFileSync(at(folder, name), "mine");
      await cli.fails(["restore", "a.backup", folder, ...PASS], 2, "restore into another folder");
      expect(readdirSync(at(folder))).toEqual([name.split("/")[0]]);
      expect(readFileSync(at(folder, name), "utf8")).toBe("mine");
    }
  });
});

it("rouse restore: a restore that was interrupted is repeated", async () => {
  mkdirSync(at("broken"));
  writeFileSync(at("broken/transforms"), "a file in the place of a folder");
  expect((await cli.rouse(["restore", "a.backup", "broken", ...PASS])).code).toBe(1);
  expect(existsSync(at("broken/.rouse/secrets/github"))).toBe(true);
  expect(existsSync(at("broken/rouse.json5"))).toBe(false);
  rmSync(at("broken/transforms"));
  expect(await cli.rouse(["restore", "a.backup", "broken", ...PASS])).toMatchObject({ code: 0 });
  expect(readFileSync(at("broken/.rouse/secrets/github"), "utf8").trim()).toBe(secret);
  expect(readdirSync(at("broken"))).not.toContain(".rouse-restore");
  expect((await cli.rouse(["restore", "a.backup", "broken", ...PASS])).code).toBe(2);
});

it("rouse backup: of a home folder, only the files that the config names are taken", async () => {
  mkdirSync(at("home/photos"), { recursive: true });
  mkdirSync(at("home/mappings"));
  await cli.write("home/rouse.json5", shopConfig());
  vi.stubEnv("HOME", at("home"));
  const { err } = await cli.rouse(["backup", "home.backup", ...PASS, ...config("home")]);
  vi.unstubAllEnvs();
  expect(err).toBe("");
  await cli.rouse(["restore", "home.backup", "home2", ...PASS]);
  expect(readdirSync(at("home2")).toSorted()).toEqual([".rouse", "mappings", "rouse.json5"]);
});

it("rouse backup: files elsewhere are named, and the restore says where the state has to go", async () => {
  mkdirSync(at("etc"));
  mkdirSync(at("shared"));
  mkdirSync(at("var"), { mode: 0o700 });
  writeFileSync(at("var/hook-token"), "kept");
  symlinkSync(at("shared"), at("etc/linked"));
  await cli.write(
    "etc/rouse.json5",
    shopConfig({
      stateDir: at("var"),
      store: { url: "postgres://db.example.com/rouse" },
      hooks: { enabled: true, token: { file: "../pass" } },
    }),
  );
  await cli.fails(
    ["backup", "etc/a.backup", ...PASS, ...config("etc")],
    2,
    "name a file elsewhere",
  );
  const { out, err } = await cli.rouse(["backup", "etc.backup", ...PASS, ...config("etc")], {
    env: { OPENAI_API_KEY: "x" },
  });
  expect(err).toBe("");
  expect(out).toContain("pg_dump");
  expect(out).toContain("  OPENAI_API_KEY\n");
  for (const name of ["pass", "etc/linked"]) expect(out).toContain(`  ${at(name)}\n`);
  expect((await cli.rouse(["backup", "etc.backup", ...PASS, ...config("etc")])).err).toContain(
    "already",
  );
  const restored = await cli.rouse(["restore", "etc.backup", "moved/etc2", ...PASS]);
  expect(restored.out).toContain(`  ${at("moved/etc2/.rouse")} → ${at("var")}\n`);
  expect(restored.out).toContain("  OPENAI_API_KEY\n");
  expect(restored.out).toContain("hooks.token: there is no file");
  expect(readFileSync(at("moved/etc2/.rouse/hook-token"), "utf8")).toBe("kept");
});
