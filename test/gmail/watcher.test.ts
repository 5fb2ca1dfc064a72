import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { gmailConfig } from "../../plugins/gmail/config.ts";
import { watchMailbox, type Waits } from "../../plugins/gmail/watcher.ts";
import type { MailMessage } from "../../plugins/gmail/messages.ts";
import type { ServiceState } from "../../src/plugin/api.ts";
import { createGmailWorld, type GmailWorld } from "./support.ts";

let world: GmailWorld;
let running: { stop: () => Promise<void> } | undefined;
let states: ServiceState[];
let logged: string[];
/** The messages of each post to the hook. */
let posts: MailMessage[][];
let answer: (
  messages: MailMessage[],
) => { status: number; body: unknown } | Promise<{ status: number; body: unknown }>;
let ahead: number;
/** The watcher's cursor, which the gateways share. */
let place: string | undefined;

beforeEach(async () => {
  world = await createGmailWorld();
  world.google.pubsub.holdMs = 100;
  mkdirSync(world.file("state"));
  states = [];
  logged = [];
  posts = [];
  ahead = 0;
  place = undefined;
  answer = () => ({ status: 202, body: { ok: true } });
});
afterEach(async () => {
  await running?.stop();
  running = undefined;
  await world.close();
});

const QUICK: Partial<Waits> = { first: 5, longest: 40 };

/** Runs a watcher as a gateway would, with the service account. */
function start(config: object = {}, waits: Partial<Waits> = {}): void {
  const said = (message: string): void => void logged.push(message);
  const parsed = gmailConfig.parse({
    account: "ann@example.com",
    credentials: world.file("service.json"),
    endpoints: world.google.endpoints,
    ...config,
  });
  const deps = {
    config: { ...parsed, account: "ann@example.com" },
    stateDir: async () => world.file("state"),
    fetch,
    log: { debug: said, info: said, warn: said, error: said },
    now: () => Date.now() + ahead,
    waits: { ...QUICK, ...waits },
  };
  const abort = new AbortController();
  const ended = watchMailbox(deps, abort.signal, {
    report: (state) => void states.push(state),
    cursor: async () => place,
    saveCursor: async (cursor) => void (place = cursor),
    async hook(path, body) {
      expect(path).toBe("gmail");
      const { source, messages } = body as { source: string; messages: MailMessage[] };
      expect(source).toBe("gmail");
      posts.push(messages);
      return answer(messages);
    },
  });
  running = {
    async stop() {
      abort.abort();
      await ended;
    },
  };
}

async function restart(config: object = {}, waits: Partial<Waits> = {}): Promise<void> {
  await running?.stop();
  start(config, waits);
}

async function until(what: () => boolean | Promise<boolean>): Promise<void> {
  for (let n = 0; n < 1500; n++) {
    if (await what()) return;
    await new Promise((done) => setTimeout(done, 10));
  }
  throw new Error(`what was waited for did not come; ${JSON.stringify(states.at(-1))}`);
}

const given = (): string[] => posts.flat().map(({ id }) => id);
const well = (): boolean => states.at(-1)?.ok === true;
const asked = (match: RegExp): number =>
  world.google.requests.filter((line) => match.test(line)).length;
const stateFile = (): string => world.file("state/watch.json");
const state = (): Record<string, unknown> & { delivered: string[]; refused: { id: string }[] } =>
  JSON.parse(world.read("state/watch.json")) as ReturnType<typeof state>;

/** Makes the topic and the subscription, as the setup does. */
function prepare(): void {
  const { topics, subscriptions } = world.google;
  const members = ["serviceAccount:gmail-api-push@system.gserviceaccount.com"];
  topics.set("projects/rouse-test/topics/rouse-gmail", {
    etag: "e0",
    bindings: [{ role: "roles/pubsub.publisher", members }],
  });
  const name = "projects/rouse-test/subscriptions/rouse-gmail";
  const topic = "projects/rouse-test/topics/rouse-gmail";
  subscriptions.set(name, { name, topic, ackDeadlineSeconds: 600, pushConfig: {}, waiting: [] });
}
const waiting = (): number =>
  world.google.subscriptions.get("projects/rouse-test/subscriptions/rouse-gmail")?.waiting.length ??
  -1;

describe("new mail", () => {
  beforeEach(prepare);

  it("is given to the hook, once, from the first start on", async () => {
    world.google.receive({ subject: "old" });
    start();
    await until(well);
    const id = world.google.receive({ subject: "=?utf-8?q?Gr=C3=BC=C3=9Fe?=", text: "Hello Ann" });
    await until(() => given().length === 1);
    expect(posts).toEqual([
      [
        expect.objectContaining({
          id,
          subject: "Grüße",
          body: "Hello Ann",
          labels: ["INBOX", "UNREAD"],
        }),
      ],
    ]);
    await until(() => waiting() === 0);
    expect(states.at(-1)).toMatchObject({
      ok: true,
      message: expect.stringMatching(/^watches ann@example.com until \d{4}/),
    });
    await restart();
    const next = world.google.receive();
    await until(() => given().includes(next));
    expect(given()).toEqual([id, next]);
  });

  it("without a notification is found by a regular look", async () => {
    start({}, { syncEvery: 200 });
    await until(well);
    const id = world.google.receiveQuietly();
    await until(() => given().length === 1);
    expect(given()).toEqual([id]);
  });

  it("is no spam, no draft, not sent by oneself, and not deleted meanwhile", async () => {
    start();
    await until(well);
    await running?.stop();
    for (const label of ["SPAM", "TRASH", "DRAFT", "SENT"])
      world.google.receive({ labels: ["INBOX", label] });
    world.google.receive({ labels: ["Label_7"] });
    world.google.remove(world.google.receive());
    const id = world.google.receive();
    start();
    await until(() => given().length === 1);
    expect(given()).toEqual([id]);
    expect(asked(/GET .*\/messages$/)).toBe(0);
  });

  it("goes in pages and in batches", async () => {
    world.google.mailbox.pageSize = 30;
    start();
    await until(well);
    await running?.stop();
    const ids = Array.from({ length: 130 }, () => world.google.receiveQuietly());
    start();
    await until(() => given().length === 130);
    expect(given()).toEqual(ids);
    expect(Math.max(...posts.map((messages) => messages.length))).toBeLessThanOrEqual(50);
    expect(asked(/GET .*\/history$/)).toBeGreaterThanOrEqual(5);
  });

  it("that Gmail's history has forgotten is listed, from the last look on", async () => {
    const before = world.google.receive({ subject: "before the first start" });
    await new Promise((done) => setTimeout(done, 5));
    start();
    await until(well);
    const first = world.google.receive();
    await until(() => given().length === 1);
    await running?.stop();
    world.google.mailbox.pageSize = 4;
    const ids = Array.from({ length: 10 }, () => world.google.receive());
    world.google.expireHistory();
    start();
    await until(() => given().length === 11 && well());
    expect(given()).toEqual([first, ...ids]);
    expect(given()).not.toContain(before);
    await until(() => state()["historyId"] === String(world.google.mailbox.historyId));
    const next = world.google.receive();
    await until(() => given().includes(next));
    expect(given()).toHaveLength(12);
  });

  it("has no text if none is wanted, and a long text in a piece of its own is fetched", async () => {
    start({ includeBody: false });
    await until(well);
    world.google.receive({ text: "not wanted", snippet: "short" });
    await until(() => given().length === 1);
    expect(posts[0]?.[0]).toMatchObject({
      body: "",
      snippet: "short",
      from: "Bob <bob@example.org>",
    });
    await restart({ maxBytes: 10 });
    await until(() => states.filter(({ ok }) => ok).length > 2);
    world.google.mailbox.attachments.set(
      "a1",
      Buffer.from("a very long text").toString("base64url"),
    );
    world.google.receive({
      payload: { mimeType: "text/plain", filename: "", body: { size: 16, attachmentId: "a1" } },
    });
    await until(() => given().length === 2);
    expect(posts[1]?.[0]?.body).toBe("a very lon\n[cut: 6 bytes]");
  });

  it("of several labels counts where they are given", async () => {
    start({ labels: ["inbox", "Invoices"] });
    await until(well);
    expect(world.google.mailbox.watch?.labels).toEqual(["INBOX", "Label_7"]);
    const id = world.google.receive({ labels: ["Label_7"] });
    world.google.receive({ labels: ["Other"] });
    const last = world.google.receive();
    await until(() => given().length === 2);
    expect(given()).toEqual([id, last]);
  });
});

describe("the state", () => {
  beforeEach(prepare);

  it("of another account does not count", async () => {
    world.google.receive();
    const other = {
      account: "other@example.com",
      historyId: "1000",
      delivered: ["x"],
      refused: [],
      lastSync: 1,
      startedAt: 1,
    };
    writeFileSync(stateFile(), JSON.stringify(other));
    start();
    await until(well);
    expect(state()).toMatchObject({ account: "ann@example.com", historyId: "1003", delivered: [] });
    expect(posts).toEqual([]);
  });
});

describe("a watcher on another machine", () => {
  beforeEach(prepare);
  const moved = async (): Promise<void> => {
    await running?.stop();
    rmSync(stateFile());
  };

  it("continues at the cursor of the one before it", async () => {
    start();
    await until(well);
    const before = world.google.receive();
    await until(() => given().includes(before));
    await moved();
    const between = world.google.receive();
    start();
    await until(() => given().length > 1);
    await until(() => state()["historyId"] === String(world.google.mailbox.historyId));
    expect(given()).toEqual([before, between]);
  });

  it("comes back to the first, and reads from where the second was", async () => {
    start();
    await until(well);
    await running?.stop();
    const first = world.read("state/watch.json");
    rmSync(stateFile());
    start();
    const there = world.google.receive();
    await until(() => given().includes(there));
    await running?.stop();
    writeFileSync(stateFile(), first);
    const back = world.google.receive();
    start();
    await until(() => given().includes(back));
    expect(given()).toEqual([there, back]);
  });

  it("does not take over the place of another account's", async () => {
    place = JSON.stringify({
      account: "other@example.com",
      historyId: "1000",
      startedAt: 1,
      lastSync: 1,
    });
    world.google.receive();
    start();
    await until(well);
    expect(posts).toEqual([]);
    expect(JSON.parse(place)).toMatchObject({
      account: "ann@example.com",
      historyId: state()["historyId"],
    });
  });
});

describe("a redelivery", () => {
  beforeEach(prepare);

  it("makes no second look and no second run", async () => {
    world.google.pubsub.ackDeadlineMs = 50;
    world.google.pubsub.loseAcks = true;
    start();
    await until(well);
    const id = world.google.receive();
    await until(() => asked(/:acknowledge/) >= 3);
    expect(given()).toEqual([id]);
    const looks = asked(/GET .*\/history$/);
    world.google.pubsub.loseAcks = false;
    await until(() => waiting() === 0);
    expect(asked(/GET .*\/history$/)).toBe(looks);
  });

  it("after the loss of the history id is known by the ids that are kept", async () => {
    start();
    await until(well);
    const id = world.google.receive();
    await until(() => state().delivered.includes(id) && waiting() === 0);
    await running?.stop();
    writeFileSync(stateFile(), JSON.stringify({ ...state(), historyId: "1000" }));
    place = undefined;
    const next = world.google.receive();
    start();
    await until(() => given().includes(next));
    expect(given()).toEqual([id, next]);
  });

  it("is acknowledged only when the hook has taken the mail and the history id is on disk", async () => {
    let historyAt: unknown;
    let release: () => void = () => undefined;
    const held = new Promise<void>((resolve) => (release = resolve));
    answer = async () => {
      historyAt = state()["historyId"];
      await held;
      return { status: 202, body: {} };
    };
    start();
    await until(well);
    const before = state()["historyId"];
    world.google.receive();
    await until(() => posts.length === 1);
    await new Promise((done) => setTimeout(done, 100));
    expect([waiting(), asked(/:acknowledge/), historyAt]).toEqual([1, 0, before]);
    release();
    await until(() => waiting() === 0);
    expect(state()["historyId"]).toBe(String(world.google.mailbox.historyId));
  });
});

describe("the hook's answers", () => {
  beforeEach(prepare);

  const error = (code: string): object => ({ error: { code, message: "message-canary" } });

  it.each([
    [200, { ok: true, outcome: "unmatched" }, "add the preset gmail to hooks.presets"],
    [404, error("no_mapping"), "add the preset gmail to hooks.presets"],
    [404, error("not_found"), "set hooks.enabled to true"],
    [401, error("unauthorized"), "does not accept the hook token"],
    [500, error("mapping_failed"), "answered 500 mapping_failed"],
  ])("%i %j is reported, and tried again until it is accepted", async (status, body, message) => {
    answer = () => ({ status, body });
    start();
    await until(well);
    const id = world.google.receive();
    await until(() => posts.length >= 3);
    expect(states.at(-1)).toMatchObject({ ok: false, message: expect.stringContaining(message) });
    expect(JSON.stringify([states, logged])).not.toContain("canary");
    expect(waiting()).toBe(1);
    answer = () => ({ status: 202, body: {} });
    await until(() => waiting() === 0 && well());
    expect(new Set(given())).toEqual(new Set([id]));
  });

  it("503 and no answer at all are worth a word only when they last", async () => {
    let tries = 0;
    answer = () =>
      ++tries === 1
        ? Promise.reject(new Error("down"))
        : tries === 2
          ? { status: 503, body: {} }
          : { status: 202, body: {} };
    start();
    await until(well);
    world.google.receive();
    await until(() => waiting() === 0);
    expect(states.every(({ ok }) => ok)).toBe(true);
    answer = () => ({ status: 503, body: { error: { code: "overloaded" } } });
    world.google.receive();
    await until(() => states.at(-1)?.ok === false);
    expect(tries).toBe(3);
    expect(states.at(-1)?.message).toContain("503 overloaded");
  });

  it("400 for one message of many: that one is refused, named, and the rest is accepted", async () => {
    start();
    await until(well);
    await running?.stop();
    const ids = Array.from({ length: 20 }, () => world.google.receive());
    const bad = ids[7] as string;
    const taken: string[] = [];
    answer = (messages) => {
      if (messages.some(({ id }) => id === bad))
        return { status: 400, body: { error: { code: "validation_failed" } } };
      taken.push(...messages.map(({ id }) => id));
      return { status: 202, body: {} };
    };
    start();
    await until(() => taken.length === 19 && state().refused.length > 0);
    expect(new Set(taken)).toEqual(new Set(ids.filter((id) => id !== bad)));
    expect(state().refused).toEqual([
      { id: bad, at: expect.any(Number), reason: "400 validation_failed" },
    ]);
    expect(logged).toContain(
      `the hook refused the message ${bad} (400 validation_failed); the rest goes on`,
    );
    const told = `the hook refused 1 of its last messages, ${bad} (400 validation_failed) being the last`;
    await until(() => states.at(-1)?.message.includes(told) === true);
  });

  it("a failed part of an accepted batch is named as well", async () => {
    answer = ([first]) => ({
      status: 202,
      body: { results: [{ ok: false, index: 0, error: { code: `unknown_agent` } }], first },
    });
    start();
    await until(well);
    const id = world.google.receive();
    await until(() => waiting() === 0);
    expect(state().refused).toMatchObject([{ id, reason: "unknown_agent" }]);
  });
});

describe("Google's faults", () => {
  beforeEach(prepare);

  it.each<[string, Parameters<GmailWorld["google"]["fail"]>[1]]>([
    ["503", { status: 503 }],
    ["429", { status: 429 }],
    [
      "403 for the rate",
      { status: 403, body: { error: { errors: [{ reason: "rateLimitExceeded" }] } } },
    ],
    ["a cut connection", "cut"],
  ])("%s passes without a word", async (_name, fault) => {
    start();
    await until(well);
    const ids: string[] = [];
    for (const path of [/:pull/, /GET .*\/history$/, /GET .*\/messages\//, /:acknowledge/]) {
      world.google.fail(path, fault);
      ids.push(world.google.receive());
      await until(() => waiting() === 0 && given().length === ids.length);
    }
    expect(given()).toEqual(ids);
    expect(states.filter(({ ok }) => !ok)).toEqual([]);
  });

  it("an access token that has ended is renewed", async () => {
    start();
    await until(well);
    world.google.expireTokens();
    world.google.receive();
    await until(() => given().length === 1);
    expect(states.filter(({ ok }) => !ok)).toEqual([]);
  });

  it("that last are reported, and the watcher continues when they are over", async () => {
    start();
    await until(well);
    world.google.fail(/:pull/, { status: 500 }, 12);
    await until(() => states.at(-1)?.ok === false);
    expect(states.at(-1)?.message).toBe("pulling notifications: Google answered 500");
    await until(
      () =>
        (state()["lastError"] as { message?: string } | undefined)?.message ===
        "pulling notifications: Google answered 500",
    );
    await until(well);
    await until(() => state()["lastError"] === undefined);
  });

  it("an API that was switched off is reported immediately, with what to do", async () => {
    const details = [
      {
        reason: "SERVICE_DISABLED",
        metadata: { service: "pubsub.googleapis.com", consumer: "projects/rouse-test" },
      },
    ];
    world.google.fail(
      /:pull/,
      { status: 403, body: { error: { status: "PERMISSION_DENIED", details } } },
      1,
    );
    start();
    await until(() => states.some(({ ok }) => !ok));
    expect(states.find(({ ok }) => !ok)?.message).toContain(
      "run `gcloud services enable pubsub.googleapis.com --project rouse-test`",
    );
  });
});

describe("the watch", () => {
  beforeEach(prepare);

  it("is renewed when it is time, and not before", async () => {
    start();
    await until(well);
    await restart();
    await until(() => asked(/:pull/) > 3);
    expect(world.google.mailbox.watch?.count).toBe(1);
    ahead = 13 * 3_600_000;
    await until(() => world.google.mailbox.watch?.count === 2);
  });

  it("is renewed at the start when it ends soon, or is of another label", async () => {
    world.google.mailbox.watchMs = 3_600_000;
    start();
    await until(well);
    world.google.mailbox.watchMs = 7 * 86_400_000;
    await restart();
    await until(() => (world.google.mailbox.watch?.count ?? 0) > 1 && well());
    const { count = 0 } = world.google.mailbox.watch ?? {};
    await restart({ label: "Invoices" });
    await until(() => world.google.mailbox.watch?.count === count + 1);
    expect(world.google.mailbox.watch?.labels).toEqual(["Label_7"]);
  });

  it("is stopped before one for another topic is started", async () => {
    start();
    await until(well);
    const { topics, mailbox } = world.google;
    const [[name, topic] = ["", { bindings: [], etag: "" }]] = topics;
    topics.set(`${name}-2`, topic);
    await restart({ topic: "rouse-gmail-2" });
    await until(() => mailbox.watch?.topic === `${name}-2` && well());
    expect(states.filter(({ ok }) => !ok)).toEqual([]);
  });

  it("that cannot be renewed is reported while mail still comes", async () => {
    start();
    await until(well);
    world.google.fail(
      /POST .*\/watch$/,
      { status: 403, body: { error: { status: "PERMISSION_DENIED" } } },
      1000,
    );
    ahead = 13 * 3_600_000;
    await until(() => states.at(-1)?.ok === false);
    expect(states.at(-1)?.message).toBe(
      "the watch could not be renewed: starting the watch: Google answered 403 PERMISSION_DENIED",
    );
    const id = world.google.receive();
    await until(() => given().includes(id));
    world.google.mend();
    await until(well);
  });
});

describe("a watcher that does not work", () => {
  beforeEach(prepare);

  it("says what to do if its subscription is gone", async () => {
    start();
    await until(well);
    world.google.subscriptions.clear();
    await until(() => states.at(-1)?.ok === false);
    expect(states.at(-1)?.message).toContain(
      "is not there: run `rouse webhooks gmail setup` again",
    );
  });

  it("says what is wrong with its files", async () => {
    start({ credentials: world.file("nowhere.json") });
    await until(() => states.at(-1)?.ok === false);
    expect(states.at(-1)?.message).toMatch(/nowhere.json cannot be read$/);
    await running?.stop();
    writeFileSync(stateFile(), "{ torn");
    start();
    await until(
      () =>
        states
          .at(-1)
          ?.message.includes(
            "watch.json is damaged: remove it and run `rouse webhooks gmail setup` again",
          ) === true,
    );
  });
});
