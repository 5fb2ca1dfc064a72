import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createProvider, modelConfig, type Provider } from "../e2e/provider.ts";
import { createWorld, type Answer, type World } from "../e2e/world.ts";

const WARNING = expect.stringMatching(
  /^sessionKey: another path or credential has a session with this key; this one is new/,
) as string;
const PATH_TOKEN = "own-token-of-the-path-0123456789";
const hook = (id: string, path: string | string[], more: object = {}) => ({
  id,
  match: { path },
  messageTemplate: "{{say}}",
  transform: { jsonata: '{ "sessionKey": key }' },
  ...more,
});
const mappings = [
  {
    id: "second",
    match: { path: "a", payload: { second: true } },
    sessionKey: "hook:{{id}}",
    messageTemplate: "{{say}}",
  },
  hook("first", ["a", "b"]),
  hook("windows", ["w1", "w2"], { coalesce: { windowSeconds: 1, key: "{{key}}" } }),
];

let provider: Provider;
let world: World;
let dir: string;
const configOf = (hooks: object) => ({
  hooks: { sharedSessions: ["hook:customer:"], summary: "quiet", mappings, ...hooks },
  ...modelConfig(provider),
});
beforeAll(async () => {
  provider = await createProvider();
  provider.answer = () => "noted";
  dir = mkdtempSync(join(tmpdir(), "rouse-owner-"));
  world = await createWorld({ dir, config: configOf({}) });
});
afterAll(async () => {
  await world.stop();
  await provider.close();
  rmSync(dir, { recursive: true, force: true });
});

interface Turn {
  /** The request to the model, without its instructions. */
  seen: string;
  warnings: string[];
  answer: Answer;
}

const ended = (runId: string) =>
  world.until(async () => {
    const { run } = (await world.admin(`/admin/v1/runs/${runId}`)).body;
    return run.endedAt !== null && run;
  });
/** Posts, waits for the run, and returns what its model saw of history and message. */
async function say(
  path: string,
  key: string,
  text: string,
  more: object = {},
  headers = {},
): Promise<Turn> {
  const before = provider.requests.length;
  const agent = { message: text, sessionKey: key, deliver: false };
  const answer = await world.post(
    `/hooks/${path}`,
    path === "agent" ? agent : { key, say: text, ...more },
    headers,
  );
  expect(answer.status).toBe(202);
  expect(answer.body.sessionKey).toBe(key);
  const run = await ended(answer.body.runId as string);
  return {
    seen: provider.requests.slice(before).map(provider.text).join("\n"),
    warnings: run.warnings as string[],
    answer,
  };
}

describe("a session key through another path", () => {
  it("names another, empty session, with a warning", async () => {
    const first = await say("agent", "hook:k1", "alpha");
    expect(first.warnings).toEqual([]);
    const other = await say("a", "hook:k1", "beta");
    expect(other.seen).toContain("beta");
    expect(other.seen).not.toContain("alpha");
    expect(other.warnings).toEqual([WARNING]);
    const again = await say("agent", "hook:k1", "gamma");
    expect([again.seen.includes("alpha"), again.seen.includes("beta"), again.warnings]).toEqual([
      true,
      false,
      [],
    ]);
    const third = await say("b", "hook:k1", "delta");
    expect([third.seen.includes("beta"), third.warnings]).toEqual([false, [WARNING]]);
  });

  it("names the same session through another mapping of the path", async () => {
    await say("a", "hook:k2", "alpha");
    const { seen, warnings } = await say("a", "hook:k2", "beta", { second: true, id: "k2" });
    expect([seen.includes("alpha"), warnings]).toEqual([true, []]);
  });

  it("names one session of all paths if hooks.sharedSessions has its prefix", async () => {
    await say("agent", "hook:customer:7", "alpha");
    await say("a", "hook:customer:7", "beta");
    const { seen, warnings } = await say("b", "hook:customer:7", "gamma");
    expect([seen.includes("alpha"), seen.includes("beta"), warnings]).toEqual([true, true, []]);
  });

  it("is kept by a replay and a restart, and separates events in a batch", async () => {
    const { answer } = await say("a", "hook:k3", "alpha");
    await say("b", "hook:k3", "beta");
    const before = provider.requests.length;
    const replayed = await world.admin(`/admin/v1/events/${answer.body.eventId}/replay`, {
      method: "POST",
      body: "{}",
    });
    await ended(replayed.body.result.actions[0].id as string);
    const seen = provider.requests.slice(before).map(provider.text).join("\n");
    expect([seen.match(/alpha/g)?.length, seen.includes("beta")]).toEqual([2, false]);

    const posted = [];
    for (const [path, text] of [
      ["w1", "one"],
      ["w2", "two"],
      ["w1", "three"],
    ] as const)
      posted.push(
        (await world.post(`/hooks/${path}`, { key: "hook:k4", say: text })).body.runId as string,
      );
    expect(posted[2]).toBe(posted[0]);
    expect(posted[1]).not.toBe(posted[0]);
    await Promise.all(posted.map(ended));
    const { sessions } = (await world.admin("/admin/v1/sessions")).body;
    const owners = (sessions as { key: string; path: string; turns: number }[]).filter(
      ({ key }) => key === "hook:k4",
    );
    expect(new Set(owners.map(({ path, turns }) => `${path} ${turns}`))).toEqual(
      new Set(["w1 1", "w2 1"]),
    );
  });
});

it("a path that gets a credential of its own has sessions of its own; a new value of the credential changes none", async () => {
  await say("a", "hook:k5", "alpha");
  const restart = async (token: string) => {
    await world.stop();
    const auth = { token };
    const own = mappings.map((mapping) =>
      mapping.id === "second" ? { ...mapping, auth } : mapping,
    );
    world = await createWorld({ dir, config: configOf({ mappings: own }) });
  };
  await restart(PATH_TOKEN);
  const first = await say("a", "hook:k5", "beta", {}, { authorization: `Bearer ${PATH_TOKEN}` });
  expect([first.seen.includes("alpha"), first.warnings]).toEqual([false, [WARNING]]);
  await restart(`${PATH_TOKEN}-next`);
  const second = await say(
    "a",
    "hook:k5",
    "gamma",
    {},
    { authorization: `Bearer ${PATH_TOKEN}-next` },
  );
  expect([second.seen.includes("alpha"), second.seen.includes("beta"), second.warnings]).toEqual([
    false,
    true,
    [],
  ]);
});

it("the operator's view names path and credential, and asks for the path where the key is not enough", async () => {
  await say("agent", "hook:k6", "alpha");
  const show = (more: string) => world.admin(`/admin/v1/sessions/show?key=hook:k6${more}`);
  expect((await show("")).body.session).toMatchObject({
    key: "hook:k6",
    path: "agent",
    credential: "hooks.token",
    turns: 1,
  });
  await say("b", "hook:k6", "beta");
  const several = await show("");
  expect([several.status, several.body.error.message]).toEqual([
    400,
    expect.stringMatching(/`path`.*b \(hooks.token\), agent \(hooks.token\)/),
  ]);
  expect(JSON.stringify((await show("&path=b")).body.turns)).toContain("beta");
  const reset = await world.admin("/admin/v1/sessions/reset", {
    method: "POST",
    body: JSON.stringify({ key: "hook:k6", path: "b" }),
  });
  expect(reset.status).toBe(200);
  expect((await show("&path=b&credential=hooks.token")).body.session.turns).toBe(0);
  expect((await show("&path=agent")).body.session.turns).toBe(1);
  expect((await show("&path=nowhere")).status).toBe(404);
});
