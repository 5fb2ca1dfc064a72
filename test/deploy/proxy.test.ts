import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startProgram, type Program } from "../e2e/program.ts";
import { createProvider, modelConfig, type Provider } from "../e2e/provider.ts";
import { DEPLOY, has, ROOT } from "./world.ts";

const TOKEN = "behind-a-proxy-token-0123456789";
const headers = { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" };

async function freePort(): Promise<number> {
  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}

describe.skipIf(!has("caddy"))("the proxy's own configuration, before two gateways", () => {
  const dir = mkdtempSync(join(tmpdir(), "rouse-proxy-"));
  const gateways: Program[] = [];
  let caddy: ChildProcess;
  let provider: Provider;
  let answer: (text: string) => void = () => undefined;
  let url: string;

  beforeAll(async () => {
    provider = await createProvider();
    provider.answer = () => new Promise((done) => (answer = done));
    for (const name of ["a", "b"]) {
      const config = {
        gateway: { port: 0, drainSeconds: 60, trustedProxies: ["127.0.0.1"] },
        hooks: { enabled: true, token: TOKEN },
        stateDir: name,
        ...modelConfig(provider),
      };
      writeFileSync(join(dir, `${name}.json5`), JSON.stringify(config));
      gateways.push(
        await startProgram(
          process.execPath,
          [join(ROOT, "bin/rouse.js"), "start", "-c", `${name}.json5`],
          {
            cwd: dir,
            env: { ROUSE_LOG_LEVEL: "silent" },
          },
        ),
      );
    }
    const port = await freePort();
    url = `http://127.0.0.1:${port}`;
    caddy = spawn(
      "caddy",
      ["run", "--adapter", "caddyfile", "--config", join(DEPLOY, "compose/Caddyfile")],
      {
        env: {
          PATH: process.env["PATH"],
          HOME: dir,
          XDG_DATA_HOME: dir,
          CADDY_ADMIN: `127.0.0.1:${await freePort()}`,
          ROUSE_DOMAIN: url,
          ROUSE_GATEWAYS: gateways.map((gateway) => gateway.url.replace("http://", "")).join(" "),
        },
        stdio: "ignore",
      },
    );
    await until(async () => (await fetch(`${url}/readyz`).catch(() => undefined))?.status === 200);
  });
  afterAll(async () => {
    caddy.kill("SIGTERM");
    answer("done");
    for (const gateway of gateways) await gateway.stop();
    await provider.close();
    rmSync(dir, { recursive: true, force: true });
  });

  async function until(test: () => Promise<boolean>): Promise<void> {
    for (let i = 0; i < 1500; i++) {
      if (await test()) return;
      await new Promise((next) => setTimeout(next, 20));
    }
    throw new Error("what was waited for did not come");
  }

  interface Answer {
    status: number;
    retryAfter: string | null;
    code: string | undefined;
  }
  async function post(): Promise<Answer> {
    const response = await fetch(`${url}/hooks/wake`, {
      method: "POST",
      headers,
      body: '{"text":"x","mode":"next-heartbeat"}',
    });
    const { error } = (await response.json()) as { error?: { code: string } };
    return {
      status: response.status,
      retryAfter: response.headers.get("retry-after"),
      code: error?.code,
    };
  }

  it("a gateway that drains gets no more; until that is noticed, and while there is none, senders are asked to try again", async () => {
    expect((await post()).status).toBe(200);
    const [first, second] = gateways as [Program, Program];
    const turn = JSON.stringify({
      message: "a long turn",
      deliver: false,
      wakeMode: "next-heartbeat",
    });
    await fetch(`${first.url}/hooks/agent`, { method: "POST", headers, body: turn });
    await until(async () => provider.requests.length === 1);
    const answers: Answer[] = [];
    let going = true;
    const flood = (async () => {
      while (going) answers.push(await post());
    })();
    let ended = false;
    const stopped = first.stop().then(() => (ended = true));
    // It still drains when all hooks have long gone to the other.
    const taken = (): number =>
      answers.length - 1 - answers.findLastIndex(({ status }) => status !== 200);
    await until(async () => (await fetch(`${first.url}/readyz`)).status === 503 && taken() > 200);
    expect(ended).toBe(false);
    answer("done");
    await stopped;
    const before = answers.length;
    await until(async () => answers.length > before + 50);
    going = false;
    await flood;
    for (const { status, retryAfter } of answers)
      if (status !== 200)
        expect([status, retryAfter]).toEqual([503, expect.stringMatching(/^\d+$/)]);
    await second.stop();
    await until(async () => (await post()).status === 503);
    expect(await post()).toEqual({ status: 503, retryAfter: "5", code: "overloaded" });
  });
});
