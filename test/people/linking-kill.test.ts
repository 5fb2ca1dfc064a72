import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { message } from "../channels/pipe.ts";
import { startProgram, type Program } from "../e2e/program.ts";
import { createProvider, modelConfig, type Provider } from "../e2e/provider.ts";
import { codeIn, PIPES, type PipeChannel } from "./linking-world.ts";

const TOKEN = "operator-token-0123456789";
const ROUSE = resolve(import.meta.dirname, "../../bin/rouse.js");

let dir: string;
let provider: Provider;
let program: Program;
/** What processes that have been killed have sent. */
let earlier = "";
beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), "rouse-linking-"));
  provider = await createProvider();
  mkdirSync(join(dir, "plugins"));
  for (const [name, text] of Object.entries(PIPES)) writeFileSync(join(dir, name), text);
  const channels = Object.fromEntries(
    ["pipe", "tube"].map((name) => [name, { name, allowFrom: ["ann", "bob", "cid"] }]),
  );
  const config = {
    ...modelConfig(provider),
    channels,
    owner: { pipe: "ann" },
    sessions: { messages: "separate" },
    gateway: { port: 0, token: TOKEN },
  };
  writeFileSync(join(dir, "rouse.json5"), JSON.stringify(config));
});
afterEach(async () => {
  await program.kill();
  await provider.close();
  rmSync(dir, { recursive: true, force: true });
});

const start = async (): Promise<void> => {
  program = await startProgram(process.execPath, [ROUSE, "start"], { cwd: dir });
};

async function say(channel: PipeChannel, from: string, text: string): Promise<void> {
  const body = JSON.stringify(message(text, { from, to: `dm-${from}` }));
  // The channel takes nothing until it listens.
  await vi.waitFor(async () =>
    expect(
      (
        await fetch(`${program.url}/channels/${channel}/in`, { method: "POST", body }).catch(
          () => undefined,
        )
      )?.status,
    ).toBe(204),
  );
}

/** What was sent to a person on a channel, by whichever process. */
const getSent = (channel: PipeChannel, from: string): string[] =>
  [...(earlier + program.output()).matchAll(/PIPE (\{[^{}]*\})/g)]
    .map(([, line = ""]) => JSON.parse(line) as { name: string; to: string; text: string })
    .filter(({ name, to }) => name === channel && to === `dm-${from}`)
    .map(({ text }) => text);

async function admin<T>(path: string): Promise<T> {
  const answer = await fetch(`${program.url}/admin/v1/${path}`, {
    headers: { authorization: `Bearer ${TOKEN}` },
  });
  return (await answer.json()) as T;
}

/** Waits until a person's channels are linked, and returns the answer to the command that linked them. */
const getLinkAnswer = (from: string): Promise<string> =>
  vi.waitFor(async () => {
    const { addresses } = await admin<{ addresses: { person: string; runId: string }[] }>("people");
    const own = addresses.filter(({ person }) => person === from);
    expect(own).toHaveLength(2);
    const { run } = await admin<{ run: { status: string; reply: string } }>(
      `runs/${own[0]?.runId}`,
    );
    expect(run.status).toBe("succeeded");
    return run.reply;
  });

it("a link that a killed gateway was making is made by the next one, and answered as if nothing had happened", async () => {
  await start();
  for (const [from, wait] of [
    ["bob", 0],
    ["cid", 5],
  ] as const) {
    await say("pipe", from, "/link");
    const code = await vi.waitFor(() =>
      codeIn(getSent("pipe", from)[0] ?? expect.fail("no answer yet")),
    );
    await say("tube", from, `/link ${code}`);
    await new Promise((done) => setTimeout(done, wait));
    await program.kill();
    earlier += program.output();
    await start();
    expect(await getLinkAnswer(from)).toMatch(/^Linked with pipe\./);
  }
  for (const from of ["bob", "cid"]) {
    await say("pipe", from, `the plans of ${from}`);
    await vi.waitFor(() => expect(getSent("pipe", from).at(-1)).toBe("fine"));
    await say("tube", from, "which plans?");
    await vi.waitFor(() => expect(getSent("tube", from).at(-1)).toBe("fine"));
    const plans = provider.text(provider.requests.at(-1) as never).match(/the plans of \w+/g);
    expect(plans).toEqual([`the plans of ${from}`]);
  }
});
