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
import { DEPLOY, ROOT } from "./world.ts";

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

it("the workflow runs all checks, audits what users install, and keeps a bill of materials", () => {
  const commands = Object.values(JOBS).flatMap(({ steps }) =>
    steps.flatMap(({ run }) => run ?? []),
  );
  expect(commands).toContain("bash .ci/run");
  expect(commands).toContainEqual(expect.stringMatching(/^npm audit --omit=dev/));
  expect(commands).toContainEqual(expect.stringMatching(/^npm sbom/));
});
