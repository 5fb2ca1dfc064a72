import { createHmac } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createFastClock } from "../approvals/world.ts";
import { createWorld, type Answer, type World } from "../e2e/world.ts";

const SECRET = "a-signing-secret-0123456789";
const hmac = (text: string): string => createHmac("sha256", SECRET).update(text).digest("hex");
const MINUTE_MS = 60_000;

/** A scheme of one's own that signs the body alone. */
const own = (more: object = {}) => ({
  algorithm: "hmac-sha256",
  signature: { header: "x-own" },
  ...more,
});
/** One that signs the time, too. `at` is in seconds. */
const dated = {
  ...own({ timestamp: { at: { header: "x-when" } }, id: { body: "id" } }),
  signed: "{timestamp}.{raw}",
  sender: { name: "Acme", retryWindow: "1h" },
};
const ISSUE = JSON.stringify({
  action: "opened",
  issue: { number: 1, title: "x" },
  repository: { full_name: "a/b" },
  sender: { login: "bob" },
});
const ID = own({ id: { body: "id" } });
const hook = (path: string, auth: object, more: object = {}) => ({
  id: path,
  match: { path },
  auth: { secret: SECRET, ...auth },
  messageTemplate: "got {{ $string(payload) }}",
  ...more,
});

const clock = createFastClock();
let world: World;
beforeAll(async () => {
  world = await createWorld({
    workers: false,
    clock,
    config: {
      hooks: {
        presets: [
          { use: "github", secret: SECRET, duplicate: "none" },
          { use: "github", path: "gh2", secret: SECRET },
        ],
        mappings: [
          hook("dropbox", { scheme: "dropbox" }),
          hook("nightly", { scheme: own() }),
          hook("id", { scheme: ID }),
          hook("minutes", { scheme: own({ duplicate: { by: "body", for: "10m" } }) }),
          hook("none", { scheme: ID, duplicate: "none" }),
          hook("body", { scheme: ID, duplicate: { by: "body", for: "1h" } }),
          hook("dated", { scheme: dated }),
          hook("dated-none", { scheme: dated, duplicate: "none" }),
          hook("keyed", { scheme: own() }, { dedupeKey: "{{order}}" }),
        ],
      },
    },
  });
});
afterAll(() => world.stop());

const send = (path: string, body: string, headers?: Record<string, string>): Promise<Answer> =>
  world.post(`/hooks/${path}`, body, {
    authorization: "",
    "x-own": hmac(body),
    "x-dropbox-signature": hmac(body),
    "x-hub-signature-256": `sha256=${hmac(body)}`,
    ...headers,
  });
const sendDated = (path: string, body: string, at: number): Promise<Answer> =>
  send(path, body, { "x-when": String(at), "x-own": hmac(`${at}.${body}`) });
const isRepeat = ({ headers }: Answer): boolean => headers.has("idempotent-replayed");
const nowSeconds = (): number => Math.floor(clock.now() / 1000);
const newestOf = async (path: string) =>
  (await world.admin(`/admin/v1/events?path=${path}&limit=1`)).body.events[0];

describe("a signed body that comes again", () => {
  it.each([
    ["dropbox", "whose scheme says that its notifications are alike"],
    ["nightly", "of a scheme of one's own that names no id"],
    ["none", "on a path that says so"],
  ])("%s: is an event of its own %s", async (path) => {
    const body = '{"id":"1","event":"backup finished"}';
    const runs = new Set<string>();
    for (let n = 0; n < 3; n++) runs.add((await send(path, body)).body.runId);
    expect([path, runs.size]).toEqual([path, 3]);
  });

  it("is a repeat if the sender's id is the same, whatever else differs", async () => {
    const first = await send("id", '{"id":"a","n":1}');
    const again = await send("id", '{"id":"a","n":2}');
    expect([isRepeat(first), isRepeat(again), again.body]).toEqual([false, true, first.body]);
    expect(isRepeat(await send("id", '{"id":"b","n":2}'))).toBe(false);
    // Without an id nothing says that it is a repeat.
    for (let n = 0; n < 2; n++) expect(isRepeat(await send("id", '{"n":3}'))).toBe(false);
    const long = JSON.stringify({ id: "x".repeat(300) });
    expect([isRepeat(await send("id", long)), isRepeat(await send("id", long))]).toEqual([
      false,
      true,
    ]);
  });

  it("is a repeat for as long as the scheme says, and not longer", async () => {
    const body = '{"event":"door opened"}';
    expect(isRepeat(await send("minutes", body))).toBe(false);
    clock.advance(9 * MINUTE_MS);
    expect(isRepeat(await send("minutes", body))).toBe(true);
    clock.advance(2 * MINUTE_MS);
    expect(isRepeat(await send("minutes", body))).toBe(false);
  });

  it("is what the path says, if that differs from its scheme or its preset", async () => {
    expect(isRepeat(await send("body", '{"id":"a","n":1}'))).toBe(false);
    expect(isRepeat(await send("body", '{"id":"a","n":2}'))).toBe(false);
    expect(isRepeat(await send("body", '{"id":"a","n":1}'))).toBe(true);
    const preset = [await send("github", ISSUE), await send("github", ISSUE)];
    expect(preset.map(isRepeat)).toEqual([false, false]);
    const shipped = [await send("gh2", ISSUE), await send("gh2", ISSUE)];
    expect(shipped.map(isRepeat)).toEqual([false, true]);
  });

  it("names the earlier event, what was equal and for how long; and can be done all the same", async () => {
    const { body: first } = await send("minutes", '{"event":"named"}');
    await send("minutes", '{"event":"named"}');
    const event = await newestOf("minutes");
    expect(event).toMatchObject({ outcome: "duplicate", duplicateOf: first.eventId });
    expect(event.reason).toBe(
      `a repeat of ${first.eventId}: the body is the same, which counts for 10 min; \`rouse events replay ${event.id}\` does it again`,
    );
    const replayed = await world.admin(`/admin/v1/events/${event.id}/replay`, {
      method: "POST",
      body: "{}",
    });
    expect(replayed.body.result).toMatchObject({ outcome: "accepted", actions: [{ kind: "run" }] });
    const { body: keyed } = await send("keyed", '{"order":1,"n":1}');
    await send("keyed", '{"order":1,"n":2}');
    expect((await newestOf("keyed")).reason).toMatch(
      `a repeat of ${keyed.eventId}: its actions have the same \`dedupeKey\`, which counts for 24 h; \`rouse events replay evt_`,
    );
    await send("id", '{"id":"c"}');
    await send("id", '{"id":"c"}');
    expect((await newestOf("id")).reason).toContain(
      ": the sender's id of the event is the same, which counts for 30 d; ",
    );
  });

  it("may be as old as the sender's last retry if its id protects it, and not otherwise", async () => {
    const at = nowSeconds() - 59 * 60;
    const first = await sendDated("dated", '{"id":"late"}', at);
    expect([first.status, isRepeat(first)]).toEqual([202, false]);
    expect(isRepeat(await sendDated("dated", '{"id":"late"}', at))).toBe(true);
    expect((await sendDated("dated", '{"id":"later"}', nowSeconds() - 61 * 60)).status).toBe(401);
    expect((await sendDated("dated-none", '{"id":"late"}', at)).status).toBe(401);
    expect((await sendDated("dated-none", '{"id":"late"}', nowSeconds())).status).toBe(202);
  });
});

it.each([
  [{ scheme: own({ duplicate: "id" }) }, "hooks.mappings[0].auth.secret", "names no `id`"],
  [{ scheme: own(), duplicate: "id" }, "hooks.mappings[0].auth.duplicate", "names no `id`"],
  [
    { scheme: own({ duplicate: { by: "body" } }) },
    "hooks.mappings[0].auth.scheme.duplicate.for",
    "write a duration",
  ],
])("a rule for repeats that cannot hold is an error at load: %j", async (auth, path, message) => {
  const failed = await createWorld({
    start: false,
    config: { hooks: { mappings: [hook("x", auth)] } },
  }).catch((error: { issues: { path: string; message: string }[] }) => error.issues);
  expect(failed).toMatchObject([{ path, message: expect.stringContaining(message) }]);
});
