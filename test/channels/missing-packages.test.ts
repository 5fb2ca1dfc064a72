import { execFile } from "node:child_process";
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startProgram, type Program } from "../e2e/program.ts";
import { ROSA, startMattermost, TOKEN, TOWN, type MattermostServer } from "./mattermost-server.ts";
import { ACCOUNT, signalServer, type SignalServer } from "./signal-server.ts";
import { BOT_TOKEN, APP_TOKEN } from "./slack-server.ts";

const ROOT = resolve(import.meta.dirname, "../..");
let dir: string;
let program: Program;
let mattermost: MattermostServer;
let signal: SignalServer;

/** The program as it is after `npm install --omit=optional`: with every package but those of `optionalDependencies`. */
function withoutOptional(tree: string): void {
  const { optionalDependencies } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as {
    optionalDependencies: object;
  };
  const gone = new Set(Object.keys(optionalDependencies));
  for (const name of ["bin", "src", "plugins", "mappings", "transforms", "package.json"])
    cpSync(join(ROOT, name), join(tree, name), { recursive: true });
  const packages = join(ROOT, "node_modules");
  for (const entry of readdirSync(packages).filter((name) => !name.startsWith("."))) {
    const names = entry.startsWith("@")
      ? readdirSync(join(packages, entry)).map((name) => `${entry}/${name}`)
      : [entry];
    if (entry.startsWith("@")) mkdirSync(join(tree, "node_modules", entry), { recursive: true });
    for (const name of names)
      if (!gone.has(name)) symlinkSync(join(packages, name), join(tree, "node_modules", name));
  }
}

beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), "rouse-omit-"));
  mkdirSync(join(dir, "node_modules"));
  withoutOptional(dir);
  mattermost = await startMattermost();
  signal = await signalServer();
  const nowhere = "http://127.0.0.1:9";
  const channels = {
    telegram: { token: "1:a", apiUrl: nowhere, allowFrom: [42] },
    discord: { token: "a", apiUrl: nowhere, allowFrom: ["600000000000000001"] },
    slack: {
      botToken: BOT_TOKEN,
      appToken: APP_TOKEN,
      apiUrl: `${nowhere}/`,
      allowFrom: ["U0123ABC"],
    },
    signal: { url: signal.url, account: ACCOUNT, allowFrom: ["+15551234567"] },
    mattermost: { url: mattermost.url, token: TOKEN, allowFrom: [ROSA] },
  };
  mkdirSync(join(dir, "home"));
  writeFileSync(
    join(dir, "home", "rouse.json"),
    JSON.stringify({
      gateway: { port: 0 },
      hooks: { enabled: true, token: "t".repeat(32) },
      channels,
    }),
  );
  program = await startProgram(process.execPath, [join(dir, "bin/rouse.js"), "start"], {
    cwd: join(dir, "home"),
  });
});
afterAll(async () => {
  await program.stop();
  await mattermost.close();
  await signal.close();
  rmSync(dir, { recursive: true, force: true });
});

async function rouse(...args: string[]): Promise<string> {
  const run = promisify(execFile)(process.execPath, [join(dir, "bin/rouse.js"), ...args], {
    cwd: join(dir, "home"),
  });
  const { stdout, stderr } = await run.catch(
    (error: unknown) => error as { stdout: string; stderr: string },
  );
  return stdout + stderr;
}

describe("without the optional packages", () => {
  it("a channel says which one to install when it is tested", async () => {
    expect(await rouse("channels", "--test", "slack", "--to", "C0123ABC")).toContain(
      "install @slack/web-api: the channel needs it",
    );
  });

  it("a mailbox says it when it is set up", async () => {
    const installed = { client_id: "a", client_secret: "b", project_id: "p" };
    writeFileSync(join(dir, "home", "google.json"), JSON.stringify({ installed }));
    expect(
      await rouse(
        ..."webhooks gmail setup --account a@example.com --credentials google.json".split(" "),
      ),
    ).toContain("install google-auth-library (npm install google-auth-library)");
  });

  it("what listens says it too, and the channels that need none go on", async () => {
    const tested = await rouse(
      "channels",
      "--test",
      "mattermost",
      "--to",
      TOWN,
      "--text",
      "still here",
    );
    expect(tested).toContain("sent to");
    expect(mattermost.posts.map(({ message }) => message)).toEqual(["still here"]);
    expect(await rouse("channels", "--test", "signal", "--to", "+15551234567")).toContain(
      "sent to",
    );
    const status = await rouse("channels", "--status");
    for (const told of [
      "install grammy",
      "install @discordjs/rest",
      "install @slack/socket-mode",
      "install eventsource-parser",
    ])
      expect(status).toContain(told);
    expect(status).toMatch(/mattermost .*connected/);
    expect((await fetch(`${program.url}/readyz`)).status).toBe(200);
  });
});
