import { execFileSync } from "node:child_process";
import { chmodSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
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
    execFileSync("sh", [join(dir, "deploy/pin-images.sh")], { env: { PATH: `${bin}:${process.env["PATH"]}` }, stdio: "ignore" });
  };
  for (const digit of ["a", "b"]) {
    pin(digit);
    const digest = `@sha256:${digit.repeat(64)}`;
    const { services } = parse(readFileSync(join(dir, "deploy/compose/compose.yaml"), "utf8"), { merge: true }) as {
      services: Record<string, { image: string }>;
    };
    expect([services["postgres"]?.image, services["proxy"]?.image]).toEqual([`postgres:17${digest}`, `caddy:2${digest}`]);
    const dockerfile = readFileSync(join(dir, "deploy/container/Dockerfile"), "utf8");
    expect(dockerfile.match(/^ARG NODE=.*$/gm)).toEqual([`ARG NODE=24-bookworm-slim${digest}`]);
  }
});

it("the workflow runs all checks, audits what users install, and keeps a bill of materials", () => {
  const { jobs } = parse(readFileSync(join(ROOT, ".github/workflows/checks.yml"), "utf8")) as {
    jobs: Record<string, { steps: { run?: string }[] }>;
  };
  const commands = Object.values(jobs).flatMap(({ steps }) => steps.flatMap(({ run }) => run ?? []));
  expect(commands).toContain("bash .ci/run");
  expect(commands).toContainEqual(expect.stringMatching(/^npm audit --omit=dev/));
  const sbom = commands.find((command) => command.startsWith("npm sbom"))?.split(" > ")[0] ?? "";
  const bill = JSON.parse(execFileSync("sh", ["-c", sbom], { cwd: ROOT, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] })) as {
    bomFormat: string;
    components: { name: string }[];
  };
  expect(bill.bomFormat).toBe("CycloneDX");
  const names = bill.components.map(({ name }) => name);
  expect(names).toContain("hono");
  expect(names).not.toContain("vitest");
});
