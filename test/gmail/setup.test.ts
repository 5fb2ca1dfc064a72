import { readFileSync, statSync, writeFileSync } from "node:fs";
import JSON5 from "json5";
import { afterEach, describe, expect, it } from "vitest";
import { createGmailWorld, open, SETUP, type GmailWorld } from "./support.ts";

let world: GmailWorld;
afterEach(() => world.close());

const TOPIC = "projects/rouse-test/topics/rouse-gmail";
const SUBSCRIPTION = "projects/rouse-test/subscriptions/rouse-gmail";
const PUBLISHER = {
  role: "roles/pubsub.publisher",
  members: ["serviceAccount:gmail-api-push@system.gserviceaccount.com"],
};
const hooksOf = (text: string) =>
  JSON5.parse<{ hooks: { presets: unknown[]; gmail: Record<string, unknown> } }>(text).hooks;

describe("rouse webhooks gmail setup", () => {
  it("asks for consent, makes what is needed, and writes the config with its comments kept", async () => {
    world = await createGmailWorld();
    const said = await world.setup();
    expect([said.err.replace(/http\S+/, "URL"), said.code]).toEqual([
      "Open this address in a browser on this machine and allow both scopes:\n\nURL\n\n",
      0,
    ]);
    expect(said.out.replaceAll(/\d{4}-\S+Z/g, "TIME").replaceAll(world.dir, ""))
      .toBe(`grant: given by ann@example.com and kept
topic: ${TOPIC} made
permission: Gmail may publish now
subscription: ${SUBSCRIPTION} made
watch: on INBOX until TIME
config: hooks.gmail and the preset are in /rouse.json5
done: new mail becomes runs while the gateway runs
`);
    const { google } = world;
    expect(google.topics.get(TOPIC)?.bindings).toEqual([PUBLISHER]);
    expect(google.subscriptions.get(SUBSCRIPTION)).toMatchObject({
      topic: TOPIC,
      ackDeadlineSeconds: 600,
      pushConfig: {},
    });
    expect(google.mailbox.watch).toMatchObject({ topic: TOPIC, labels: ["INBOX"] });
    const text = world.config();
    expect(text).toMatch(
      /^\/\/ mine\n[^]*\/\/ any port[^]*\/\/ the hook token[^]*\/\* presets in use \*\//,
    );
    const { presets, gmail } = hooksOf(text);
    expect(presets).toEqual(["healthchecks", "gmail"]);
    expect(gmail).toMatchObject({
      account: "ann@example.com",
      project: "rouse-test",
      credentials: world.file("installed.json"),
    });
    const grant = world.file(".rouse/plugins/gmail/grant.json");
    expect(statSync(grant).mode & 0o777).toBe(0o600);
    expect(readFileSync(grant, "utf8")).toContain("refresh-canary");
    expect(said.out + said.err + text + JSON.stringify(world.state())).not.toMatch(
      /token-canary|refresh-canary|secret-canary/,
    );
  });

  it("can be run again without harm", async () => {
    world = await createGmailWorld();
    await world.setup();
    const before = world.config();
    const { historyId } = world.state();
    world.google.receive();
    const again = await world.rouse(["webhooks", "gmail", "setup"], () =>
      Promise.reject(new Error("it asked again")),
    );
    expect(again.code).toBe(0);
    expect(again.out).toMatch(
      /^grant: the one that is there works\ntopic: \S+ is there\npermission: Gmail may publish already\n/,
    );
    expect(again.out).toContain(`subscription: ${SUBSCRIPTION} is there`);
    expect(world.config()).toBe(before);
    // Mail that came in before the second setup is not skipped.
    expect(world.state()["historyId"]).toBe(historyId);
    expect(world.google.topics.get(TOPIC)?.bindings).toEqual([PUBLISHER]);
  });

  it("prints one JSON object with --json", async () => {
    world = await createGmailWorld();
    const said = await world.setup(["--json"]);
    const told = JSON.parse(said.out) as { steps: { step: string }[] };
    expect(told).toMatchObject({
      ok: true,
      account: "ann@example.com",
      topic: TOPIC,
      subscription: SUBSCRIPTION,
      mode: "pull",
    });
    expect(told.steps.map(({ step }) => step)).toEqual([
      "grant",
      "topic",
      "permission",
      "subscription",
      "watch",
      "config",
    ]);
    world.google.fail(/PUT .*\/topics\//, {
      status: 403,
      body: { error: { status: "PERMISSION_DENIED" } },
    });
    const failed = await world.setup(["--json"]);
    expect([failed.code, JSON.parse(failed.out)]).toMatchObject([
      1,
      { ok: false, steps: [{ step: "grant" }] },
    ]);
  });

  it("works with a service account that may act for the mailbox", async () => {
    world = await createGmailWorld();
    const said = await world.rouse([...SETUP, "--credentials", world.file("service.json")]);
    expect([said.err, said.code]).toEqual(["", 0]);
    expect(said.out).toMatch(/^grant: the service account robot@\S+ acts for ann@example.com\n/);
    world.google.fail(/POST \/token/, {
      status: 400,
      body: { error: "invalid_grant", error_description: "Invalid JWT Signature." },
    });
    const wrong = await world.rouse([...SETUP, "--credentials", world.file("service.json")]);
    expect(wrong.err).toMatch(/does not take the service account's key for ann@example.com: check/);
    world.google.delegation = false;
    const refused = await world.rouse([...SETUP, "--credentials", world.file("service.json")]);
    expect(refused.code).toBe(1);
    expect(refused.err).toMatch(
      /may not act for ann@example.com: add its client id and the scope \S+gmail.readonly under https:\/\/admin/,
    );
  });

  it("sets up Pub/Sub push if an endpoint is given, and pull again if it is not", async () => {
    world = await createGmailWorld();
    const endpoint = "https://hooks.example.com/channels/gmail/push";
    const lacking = await world.setup(["--push-endpoint", endpoint]);
    expect([lacking.code, lacking.err]).toEqual([
      1,
      "rouse: pushes need a service account that signs them: name its address with --push-account\n",
    ]);
    await world.setup();
    const said = await world.setup([
      "--push-endpoint",
      endpoint,
      "--push-account",
      "p@rouse-test.iam.gserviceaccount.com",
    ]);
    expect(said.out).toContain(`subscription: ${SUBSCRIPTION} pushes now`);
    expect(world.google.subscriptions.get(SUBSCRIPTION)?.pushConfig).toEqual({
      pushEndpoint: endpoint,
      oidcToken: {
        serviceAccountEmail: "p@rouse-test.iam.gserviceaccount.com",
        audience: endpoint,
      },
    });
    writeFileSync(
      world.file("rouse.json5"),
      world.config().replace(/"?pushEndpoint"?:\s*"[^"]*",?/, ""),
    );
    const back = await world.setup();
    expect([back.out, back.code]).toEqual([
      expect.stringContaining(`${SUBSCRIPTION} pulls now`),
      0,
    ]);
    expect(world.google.subscriptions.get(SUBSCRIPTION)?.pushConfig).toEqual({});
  });

  it("keeps a preset with options, and other permissions of the topic", async () => {
    world = await createGmailWorld();
    world.google.topics.set(TOPIC, {
      etag: "e4",
      bindings: [{ role: "roles/viewer", members: ["user:x@example.com"] }],
    });
    writeFileSync(
      world.file("rouse.json5"),
      world
        .config()
        .replace('["healthchecks"]', '["healthchecks", { use: "gmail", deliver: false }]'),
    );
    // Somebody else changes the permissions meanwhile.
    world.google.fail(/:setIamPolicy/, {
      status: 409,
      body: { error: { code: 409, status: "ABORTED" } },
    });
    expect((await world.setup()).code).toBe(0);
    expect(hooksOf(world.config()).presets).toEqual([
      "healthchecks",
      { use: "gmail", deliver: false },
    ]);
    expect(world.google.topics.get(TOPIC)?.bindings).toEqual([
      { role: "roles/viewer", members: ["user:x@example.com"] },
      PUBLISHER,
    ]);
  });

  it("watches a label by its name, and says if there is none", async () => {
    world = await createGmailWorld();
    expect((await world.setup(["--label", "invoices"])).code).toBe(0);
    expect(world.google.mailbox.watch?.labels).toEqual(["Label_7"]);
    const said = await world.setup(["--label", "Nowhere"]);
    expect([said.code, said.err]).toEqual([
      1,
      'rouse: the mailbox has no label "Nowhere": set hooks.gmail.label to one that it has\n',
    ]);
  });

  it("refuses an answer with the wrong state, and takes the true one after it", async () => {
    world = await createGmailWorld();
    const said = await world.rouse(
      [...SETUP, "--credentials", world.file("installed.json")],
      async (url: string) => {
        const redirect = new URL(url).searchParams.get("redirect_uri") ?? "";
        const stranger = await fetch(`${redirect}/?code=stolen&state=guessed`);
        expect([stranger.status, await stranger.text()]).toEqual([
          400,
          expect.stringContaining("not the answer"),
        ]);
        expect((await fetch(`${redirect}/favicon.ico`)).status).toBe(404);
        const page = await open(url);
        expect([page.status, await page.text()]).toEqual([
          200,
          expect.stringContaining("You can close this page"),
        ]);
      },
    );
    expect([said.code, said.err.replace(/^Open[^]*http\S+\s+/, "")]).toEqual([0, ""]);
  });

  it("says what is missing in the consent", async () => {
    world = await createGmailWorld();
    const { consent } = world.google;
    consent.deny = true;
    expect((await world.setup()).err).toContain(
      "consent was not given: run the setup again and allow both scopes",
    );
    consent.deny = false;
    consent.scopes = ["https://www.googleapis.com/auth/gmail.readonly"];
    expect((await world.setup()).err).toContain(
      "consent is missing for https://www.googleapis.com/auth/pubsub",
    );
    consent.scopes = undefined;
    consent.account = "other@example.com";
    const said = await world.setup();
    expect([said.code, said.err]).toEqual([
      1,
      expect.stringContaining("consent was given for other@example.com, not for ann@example.com"),
    ]);
  });

  it("says what to run where an API is off or a permission is missing", async () => {
    world = await createGmailWorld();
    const details = [
      {
        reason: "SERVICE_DISABLED",
        metadata: { service: "gmail.googleapis.com", consumer: "projects/4711" },
      },
    ];
    world.google.fail(/GET .*profile/, {
      status: 403,
      body: { error: { code: 403, status: "PERMISSION_DENIED", details } },
    });
    const off = await world.setup();
    expect(off.err).toContain(
      "the Gmail API is not enabled: run `gcloud services enable gmail.googleapis.com --project 4711`",
    );
    expect(off.err).toContain(
      "https://console.cloud.google.com/apis/library/gmail.googleapis.com?project=4711",
    );
    world.google.fail(/PUT .*\/topics\//, {
      status: 403,
      body: { error: { code: 403, status: "PERMISSION_DENIED" } },
    });
    const denied = await world.setup();
    expect(denied.code).toBe(1);
    expect(denied.err).toContain(
      "roles/pubsub.admin, or run: gcloud pubsub topics create rouse-gmail --project rouse-test",
    );
    world.google.fail(/:setIamPolicy/, {
      status: 403,
      body: { error: { code: 403, status: "PERMISSION_DENIED" } },
    });
    expect((await world.setup()).err).toContain(
      "gcloud pubsub topics add-iam-policy-binding rouse-gmail --project rouse-test --member serviceAccount:gmail-api-push@",
    );
    world.google.fail(/:setIamPolicy/, {
      status: 400,
      body: { error: { code: 400, status: "FAILED_PRECONDITION" } },
    });
    expect((await world.setup()).err).toContain(
      "400 FAILED_PRECONDITION. An organization policy (iam.allowedPolicyMemberDomains) may forbid it",
    );
    // Nothing was written before all was there.
    expect(hooksOf(world.config()).gmail["account"]).toBeUndefined();
  });

  it.each([
    ["no account", ["webhooks", "gmail", "setup"], "which mailbox? Name it with --account"],
    [
      "no credentials",
      SETUP,
      "no credentials: name the JSON file from Google Cloud with --credentials",
    ],
    [
      "a file that is not there",
      [...SETUP, "--credentials", "nowhere.json"],
      "nowhere.json cannot be read",
    ],
    [
      "a file of something else",
      [...SETUP, "--credentials", "rouse.json5"],
      "rouse.json5 is not JSON",
    ],
    [
      "a wrong topic",
      [...SETUP, "--topic", "projects/p/topics/t"],
      "topic: must be 3 to 255 letters",
    ],
  ])("says what is wrong with %s", async (_name, args, message) => {
    world = await createGmailWorld();
    const cwd = process.cwd();
    process.chdir(world.dir);
    try {
      const said = await world.rouse(args);
      expect([said.code, said.err]).toEqual([1, expect.stringContaining(message)]);
      expect(said.err).toMatch(/^rouse: /);
    } finally {
      process.chdir(cwd);
    }
  });
});
