import { generateKeyPairSync } from "node:crypto";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createWorld, type World } from "../e2e/world.ts";
import { createGmailWorld, type GmailWorld } from "./support.ts";

/** The plugin in a gateway: what operators and senders see of it. */
let mail: GmailWorld;
let world: World | undefined;
beforeEach(async () => {
  mail = await createGmailWorld();
  mail.google.pubsub.holdMs = 100;
});
afterEach(async () => {
  await world?.stop();
  world = undefined;
  await mail.close();
});

/** Starts a gateway on the folder, after the setup; it takes the config as the setup has left it. */
async function start(gmail: object = {}, presets: unknown[] = ["gmail"]): Promise<World> {
  const section = {
    account: mail.google.account,
    credentials: "installed.json",
    endpoints: mail.google.endpoints,
    ...gmail,
  };
  world = await createWorld({
    dir: mail.dir,
    logLevel: "trace",
    config: { hooks: { presets, gmail: section } },
  });
  return world;
}
const readiness = async (): Promise<string> => (await world?.get("/readyz"))?.body as string;
const runs = async (): Promise<{ sessionKey: string; id: string; kind: string }[]> => {
  const { body } = (await world?.admin("/admin/v1/runs")) ?? {};
  return (body.runs as { sessionKey: string; id: string; kind: string }[]).filter(
    ({ kind }) => kind !== "heartbeat",
  );
};
const status = (...more: string[]) => mail.rouse(["webhooks", "gmail", ...more]);
const service = async (): Promise<{ ok: boolean; message: string }> =>
  (await world?.admin("/admin/v1/status"))?.body.status.services[0];

describe("the service", () => {
  it("turns new mail into runs of the preset, and says nothing of it in the log", async () => {
    await mail.setup();
    const here = await start();
    await here.until(async () => (await service()).message.startsWith("watches"));
    const id = mail.google.receive({ subject: "subject-canary", text: "text-canary" });
    const [run] = await here.until(async () => (await runs()).length > 0 && runs());
    expect(run?.sessionKey).toBe(`hook:gmail:${id}`);
    await here.until(
      async () => mail.state()["historyId"] === String(mail.google.mailbox.historyId),
    );
    const { events } = (await here.admin("/admin/v1/events")).body;
    expect(events[0]).toMatchObject({
      path: "gmail",
      mapping: "gmail.message",
      credential: "hooks.token",
    });
    expect(await readiness()).toBe("ready");
    const well = await status();
    expect([well.code, well.err]).toEqual([0, ""]);
    expect(well.out.replaceAll(/\d{4}-\d\d-\d\dT\S+Z/g, "TIME"))
      .toBe(`ok: watches ann@example.com until TIME
account        ann@example.com
labels         INBOX
mode           pull (subscription rouse-gmail)
watch expires  TIME
last sync      TIME
history id     ${mail.google.mailbox.historyId}
last error     none
gateway        ok: watches ann@example.com until TIME
`);
    expect(here.logged.join("") + well.out).not.toMatch(
      /subject-canary|text-canary|token-canary|refresh-canary|secret-canary/,
    );
  });

  it("tells when the grant was revoked, and works again after the setup", async () => {
    await mail.setup();
    const here = await start();
    await here.until(async () => (await service()).message.startsWith("watches"));
    mail.google.revoke();
    const message =
      "the grant for ann@example.com was revoked: run `rouse webhooks gmail setup` again";
    await here.until(async () => (await service()).message === message);
    expect(await service()).toMatchObject({ ok: false });
    await here.until(async () => (await readiness()) === "degraded");
    const { checks } = (await here.admin("/admin/v1/doctor")).body;
    expect(checks.find((check: { id: string }) => check.id === "services")).toMatchObject({
      status: "fail",
      message: `gmail: ${message}`,
    });
    // The state's file has it right after the gateway.
    const told = await here.until(async () => {
      const { code, out } = await status("--json");
      const state = JSON.parse(out) as { lastError: object | null };
      return code === 1 && state.lastError !== null && state;
    });
    expect(told).toMatchObject({
      ok: false,
      message,
      lastError: { message },
      gateway: { ok: false },
    });
    expect((await mail.setup()).code).toBe(0);
    await here.until(async () => (await readiness()) === "ready");
    mail.google.receive();
    await here.until(async () => (await runs()).length > 0);
  });

  it("waits where no account is set, and says what is missing where the preset is", async () => {
    world = await createWorld({ config: { hooks: { gmail: {} } } });
    await world.until(async () => (await service()).message !== "starting");
    expect(await service()).toMatchObject({
      ok: true,
      message: expect.stringContaining("no account is set"),
    });
    await world.stop();
    await mail.setup();
    const here = await start({}, []);
    await here.until(async () => (await service()).message.startsWith("watches"));
    mail.google.receive();
    await here.until(async () => (await readiness()) === "degraded");
    expect((await service()).message).toBe(
      'no mapping takes what the hook "gmail" is given: add the preset gmail to hooks.presets',
    );
  });

  it("takes the preset's model and thinking from its section", async () => {
    world = await createWorld({
      start: false,
      config: { hooks: { presets: ["gmail"], gmail: { thinking: "highest" } } },
    }).catch((error: Error) => {
      expect(error.message).toContain("hooks.gmail.thinking");
      return undefined;
    });
    expect(world).toBeUndefined();
  });
});

describe("a push", () => {
  const ENDPOINT = "https://hooks.example.com/channels/gmail/push";
  const ACCOUNT = "robot@rouse-test.iam.gserviceaccount.com";
  const push = async (token: string | undefined, init: RequestInit = {}): Promise<number> => {
    const headers = {
      "content-type": "application/json",
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    };
    const body = JSON.stringify({ message: { data: "e30=", messageId: "1" }, subscription: "s" });
    const answer = await world?.gateway.fetch(
      new Request("http://127.0.0.1/channels/gmail/push", {
        method: "POST",
        headers,
        body,
        ...init,
      }),
    );
    expect(await answer?.text()).toBe("");
    return answer?.status ?? 0;
  };
  const startPush = async (more: object = {}): Promise<World> => {
    await mail.setup(["--push-endpoint", ENDPOINT, "--push-account", ACCOUNT]);
    const here = await start({ pushEndpoint: ENDPOINT, pushAccount: ACCOUNT, ...more });
    await here.until(async () => (await service()).message.startsWith("watches"));
    return here;
  };

  it("that is signed as it should be has the mailbox looked at", async () => {
    const here = await startPush();
    const id = mail.google.receiveQuietly();
    expect(await push(await mail.google.pushToken({ aud: ENDPOINT }))).toBe(204);
    const [run] = await here.until(async () => (await runs()).length > 0 && runs());
    expect(run?.sessionKey).toBe(`hook:gmail:${id}`);
    expect(mail.google.requests.some((line) => line.includes(":pull"))).toBe(false);
  });

  it("is refused where anything is wrong with its token, and starts nothing", async () => {
    await startPush();
    const looks = (): number =>
      mail.google.requests.filter((line) => line.endsWith("/history")).length;
    const before = looks();
    const stranger = generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey;
    const wrong: Record<string, string | undefined> = {
      "no token": undefined,
      "no token at all": "x",
      "another audience": await mail.google.pushToken({ aud: "https://other.example.com" }),
      "another issuer": await mail.google.pushToken({
        aud: ENDPOINT,
        iss: "https://evil.example.com",
      }),
      "another signer": await mail.google.pushToken({ aud: ENDPOINT }, stranger),
      "another account": await mail.google.pushToken({ aud: ENDPOINT, email: "other@example.com" }),
      "an account that nobody verified": await mail.google.pushToken({
        aud: ENDPOINT,
        email_verified: false,
      }),
      "a time that is over": await mail.google.pushToken({
        aud: ENDPOINT,
        iat: 1_700_000_000,
        exp: 1_700_003_600,
      }),
      "no signature": `${(await mail.google.pushToken({ aud: ENDPOINT })).split(".").slice(0, 2).join(".")}.`,
    };
    for (const [name, token] of Object.entries(wrong))
      expect([name, await push(token)]).toEqual([name, 401]);
    await new Promise((done) => setTimeout(done, 100));
    expect(looks()).toBe(before);
  });

  it("is refused if it is too large, no POST, or at another address", async () => {
    await startPush();
    const token = await mail.google.pushToken({ aud: ENDPOINT });
    expect(await push(token, { body: "x".repeat(70_000) })).toBe(413);
    const stream = new Blob(["x".repeat(70_000)]).stream();
    expect(await push(token, { body: stream, duplex: "half" })).toBe(413);
    expect(await push(token, { method: "GET", body: null })).toBe(405);
    const elsewhere = new Request("http://127.0.0.1/channels/gmail/other", { method: "POST" });
    expect((await world?.gateway.fetch(elsewhere))?.status).toBe(404);
  });

  it("is asked for again while Google's certificates cannot be had", async () => {
    await startPush();
    mail.google.fail(/GET \/certs/, { status: 404 }, 1);
    const token = await mail.google.pushToken({ aud: ENDPOINT });
    expect(await push(token)).toBe(503);
    expect(await push(token)).toBe(204);
  });

  it("is not waited for by `run`", async () => {
    await mail.setup(["--push-endpoint", ENDPOINT, "--push-account", ACCOUNT]);
    const said = await mail.rouse(["webhooks", "gmail", "run"]);
    expect([said.code, said.err]).toEqual([
      2,
      expect.stringMatching(/^rouse: .*pushes come to the gateway at \/channels\/gmail\/push/),
    ]);
  });
});

describe("rouse webhooks gmail run", () => {
  it("watches for a gateway that does not, until it is ended", async () => {
    await mail.setup();
    const here = await start({ enabled: false });
    const id = mail.google.receive();
    const running = mail.rouse(["webhooks", "gmail", "run"]);
    const [run] = await here.until(async () => (await runs()).length > 0 && runs());
    expect(run?.sessionKey).toBe(`hook:gmail:${id}`);
    process.emit("SIGTERM");
    const said = await running;
    expect([said.code, said.out]).toEqual([
      0,
      expect.stringMatching(/^ok: watches ann@example.com/),
    ]);
  });

  it("does not watch where the gateway does", async () => {
    await mail.setup();
    await start();
    const said = await mail.rouse(["webhooks", "gmail", "run"]);
    expect([said.code, said.err]).toEqual([
      2,
      expect.stringContaining("rouse: the gateway watches the mailbox already"),
    ]);
  });
});

describe("rouse webhooks gmail", () => {
  const change = async (fields: object): Promise<void> => {
    const { writeFileSync } = await import("node:fs");
    writeFileSync(
      mail.file(".rouse/plugins/gmail/watch.json"),
      JSON.stringify({ ...mail.state(), ...fields }),
    );
  };

  it("fails without an account", async () => {
    const said = await status();
    expect([said.code, said.out]).toEqual([
      1,
      "not ok: no account is set: run `rouse webhooks gmail setup --account <address>`\n",
    ]);
  });

  it("succeeds after the setup, and fails when no gateway has read the mailbox for long", async () => {
    await mail.setup();
    expect((await status()).code).toBe(0);
    await change({ aliveAt: Date.now() - 1_000_000 });
    const said = await status();
    expect([said.code, said.out]).toEqual([
      1,
      expect.stringMatching(
        /^not ok: no gateway has read the mailbox of ann@example.com since [\dT:.Z-]+: start the gateway/,
      ),
    ]);
    expect(said.out).toContain("gateway        none runs");
  });

  it("fails when the watch has expired", async () => {
    await mail.setup();
    await change({ watchExpires: Date.parse("2026-01-02T03:04:05Z") });
    const said = await status();
    expect([said.code, said.out]).toEqual([
      1,
      expect.stringContaining("the watch on ann@example.com expired at 2026-01-02T03:04:05.000Z"),
    ]);
  });

  it("shows what the hook refused", async () => {
    await mail.setup();
    await change({ refused: [{ id: "18f7", at: 0, reason: "400 validation_failed" }] });
    expect((await status()).out).toContain(
      "refused        18f7 at 1970-01-01T00:00:00.000Z: 400 validation_failed",
    );
    const { refused } = JSON.parse((await status("--json")).out) as { refused: unknown };
    expect(refused).toEqual([
      { id: "18f7", at: "1970-01-01T00:00:00.000Z", reason: "400 validation_failed" },
    ]);
  });
});
