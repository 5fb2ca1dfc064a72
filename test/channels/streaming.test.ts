import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { EXPECTED } from "../../src/testing/channel-harness.ts";
import { createBank } from "../approvals/world.ts";
import { startProgram, type Program } from "../e2e/program.ts";
import { gate, startModel, type Says } from "../platform/model.ts";
import { pause } from "../runs/mail-program.ts";
import { lastRun, openConversation, settle, type FarEnd, type Place } from "./live-conversation.ts";
import { openChannel } from "./open.ts";
import { whenIdle } from "./pipe.ts";
import { startTelegram, type TelegramServer } from "./telegram-server.ts";
import { VENDORS, type Vendor } from "./vendors.ts";

/** The interval between edits that each vendor allows. */
const EVERY_MS: Record<string, number> = {
  msteams: 3_000,
  slack: 3_000,
  mattermost: 2_000,
  telegram: 3_000,
  discord: 2_000,
};
/** The longest message, in characters. */
const LIMIT: Record<string, number> = { slack: 12_000, telegram: 4_096 };
const STREAMERS = VENDORS.filter(({ id }) => id in EVERY_MS);
const get = (name: string): Vendor => STREAMERS.find(({ id }) => id === name) as Vendor;
const telegram = get("telegram");
const slack = get("slack");

let close: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const end of close.toReversed()) await end();
  close = [];
});

/** A conversation with an agent whose model says each piece of its text when the test lets it. */
async function open(
  vendor: Place,
  pieces: readonly string[],
  { says = {}, settings = {}, ...more }: OpenOptions = {},
) {
  const model = await startModel();
  close.push(model.close);
  const gates = pieces.map(() => gate());
  close.push(() => gates.forEach((one) => one.open()));
  model.says = (_, call) => ({
    text: pieces,
    wait: async (piece) => (call === 0 ? gates[piece]?.passed : undefined),
    ...(typeof says === "function" ? says(call) : says),
  });
  const bank = createBank();
  const config = {
    models: {
      providers: {
        local: { type: "openai-compatible", baseUrl: model.url, apiKey: "k-0123456789" },
      },
    },
    agents: {
      defaults: { model: "local/big", heartbeat: { every: 0 } },
      list: [{ id: "main", ...more.agent }],
    },
    ...more.config,
  };
  const all = { plugins: [bank.plugin], settings: { streaming: true, ...settings }, config };
  const conversation = await openConversation(vendor, all, close);
  const { far, world, clock, before } = conversation;
  const texts = () =>
    far
      .arrived()
      .slice(before)
      .map(({ text }) => text);
  const everyMs = EVERY_MS[vendor.id] ?? 0;
  const whenTexts = (check: (found: string[]) => boolean) =>
    world.until(async () => check(texts()));
  /** Sets the clock forward until the texts are so, and gives each call of the vendor the time that it takes. */
  const whenLater = (check: (found: string[]) => boolean) =>
    world.until(async () => {
      clock.advance(everyMs);
      await settle();
      return check(texts());
    });
  /** Lets the model say the first piece, and waits until it is shown. */
  const begin = async (): Promise<void> => {
    await conversation.write("tell me");
    gates[0]?.open();
    await world.until(async () => model.asked.length > 0);
    // A busy machine lets nobody run out of time.
    clock.hold();
    await settle();
    expect(texts()).toEqual([]);
    clock.advance(1_000);
    await whenTexts(([text = ""]) => text.includes((pieces[0] ?? "").trim()));
    expect(texts()).toHaveLength(1);
  };
  const deliveries = async () =>
    (await world.admin("/admin/v1/deliveries")).body.deliveries as {
      status: string;
      warnings?: string[];
    }[];
  const idle = () => whenIdle(world);
  return {
    ...conversation,
    model,
    gates,
    bank,
    texts,
    whenTexts,
    whenLater,
    begin,
    everyMs,
    deliveries,
    idle,
  };
}
interface OpenOptions {
  says?: Says | ((call: number) => Says);
  settings?: object;
  agent?: object;
  config?: object;
}

describe.each(STREAMERS)("a change of a message on $id", (vendor) => {
  it.each(["rate-limited", "unavailable", "cut-connection"] as const)(
    "says of a change that fails that it can be made later, or may have been made: %s",
    async (fault) => {
      const far = await vendor.start();
      close.push(() => far.close());
      const { channel } = await openChannel(vendor.id, vendor.section(far.url));
      const to = far.answersTo;
      const signal = AbortSignal.timeout(5_000);
      const sent = await channel.send({ to, text: "…", idempotencyKey: "dlv_1.0" }, signal);
      const messageId = (sent.status === "sent" && sent.messageIds?.[0]) || "";
      far.fail(fault, 2);
      const edited = await channel.streaming?.edit({ to, messageId, text: "Hello …" }, signal);
      expect(EXPECTED[fault]).toContain(edited?.status);
      expect(channel.streaming?.everyMs).toBe(EVERY_MS[vendor.id]);
      if (fault === "rate-limited") expect(edited).toHaveProperty("afterMs");
    },
  );
});

// The gateway does the same for all: one vendor that is asked for updates, and one that posts them.
describe.each([telegram, slack])("the text of a turn on $id", (vendor) => {
  it("is shown in a message that is edited at the vendor's pace, and that the answer replaces", async () => {
    const { gates, texts, whenTexts, whenLater, begin, clock, deliveries, idle, world } =
      await open(vendor, ["Hello ", "dear ", "reader."]);
    await begin();
    gates[1]?.open();
    await settle();
    expect(texts()[0]).not.toContain("dear");
    await whenLater(([text = ""]) => text.includes("Hello dear"));
    expect(texts()).toEqual([expect.stringMatching(/^Hello dear …$/)]);
    gates[2]?.open();
    await whenTexts(([text]) => text === "Hello dear reader.");
    await idle();
    clock.advance(60_000);
    await settle();
    expect(texts()).toEqual(["Hello dear reader."]);
    expect((await deliveries()).map(({ status }) => status)).toEqual(["delivered"]);
    expect((await lastRun(world)).status).toBe("succeeded");
  });

  it("is there once and whole in the end if the vendor's next calls fail", async () => {
    const { far, gates, texts, whenLater, begin, clock, everyMs, idle } = await open(vendor, [
      "Hello ",
      "dear ",
      "reader.",
    ]);
    await begin();
    far.fail?.("unavailable", 2);
    gates[1]?.open();
    await settle();
    clock.advance(everyMs);
    await settle();
    gates[2]?.open();
    await whenLater((found) => found.length === 1 && found[0] === "Hello dear reader.");
    await idle();
    clock.advance(60_000);
    await settle();
    expect(texts()).toEqual(["Hello dear reader."]);
  });

  it("is shown within the vendor's limit, and the answer has several messages", async () => {
    const lines = Array.from(
      { length: Math.ceil((LIMIT[vendor.id] ?? 0) / 25) },
      (_, line) => `Line ${line} of **a long** answer.`,
    );
    const text = `${lines.join("\n")}\nEnd.`;
    const { gates, texts, whenLater, begin, idle } = await open(vendor, [
      "Line 0 ",
      text.slice(7, -4),
      "End.",
    ]);
    await begin();
    gates[1]?.open();
    // The edit is taken: the vendor refuses one that is too long.
    await whenLater(([first = ""]) => first.includes("Line 5 "));
    expect(texts()).toHaveLength(1);
    gates[2]?.open();
    await whenLater((found) => found.at(-1)?.includes("End.") === true);
    await idle();
    const numbers = [
      ...texts()
        .join("\n")
        .matchAll(/Line (\d+) /g),
    ].map(([, line]) => Number(line));
    expect(numbers).toEqual(lines.map((_, line) => line));
    expect(texts().length).toBeGreaterThan(1);
  });
});

const countCalls = ({ calls }: TelegramServer, name: string): number =>
  calls.filter(({ method }) => method === name).length;
const countEdits = (server: TelegramServer): number => countCalls(server, "editMessageText");

/** The same on Telegram, with its server. */
async function openTelegram(pieces: readonly string[], more: OpenOptions = {}) {
  const server = await startTelegram();
  const start = async (): Promise<FarEnd> => ({
    url: server.url,
    arrived: () => server.messages.map(({ chat, text }) => ({ to: chat, text })),
    async speak(text) {
      server.write(text);
      return undefined;
    },
    close: server.close,
  });
  return { ...(await open({ ...telegram, start }, pieces, more)), server };
}

describe("the text of a turn", () => {
  it("is deleted if the turn is stopped", async () => {
    const { write, texts, whenTexts, begin, idle } = await open(telegram, [
      "Hello ",
      "dear reader.",
    ]);
    await begin();
    await write("/stop");
    await whenTexts((found) => found.length === 1 && !found[0]?.includes("Hello"));
    await idle();
    expect(texts()).toHaveLength(1);
  });

  it("is not shown without `streaming: true`", async () => {
    const { write, gates, model, world, clock, texts, whenTexts } = await open(
      telegram,
      ["Hello ", "reader."],
      {
        settings: { streaming: false },
      },
    );
    await write("tell me");
    await world.until(async () => model.asked.length > 0);
    clock.advance(5_000);
    await settle();
    expect(texts()).toEqual([]);
    for (const one of gates) one.open();
    await whenTexts(([text]) => text === "Hello reader.");
    expect(model.asked[0]?.body.stream).toBeFalsy();
  });

  it("is deleted while the turn waits for an approval, and the answer is a message of its own", async () => {
    const says = (call: number): Says =>
      call === 0
        ? { calls: [{ id: "c1", name: "bank__transfer", arguments: '{"to":"ACME"}' }] }
        : { text: ["It ", "was paid."] };
    const { gates, begin, whenTexts, world, bank, texts, idle } = await open(
      telegram,
      ["Let me ", "pay."],
      {
        says,
        agent: { tools: ["bank.*"], approve: ["bank.transfer"] },
        config: { owner: { telegram: "42" }, tools: { approvers: ["telegram:42", "operator"] } },
      },
    );
    await begin();
    gates[1]?.open();
    await whenTexts((found) => found.length === 1 && found[0]?.includes("Approval") === true);
    const { approvals } = (await world.admin("/admin/v1/approvals?state=open")).body;
    await world.admin(`/admin/v1/approvals/${approvals[0].id}`, {
      method: "POST",
      body: JSON.stringify({ verdict: "approve" }),
    });
    await whenTexts((found) => found.includes("It was paid."));
    await idle();
    expect(bank.calls).toHaveLength(1);
    expect(texts()).toHaveLength(2);
  });

  it("is taken back if the model's stream breaks off, and the answer is the text of the next call", async () => {
    const { gates, begin, texts, idle, model, world, whenLater } = await open(
      telegram,
      ["Wrong ", "words"],
      {
        says: (call) => (call === 0 ? { cut: true } : { text: ["Right."] }),
      },
    );
    await begin();
    gates[1]?.open();
    await whenLater((found) => found.includes("Right."));
    await idle();
    expect(texts()).toEqual(["Right."]);
    expect(model.asked).toHaveLength(2);
    expect((await lastRun(world)).attempts).toBe(1);
  });

  it("is deleted if there is nothing to send", async () => {
    const { gates, begin, whenTexts, idle, texts, deliveries } = await open(telegram, [
      "HEARTBEAT",
      "_OK",
    ]);
    await begin();
    gates[1]?.open();
    await whenTexts((found) => found.length === 0);
    await idle();
    expect(texts()).toEqual([]);
    expect(await deliveries()).toHaveLength(1);
  });

  it("is deleted, and the answer sent, if an edit hangs that could still overwrite it", async () => {
    const { server, gates, begin, idle, texts, clock, whenLater } = await openTelegram([
      "Hello ",
      "dear ",
      "reader.",
    ]);
    await begin();
    server.fail("hang", { method: "editMessageText" });
    gates[1]?.open();
    await whenLater(() => countEdits(server) > 1);
    gates[2]?.open();
    await settle();
    server.fail("rate-limited", { method: "deleteMessage" });
    // The answer waits for the edit under way, and no longer than that may take.
    expect(texts()).toEqual([expect.stringContaining("Hello …")]);
    clock.advance(6_000);
    await expect.poll(() => countCalls(server, "deleteMessage")).toBe(1);
    // The deletion is tried again, and the answer is not sent again with it.
    expect(texts()).toEqual([expect.stringContaining("Hello …"), "Hello dear reader."]);
    await whenLater((found) => found.length === 1);
    await idle();
    expect(texts()).toEqual(["Hello dear reader."]);
    expect(server.messages.at(-1)?.message_id).toBe(2);
  });

  it("is sent as a message if a person has deleted the one that showed it", async () => {
    const { server, gates, begin, idle, texts, deliveries, whenTexts } = await openTelegram([
      "Hello ",
      "reader.",
    ]);
    await begin();
    server.messages.length = 0;
    gates[1]?.open();
    await whenTexts((found) => found.length === 1);
    await idle();
    expect(texts()).toEqual(["Hello reader."]);
    expect((await deliveries()).map(({ status, warnings = [] }) => [status, warnings])).toEqual([
      ["delivered", []],
    ]);
  });

  it("waits as long as the vendor says, and the answer replaces it all the same", async () => {
    const { server, gates, begin, idle, texts, whenTexts, whenLater } = await openTelegram([
      "Hello ",
      "dear ",
      "reader.",
    ]);
    await begin();
    server.fail("rate-limited", { method: "editMessageText" });
    gates[1]?.open();
    await whenLater(() => countEdits(server) > 1);
    await whenLater(([text = ""]) => text.includes("Hello dear"));
    gates[2]?.open();
    await whenTexts(([text]) => text === "Hello dear reader.");
    await idle();
    expect(texts()).toEqual(["Hello dear reader."]);
    expect(server.messages.at(-1)?.message_id).toBe(1);
  });

  it("is that of the running model call alone, and the answer that of the last", async () => {
    const says = (call: number): Says =>
      call === 0
        ? { calls: [{ id: "c1", name: "bank__balance", arguments: "{}" }] }
        : { text: ["You have 12."] };
    const { gates, begin, whenTexts, texts, idle, bank } = await open(
      telegram,
      ["Let me ", "look."],
      { says, agent: { tools: ["bank.*"] } },
    );
    await begin();
    gates[1]?.open();
    await whenTexts((found) => found.at(-1) === "You have 12.");
    await idle();
    expect(bank.calls).toHaveLength(1);
    expect(texts()).toEqual(["You have 12."]);
  });

  it("has no thoughts of the model", async () => {
    const { server, gates, begin, whenTexts, idle, texts } = await openTelegram(
      ["Hello ", "reader."],
      { says: { reasoning: ["They greet me, ", "so I do."] } },
    );
    await begin();
    gates[1]?.open();
    await whenTexts(([text]) => text === "Hello reader.");
    await idle();
    expect(texts()).toEqual(["Hello reader."]);
    expect(JSON.stringify(server.calls)).not.toContain("They greet");
  });

  it("can be read at every moment: what markdown leaves open is no error of the vendor", async () => {
    const pieces = [
      "Hello ",
      "**dear",
      "** `rea",
      "der`\n```ts\nlet a",
      " = 1 < 2;\n``",
      "`\n[a](https:",
      "//a.example).",
    ];
    const { server, gates, begin, whenTexts, idle, whenLater } = await openTelegram(pieces);
    await begin();
    for (const one of gates.slice(1, -1)) {
      const before = countEdits(server);
      one.open();
      await whenLater(() => countEdits(server) > before);
    }
    gates.at(-1)?.open();
    await whenTexts(([text = ""]) => text.includes("a (https://a.example)") || text.endsWith("a."));
    await idle();
    const edits = server.calls.filter(({ method }) => method === "editMessageText");
    // A text that Telegram cannot read is sent again without a form.
    expect(edits.map(({ body }) => body["parse_mode"])).toEqual(edits.map(() => "HTML"));
    expect(server.messages).toHaveLength(1);
  });

  it("is sent as a message if the vendor refuses an edit, and the other one is deleted", async () => {
    const { server, gates, begin, idle, texts, whenTexts, whenLater } = await openTelegram([
      "Hello ",
      "dear ",
      "reader.",
    ]);
    await begin();
    server.fail("too long", { method: "editMessageText" });
    gates[1]?.open();
    await whenLater(() => countEdits(server) > 1);
    await settle();
    gates[2]?.open();
    await whenTexts((found) => found.length === 1 && found[0] === "Hello dear reader.");
    await idle();
    expect(texts()).toEqual(["Hello dear reader."]);
    expect(server.messages.at(-1)?.message_id).toBe(2);
  });
});

describe("a gateway that is killed", () => {
  const ROUSE = resolve(import.meta.dirname, "../../bin/rouse.js");

  it("leaves no text beside the answer, whenever that happens", async () => {
    const dir = mkdtempSync(join(tmpdir(), "rouse-streaming-"));
    close.push(() => rmSync(dir, { recursive: true, force: true }));
    const server = await startTelegram();
    const model = await startModel();
    close.push(server.close, model.close);
    const config = {
      gateway: { port: 0 },
      hooks: { enabled: true, token: "hook-token-0123456789" },
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
    writeFileSync(join(dir, "rouse.json5"), JSON.stringify(config));
    const start = async (): Promise<Program> => {
      const options = { cwd: dir, env: { ROUSE_LOG_LEVEL: "silent" } };
      const started = await startProgram(process.execPath, [ROUSE, "start"], options);
      close.push(() => started.kill());
      return started;
    };
    const texts = (): string[] => server.messages.map(({ text }) => text);
    let program = await start();
    for (const [moment, killedAt, left] of [
      ["while the text is shown", "Half of", []],
      ["while the answer replaces the text", "Half of the answer.", []],
      ["before the id of the message is on disk", "…", ["…"]],
    ] as const) {
      server.messages.length = 0;
      const slow = gate();
      const calls = model.asked.length;
      model.says = (_asked, call) => ({
        text: ["Half of ", "the answer."],
        // The next try takes long enough to show its text, too.
        wait: async (piece) =>
          piece === 0 ? undefined : call === calls ? slow.passed : pause(1_500),
      });
      const reached = new Promise<void>((done) => {
        // The vendor has done what it was asked, and its answer does not come any more.
        server.watch = (method) => {
          const isMessage = method === "sendMessage" || method === "editMessageText";
          const [text = ""] = texts();
          if (
            !isMessage ||
            (killedAt === "Half of" ? !text.startsWith(killedAt) : text !== killedAt)
          )
            return undefined;
          done();
          return program.kill();
        };
      });
      server.write("tell me");
      if (killedAt === "Half of the answer.") {
        await expect.poll(texts).toEqual(["Half of …"]);
        slow.open();
      }
      await reached;
      await program.kill();
      server.watch = () => undefined;
      program = await start();
      await expect.poll(texts, { message: moment }).toEqual([...left, "Half of the answer."]);
      await settle();
      expect(texts(), moment).toEqual([...left, "Half of the answer."]);
    }
  });
});
