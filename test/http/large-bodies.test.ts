import { createHmac } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { createWorld, type Answer, type World } from "../e2e/world.ts";

const SECRET = "a-signing-secret-0123456789";
const hmac = (text: string, secret = SECRET): string =>
  createHmac("sha256", secret).update(text).digest("hex");

/** Shortens sleeps to 100 ms, so that rejected requests are examined ten times a second and not every 30 seconds. */
const clock = {
  ...systemClock,
  sleep: (ms: number, signal?: AbortSignal) => systemClock.sleep(Math.min(ms, 100), signal),
};
let world: World;
beforeAll(async () => {
  world = await createWorld({
    clock,
    config: {
      hooks: {
        transformTimeoutSeconds: 60,
        presets: [
          { use: "github", secret: SECRET, deliver: false },
          { use: "github", path: "small", secret: SECRET, maxBodyBytes: 1000, deliver: false },
          { use: "slack", secret: SECRET },
        ],
        mappings: [
          { id: "keyed", match: { path: "keyed" }, messageTemplate: "x", dedupeKey: "{{id}}" },
        ],
      },
      alerts: { failures: { channel: "console", to: "me" } },
    },
  });
});
afterAll(() => world.stop());

const github = (path: string, body: string, secret = SECRET): Promise<Answer> =>
  world.post(`/hooks/${path}`, body, {
    authorization: "",
    "x-hub-signature-256": `sha256=${hmac(body, secret)}`,
  });
const push = (commits: { message: string }[], more: object = {}): string =>
  JSON.stringify({
    ref: "refs/heads/main",
    head_commit: { id: "1" },
    pusher: { name: "bob" },
    repository: { full_name: "a/b" },
    compare: "https://example.com/compare",
    commits,
    ...more,
  });
const commit = (n: number, length: number) => ({ message: `commit ${n} ${"x".repeat(length)}` });
const textOf = async (runId: string): Promise<string> =>
  (await world.admin(`/admin/v1/runs/${runId}`)).body.run.input
    .map((part: { text: string }) => part.text)
    .join("");

describe("a body as large as its sender sends them", () => {
  it("is taken, and a message that is too long for its expressions is cut, with a mark", async () => {
    const body = push(Array.from({ length: 2000 }, (_, n) => commit(n, 1000)));
    expect(body.length).toBeGreaterThan(2_000_000);
    const answer = await github("github", body);
    expect([answer.status, answer.body.mapping]).toEqual([202, "github.push"]);
    const text = await textOf(answer.body.runId);
    expect(text).toContain("bob pushed to refs/heads/main of a/b.");
    expect(text).toMatch(/commit 0 x+\[cut: \d+ characters\]\ncommit 1 x+\[cut/);
    expect(text.length).toBeLessThan(40_000);
  });

  it("is taken with one text of more than a million characters, and with lists as long", async () => {
    const one = await github("github", push([commit(0, 3_000_000), commit(1, 5)]));
    expect(await textOf(one.body.runId)).toMatch(/commit 0 x+\[cut: \d+ characters\]/);
    const many = await github(
      "github",
      push(Array.from({ length: 30_000 }, (_, n) => commit(n, 5))),
    );
    expect([many.status, many.body.mapping]).toEqual([202, "github.push"]);
    const full = await github("github", push([], { padding: "x".repeat(24 * 2 ** 20) }));
    expect([full.status, full.body.error]).toEqual([202, undefined]);
  });

  it("has a session and a key for repeats, however long the names in it are", async () => {
    const ref = `refs/heads/${"b".repeat(240)}`;
    const answers = [
      await github("github", push([commit(0, 1)], { ref })),
      await github("github", push([commit(1, 1)], { ref })),
      await github("github", push([commit(2, 1)], { ref: `${ref}2` })),
    ];
    expect(answers.map(({ status }) => status)).toEqual([202, 202, 202]);
    const [one, again, other] = answers.map(({ body }) => body.sessionKey as string);
    expect(one).toMatch(/^hook:github:a\/b:refs\/heads\/b+~[0-9a-f]{16}$/);
    expect([one?.length, again === one, other === one]).toEqual([200, true, false]);
    const order = (id: string): Promise<Answer> => world.post("/hooks/keyed", { id });
    const first = await order(`${"k".repeat(600)}1`);
    expect((await order(`${"k".repeat(600)}2`)).body.runId).not.toBe(first.body.runId);
    expect((await order(`${"k".repeat(600)}1`)).body.runId).toBe(first.body.runId);
  });

  it("is not cut if it fits, and is refused by a path that takes less, and by other senders' paths", async () => {
    const answer = await github("github", push([commit(0, 20_000)]));
    expect(await textOf(answer.body.runId)).toContain("x".repeat(20_000));
    expect((await github("small", push([commit(0, 2000)]))).status).toBe(413);
    const time = String(Math.floor(Date.now() / 1000));
    const slack = await world.post("/hooks/slack", "x".repeat(300_000), {
      authorization: "",
      "x-slack-request-timestamp": time,
      "x-slack-signature": "v0=00",
    });
    expect(slack.status).toBe(413);
  });
});

describe("a refused request that does not come again", () => {
  const lost = async (): Promise<{ status: string; message: string }> =>
    (await world.admin("/admin/v1/doctor")).body.checks.find(
      (check: { id: string }) => check.id === "lost",
    );

  it("is reported by doctor, metrics and the channel of alerts, with the setting to change", async () => {
    await github("small", push([commit(0, 3000)]));
    await github("github", '{"n":1}', "another-secret-0123456789");
    await world.post("/hooks/small", "{}", { authorization: "", "x-github-event": "push" });
    const { status, message } = await lost();
    expect(status).toBe("warn");
    expect(message).toMatch(
      /"small": requests of GitHub that were refused: 2, the last at \S+Z; they do not come again by themselves; the body has more than 1000 bytes: raise hooks\.presets\[1\]\.maxBodyBytes, then send them again by its API/,
    );
    expect(message).toMatch(
      /"github": requests of GitHub that were refused: 1, .* the signature does not fit: compare hooks\.presets\[0\]\.secret with the sender's secret/,
    );
    expect(message).toMatch(/"slack": [^"]*; no retry of them is accepted either; the body has/);
    const metrics = String((await world.admin("/metrics")).body);
    expect(metrics).toContain(
      'rouse_lost_requests_total{path="small",reason="body_too_large"} 2\n',
    );
    expect(metrics).toContain(
      'rouse_lost_requests_total{path="github",reason="signature_wrong_signature"} 1\n',
    );
    const told = (words: string): number =>
      world.printed.filter((text) => text.includes("Something fails") && text.includes(words))
        .length;
    await world.until(
      async () => told("hooks.presets[1].maxBodyBytes") > 0 && told("hooks.presets[0].secret") > 0,
    );
    await new Promise((done) => setTimeout(done, 500));
    expect([told("hooks.presets[1].maxBodyBytes"), told("hooks.presets[0].secret")]).toEqual([
      1, 1,
    ]);
  });

  it("is none if the sender shows no signature, or tries again by itself", async () => {
    await world.post("/hooks/github", "{}", { authorization: "" });
    const time = String(Math.floor(Date.now() / 1000));
    await world.post("/hooks/slack", "{}", {
      authorization: "",
      "x-slack-request-timestamp": time,
      "x-slack-signature": `v0=${hmac("other")}`,
    });
    const { message } = await lost();
    expect(message).toContain('"github": requests of GitHub that were refused: 1');
    expect(message).not.toMatch(/"slack"[^"]*the signature does not fit/);
  });
});
