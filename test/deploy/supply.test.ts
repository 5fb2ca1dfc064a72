import { execFileSync, spawnSync } from "node:child_process";
import {
  chmodSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { parse } from "yaml";
import { DEPLOY, misunderstood, ROOT } from "./world.ts";

const dir = mkdtempSync(join(tmpdir(), "rouse-supply-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

it("images are pinned by digest with one command, and again for newer ones", () => {
  const bin = join(dir, "bin");
  mkdirSync(bin);
  cpSync(DEPLOY, join(dir, "deploy"), { recursive: true });
  const pin = (digit: string): void => {
    writeFileSync(join(bin, "docker"), `#!/bin/sh\necho "sha256:${digit.repeat(64)}"\n`);
    chmodSync(join(bin, "docker"), 0o755);
    execFileSync("sh", [join(dir, "deploy/pin-images.sh")], {
      env: { PATH: `${bin}:${process.env["PATH"]}` },
      stdio: "ignore",
    });
  };
  for (const digit of ["a", "b"]) {
    pin(digit);
    const digest = `@sha256:${digit.repeat(64)}`;
    const { services } = parse(readFileSync(join(dir, "deploy/compose/compose.yaml"), "utf8"), {
      merge: true,
    }) as {
      services: Record<string, { image: string }>;
    };
    expect([services["postgres"]?.image, services["proxy"]?.image]).toEqual([
      `postgres:17${digest}`,
      `caddy:2${digest}`,
    ]);
    const dockerfile = readFileSync(join(dir, "deploy/container/Dockerfile"), "utf8");
    expect(dockerfile.match(/^ARG NODE=.*$/gm)).toEqual([`ARG NODE=24-bookworm-slim${digest}`]);
  }
});

interface Workflow {
  on: { schedule?: { cron: string }[] };
  jobs: Record<
    string,
    { steps: { run?: string; uses?: string; with?: { "node-version"?: number } }[] }
  >;
}
const readWorkflow = (name: string): Workflow =>
  parse(readFileSync(join(ROOT, `.github/workflows/${name}.yml`), "utf8")) as Workflow;
const { jobs: JOBS } = readWorkflow("checks");
const NIGHTLY = readWorkflow("nightly");

it("the workflows have the Node that the package asks for, in every job", () => {
  const { engines } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as {
    engines: { node: string };
  };
  for (const [name, { steps }] of Object.entries({ ...JOBS, ...NIGHTLY.jobs })) {
    const versions = steps
      .filter(({ uses }) => uses?.startsWith("actions/setup-node@"))
      .map((step) => step.with?.["node-version"]);
    expect([name, versions.map((version) => `>=${version}`)]).toEqual([name, [engines.node]]);
  }
});

it("the long form of the soaks runs every night", () => {
  const [hour] = /(?<=^\d+ )\d+(?= \* \* \*$)/.exec(NIGHTLY.on.schedule?.[0]?.cron ?? "") ?? [];
  expect(Number(hour)).toBeLessThan(6);
  const commands = Object.values(NIGHTLY.jobs).flatMap(({ steps }) =>
    steps.flatMap(({ run }) => run ?? []),
  );
  expect(commands).toContain("npm run test:soak -- --long");
  const { status, stdout } = spawnSync(
    process.execPath,
    [join(ROOT, "scripts/soak.ts"), "--help"],
    { encoding: "utf8" },
  );
  expect([status, stdout]).toEqual([
    0,
    expect.stringMatching(/^Usage: npm run test:soak -- \[--long\].*^ {2}--long {2}/ms),
  ]);
});

it("the workflow installs the package that it packs into an empty folder, and runs it there", async () => {
  const steps = JOBS["package"]?.steps ?? [];
  const packing = steps.findIndex(({ run }) => run?.includes("npm pack"));
  const using = steps.findIndex(({ run }) => run?.includes("npm install ./rouse-*.tgz"));
  expect([packing > 0, using > packing]).toEqual([true, true]);
  const folder = /--pack-destination (\S+)/.exec(steps[packing]?.run ?? "")?.[1] ?? "";
  expect([folder, steps[using]]).toEqual([
    "../packed",
    expect.objectContaining({ "working-directory": folder }),
  ]);
  const commands = (steps[using]?.run ?? "")
    .split(" && ")
    .flatMap((command) => /^npx rouse (.*)$/.exec(command)?.[1] ?? []);
  expect(commands).toContainEqual(expect.stringMatching(/^init /));
  for (const command of commands) {
    // What follows an option is its value.
    const known = command
      .split(" ")
      .filter((word, index, all) => word.startsWith("-") || !all[index - 1]?.startsWith("-"));
    expect([command, await misunderstood(known)]).toEqual([command, []]);
  }
});

it("the workflow runs all checks, audits what users install, and keeps a bill of materials", () => {
  const commands = Object.values(JOBS).flatMap(({ steps }) =>
    steps.flatMap(({ run }) => run ?? []),
  );
  expect(commands).toContain("bash .ci/run");
  expect(commands).toContainEqual(expect.stringMatching(/^npm audit --omit=dev/));
  const making = commands.findIndex((command) => command.startsWith("npm sbom"));
  const folder = join(dir, "bill");
  mkdirSync(folder);
  for (const name of ["package.json", "package-lock.json"])
    cpSync(join(ROOT, name), join(folder, name));
  const env = { ...process.env, npm_config_offline: "true" };
  for (const command of commands.slice(making - 1, making + 1))
    execFileSync("sh", ["-c", command], { cwd: folder, env, stdio: "ignore" });
  const file = / > (\S+)$/.exec(commands[making] ?? "")?.[1] ?? "";
  const bill = JSON.parse(readFileSync(join(folder, file), "utf8")) as {
    bomFormat: string;
    components: { group?: string; name: string }[];
  };
  expect(bill.bomFormat).toBe("CycloneDX");
  const names = new Set(
    bill.components.map(({ group, name }) => (group === undefined ? name : `${group}/${name}`)),
  );
  const lock = JSON.parse(readFileSync(join(ROOT, "package-lock.json"), "utf8")) as {
    packages: Record<string, { dev?: boolean }>;
  };
  // What a user installs is what the lock file does not mark as needed by the developers alone.
  const installed = Object.entries(lock.packages).filter(
    ([path, { dev }]) => path !== "" && dev !== true,
  );
  expect(names).toEqual(new Set(installed.map(([path]) => path.split("node_modules/").at(-1))));
  expect([names.has("hono"), names.has("vitest")]).toEqual([true, false]);
});
