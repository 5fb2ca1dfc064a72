import { expect, it } from "vitest";
import gmail from "../../plugins/gmail/index.ts";
import { presetContract, presetFile } from "../contract/preset.ts";
import { createWorld } from "../e2e/world.ts";
import { byHookToken, compile, input, presetNames as names } from "./world.ts";

for (const name of names) presetContract(name);
for (const document of gmail.presets ?? []) presetContract(document.id, document);

it("every preset that ships leaves the summaries of its runs to the next heartbeat", () => {
  const documents = [...names.map(presetFile), ...(gmail.presets ?? [])];
  const loud = documents.flatMap(({ mappings }) =>
    mappings.filter(({ wakeMode }) => wakeMode !== "next-heartbeat"),
  );
  expect(loud).toEqual([]);
});

it("forgejo: is gitea under another name, except for its workflow runs", () => {
  const [gitea, forgejo] = ["gitea", "forgejo"].map((name) =>
    presetFile(name).mappings.filter(({ id }) => id !== `${name}.workflow-failed`),
  );
  expect(
    JSON.parse(JSON.stringify(gitea).replaceAll("gitea", "forgejo").replaceAll("Gitea", "Forgejo")),
  ).toEqual(forgejo);
});

it("bitbucket-data-center: its test of the connection is answered unsigned, and is no event", async () => {
  const use = "bitbucket-data-center";
  const world = await createWorld({
    workers: false,
    config: { hooks: { presets: [{ use, secret: "a-long-enough-secret" }] } },
  });
  const post = (body: string) => {
    const length = String(Buffer.byteLength(body));
    return world.post(`/hooks/${use}`, body, { authorization: "", "content-length": length });
  };
  const answer = await post('{"test": true}');
  expect([answer.status, answer.body]).toEqual([200, { ok: true }]);
  expect((await post('{"eventKey":"pr:opened"}')).status).toBe(401);
  expect((await world.admin("/admin/v1/events")).body.events).toEqual([]);
  await world.stop();
});

it("presets: all work beside each other", async () => {
  const world = await createWorld({
    start: false,
    workers: false,
    config: { hooks: { presets: byHookToken(names) } },
  });
  expect(world.gateway.status().warnings).toEqual([]);
  await world.stop();
});

const post = { user: "U1", text: "<@U0> done?", ts: "1760000000.000500", channel: "C1" };
const comment = {
  id: "9",
  updated: "2026-01-02T03:04:05.000+0000",
  author: { displayName: "Bob" },
  body: "Cleaned up.",
};
const issue = { id: "10001", key: "OPS-7", fields: { summary: "Disk is full" } };
const JIRA = "https://jira.acme.example/rest/api/2";
const payment = { amount: 1999, currency: "eur", customer: "cus_1" };
const refund = { id: "re_1", object: "refund", charge: "ch_1", status: "failed", ...payment };

it.each([
  [
    "slack",
    "a post that mentions the app",
    { type: "event_callback", event_id: "Ev1", event: { type: "app_mention", ...post } },
    {
      type: "event_callback",
      event_id: "Ev2",
      event: { type: "message", channel_type: "channel", ...post },
    },
  ],
  [
    "jira",
    "a comment",
    { webhookEvent: "comment_created", comment, issue },
    {
      webhookEvent: "jira:issue_updated",
      issue_event_type_name: "issue_commented",
      user: { displayName: "Bob" },
      comment,
      issue,
    },
  ],
  [
    "jira",
    "an edited comment",
    {
      webhookEvent: "jira:issue_updated",
      issue_event_type_name: "issue_comment_edited",
      comment,
      issue,
    },
    { webhookEvent: "comment_updated", comment, issue },
  ],
  [
    "jira",
    "a deleted comment of Data Center",
    {
      webhookEvent: "comment_deleted",
      timestamp: 1_760_000_000_000,
      comment: { self: `${JIRA}/issue/10001/comment/9`, id: "9", body: "Cleaned up." },
    },
    {
      webhookEvent: "jira:issue_updated",
      issue_event_type_name: "issue_comment_deleted",
      timestamp: 1_760_000_000_000,
      issue: { ...issue, self: `${JIRA}/issue/10001` },
    },
  ],
  [
    "stripe",
    "a failed refund",
    { id: "evt_1", type: "charge.refund.updated", data: { object: refund } },
    { id: "evt_2", type: "refund.failed", data: { object: refund } },
  ],
  [
    "stripe",
    "a refund of a charge",
    {
      id: "evt_1",
      type: "charge.refunded",
      request: { id: "req_1" },
      data: { object: { id: "ch_1", object: "charge", ...payment } },
    },
    { id: "evt_2", type: "refund.created", request: { id: "req_1" }, data: { object: refund } },
  ],
  [
    "stripe",
    "a failed payment",
    {
      id: "evt_1",
      type: "charge.failed",
      data: { object: { id: "ch_1", object: "charge", ...payment } },
    },
    {
      id: "evt_2",
      type: "payment_intent.payment_failed",
      data: { object: { id: "pi_1", latest_charge: "ch_1", ...payment } },
    },
  ],
  [
    "stripe",
    "a failed payment of the API before 2022-11-15",
    {
      id: "evt_1",
      type: "charge.failed",
      data: { object: { id: "ch_1", object: "charge", ...payment } },
    },
    {
      id: "evt_2",
      type: "payment_intent.payment_failed",
      data: { object: { id: "pi_1", last_payment_error: { charge: "ch_1" }, ...payment } },
    },
  ],
])(
  "%s: %s that comes as two events has one key of duplicates and one session",
  async (preset, _what, ...bodies) => {
    const { set } = await compile({ presets: byHookToken([preset]) });
    const keys: unknown[] = [];
    for (const body of bodies) {
      const outcome = await set.run(input(preset, body));
      if (outcome.kind !== "actions" || !outcome.results[0]?.ok) throw new Error(outcome.kind);
      const { dedupeKey, fields } = outcome.results[0].draft;
      keys.push([dedupeKey, fields.sessionKey]);
    }
    expect(keys[0]).toEqual([expect.any(String), expect.any(String)]);
    expect(keys[1]).toEqual(keys[0]);
  },
);

it.each([
  [
    "jira",
    "nothing that Jira names",
    { webhookEvent: "jira:issue_updated", issue_event_type_name: "issue_commented", issue },
  ],
  [
    "stripe",
    "the bank's reference of a refund",
    {
      type: "refund.updated",
      data: { object: refund, previous_attributes: { destination_details: {} } },
    },
  ],
])("%s: an update that changes %s is unmatched", async (preset, _what, body) => {
  const { set } = await compile({ presets: byHookToken([preset]) });
  expect((await set.run(input(preset, body))).kind).toBe("unmatched");
});

it("healthchecks: the body to copy is JSON whatever the name of the check", async () => {
  const { set } = await compile({ presets: ["healthchecks"] });
  const { description = "" } = presetFile("healthchecks");
  const name = 'The "big" backup';
  const values: Record<string, string> = { NAME: name, NAME_JSON: JSON.stringify(name) };
  const body = /`(\{.+\})`/
    .exec(description)?.[1]
    ?.replace(/\$([A-Z_]+)/g, (_, key: string) => values[key] ?? "down");
  const outcome = await set.run(input("healthchecks", JSON.parse(body ?? "")));
  expect(outcome).toMatchObject({ kind: "actions", mapping: "healthchecks.status" });
});

it.each([
  { webhookEvent: "comment_created", comment: { ...comment, author: { name: "Rouse-Bot" } } },
  {
    webhookEvent: "comment_updated",
    comment: { ...comment, updateAuthor: { key: "rouse-bot" } },
  },
  {
    webhookEvent: "jira:issue_updated",
    user: { name: "rouse-bot" },
    changelog: { items: [{ field: "status" }] },
  },
])(
  "jira: an event of the agent on Data Center, which has names and no account ids, is skipped: %j",
  async (event) => {
    const use = { use: "jira", auth: "token", ignoreSelf: { accounts: ["rouse-bot"] } };
    const { set } = await compile({ presets: [use] });
    expect(await set.run(input("jira", { ...event, issue }))).toMatchObject({
      kind: "skipped",
      echo: true,
    });
  },
);

it("presets: options choose path, events, agent and recipient; events that are left out are recorded", async () => {
  const world = await createWorld({
    workers: false,
    config: {
      agents: { list: [{ id: "main" }, { id: "ops" }] },
      hooks: {
        presets: [
          {
            use: "healthchecks",
            path: "hc",
            events: ["down"],
            agentId: "ops",
            channel: "console",
            to: "ops",
            deliver: true,
          },
          { use: "pagerduty", auth: "token", events: ["incident"] },
          { use: "pagerduty", auth: "token", path: "pd2" },
        ],
      },
    },
  });
  const down = await world.post("/hooks/hc", { check: "Backup", code: "c", status: "down" });
  expect(down.status).toBe(202);
  const { run } = (await world.admin(`/admin/v1/runs/${down.body.runId}`)).body;
  expect([run.agentId, run.channel, run.to, run.deliver]).toEqual(["ops", "console", "ops", true]);
  const up = await world.post("/hooks/hc", { check: "Backup", code: "c", status: "up" });
  expect(up.status).toBe(204);
  expect(
    (await world.get(`/hooks/events/${up.headers.get("x-request-id")}`)).body.event,
  ).toMatchObject({
    outcome: "skipped",
    reason: 'the event "up" is not among the preset\'s `events`',
  });
  expect(
    (await world.post("/hooks/healthchecks", { check: "Backup", code: "c", status: "down" }))
      .status,
  ).toBe(404);
  const incident = {
    event: {
      event_type: "incident.triggered",
      data: { type: "incident", id: "1", title: "x", number: 1 },
    },
  };
  expect((await world.post("/hooks/pagerduty", incident)).body.mapping).toBe("pagerduty.incident");
  expect((await world.post("/hooks/pd2", incident)).body.mapping).toBe("pagerduty.incident@pd2");
  await world.stop();
});

it.each([
  [{ use: "githbu" }, 'hooks.presets[0]: there is no preset of this name. Did you mean "github"?'],
  [
    { use: "healthchecks", secret: "a-long-enough-secret" },
    "hooks.presets[0].secret: this preset has no signature",
  ],
  [
    { use: "gmail", events: ["x"] },
    "hooks.presets[0].events: this preset does not tell its events apart",
  ],
  [{ use: "github", auth: "token", agentId: "nobody" }, "names no agent"],
  [
    "github",
    'hooks.presets[0]: the sender of the preset "github" signs its requests, and there is no secret to check them with',
  ],
  [{ use: "stripe", path: "pay" }, "run `rouse init --preset stripe`, which adds one"],
  ["jira", '{ use: "jira", auth: "token" }'],
  [
    { use: "github", auth: "token", secret: "a-long-enough-secret" },
    'hooks.presets[0].secret: has no effect beside `auth: "token"`',
  ],
])("presets: %j is a problem when the config is loaded", async (use, message) => {
  const { issues } = await compile({ presets: [use] });
  expect(issues.map((issue) => `${issue.path}: ${issue.message}`).join("\n")).toContain(message);
});

it.each([
  [{ use: "github", secret: "short" }, "hooks.presets[0].secret: must have at least 12 characters"],
  [{ use: "github", sekret: "x" }, "hooks.presets[0]"],
])("presets: a gateway with the preset %j does not start", async (use, message) => {
  const config = { hooks: { presets: [use] } };
  await expect(createWorld({ start: false, config })).rejects.toThrow(message);
});

it("a mapping file's secret in a file is found from the config's folder", async () => {
  const auth = { scheme: "github", secret: { file: "secrets/acme" } };
  const mappings = [{ id: "acme", match: { path: "acme" }, messageTemplate: "x" }];
  const files = {
    "secrets/acme": "a-secret-beside-the-config",
    "mappings/acme.json": { id: "acme", auth, mappings },
  };
  const world = await createWorld({ workers: false, files });
  expect((await world.post("/hooks/acme", {})).status).toBe(401);
  await world.stop();
});

it("a preset without a secret of its own takes that of another mapping on its path", async () => {
  const auth = { scheme: "github", secret: "a-long-enough-secret" };
  const mappings = [
    { id: "mine", match: { path: "github", payload: { mine: true } }, auth, messageTemplate: "x" },
  ];
  const world = await createWorld({
    start: false,
    workers: false,
    config: { hooks: { presets: ["github"], mappings } },
  });
  expect((await world.post("/hooks/github", {})).status).toBe(401);
  await world.stop();
});
