import { execFile, spawn, spawnSync } from "node:child_process";
import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createGateway } from "../gateway.ts";
import { createWorld, type World } from "../e2e/world.ts";
import { createCli, shopConfig, type CliWorld } from "../cli/world.ts";

const run = promisify(execFile);
const ROUSE = resolve(import.meta.dirname, "../../bin/rouse.js");
/** True if this process may mount file systems. */
function canMount(): boolean {
  return spawnSync("bash", ["-c", "unshare -m mount -t tmpfs tmpfs /mnt"]).status === 0;
}

const NEW = `{ id: "acme.order", match: { path: "acme" }, messageTemplate: "Changed {{n}}" }`;
/** A file by hand: a BOM, CRLF, tabs, trailing commas and comments, also inside the mapping. */
const BY_HAND = [
  `\ufeff// ours`,
  `{`,
  `\tid: 'acme',`,
  `\tmappings: [`,
  `\t\t// the first`,
  `\t\t{ id: 'acme.first', match: { path: 'first' }, messageTemplate: 'x', }, // behind it`,
  `\t\t{`,
  `\t\t\tid: 'acme.order', // the id`,
  `\t\t\tmatch: { path: 'acme', },`,
  `\t\t\tmessageTemplate: "As it was",`,
  `\t\t},`,
  `\t\t/* the end */`,
  `\t],`,
  `}`,
  ``,
].join("\r\n");

const SHADOW = `{ id: "acme", mappings: [\n  // ours\n  {\n    id: "acme.order",\n    shadow: true,\n    match: { path: "acme" },\n    messageTemplate: "x",\n  },\n] }\n`;

let world: World | undefined;
let cli: CliWorld | undefined;
afterEach(async () => {
  await world?.stop();
  await cli?.close();
  world = cli = undefined;
});

const FILE = "mappings/acme.json5";
const createHandWritten = async (text = BY_HAND): Promise<World> =>
  (world = await createWorld({ workers: false, files: { [FILE]: text } }));
const read = (name = FILE): string => readFileSync(join((world as World).dir, name), "utf8");

interface Check {
  file: string;
  base: string;
  diff: string;
  problems: { message: string }[];
  confirm: string[];
  obstacle: string | null;
}
const replace = (text = NEW, mapping = "acme.order") => ({ kind: "replace", mapping, text });
const send = (path: string, body: object) =>
  (world as World).admin(`/admin/v1/changes${path}`, {
    method: "POST",
    body: JSON.stringify(body),
  });
const check = async (change: object): Promise<Check> =>
  ((await send("/check", { change })).body as { check: Check }).check;
const land = (change: object, options: object = {}) => send("", { change, ...options });

describe("a change of one mapping", () => {
  it("leaves every other byte, in a file with a BOM, CRLF, tabs, trailing commas and comments", async () => {
    const { gateway, post, dir } = await createHandWritten();
    const before = gateway.status().snapshot;
    const shown = await check(replace());
    expect(shown).toMatchObject({
      file: join(dir, FILE),
      problems: [],
      confirm: [],
      obstacle: null,
    });
    expect(shown.diff).toContain('-\t\t\tmessageTemplate: "As it was",\r\n');
    expect(read()).toBe(BY_HAND);
    expect((await land(replace(), { base: shown.base })).body).toMatchObject({
      result: { landed: true, inUse: true },
    });
    const [head, tail] = [
      BY_HAND.slice(0, BY_HAND.indexOf("{\r\n\t\t\tid: 'acme.order'")),
      ",\r\n\t\t/* the end */\r\n\t],\r\n}\r\n",
    ];
    expect(read()).toBe(head + NEW + tail);
    expect(gateway.status().snapshot).not.toBe(before);
    expect((await post("/hooks/acme", { n: 1 })).status).toBe(202);
    expect(read(`${FILE}.before`)).toBe(BY_HAND);
  });

  it("is added to the config or to a file", async () => {
    const { dir } = await createHandWritten();
    const added = `{ id: "new.one", match: { path: "new" }, messageTemplate: "x" }`;
    expect((await land({ kind: "add", text: added })).body).toMatchObject({
      result: { landed: true, file: join(dir, "rouse.json5") },
    });
    expect(
      (await land({ kind: "add", text: added.replaceAll("new", "next"), file: "acme.json5" })).body,
    ).toMatchObject({
      result: { landed: true },
    });
    expect(
      (await land({ kind: "add", text: added.replaceAll("new", "third"), file: "third.json" }))
        .body,
    ).toMatchObject({
      result: { landed: true },
    });
    expect(JSON.parse(read("mappings/third.json"))).toMatchObject({
      id: "third",
      mappings: [{ id: "third.one" }],
    });
    for (const path of ["new", "next", "third"])
      expect((await (world as World).post(`/hooks/${path}`, {})).status).toBe(202);
    expect((await land({ kind: "add", text: added, file: "../x.json" })).status).toBe(400);
  });

  it("is a conflict if the file was edited meanwhile", async () => {
    await createHandWritten();
    const { base } = await check(replace());
    const edited = BY_HAND.replace("// ours", "// theirs");
    (world as World).write(FILE, edited);
    const { status, body } = await land(replace(), { base });
    expect(status).toBe(409);
    expect(body).toMatchObject({ error: { code: "conflict" } });
    expect(read()).toBe(edited);
    // Two pages save together: the second one's file is no longer as it was shown.
    const shown = await check(replace());
    const both = await Promise.all([
      land(replace(), { base: shown.base }),
      land(replace(NEW.replace("Changed", "Other")), { base: shown.base }),
    ]);
    expect(both.map((answer) => answer.status)).toEqual([200, 409]);
    expect(read()).toContain("Changed {{n}}");
  });

  it("is refused while the config or the file is broken, and does not repair what it was not asked for", async () => {
    const { write } = await createHandWritten();
    write(FILE, BY_HAND.slice(0, -10));
    expect((await land(replace())).body).toMatchObject({
      error: { code: "config_invalid", message: expect.stringContaining("not a JSON5 object") },
    });
    rmSync(join((world as World).dir, FILE));
    expect((await land(replace())).status).toBe(404);
    write(FILE, BY_HAND);
    write("mappings/other.json5", "{ id: ");
    expect((await land(replace())).body).toMatchObject({
      error: { code: "config_invalid", issues: [{ file: expect.stringContaining("other.json5") }] },
    });
    expect(read()).toBe(BY_HAND);
  });

  it("asks for what it sets by its name, in shadow for callers and code", async () => {
    const { write } = await createHandWritten();
    write("transforms/own.ts", "export default () => ({});\n");
    for (const [name, field, inShadow] of [
      ["auth", `auth: { token: "a-token-of-its-own-0123" }`, true],
      ["transform.module", `transform: { module: "own.ts" }`, true],
      ["allowUnsafeExternalContent", "allowUnsafeExternalContent: true", false],
      ["recipient", `channel: "console", to: "{{reply_to}}"`, false],
    ] as const) {
      const toText = (more = "") =>
        `{ id: "${name}", match: { path: "${name}" }, messageTemplate: "x", ${field}${more} }`;
      const { confirm } = await check({ kind: "add", text: toText(", shadow: true") });
      expect([name, confirm]).toEqual([name, inShadow ? [name] : []]);
      const change = { kind: "add", text: toText() };
      expect((await land(change)).body).toMatchObject({ error: { code: "not_confirmed" } });
      expect(read("rouse.json5")).not.toContain(field);
      const { body } = await land(change, { confirm: [name] });
      expect([name, body]).toMatchObject([name, { result: { landed: true } }]);
    }
  });

  it("keeps mode and owner, and one file of before", async () => {
    await createHandWritten();
    const file = join((world as World).dir, FILE);
    chmodSync(file, 0o640);
    const isRoot = process.getuid?.() === 0;
    if (isRoot) chownSync(file, 1234, 4321);
    for (let n = 0; n < 3; n++)
      expect((await land(replace(NEW.replace("Changed", `Change ${n}`)))).body).toMatchObject({
        result: { landed: true },
      });
    const { mode, uid, gid } = statSync(file);
    expect([mode & 0o7777, uid, gid]).toEqual([
      0o640,
      ...(isRoot ? [1234, 4321] : [process.getuid?.(), process.getgid?.()]),
    ]);
    expect(readdirSync(join((world as World).dir, "mappings"))).toEqual([
      "acme.json5",
      "acme.json5.before",
    ]);
    expect([statSync(`${file}.before`).mode & 0o7777, read(`${FILE}.before`)]).toEqual([
      0o640,
      expect.stringContaining("Change 1 {{n}}"),
    ]);
  });
});

describe("a file that cannot be written", () => {
  it("is no error: the change comes as a patch that git applies", async () => {
    await createHandWritten();
    const { dir } = world as World;
    await run("git", ["init", "-q", dir]);
    await run("git", ["-C", dir, "config", "core.autocrlf", "false"]);
    // As a mounted ConfigMap: a link to a file of a folder that each update replaces.
    mkdirSync(join(dir, "data"));
    writeFileSync(join(dir, "data/acme.json5"), BY_HAND);
    rmSync(join(dir, FILE));
    symlinkSync("../data/acme.json5", join(dir, FILE));
    await (world as World).gateway.reload();
    const shown = await check({ kind: "add", text: NEW, file: "acme.json5" });
    expect(shown.obstacle).toContain("is a link to");
    rmSync(join(dir, FILE));
    writeFileSync(join(dir, FILE), BY_HAND);
    const { diff } = await check(replace());
    rmSync(join(dir, FILE));
    symlinkSync("../data/acme.json5", join(dir, FILE));
    await (world as World).gateway.reload();
    const { body } = await land({
      kind: "add",
      text: NEW.replace("acme.order", "acme.next"),
      file: "acme.json5",
    });
    expect(body).toMatchObject({
      result: {
        landed: false,
        reason: expect.stringContaining("is a link to"),
        patch: expect.stringContaining("acme.next"),
      },
    });
    expect([
      lstatSync(join(dir, FILE)).isSymbolicLink(),
      readFileSync(join(dir, "data/acme.json5"), "utf8"),
    ]).toEqual([true, BY_HAND]);
    // In the clone of the user's config, where the file is a file.
    const clone = join(dir, "clone");
    mkdirSync(join(clone, "mappings"), { recursive: true });
    writeFileSync(join(clone, FILE), BY_HAND);
    writeFileSync(join(dir, "change.patch"), diff);
    await run("git", ["init", "-q", clone]);
    await run("git", ["-C", clone, "apply", join(dir, "change.patch")]);
    expect(readFileSync(join(clone, FILE), "utf8")).toContain("Changed {{n}}");
    expect(readFileSync(join(clone, FILE), "utf8").startsWith("\ufeff// ours\r\n")).toBe(true);
  });

  it("gives patches for new files, and for files without a last line break", async () => {
    const made = (cli = await createCli());
    await made.write("rouse.json5", shopConfig());
    await run("git", ["init", "-q", made.dir]);
    const hooks = { mappings: [{ match: { path: "acme" }, messageTemplate: "x" }] };
    await made.write("openclaw.json", { hooks });
    const { out, code } = await made.rouse("import openclaw openclaw.json --patch");
    expect(code).toBe(0);
    expect(existsSync(join(made.dir, "mappings"))).toBe(false);
    await made.write("change.patch", out);
    await run("git", ["-C", made.dir, "apply", "change.patch"]);
    expect(readFileSync(join(made.dir, "mappings/openclaw.json5"), "utf8")).toContain(
      '"shadow": true',
    );
    mkdirSync(join(made.dir, "mappings"), { recursive: true });
    await made.write("mappings/acme.json5", SHADOW.trimEnd());
    const enabled = await made.rouse("hooks enable acme.order --patch");
    await made.write("change.patch", enabled.out);
    await run("git", ["-C", made.dir, "apply", "change.patch"]);
    expect(readFileSync(join(made.dir, "mappings/acme.json5"), "utf8")).not.toMatch(/shadow|\n$/);
  });

  it("is left as it was when the disk is full, by a command that says so", async () => {
    const made = (cli = await createCli());
    await made.write("rouse.json5", shopConfig());
    mkdirSync(join(made.dir, "mappings"));
    await made.write(FILE, SHADOW);
    const command = `trap '' XFSZ; exec prlimit --fsize=0 "$0" "$@" > >(cat) 2> >(cat >&2)`;
    const { stdout, stderr } = await run(
      "bash",
      ["-c", command, process.execPath, ROUSE, "hooks", "enable", "acme.order", "--yes"],
      { cwd: made.dir },
    );
    expect([stdout, stderr]).toEqual([
      expect.stringContaining("+++ b/mappings/acme.json5"),
      expect.stringMatching(
        /nothing was written: .*acme\.json5\.before cannot be written \(EFBIG\)/,
      ),
    ]);
    expect(readdirSync(join(made.dir, "mappings"))).toEqual(["acme.json5"]);
    expect(readFileSync(join(made.dir, FILE), "utf8")).toBe(SHADOW);
  });
});

it("a kill in the middle of saves leaves the old file or the new one, and the next start no temporary file", async () => {
  const { gateway, dir } = await createHandWritten();
  await gateway.stop();
  const saver = join(import.meta.dirname, "saver-child.ts");
  const texts = ["old", "new"].map((word) => BY_HAND.replace("As it was", word.repeat(60_000)));
  writeFileSync(join(dir, FILE), texts[0] as string);
  const temporary = (): string[] =>
    readdirSync(dir, { recursive: true, encoding: "utf8" }).filter((name) =>
      /\.rouse-.*\.tmp$/.test(name),
    );
  // Until a kill has met a save in its middle.
  for (let round = 0; round < 4 || (temporary().length === 0 && round < 100); round++) {
    const child = spawn(process.execPath, ["--conditions=rouse-source", saver, join(dir, FILE)], {
      stdio: ["pipe", "pipe", "inherit"],
    });
    const ended = new Promise((done) => child.on("exit", done));
    child.stdin.end(JSON.stringify(texts));
    await new Promise((ready) => child.stdout.once("data", ready));
    await new Promise((later) => setTimeout(later, Math.random() * 30));
    child.kill("SIGKILL");
    await ended;
    expect(texts).toContain(read());
  }
  const id = "0f8fad5b-d9cb-469f-a165-70867728950e";
  for (const name of [
    "rouse.json5",
    FILE,
    "mappings/more/a.json5",
    "tests/shop/a.json5",
    ".rouse/secrets/hook-token",
  ])
    (world as World).write(`${name}.rouse-${id}.tmp`, "half");
  (world as World).write(`mappings/theirs.${id}.tmp`, "of another program");
  expect(temporary().length).toBeGreaterThanOrEqual(6);
  // A young file may belong to a save that is under way.
  for (const name of temporary()) utimesSync(join(dir, name), 1, 1);
  const next = await createGateway({ cwd: dir, env: {}, workers: false });
  await next.start();
  await next.stop();
  expect([temporary(), existsSync(join(dir, `mappings/theirs.${id}.tmp`))]).toEqual([[], true]);
});

/** Runs a script in a mount namespace of its own; undefined if the system does not allow that. */
const inNamespace = (script: string, dir: string) =>
  run("bash", ["-c", 'exec unshare -m bash -c "$@"', "", script, process.execPath, ROUSE, dir], {
    cwd: dir,
  }).catch((error: { stdout: string; stderr: string }) => error);

describe.skipIf(!canMount())("a config folder that is really", () => {
  beforeEach(async () => {
    cli = await createCli();
    await cli.write("rouse.json5", shopConfig());
    mkdirSync(join(cli.dir, "mappings"));
    await cli.write(FILE, SHADOW);
    await run("git", ["init", "-q", cli.dir]);
  });

  it("read-only gives a patch that git applies in a clone", async () => {
    const { dir, write } = cli as CliWorld;
    const script =
      'mount --bind "$2" "$2" && mount -o remount,ro,bind "$2" && cd "$2" && exec "$0" "$1" hooks enable acme.order --yes';
    const { stdout, stderr } = await inNamespace(script, dir);
    expect(stderr).toMatch(
      /nothing was written: .*acme\.json5 cannot be written \(EROFS\)\nThe change as a patch, for `git apply`:/,
    );
    expect(readFileSync(join(dir, FILE), "utf8")).toBe(SHADOW);
    await write("change.patch", stdout);
    await run("git", ["-C", dir, "apply", "--check", "change.patch"]);
    await run("git", ["-C", dir, "apply", "change.patch"]);
    expect(readFileSync(join(dir, FILE), "utf8")).not.toContain("shadow");
  });
});

describe("only mappings of the config and of mapping files", () => {
  const OWN =
    "{ id: 'acme', mappings: [ { id: 'acme.new', match: { path: 'new' }, messageTemplate: 'x' } ] }";
  const REFUSED: [string, object, string][] = [
    [
      "a problem",
      replace(`{ id: "acme.order", match: { path: "acme", when: "(" }, messageTemplate: "x" }`),
      "config_invalid",
    ],
    [
      "another mapping's id",
      replace(`{ id: "acme.first", match: { path: "acme" }, messageTemplate: "x" }`),
      "config_invalid",
    ],
    ["no JSON5", replace("{ id: "), "config_invalid"],
    ["two values", replace("{}, {}"), "config_invalid"],
    ["no such mapping", replace(NEW, "acme.none"), "not_found"],
    ["no kind of its own", { kind: "config", path: ["gateway", "port"], value: 1 }, "usage"],
    ["a module file", { kind: "add", text: NEW, file: "../transforms/own.ts" }, "usage"],
    ["a module file by its name", { kind: "add", text: NEW, file: "own.ts" }, "usage"],
    ["a file in another folder", { kind: "add", text: NEW, file: "/etc/rouse.json5" }, "usage"],
    [
      "a module file, with a whole file",
      { kind: "file", file: "../transforms/own.ts", text: OWN },
      "usage",
    ],
    ["the manifest", { kind: "file", file: "../package.json", text: OWN }, "usage"],
    [
      "other parts of the config, with a whole file",
      {
        kind: "file",
        file: "parts.json5",
        text: OWN.replace("mappings:", "gateway: { port: 1 }, mappings:").replaceAll(
          "acme",
          "parts",
        ),
      },
      "config_invalid",
    ],
    ["a mapping that is not in shadow", { kind: "enable", mapping: "acme.order" }, "usage"],
    [
      "other parts of the config, in a mapping",
      replace(
        `{ id: "acme.order", match: { path: "acme" }, messageTemplate: "x", gateway: { port: 1 } }`,
      ),
      "config_invalid",
    ],
    ["the mapping of a preset", replace(NEW, "github.push"), "not_found"],
  ];

  it("are changed; all else is refused, and nothing is written", async () => {
    const { write, dir } = await createHandWritten();
    write("transforms/own.ts", "export default () => ({});\n");
    write("package.json", "{}");
    const readAll = (): string[] =>
      ["rouse.json5", FILE, "transforms/own.ts", "package.json"].map((name) => read(name));
    const before = readAll();
    for (const [name, change, code] of REFUSED) {
      const { body } = await land(change, { confirm: ["auth", "transform.module"] });
      expect([name, body]).toMatchObject([name, { ok: false, error: { code } }]);
    }
    expect(readAll()).toEqual(before);
    expect(readdirSync(join(dir, "mappings"))).toEqual(["acme.json5"]);
    const all = readdirSync(dir, { recursive: true, encoding: "utf8" });
    expect(all.filter((name) => name.endsWith(".before"))).toEqual([]);
  });
});
