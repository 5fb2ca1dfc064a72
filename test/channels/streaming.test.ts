import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { createBank } from "../approvals/world.ts";
import { startProgram, type Program } from "../e2e/program.ts";
import { gate, startModel, type Says } from "../platform/model.ts";
import { pause } from "../runs/mail-program.ts";
import { lastRun, openConversation, settle, type FarEnd, type Place } from "./live-conversation.ts";
import { startTelegram, type TelegramServer } from "./telegram-server.ts";
import { VENDORS, type Vendor } from "./vendors.ts";

/** How often each vendor takes an edit. */
const EVERY_MS: Record<string, number> = {
  msteams: 3_000,
  slack: 3_000,
  mattermost: 2_000,
  telegram: 3_000,
  discord: 2_000,
};
const STREAMERS = VENDORS.filter(({ id }) => id in EVERY_MS);
const telegram = STREAMERS.find(({ id }) => id === "telegram") as Vendor;

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
  /** Lets the model say the first piece, and waits until it is shown. */
  const begin = async (): Promise<void> => {
    await conversation.write("tell me");
    gates[0]?.open();
    await world.until(async () => model.asked.length > 0);
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
  const idle = () =>
    world.until(async () => {
      const { counts } = (await world.admin("/admin/v1/status")).body.status;
      return (
        !counts["jobs.turn"] &&
        !counts["jobs.delivery"] &&
        !counts["runs.queued"] &&
        !counts["runs.running"]
      );
    });
  return {
    ...conversation,
    model,
    gates,
    bank,
    texts,
    whenTexts,
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

describe.each(STREAMERS)("the text of a turn on $id", (vendor) => {
  it("is shown in a message that is edited at the vendor's pace, and that the answer replaces", async () => {
    const { gates, texts, whenTexts, begin, clock, everyMs, deliveries, idle, world } = await open(
      vendor,
      ["Hello ", "dear ", "reader."],
    );
    await begin();
    gates[1]?.open();
    await settle();
    expect(texts()[0]).not.toContain("dear");
    clock.advance(everyMs);
    await whenTexts(([text = ""]) => text.includes("Hello dear"));
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

  it.each(["rate-limited", "unavailable", "cut-connection"] as const)(
    "is there once and whole in the end if the vendor's next calls fail: %s",
    async (fault) => {
      const { far, gates, texts, begin, clock, everyMs, idle, world } = await open(vendor, [
        "Hello ",
        "dear ",
        "reader.",
      ]);
      await begin();
      far.fail?.(fault, 2);
      gates[1]?.open();
      await settle();
      clock.advance(everyMs);
      await settle();
      gates[2]?.open();
      await world.until(async () => {
        clock.advance(2_000);
        await settle();
        return texts().length === 1 && texts()[0] === "Hello dear reader.";
      });
      await idle();
      clock.advance(60_000);
      await settle();
      expect(texts()).toEqual(["Hello dear reader."]);
    },
  );

  it("is shown within the vendor's limit, and the answer has several messages", async () => {
    const lines = Array.from({ length: 1_600 }, (_, line) => `Line ${line} of **a long** answer.`);
    const text = `${lines.join("\n")}\nEnd.`;
    const { gates, texts, whenTexts, begin, clock, everyMs, idle } = await open(vendor, [
      "Line 0 ",
      text.slice(7, -4),
      "End.",
    ]);
    await begin();
    gates[1]?.open();
    await settle();
    clock.advance(everyMs);
    // The edit is taken: the vendor refuses one that is too long.
    await whenTexts(([first = ""]) => first.includes("Line 5 "));
    expect(texts()).toHaveLength(1);
    gates[2]?.open();
    await whenTexts((found) => {
      clock.advance(1_000);
      return found.at(-1)?.includes("End.") === true;
    });
    await idle();
    const numbers = [
      ...texts()
        .join("\n")
        .matchAll(/Line (\d+) /g),
    ].map(([, line]) => Number(line));
    expect(numbers).toEqual(lines.map((_, line) => line));
    expect(texts().length).toBeGreaterThan(1);
  });

  it("is deleted if the turn is stopped", async () => {
    const { write, texts, whenTexts, begin, idle } = await open(vendor, ["Hello ", "dear reader."]);
    await begin();
    await write(vendor.id === "slack" || vendor.id === "mattermost" ? "!stop" : "/stop");
    await whenTexts((found) => found.length === 1 && !found[0]?.includes("Hello"));
    await idle();
    expect(texts()).toHaveLength(1);
  });
});

const whenCalled = (server: TelegramServer, method: string, times: number) =>
  expect.poll(() => server.calls.filter((call) => call.method === method).length).toBe(times);

/** The same on Telegram, with its server. */
async function openTelegram(pieces: readonly string[], more: OpenOptions = {}) {
  const server = await startTelegram();
  const start = async (): Promise<FarEnd> => ({
    url: server.url,
    arrived: () => server.messages.map(({ chat, text }) => ({ to: chat, text })),
    async speak(text) {
      pushMessage(server, text);
      return undefined;
    },
    close: server.close,
  });
  return { ...(await open({ ...telegram, start }, pieces, more)), server };
}

function pushMessage(server: TelegramServer, text: string): void {
  const chat = { id: 42, type: "private" as const, first_name: "Ann" };
  server.push({
    message: {
      message_id: 7000,
      date: 1_760_000_000,
      chat,
      from: { ...chat, is_bot: false },
      text,
    },
  });
}

describe("the text of a turn", () => {
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
    const { gates, begin, whenTexts, texts, idle, model, clock, world } = await open(
      telegram,
      ["Wrong ", "words"],
      {
        says: (call) => (call === 0 ? { cut: true } : { text: ["Right."] }),
      },
    );
    await begin();
    gates[1]?.open();
    await settle();
    clock.advance(10_000);
    await whenTexts((found) => found.includes("Right."));
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
    const { server, gates, begin, whenTexts, idle, texts, clock, everyMs } = await openTelegram([
      "Hello ",
      "dear ",
      "reader.",
    ]);
    await begin();
    server.fail("hang", { method: "editMessageText" });
    gates[1]?.open();
    await settle();
    clock.advance(everyMs);
    await whenCalled(server, "editMessageText", 2);
    gates[2]?.open();
    await settle();
    server.fail("429", { method: "deleteMessage" });
    // The answer waits for the edit under way, and no longer than that may take.
    expect(texts()).toEqual([expect.stringContaining("Hello …")]);
    clock.advance(6_000);
    await whenCalled(server, "deleteMessage", 1);
    // The deletion is tried again, and the answer is not sent again with it.
    expect(texts()).toEqual([expect.stringContaining("Hello …"), "Hello dear reader."]);
    await settle();
    clock.advance(10_000);
    await whenTexts((found) => found.length === 1);
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
    const { server, gates, begin, idle, texts, clock, everyMs, whenTexts } = await openTelegram([
      "Hello ",
      "dear ",
      "reader.",
    ]);
    await begin();
    server.fail("429", { method: "editMessageText" });
    gates[1]?.open();
    await settle();
    clock.advance(everyMs);
    await whenCalled(server, "editMessageText", 2);
    clock.advance(everyMs);
    await whenTexts(([text = ""]) => text.includes("Hello dear"));
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
    const { server, gates, begin, whenTexts, idle, clock, everyMs } = await openTelegram(pieces);
    const count = () => server.calls.filter(({ method }) => method === "editMessageText").length;
    await begin();
    for (const one of gates.slice(1, -1)) {
      const before = count();
      one.open();
      await settle();
      clock.advance(everyMs);
      await expect.poll(count).toBeGreaterThan(before);
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
    const { server, gates, begin, idle, texts, clock, everyMs, whenTexts } = await openTelegram([
      "Hello ",
      "dear ",
      "reader.",
    ]);
    await begin();
    server.fail("too long", { method: "editMessageText" });
    gates[1]?.open();
    await settle();
    clock.advance(everyMs);
    await whenCalled(server, "editMessageText", 2);
    await settle();
    gates[2]?.open();
    await whenTexts((found) => found.length === 1 && found[0] === "Hello dear reader.");
    await idle();
    expect(texts()).toEqual(["Hello dear reader."]);
    expect(server.messages.at(-1)?.message_id).toBe(2);
  });
});

describe("a gateway that is killed", () => {
  const ROOT = resolve(import.meta.dirname, "../..");

  it.each([
    ["while the text is shown", "Half of", []],
    ["while the answer replaces the text", "Half of the answer.", []],
    ["before the id of the message is on disk", "…", ["…"]],
  ] as const)("leaves no text beside the answer: %s", async (_moment, killedAt, left) => {
    const dir = mkdtempSync(join(tmpdir(), "rouse-streaming-"));
    close.push(() => rmSync(dir, { recursive: true, force: true }));
    const server = await startTelegram();
    const model = await startModel();
    close.push(server.close, model.close);
    const slow = gate();
    model.says = (_asked, call) => ({
      text: ["Half of ", "the answer."],
      // The next try takes long enough to show its text, too.
      wait: async (piece) => (piece === 0 ? undefined : call === 0 ? slow.passed : pause(2_000)),
    });
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
      const program = await startProgram(
        process.execPath,
        [join(ROOT, "bin/rouse.js"), "start"],
        options,
      );
      close.push(() => program.kill());
      return program;
    };
    const texts = (): string[] => server.messages.map(({ text }) => text);
    const first = await start();
    const reached = new Promise<void>((done) => {
      // The vendor has done what it was asked, and its answer does not come any more.
      server.watch = (method) => {
        const isMessage = method === "sendMessage" || method === "editMessageText";
        if (
          !isMessage ||
          (killedAt === "Half of" ? !texts()[0]?.startsWith(killedAt) : texts()[0] !== killedAt)
        )
          return undefined;
        done();
        return first.kill();
      };
    });
    pushMessage(server, "tell me");
    if (killedAt === "Half of the answer.") {
      await expect.poll(texts).toEqual(["Half of …"]);
      slow.open();
    }
    await reached;
    await first.kill();
    server.watch = () => undefined;
    await start();
    await expect.poll(texts).toEqual([...left, "Half of the answer."]);
    await settle();
    expect(texts()).toEqual([...left, "Half of the answer."]);
  });
});
