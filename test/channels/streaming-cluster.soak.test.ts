import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { expect, it, type TestContext } from "vitest";
import { startProgram, type Program } from "../e2e/program.ts";
import { gate, startModel } from "../platform/model.ts";
import { pause } from "../runs/mail-program.ts";
import { describePostgres, newSchema } from "../store/postgres.ts";
import { startTelegram } from "./telegram-server.ts";

const ROUSE = resolve(import.meta.dirname, "../../bin/rouse.js");

/** Two gateways on one database, of which the first alone is there when the turn begins; a model, and Telegram's server. */
async function openCluster({ onTestFinished }: TestContext) {
  const schema = newSchema();
  onTestFinished(() => schema.drop());
  const server = await startTelegram();
  const model = await startModel();
  onTestFinished(() => server.close());
  onTestFinished(() => model.close());
  const gates = [gate(), gate()];
  onTestFinished(() => gates.forEach((one) => one.open()));
  model.says = (_asked, call) => ({
    text: ["Half of ", "the ", "answer."],
    // The other gateway takes long enough to show its text, too.
    wait: async (piece) =>
      piece === 0 ? undefined : call === 0 ? gates[piece - 1]?.passed : pause(2_000),
  });
  const config = {
    gateway: { port: 0 },
    store: { url: schema.url },
    models: {
      providers: {
        local: { type: "openai-compatible", baseUrl: model.url, apiKey: "k-0123456789" },
      },
    },
    agents: { defaults: { model: "local/big", heartbeat: { every: 0 } } },
    channels: {
      telegram: { token: server.token, apiUrl: server.url, allowFrom: ["42"], streaming: true },
    },
  };
  const start = async (): Promise<Program> => {
    const dir = mkdtempSync(join(tmpdir(), "rouse-streaming-"));
    onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
    writeFileSync(join(dir, "rouse.json5"), JSON.stringify(config));
    const program = await startProgram(process.execPath, [ROUSE, "start"], {
      cwd: dir,
      env: { ROUSE_LOG_LEVEL: "silent" },
    });
    onTestFinished(() => program.kill());
    return program;
  };
  const texts = (): string[] => server.messages.map(({ text }) => text);
  return { server, model, gates, start, texts };
}

describePostgres(
  "one of two gateways on PostgreSQL that is killed while it edits a message",
  () => {
    // Most of the time they wait for a lease that ends: both at the same time.
    it.concurrent.for([
      ["with a part of the text", "Half of the …"],
      ["with the answer", "Half of the answer."],
    ] as const)(
      "leaves the answer once, and nothing beside it: %s",
      { timeout: 240_000 },
      async ([, killedAt], context) => {
        const { server, model, gates, start, texts } = await openCluster(context);
        const first = await start();
        server.write("tell me");
        await expect.poll(texts).toEqual(["Half of …"]);
        const half = server.messages[0]?.message_id;
        let second: Program | undefined;
        const reached = new Promise<void>((done) => {
          // The vendor has done what it was asked, and its answer does not come any more. The other gateway is started only now:
          // it could take the delivery itself, and would have its answer.
          server.watch = async (method) => {
            if (method !== "editMessageText" || texts()[0] !== killedAt) return;
            server.watch = () => undefined;
            second = await start();
            await first.kill();
            done();
          };
        });
        gates[0]?.open();
        if (killedAt === "Half of the answer.") gates[1]?.open();
        await reached;
        const before = server.calls.length;
        expect(texts()).toEqual([killedAt]);
        // Nobody starts a gateway: the one that is left takes the turn, and all that the other has left.
        const isAnswered = killedAt === "Half of the answer.";
        const methods = () => server.calls.slice(before).map(({ method }) => method);
        // The answer is on disk before it is sent: the other gateway sends it again, and Telegram says that the message has it.
        if (isAnswered) await expect.poll(methods).toContain("editMessageText");
        await expect.poll(texts).toEqual(["Half of the answer."]);
        await pause(5_000);
        expect(texts()).toEqual(["Half of the answer."]);
        expect(second?.child.exitCode).toBeNull();
        expect(server.messages.map(({ message_id }) => message_id === half)).toEqual([isAnswered]);
        expect(model.asked).toHaveLength(isAnswered ? 1 : 2);
        expect(methods().includes("deleteMessage")).toBe(!isAnswered);
      },
    );
  },
);
