import { execFileSync, spawnSync } from "node:child_process";
import {
  chmodSync,
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { configSchema } from "../../src/config/schema/index.ts";
import { startProgram, type Program } from "../e2e/program.ts";
import { createWorld } from "../e2e/world.ts";
import { deployed, misunderstood, ROOT, unreadVariables } from "./world.ts";

/**
 * There is no container engine where the tests run: the steps of the container file are carried out in a folder, and what
 * comes out is started as the image would be, by a user without rights, in a tree that this user cannot write to.
 */
const PACKAGE = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as {
  bin: { rouse: string };
  files: string[];
  engines: { node: string };
  devDependencies: Record<string, string>;
};
const TEXT = deployed("container/Dockerfile").replaceAll(/\\\n\s*/g, "");
const IGNORED = deployed("container/Dockerfile.dockerignore");
const STAGES = TEXT.split(/^FROM /m)
  .slice(1)
  .map((text) => ({
    name: / AS (\w+)/.exec(text.split("\n")[0] ?? "")?.[1] ?? "image",
    lines: text.split("\n").slice(1),
  }));
const stage = (name: string): string[] => STAGES.find((one) => one.name === name)?.lines ?? [];
const valueOf = (key: string): string =>
  stage("image")
    .find((line) => line.startsWith(`${key} `))
    ?.slice(key.length + 1) ?? "";
const json = (key: string): string[] => JSON.parse(valueOf(key)) as string[];
const [uid = 0, gid = 0] = valueOf("USER").split(":").map(Number);
const environment = Object.fromEntries(
  valueOf("ENV")
    .split(" ")
    .map((pair) => pair.split("=") as [string, string]),
);
const HEALTH = JSON.parse(/^\s*HEALTHCHECK .* CMD (\[.*\])$/m.exec(TEXT)?.[1] ?? "[]") as string[];

let dir: string;
const under = (path: string): string => join(dir, path);
/** Fails with what npm printed, and not with its command alone. */
function npm(args: string[], cwd: string): void {
  const { status, stdout, stderr } = spawnSync("npm", args, {
    cwd,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "pipe"],
  });
  expect(status, `npm ${args.join(" ")}:\n${stdout}${stderr}`).toBe(0);
}

/** The files that the builder gets, by the rules of the ignore file. */
function context(): string[] {
  const rules = IGNORED.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  const kept = rules.filter((rule) => rule.startsWith("!")).map((rule) => rule.slice(1));
  const dropped = rules
    .filter((rule) => rule.startsWith("**/"))
    .map(
      (rule) =>
        new RegExp(`(?:^|/)${rule.slice(3).replaceAll(".", "\\.").replace("*", "[^/]*")}(?:/|$)`),
    );
  const found = kept.flatMap((name) =>
    statSync(join(ROOT, name)).isDirectory()
      ? readdirSync(join(ROOT, name), { recursive: true, encoding: "utf8" }).map((inner) =>
          join(name, inner),
        )
      : [name],
  );
  return found.filter((name) => !dropped.some((rule) => rule.test(name)));
}

/** Carries a stage's COPY lines out; `from` is where a plain path starts. */
function copy(lines: readonly string[], from: string, to: string): void {
  for (const line of lines.filter((one) => one.startsWith("COPY "))) {
    const [, origin, rest = ""] = /^COPY (?:--from=(\w+) )?(.*)$/.exec(line) ?? [];
    const paths = rest.split(" ");
    const target = paths.pop() ?? "";
    for (const path of paths) {
      const source = origin === undefined ? join(from, path) : under(join("stages", origin, path));
      const into = join(to, target, target.endsWith("/") ? (path.split("/").at(-1) ?? "") : "");
      mkdirSync(dirname(into), { recursive: true });
      cpSync(source, into, { recursive: true, verbatimSymlinks: true });
    }
  }
}

beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), "rouse-image-"));
  chmodSync(dir, 0o755);
  for (const name of context()) {
    const source = join(ROOT, name);
    if (statSync(source).isDirectory()) continue;
    mkdirSync(dirname(under(join("context", name))), { recursive: true });
    copyFileSync(source, under(join("context", name)));
  }
  // Both builds see the same files at /app.
  for (const name of ["build", "modules"])
    mkdirSync(under(`stages/${name}/app`), { recursive: true });
  for (const name of readdirSync(under("context")))
    cpSync(under(`context/${name}`), under(`stages/build/app/${name}`), { recursive: true });
  for (const name of ["package.json", "package-lock.json", ".npmrc"])
    copyFileSync(under(`context/${name}`), under(`stages/modules/app/${name}`));
  const runs = (name: string): string[] => stage(name).filter((line) => line.startsWith("RUN "));
  expect(runs("build")).toEqual(["RUN npm ci", "RUN npm run -s build && chmod 0755 bin/rouse.js"]);
  expect(runs("modules")).toEqual(["RUN npm ci --omit=dev"]);
  // The tests run with the packages that the first `npm ci` would install.
  symlinkSync(join(ROOT, "node_modules"), under("stages/build/app/node_modules"));
  npm(["run", "-s", "build"], under("stages/build/app"));
  chmodSync(under("stages/build/app/bin/rouse.js"), 0o755);
  npm(
    ["ci", "--omit=dev", "--prefer-offline", "--no-audit", "--no-fund"],
    under("stages/modules/app"),
  );
  copy(stage("image"), under("context"), under("image"));
  for (const folder of ["image/var/lib/rouse", "image/etc/rouse", "tmp"])
    mkdirSync(under(folder), { recursive: true });
  copyFileSync(process.execPath, under("node"));
  execFileSync("chown", [`${uid}:${gid}`, under("image/var/lib/rouse"), under("tmp")]);
}, 300_000);
afterAll(() => rmSync(dir, { recursive: true, force: true }));

/** The image's environment, with its paths below the folder. */
const env = (): Record<string, string> => ({
  ...Object.fromEntries(
    Object.entries(environment).map(([name, value]) => [
      name,
      value.startsWith("/") ? under(join("image", value)) : value,
    ]),
  ),
  TMPDIR: under("tmp"),
});
/** A command of the image as its user would run it. */
function asUser(command: readonly string[]): string[] {
  const placed = command.map((word) =>
    word.startsWith("/app/") ? under(join("image", word)) : word === "node" ? under("node") : word,
  );
  return [
    "setpriv",
    `--reuid=${uid}`,
    `--regid=${gid}`,
    "--clear-groups",
    "--no-new-privs",
    ...placed,
  ];
}
const isRoot = process.getuid?.() === 0;

describe("the container file", () => {
  it("takes in what the steps need and nothing that is a secret", () => {
    const names = context();
    expect(
      names.filter(
        (name) =>
          /secret|\.env$|token|\.rouse|rouse\.db|\.log$/i.test(name) && !/\.tsx?$/.test(name),
      ),
    ).toEqual([]);
    expect(names.some((name) => name.startsWith("test/") || name.startsWith("node_modules"))).toBe(
      false,
    );
    expect(readFileSync(join(ROOT, ".npmrc"), "utf8")).not.toMatch(/auth|token|password/i);
    expect(TEXT).not.toMatch(/^ARG .*(?:TOKEN|KEY|SECRET)/m);
  });

  it("starts what is there, with flags that are there, and variables that are read", async () => {
    expect(json("ENTRYPOINT")).toEqual(["node", `/app/${PACKAGE.bin.rouse}`]);
    expect(await misunderstood(json("CMD"))).toEqual([]);
    expect(unreadVariables(Object.keys(environment), "")).toEqual([]);
    expect([uid > 0, gid > 0]).toEqual([true, true]);
    expect(valueOf("VOLUME")).toBe("/var/lib/rouse");
    for (const name of ["ROUSE_STATE_DIR", "XDG_CACHE_HOME"])
      expect(environment[name]).toMatch(/^\/var\/lib\/rouse\/./);
  });

  it("brings the Node that the package asks for and is tested with, in all of its stages", () => {
    const major = /^>=(\d+)$/.exec(PACKAGE.engines.node)?.[1];
    expect(/^ARG NODE=(\d+)-/m.exec(TEXT)?.[1]).toBe(major);
    expect(PACKAGE.devDependencies["node"]?.split(".")[0]).toBe(major);
    expect([...TEXT.matchAll(/^FROM (\S+)/gm)].map(([, image]) => image)).toEqual(
      STAGES.map(() => "node:${NODE}"),
    );
  });

  it("copies files that the builder has, and from stages before", () => {
    const known = new Set(context().flatMap((name) => [name, name.split("/")[0]]));
    for (const [index, { lines }] of STAGES.entries()) {
      const copied = lines
        .filter((line) => line.startsWith("COPY "))
        .map((line) => /^COPY (?:--from=(\w+) )?(.*) \S+$/.exec(line) ?? []);
      expect(copied.length).toBeGreaterThan(0);
      for (const [line, from, paths = ""] of copied) {
        const isThere = (path: string) =>
          from === undefined
            ? path === "." || known.has(path)
            : existsSync(under(`stages/${from}${path}`));
        expect([line, paths.split(" ").filter((path) => !isThere(path))]).toEqual([line, []]);
        if (from !== undefined)
          expect(STAGES.slice(0, index).map(({ name }) => name)).toContain(from);
      }
    }
  });

  it("has one user, who owns the volume and exists in the image", () => {
    expect(TEXT).toContain(`groupadd --gid ${gid} `);
    expect(TEXT).toContain(`useradd --uid ${uid} --gid ${gid} `);
    expect(TEXT).toContain(`install -d -o ${uid} -g ${gid} -m 0700 ${valueOf("VOLUME")} `);
    expect(TEXT).toContain(`install -d ${valueOf("WORKDIR")} `);
  });

  it("opens the port that Rouse listens on by default, and asks it for a page that is there", async () => {
    const [, port, path = ""] =
      /fetch\('http:\/\/127\.0\.0\.1:(\d+)(\/[^']*)'\)/.exec(HEALTH.join(" ")) ?? [];
    const byDefault = String(configSchema.parse({}).gateway.port);
    expect([valueOf("EXPOSE"), port]).toEqual([byDefault, byDefault]);
    const world = await createWorld({ workers: false });
    try {
      expect([
        (await world.get(path)).status,
        (await world.get(`${path}-no-such-page`)).status,
      ]).toEqual([200, 404]);
    } finally {
      await world.stop();
    }
  });

  it("brings all that the npm package would, but for pages", () => {
    const missing = PACKAGE.files.filter(
      (name) => !name.startsWith("!") && !existsSync(under(`image/app/${name}`)),
    );
    expect(missing.toSorted()).toEqual([
      "CHANGELOG.md",
      "README.md",
      "SECURITY.md",
      "deploy",
      "docs",
    ]);
    for (const extra of ["src", "test", "node_modules/typescript", "node_modules/vitest"])
      expect([extra, existsSync(under(`image/app/${extra}`))]).toEqual([extra, false]);
  });
});

describe.skipIf(!isRoot)("what comes out of its steps", () => {
  let program: Program;
  afterAll(() => program?.stop());

  it("runs for a user without rights who can write to its volume and /tmp alone", async () => {
    const [entry = "", ...rest] = asUser([
      ...json("ENTRYPOINT"),
      ...json("CMD").map((word) => (word === "0.0.0.0" ? "127.0.0.1" : word)),
      "--port",
      "0",
    ]);
    program = await startProgram(entry, rest, {
      cwd: under(join("image", valueOf("WORKDIR"))),
      env: env(),
    });
    const token = readFileSync(under("image/var/lib/rouse/state/hook-token"), "utf8").trim();
    const answer = await fetch(`${program.url}/hooks/agent`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${token}`,
        "content-type": "application/json",
        prefer: "wait=20",
      },
      body: '{"message":"hello"}',
    });
    expect([answer.status, ((await answer.json()) as { ok: boolean }).ok]).toEqual([200, true]);
    // Nothing was written anywhere else, and what was written is its own.
    const written = readdirSync(under("image"), { recursive: true, encoding: "utf8" }).filter(
      (name) => statSync(under(join("image", name))).uid === uid,
    );
    expect(written.filter((name) => relative("var/lib/rouse", name).startsWith(".."))).toEqual([]);
    expect(written).toContain("var/lib/rouse/state/rouse.db");
    expect(statSync(under("image/var/lib/rouse/state")).mode & 0o777).toBe(0o700);
  });

  it("its command line works beside it", () => {
    const [command = "", ...args] = asUser([...json("ENTRYPOINT"), "doctor", "--json"]);
    const { stdout, status } = spawnSync(command, args, {
      cwd: under("image/etc/rouse"),
      env: { PATH: process.env["PATH"], ...env() },
      encoding: "utf8",
    });
    const { running, checks } = JSON.parse(stdout) as {
      running: boolean;
      checks: { id: string; status: string }[];
    };
    expect([running, status, checks.find(({ id }) => id === "file-modes")?.status]).toEqual([
      true,
      0,
      "ok",
    ]);
  });

  it("its health check says well while it runs, and ill when it does not", async () => {
    const check = (port: string): number | null => {
      const [command = "", ...args] = asUser(HEALTH.map((word) => word.replace("7420", port)));
      return spawnSync(command, args).status;
    };
    expect(HEALTH.join(" ")).toContain(":7420/readyz");
    const { port } = new URL(program.url);
    expect(check(port)).toBe(0);
    expect(await program.stop()).toBe(0);
    expect(check(port)).toBe(1);
  });
});
