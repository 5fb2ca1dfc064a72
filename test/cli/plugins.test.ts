import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import JSON5 from "json5";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { createCli, type CliWorld } from "./world.ts";

const CONFIG = `{
  // Where the gateway listens.
  gateway: { port: 0 },
  plugins: [
    "./own.js", // made by hand
  ],
  channels: { acme: {} },
}
`;
const OWN =
  'export default { id: "own", channel: () => ({ send: async () => ({ status: "sent" }) }) };\n';
let packages: string;
let cli: CliWorld;
const env = {
  PATH: process.env["PATH"] ?? "",
  HOME: process.env["HOME"] ?? "",
  npm_config_update_notifier: "false",
};

/** Packs a plugin as `npm publish` would. */
function pack(version: string, code: string): string {
  const manifest = {
    name: "rouse-plugin-acme",
    version,
    type: "module",
    exports: "./index.js",
    files: ["index.js"],
  };
  writeFileSync(join(packages, "package.json"), JSON.stringify(manifest));
  writeFileSync(join(packages, "index.js"), code);
  execFileSync("npm", ["pack", "--silent"], { cwd: packages });
  return join(packages, `rouse-plugin-acme-${version}.tgz`);
}
const plugin = (text: string): string =>
  `export default { id: "acme", channel: () => ({ send: async () => ({ status: "${text}" }) }) };\n`;

let first: string;
let second: string;
beforeAll(async () => {
  packages = await mkdtemp(join(tmpdir(), "rouse-packages-"));
  first = pack("1.0.0", plugin("sent"));
  second = pack("1.1.0", plugin("failed"));
});
afterAll(() => rm(packages, { recursive: true, force: true }));
beforeEach(async () => {
  cli = await createCli();
  writeFileSync(join(cli.dir, "rouse.json5"), CONFIG);
  writeFileSync(join(cli.dir, "own.js"), OWN);
});
afterEach(() => cli.close());

const rouse = (...args: string[]) => cli.rouse(args, { env });
const readConfig = (): string => readFileSync(join(cli.dir, "rouse.json5"), "utf8");
const listed = (): unknown[] => JSON5.parse<{ plugins: unknown[] }>(readConfig()).plugins;
const installed = (name: string): string => join(cli.dir, "node_modules", name);

describe("rouse plugins add", () => {
  it("installs a package, pins it in the config with its comments kept", async () => {
    const added = await rouse("plugins", "add", first, "--json");
    expect([added.code, added.err]).toEqual([0, ""]);
    const pinned = {
      package: "rouse-plugin-acme",
      version: "1.0.0",
      integrity: expect.stringMatching(/^sha512-/) as unknown,
    };
    expect(JSON.parse(added.out)).toMatchObject({ plugin: pinned });
    expect(listed()).toEqual(["./own.js", pinned]);
    expect(readConfig()).toContain("// Where the gateway listens.");
    expect(readConfig()).toContain('"./own.js", // made by hand');
    expect(JSON.parse(readFileSync(join(cli.dir, "package.json"), "utf8"))).toHaveProperty(
      "dependencies.rouse-plugin-acme",
    );
    expect(await rouse("config", "validate")).toMatchObject({ code: 0 });
  });

  it("refuses at load what is not as it was added, and accepts it once it is added again", async () => {
    await rouse("plugins", "add", first);
    const manifest = join(installed("rouse-plugin-acme"), "package.json");
    const lock = join(cli.dir, "node_modules", ".package-lock.json");
    const [asInstalled, asRecorded] = [readFileSync(manifest, "utf8"), readFileSync(lock, "utf8")];

    writeFileSync(manifest, asInstalled.replace('"1.0.0"', '"9.9.9"'));
    const otherVersion = await rouse("config", "validate");
    expect(otherVersion.code).toBe(3);
    expect(otherVersion.err).toContain("plugins[1]");
    expect(otherVersion.err).toContain("9.9.9, and the config pins 1.0.0");
    expect(otherVersion.err).toContain("rouse plugins add rouse-plugin-acme@9.9.9");
    writeFileSync(manifest, asInstalled);

    writeFileSync(lock, asRecorded.replace(/sha512-[^"]*/, "sha512-AAAA"));
    const otherContent = await rouse("config", "validate");
    expect([otherContent.code, otherContent.err]).toEqual([
      3,
      expect.stringContaining("npm recorded the integrity sha512-AAAA"),
    ]);
    await rm(lock);
    expect((await rouse("config", "validate")).err).toContain("npm has recorded no integrity");
    writeFileSync(lock, asRecorded);
    expect(await rouse("config", "validate")).toMatchObject({ code: 0 });

    // An update beside Rouse is refused, too, until it is accepted.
    execFileSync(
      "npm",
      ["install", "--save-exact", "--no-audit", "--no-fund", "--prefix", cli.dir, second],
      { cwd: cli.dir },
    );
    expect((await rouse("config", "validate")).err).toContain("1.1.0, and the config pins 1.0.0");
    expect(await rouse("plugins", "add", second)).toMatchObject({
      code: 0,
      out: expect.stringContaining("1.1.0") as unknown,
    });
    expect(listed()).toMatchObject(["./own.js", { version: "1.1.0" }]);
    expect(await rouse("config", "validate")).toMatchObject({ code: 0 });

    await rm(installed("rouse-plugin-acme"), { recursive: true });
    expect((await rouse("config", "validate")).err).toContain(
      'the package "rouse-plugin-acme" is not installed',
    );
  });

  it.each([
    "--registry=http://127.0.0.1:1/",
    "-g",
    "a; touch /tmp/x",
    "$(id)",
    "a b",
    "git+ssh://git@host/a",
    "../x",
    "A",
    "a@>=1 || 2",
  ])("takes no %j for a package", async (given) => {
    const answer = await rouse("plugins", "add", "--", given);
    expect([answer.code, listed()]).toEqual([2, ["./own.js"]]);
  });

  it.each(["http://host/a.tgz", "./missing.tgz"])("finds no file %s", async (given) => {
    const answer = await rouse("plugins", "add", given);
    expect([answer.code, listed()]).toEqual([1, ["./own.js"]]);
    expect(answer.err).toContain("there is no file");
  });

  it("says what npm says if a package cannot be installed, and leaves the config as it is", async () => {
    writeFileSync(join(cli.dir, "broken.tgz"), "not a package");
    const answer = await rouse("plugins", "add", "./broken.tgz");
    expect(answer.code).toBe(1);
    expect(answer.err).toMatch(/npm could not install the package: \S/);
    expect(readConfig()).toBe(CONFIG);
  });
});
