import { execFileSync, spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import JSON5 from "json5";
import { describe, expect, it } from "vitest";
import { EXIT } from "../../src/cli/io.ts";
import {
  AFTER_DRAIN_SECONDS,
  checked,
  DEPLOY,
  deployed,
  filesIn,
  has,
  misunderstood,
  ROOT,
  settle,
  unreadVariables,
} from "./world.ts";

const FILE = join(DEPLOY, "systemd/rouse.service");
const UNIT = deployed("systemd/rouse.service");
const CONFIG = deployed("systemd/rouse.json5");
const valuesOf = (key: string): string[] =>
  [...UNIT.matchAll(new RegExp(`^${key}=(.*)$`, "gm"))].map(([, value]) => value ?? "");
const [start = ""] = valuesOf("ExecStart");

describe("the unit", () => {
  it.skipIf(!has("systemd-analyze"))("is one that systemd understands without a warning", () => {
    const { status, stderr } = spawnSync("systemd-analyze", ["verify", FILE], { encoding: "utf8" });
    // On a machine without Node in that place systemd says only that.
    const told = stderr
      .split("\n")
      .filter((line) => line !== "" && !/is not executable/.test(line));
    expect(told).toEqual([]);
    expect(stderr === "" ? status : 0).toBe(0);
  });

  it.skipIf(!has("systemd-analyze"))("leaves the service little to do harm with", () => {
    const out = execFileSync(
      "systemd-analyze",
      ["security", "--offline=true", "--no-pager", FILE],
      { encoding: "utf8" },
    );
    expect(
      Number(/Overall exposure level for rouse\.service: ([\d.]+)/.exec(out)?.[1]),
    ).toBeLessThanOrEqual(2);
  });

  it("starts what is there, with flags that are there", async () => {
    const [, program = "", ...args] = start.split(" ");
    const inPackage = program.replace("/opt/rouse/node_modules/rouse/", "");
    expect([inPackage, existsSync(join(ROOT, inPackage))]).toEqual(["bin/rouse.js", true]);
    expect(await misunderstood(args)).toEqual([]);
    const [, page = ""] = /file:\/opt\/rouse\/node_modules\/rouse\/(\S+)/.exec(UNIT) ?? [];
    expect([page, existsSync(join(ROOT, page))]).toEqual(["docs/operations.md", true]);
    for (const [, file = ""] of UNIT.matchAll(/node_modules\/rouse\/(deploy\/\S+)/g))
      expect([file, existsSync(join(ROOT, file))]).toEqual([file, true]);
  });

  it("waits longer than the gateway drains, and does not try again what cannot work", async () => {
    const place = settle(CONFIG, "${CREDENTIALS_DIRECTORY}", {
      "hook-token": "a-hook-token-of-24-bytes",
      "gateway-token": "a-gateway-token-of-24-b",
    });
    const { code, err, config } = await checked(place.file, {});
    place.remove();
    expect([code, err]).toEqual([0, ""]);
    expect(Number(valuesOf("TimeoutStopSec")[0])).toBeGreaterThanOrEqual(
      config.gateway.drainSeconds + AFTER_DRAIN_SECONDS,
    );
    expect(valuesOf("RestartPreventExitStatus")[0]?.split(" ").map(Number)).toEqual([
      EXIT.usage,
      EXIT.config,
    ]);
    // All other failures may go away by themselves, however long that takes.
    expect([valuesOf("Restart"), valuesOf("StartLimitIntervalSec")]).toEqual([["always"], ["0"]]);
  });

  it("hands over every secret that the config reads, from a folder of its own, and no variable that is not read", () => {
    const credentials = valuesOf("LoadCredential").map((value) => value.split(":")[0]);
    expect(filesIn(CONFIG).toSorted()).toEqual(
      credentials.map((name) => `\${CREDENTIALS_DIRECTORY}/${name}`).toSorted(),
    );
    const variables = valuesOf("Environment").flatMap((line) =>
      line.split(" ").map((pair) => pair.split("=")[0] ?? ""),
    );
    // By the config, and not by a variable of the unit alone: commands find the state folder as well.
    expect(JSON5.parse(CONFIG).stateDir).toBe(`/var/lib/${valuesOf("StateDirectory")[0]}`);
    expect(unreadVariables(variables, CONFIG)).toEqual([]);
  });
});
