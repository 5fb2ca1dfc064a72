import { cpSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { createWorld, type World } from "../e2e/world.ts";
import { describePostgres, newSchema, type Schema } from "../store/postgres.ts";
import { createGmailWorld, type GmailWorld } from "./support.ts";

const GRANT = ".rouse/plugins/gmail/grant.json";

describePostgres("the watcher of several gateways", () => {
  let schema: Schema;
  let mail: GmailWorld;
  let elsewhere: string;
  let worlds: World[] = [];

  beforeEach(async () => {
    schema = newSchema();
    mail = await createGmailWorld();
    mail.google.pubsub.holdMs = 100;
    elsewhere = mkdtempSync(join(tmpdir(), "rouse-mail-"));
  });
  afterEach(async () => {
    await Promise.all(worlds.splice(0).map((world) => world.stop()));
    rmSync(elsewhere, { recursive: true, force: true });
    await mail.close();
    await schema.drop();
  });

  const start = async (dir: string): Promise<World> => {
    const { account, endpoints } = mail.google;
    const gmail = { account, credentials: mail.file("installed.json"), endpoints };
    const world = await createWorld({
      dir,
      config: { store: { url: schema.url }, hooks: { presets: ["gmail"], gmail } },
    });
    worlds.push(world);
    return world;
  };
  const keys = async (world: World): Promise<string[]> => {
    const { runs } = (await world.admin("/admin/v1/runs")).body as {
      runs: { sessionKey: string; kind: string }[];
    };
    return runs.filter(({ kind }) => kind !== "heartbeat").map(({ sessionKey }) => sessionKey);
  };
  const has = async (world: World, id: string): Promise<boolean> =>
    (await keys(world)).includes(`hook:gmail:${id}`);

  it("loses no mail when another machine takes over, which knows the grant alone", async () => {
    await mail.setup();
    mkdirSync(dirname(join(elsewhere, GRANT)), { recursive: true });
    cpSync(mail.file(GRANT), join(elsewhere, GRANT));
    const first = await start(mail.dir);
    const before = mail.google.receive();
    await first.until(() => has(first, before));
    await first.until(
      async () => mail.state()["historyId"] === String(mail.google.mailbox.historyId),
    );
    worlds = [];
    await first.stop();
    const between = mail.google.receive();
    const second = await start(elsewhere);
    await second.until(() => has(second, between));
    const after = mail.google.receive();
    await second.until(() => has(second, after));
    expect((await keys(second)).toSorted()).toEqual(
      [before, between, after].map((id) => `hook:gmail:${id}`).toSorted(),
    );
  });
});
