import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { expect, it, onTestFinished, vi } from "vitest";
import { startProgram, type Program } from "../e2e/program.ts";
import { createProvider, modelConfig } from "../e2e/provider.ts";
import { callOnce } from "./contents.ts";
import { startTelegram } from "./telegram-server.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const OPERATOR = "operator-token-0123456789";

/** A gateway as a process of its own, whose agent may send files by Telegram, and what it talks to. */
async function openGateway() {
  const dir = mkdtempSync(join(tmpdir(), "rouse-file-crash-"));
  const server = await startTelegram();
  const provider = await createProvider();
  onTestFinished(async () => {
    await Promise.all([server.close(), provider.close()]);
    rmSync(dir, { recursive: true, force: true });
  });
  provider.answer = callOnce(
    { name: "table.csv", text: "day,rain\nMonday,3\n" },
    "Here is the table.",
  );
  const config = {
    ...modelConfig(provider),
    gateway: { port: 0, drainSeconds: 1, token: OPERATOR },
    agents: {
      defaults: { model: "local/big", heartbeat: { every: 0 } },
      list: [{ id: "main", tools: ["rouse.send_file"] }],
    },
    tools: { untrusted: "allow" },
    sessions: { quietTime: "30ms" },
    channels: { telegram: { token: server.token, apiUrl: server.url, allowFrom: ["42"] } },
  };
  writeFileSync(join(dir, "rouse.json5"), JSON.stringify(config));
  return {
    dir,
    server,
    provider,
    speak: () => void server.write("as a table, please"),
    start: async (): Promise<Program> => {
      const env = { ROUSE_LOG_LEVEL: "silent" };
      const program = await startProgram(process.execPath, [join(ROOT, "bin/rouse.js"), "start"], {
        cwd: dir,
        env,
      });
      onTestFinished(() => program.kill());
      return program;
    },
  };
}

interface Delivery {
  id: string;
  status: string;
  sentChunks: number;
  sentFiles: number;
}

async function askGateway<T>({ url }: Program, path: string, method = "GET"): Promise<T> {
  const response = await fetch(`${url}/admin/v1${path}`, {
    method,
    headers: { authorization: `Bearer ${OPERATOR}` },
  });
  return (await response.json()) as T;
}

/** Waits for the end of the only delivery. */
const readEnd = (program: Program): Promise<Delivery> =>
  vi.waitFor(
    async () => {
      const [delivery] = (await askGateway<{ deliveries: Delivery[] }>(program, "/deliveries"))
        .deliveries;
      if (!delivery || delivery.status === "pending") throw new Error("it has not ended");
      return delivery;
    },
    { interval: 50 },
  );

type Gateway = Awaited<ReturnType<typeof openGateway>>;

/** Holds the answers of a method of Telegram from now on, and waits for its first call. */
async function holdAnswers({ server }: Gateway, method: string): Promise<void> {
  const called = Promise.withResolvers<void>();
  server.watch = (name) => {
    if (name !== method) return undefined;
    called.resolve();
    return new Promise(() => undefined);
  };
  await called.promise;
}

/** Waits at the point of the kill, which the test has prepared before the message is sent. */
const POINTS: [
  name: string,
  prepare: (gateway: Gateway) => Promise<void>,
  expected: { status: string; files: number },
][] = [
  [
    "after the agent has attached it, before the model has answered",
    async ({ provider }) => {
      const answer = provider.answer;
      const reached = Promise.withResolvers<void>();
      provider.answer = (request, response) => {
        if (request.body.messages.at(-1)?.role !== "tool") return answer(request, response);
        provider.answer = answer;
        reached.resolve();
        return undefined;
      };
      await reached.promise;
    },
    { status: "delivered", files: 1 },
  ],
  [
    "when Telegram has the file, before the gateway knows that",
    (gateway) => holdAnswers(gateway, "sendDocument"),
    { status: "unknown", files: 1 },
  ],
];

it.each(POINTS)(
  "a file of a gateway that is killed %s is sent once, or its delivery has an unknown outcome",
  async (_, prepare, expected) => {
    const gateway = await openGateway();
    const { server, start, speak } = gateway;
    const first = await start();
    const reached = prepare(gateway);
    speak();
    await reached;
    await first.kill();
    server.watch = () => undefined;
    const second = await start();
    const table = ["table.csv", "day,rain\nMonday,3\n"];
    const sent = () => ({
      texts: server.messages.map(({ text }) => text),
      files: server.files.map(({ name, bytes }) => [name, bytes.toString()]),
    });
    const ended = await readEnd(second);
    expect(ended.status).toBe(expected.status);
    expect(sent()).toEqual({
      texts: ["Here is the table."],
      files: expected.files === 1 ? [table] : [],
    });
    if (ended.status === "delivered") return;
    // Somebody looks into the chat: the message in doubt is there, and what follows it is sent.
    await askGateway(second, `/deliveries/${ended.id}/retry?arrived=1`, "POST");
    expect(await readEnd(second)).toMatchObject({
      status: "delivered",
      sentChunks: 1,
      sentFiles: 1,
    });
    expect(sent()).toEqual({ texts: ["Here is the table."], files: [table] });
    expect(await askGateway(second, `/deliveries/${ended.id}`)).toMatchObject({
      delivery: { warnings: [expect.stringContaining("an operator said that it had arrived")] },
    });
    expect(
      await askGateway(second, `/deliveries/${ended.id}/retry?arrived=1`, "POST"),
    ).toMatchObject({ error: { code: "not_retryable" } });
  },
);
