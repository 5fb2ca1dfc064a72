import { readFileSync } from "node:fs";
import { join } from "node:path";
import JSON5 from "json5";
import { afterEach, beforeEach, expect, it } from "vitest";
import { createWorld, type World } from "../e2e/world.ts";
import { createCli, type CliWorld } from "./world.ts";

const UNIT_CONFIG = join(import.meta.dirname, "../../deploy/systemd/rouse.json5");
const HOOK_TOKEN = "hook-token-of-the-service-1";
const GATEWAY_TOKEN = "gateway-token-of-the-service";

let cli: CliWorld;
let service: World;
beforeEach(async () => {
  cli = await createCli();
  const { gateway, hooks } = JSON5.parse<{ gateway: object; hooks: object }>(
    readFileSync(UNIT_CONFIG, "utf8"),
  );
  service = await createWorld({
    dir: cli.dir,
    config: { gateway: { ...gateway, adminPort: 0 }, hooks },
    files: {
      "credentials/hook-token": HOOK_TOKEN,
      "credentials/gateway-token": GATEWAY_TOKEN,
    },
    // As systemd hands them over: to the service alone.
    env: { CREDENTIALS_DIRECTORY: join(cli.dir, "credentials") },
  });
});
afterEach(async () => {
  await service.stop();
  await cli.close();
});

it("the shipped systemd unit: commands reach its gateway without its secrets", async () => {
  const authorization = `Bearer ${HOOK_TOKEN}`;
  const { body } = await service.post(
    "/hooks/agent",
    { message: "hello", wakeMode: "next-heartbeat" },
    { authorization },
  );
  await cli.write("hello.json", { message: "hello" });
  for (const command of [
    "hooks send agent --payload hello.json",
    "status",
    "doctor",
    "events",
    "runs",
    `runs ${body.runId}`,
    "deliveries",
    "sessions",
    "approvals",
    "keys",
    "hooks",
    "channels",
    "knowledge",
    "secrets",
    "store",
    "backup --store copy.db",
  ]) {
    const { code, err } = await cli.rouse(command.split(" "));
    expect([command, code, err.replace(/^config: .* \(the running gateway\)\n/, "")]).toEqual([
      command,
      0,
      "",
    ]);
  }
});

it("the shipped systemd unit: `rouse status` names a token that signs in", async () => {
  const { address, tokenFile } = JSON.parse((await cli.rouse("status --json")).out).console;
  const token = readFileSync(tokenFile, "utf8").trim();
  const answer = await fetch(`${address}/session`, {
    method: "POST",
    body: new URLSearchParams({ token }),
    redirect: "manual",
  });
  expect(answer.status).toBe(303);
});
