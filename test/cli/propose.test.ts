import { existsSync, readFileSync } from "node:fs";
import { mkdir, symlink } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import type { ProposalPlan } from "../../src/operate/proposals/prepare.ts";
import type { Proposal, ProposalLine } from "../../src/operate/proposals/proposals.ts";
import { ANSWER, createProposeWorld, TICKET, type ProposeWorld } from "./propose-world.ts";

let world: ProposeWorld;
beforeAll(async () => void (world = await createProposeWorld()));
afterAll(() => world.close());
const open = (...mappings: object[]): Promise<void> => world.renew(mappings);

const ticket = (id: number, more: object = {}) => ({
  ...TICKET,
  ticket: { ...TICKET.ticket, id, ...more },
});

async function proposal(command: string, ...args: string[]): Promise<Proposal> {
  const { code, out, err } = await world.propose(command, ...args, "--json");
  expect([code, code === 0 ? "" : err]).toEqual([0, ""]);
  return (JSON.parse(out) as { proposal: Proposal }).proposal;
}

describe("rouse propose with a model", () => {
  it("writes a mapping in shadow with fixtures that pass, runs nothing until it is enabled, and then works", async () => {
    await open();
    world.answers.splice(0, 1, { ...ANSWER, takes: [1, 2] });
    const [first = "", second = ""] = await world.post("desk", ticket(7), ticket(8));
    const { code, out } = await world.propose(
      "tickets --event",
      first,
      second,
      "--say",
      "page me when a P1 ticket opens",
      "--deliver",
      "slack:C0123ABC",
      "--agent",
      "ops",
    );
    expect(code).toBe(0);
    expect(out).toMatch(
      /at most 4 rounds and 60,000 tokens; a round takes about [\d,]+ \(about \$0\.\d+, and at most \$0\.24 in all\)/,
    );
    expect(out.indexOf("at most 4 rounds")).toBeLessThan(
      out.indexOf("round 1: takes 2 of 2 events"),
    );
    expect(out).toContain("masked: payload.customer.email, payload.customer.name");
    expect(out).toContain("tickets.event is in shadow: it starts nothing.");
    expect(out).toContain("Wrote tests/desk/tickets.event.json5: accepted by tickets.event");
    expect(out).toMatch(/2 would run that did not/);
    expect((await world.readWritten("tickets")).mappings).toEqual([
      {
        id: "tickets.event",
        shadow: true,
        match: { path: "desk", payload: { type: "ticket.opened" } },
        agentId: "ops",
        deliver: true,
        channel: "slack",
        to: "C0123ABC",
        name: "Tickets: {{type}}",
        sessionKey: "hook:tickets:{{ticket.id}}",
        messageTemplate: [
          "page me when a P1 ticket opens",
          "ticket.subject: {{ticket.subject}}",
          "ticket.priority: {{ticket.priority}}",
        ],
      },
    ]);
    expect(await world.cli.rouse("test")).toMatchObject({
      code: 0,
      out: expect.stringContaining("2 "),
    });
    await world.post("desk", ticket(9));
    expect([await world.countRuns(), world.model.asked.length, world.slack.posts]).toEqual([
      0,
      1,
      [],
    ]);

    const enabled = await world.cli.rouse("hooks enable tickets.event --yes");
    expect(enabled).toMatchObject({
      code: 0,
      out: expect.stringContaining("tests: 2 pass, 0 fail"),
    });
    expect((await world.cli.rouse("test")).code).toBe(0);
    await world.post("desk", ticket(10));
    await vi.waitFor(() =>
      expect(world.slack.posts).toMatchObject([{ channel: "C0123ABC", text: "On it." }]),
    );
    expect(await world.countRuns("tickets.event")).toBe(1);
  });

  it("shows the model the fields, 5 bodies with masked values inside the boundary, and the operator's words; no tools", async () => {
    await open();
    const bodies = Array.from({ length: 8 }, (_, id) => ({
      ...ticket(id),
      api_token: "tok-canary-4711",
      note: `body-${id}`,
    }));
    const events = await world.post("desk", ...bodies);
    await proposal("tickets --event", ...events);
    const [{ body, text }] = world.model.asked as [(typeof world.model.asked)[number]];
    expect(body).toMatchObject({ response_format: { type: "json_schema" } });
    expect([body.tools, (text.match(/"note":"body-\d/g) ?? []).length]).toEqual([undefined, 5]);
    expect(text).not.toMatch(/canary-4711|ann\.smith|"Ann"/);
    const OUTSIDE = /<<<EXTERNAL_CONTENT \w+>>>[^]*?<<<END_EXTERNAL_CONTENT \w+>>>/g;
    const outside = text.match(OUTSIDE)?.join("") ?? "";
    expect([outside.includes("body-0"), text.replaceAll(OUTSIDE, "").includes("body-0")]).toEqual([
      true,
      false,
    ]);
    expect(outside).toContain("ticket.priority: text, values");
  });

  it("gives what is wrong back, and takes the mended answer", async () => {
    await open();
    const never = { in: "payload", field: "ticket.id", operator: "$lt", values: [0] };
    const broken = [
      "I would love to help.",
      { mapping: {} },
      { ...ANSWER, fields: ["ticket.subjet"] },
      { ...ANSWER, conditions: [never] },
      { ...ANSWER, fields: ["$uppercase(ticket.subject)"] },
    ];
    world.answers.splice(0, 1, ...broken.slice(0, 3), ANSWER, ...broken.slice(3), ANSWER);
    const events = await world.post("desk", ticket(7));
    for (const [name, rounds] of [
      ["tickets", 4],
      ["others", 3],
    ] as const)
      expect(await proposal(name, "--event", ...events)).toMatchObject({
        problems: [],
        model: { rounds },
        events: [{ isTaken: true, missing: [] }],
      });
    expect(world.model.asked).toHaveLength(7);
    expect(world.model.asked.map(({ text }) => text.includes("problem: "))).toEqual([
      false,
      true,
      true,
      true,
      false,
      true,
      true,
    ]);
  });

  it("gives the explanation of conditions and texts back", async () => {
    await open();
    world.answers.splice(
      0,
      1,
      {
        ...ANSWER,
        conditions: [{ in: "payload", field: "ticket.id", operator: "$lt", values: [5] }],
      },
      ANSWER,
    );
    await proposal("tickets --event", ...(await world.post("desk", ticket(7))));
    expect(world.model.asked[1]?.text).toMatch(
      /does not hold: match\.payload\.ticket\.id \$lt 5: ticket\.id is the number 7/,
    );
  });

  it("follows the operator's words about which events it takes", async () => {
    await open();
    const P1 = { in: "payload", field: "ticket.priority", operator: "$eq", values: ["P1"] };
    const conditions = [...ANSWER.conditions, P1];
    world.answers.splice(0, 1, { ...ANSWER, takes: [1] }, { ...ANSWER, takes: [1], conditions });
    const events = await world.post("desk", ticket(7), ticket(8, { priority: "P3" }));
    const made = await proposal("tickets --event", ...events, "--say", "only P1 tickets");
    expect(made).toMatchObject({
      problems: [],
      model: { rounds: 2 },
      events: [{ isTaken: true }, { isTaken: false }],
    });
    expect(made.fixtures.map(({ outcome }) => outcome)).toEqual(["accepted", "unmatched"]);
    expect((await world.cli.rouse("test")).code).toBe(0);
  });

  it("ends after 4 rounds: with the best answer, or with the way to do without a model", async () => {
    await open();
    world.answers.splice(0, 1, { ...ANSWER, sessionField: "ticket.subject" });
    const events = await world.post("desk", ticket(7), ticket(8, { subject: undefined }));
    const made = await proposal("tickets --event", ...events);
    expect(made.problems).toEqual(["event 2 does not have ticket.subject"]);
    expect(made.notes).toEqual([
      expect.stringContaining("(the limit of 4 rounds); this is the best one"),
    ]);
    expect(world.model.asked).toHaveLength(4);
    world.answers.splice(0, 1, "no");
    const failed = await world.propose("others --event", ...events);
    expect(failed).toMatchObject({
      code: 1,
      err: expect.stringMatching(/limit of 4 rounds\); nothing was written\. `--no-model`/),
    });
    expect([world.hasWritten("others"), world.model.asked.length]).toEqual([false, 8]);
  });

  it("asks no further round if it might pass 60,000 tokens", async () => {
    await open();
    const says = world.model.says;
    const usage = { prompt_tokens: 50_000, completion_tokens: 8_500, total_tokens: 58_500 };
    world.model.says = async (asked, call) => ({
      ...(await says(asked, call)),
      text: ["no"],
      usage,
    });
    const failed = await world.propose("tickets --event", ...(await world.post("desk", ticket(7))));
    expect(failed).toMatchObject({
      code: 1,
      err: expect.stringContaining("in 1 round (the limit of 60,000 tokens)"),
    });
    expect(world.model.asked).toHaveLength(1);
    expect(
      (world.model.asked[0] as { body: { max_tokens: number } }).body.max_tokens,
    ).toBeLessThanOrEqual(8_000);
  });

  it("says that the model is down, and how to do without it", async () => {
    await open();
    world.model.says = () => ({ status: 401 });
    const events = await world.post("desk", ticket(7));
    const failed = await world.propose("tickets --event", ...events);
    expect(failed).toMatchObject({
      code: 1,
      err: expect.stringMatching(/the model gave no answer: .*nothing was written\. `--no-model`/),
    });
    expect(world.hasWritten("tickets")).toBe(false);
  });

  it("keeps what is masked out of conditions, since real events do not have it", async () => {
    await open();
    const standIn = (text: string): string => /"name":\s*"([^"]+)"/.exec(text)?.[1] ?? "none";
    const says = world.model.says;
    world.model.says = (asked, call) => {
      const byName = {
        in: "payload",
        field: "customer.name",
        operator: "$eq",
        values: [standIn(asked.text)],
      };
      return call === 0
        ? { text: [JSON.stringify({ ...ANSWER, conditions: [byName] })] }
        : says(asked, call);
    };
    const made = await proposal("tickets --event", ...(await world.post("desk", ticket(7))));
    expect(made).toMatchObject({ problems: [], notes: [], model: { rounds: 2 } });
    expect(standIn(world.model.asked[0]?.text ?? "")).toMatch(/^X\w\w$/);
  });
});

describe("rouse propose --no-model", () => {
  it("drafts from the fields that the events have, those that all have first, and the few values of the kind", async () => {
    await open();
    const bodies = [
      { type: "a", id: 1, path: "/x", state: "new", extra: true, token: "canary-token-1" },
      { type: "b", id: 2, path: "/y", state: "old", deep: { title: "T" }, token: "canary-token-2" },
    ];
    const made = await proposal(
      "acme --no-model --event",
      ...(await world.post("acme", ...bodies)),
    );
    expect(made).toMatchObject({
      model: null,
      problems: [],
      events: [{ isTaken: true }, { isTaken: true }],
    });
    expect((await world.readWritten("acme")).mappings).toEqual([
      {
        id: "acme.event",
        shadow: true,
        match: { path: "acme", payload: { type: ["a", "b"] } },
        name: "Acme: {{type}}",
        sessionKey: "hook:acme:{{id}}",
        messageTemplate: [
          "Acme sent {{type}}.",
          "id: {{id}}",
          "path: {{payload.path}}",
          "state: {{state}}",
          "extra: {{extra}}",
          "deep.title: {{deep.title}}",
        ],
      },
    ]);
    expect(await world.listFixtures("acme")).toEqual(["acme.event-2.json5", "acme.event.json5"]);
    expect((await world.cli.rouse("test")).code).toBe(0);
    expect(world.model.asked).toHaveLength(0);
  });

  it("takes bodies of 200 levels and forms, and leaves those out that cannot be read", async () => {
    await open();
    const deep = Array.from({ length: 198 }).reduce<object>((inner) => ({ n: inner }), { end: 1 });
    const events = await world.post(
      "acme",
      { id: 1, deep },
      new Blob([new Uint8Array([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x7d])]),
      "[".repeat(300),
    );
    const { code, out } = await world.propose("acme --no-model --event", ...events);
    expect([code, out.match(/^left out: /gm)?.length]).toEqual([0, 2]);
    expect((await world.cli.rouse("test")).code).toBe(0);
    world.answers.splice(0, 1, {
      ...ANSWER,
      conditions: [],
      sessionField: null,
      fields: ["id"],
    });
    expect(await proposal("deep --event", events[0] ?? "")).toMatchObject({ problems: [] });
    const broken = await world.propose("broken --no-model --event", ...events.slice(1));
    expect(broken).toMatchObject({
      code: 2,
      err: expect.stringContaining("no event can be drafted from: evt_"),
    });
  });
});

describe("what a proposal refuses", () => {
  it("names that are taken by a file or a mapping", async () => {
    await open({ id: "other.event", match: { path: "other" }, messageTemplate: "x" });
    const events = await world.post("desk", ticket(7));
    await proposal("tickets --no-model --event", ...events);
    const before = readFileSync(join(world.cli.dir, "mappings/tickets.json"), "utf8");
    for (const [name, message] of [
      ["tickets", "tickets.json is there already"],
      ["other", 'there is a mapping "other.event" already'],
      ["../x", 'use lower-case letters, digits and "-"'],
    ] as const)
      expect(await world.propose(name, "--event", ...events)).toMatchObject({
        code: 2,
        err: expect.stringContaining(message),
      });
    expect(readFileSync(join(world.cli.dir, "mappings/tickets.json"), "utf8")).toBe(before);
    expect(world.model.asked).toHaveLength(0);
  });

  it("templates as recipients, unknown agents and channels, events of several hooks: before a model is asked", async () => {
    await open();
    const [first = "", second = ""] = [
      ...(await world.post("desk", ticket(7))),
      ...(await world.post("shop", ticket(8))),
    ];
    for (const [args, message] of [
      [["--event", first, "--deliver", "slack:{{reply_to}}"], "are no templates"],
      [["--event", first, "--agent", "{{agent}}"], "are no templates"],
      [["--event", first, "--agent", "gone"], "agentId: names no agent"],
      [["--event", first, "--deliver", "gone:1"], "names no channel"],
      [["--event", first, "--model", "gone/big"], 'models.providers has no "gone"'],
      [["--event", first, second], "the events came to several hooks (desk, shop)"],
      [["--event", "evt_gone"], "there is no event"],
      [[], "name the events"],
    ] as const) {
      const { code, err } = await world.propose("tickets", ...args);
      expect([args, code > 0, err]).toEqual([args, true, expect.stringContaining(message)]);
    }
    expect([world.model.asked.length, world.hasWritten("tickets")]).toEqual([0, false]);
  });

  it("words of the operator if no model is configured: the agent reads them, and it is said that they choose no events", async () => {
    await open();
    const config = JSON.parse(readFileSync(join(world.cli.dir, "rouse.json5"), "utf8")) as {
      models: unknown;
      agents: { defaults: { model?: string } };
    };
    await world.cli.write("rouse.json5", {
      ...config,
      models: {},
      agents: { list: [{ id: "main" }] },
    });
    expect(await world.gateway.reload()).toMatchObject({ ok: true });
    const made = await proposal(
      "tickets --say",
      "page me",
      "--event",
      ...(await world.post("desk", ticket(7))),
    );
    expect(made.notes).toEqual([
      expect.stringContaining("no model is configured"),
      expect.stringContaining("your words choose no events"),
    ]);
    expect((await world.readWritten("tickets")).mappings[0]?.messageTemplate?.[0]).toBe("page me");
  });
});

describe("where files go", () => {
  it("gives the file as a patch if it cannot be written, and writes no fixture", async () => {
    await open();
    const events = await world.post("desk", ticket(7));
    await mkdir(join(world.cli.dir, "mappings"));
    await symlink("../elsewhere.json", join(world.cli.dir, "mappings/tickets.json"));
    const { code, out, err } = await world.propose("tickets --no-model --event", ...events);
    expect([code, err]).toEqual([
      0,
      expect.stringMatching(/nothing was written: .* is a link to .*\nThe file as a patch/),
    ]);
    expect(out).toMatch(/^\+\+\+ b\/mappings\/tickets\.json$/m);
    expect(await world.listFixtures("desk")).toEqual([]);
  });

  it("never compares with a stand-in, which real events do not have", async () => {
    await open();
    const body = { type: "ann.smith@shop.test", id: 1 };
    const made = await proposal("mails --no-model --event", ...(await world.post("mails", body)));
    expect((await world.readWritten("mails")).mappings[0]?.match.payload).toEqual({});
    expect(made.text).not.toContain("ann.smith");
    expect(await world.listFixtures("mails")).toEqual(["mails.event.json5"]);
  });

  it("works without a gateway that runs, and asks the model then too", async () => {
    const stopped = await createProposeWorld();
    onTestFinished(() => stopped.close());
    const [event = ""] = await stopped.post("desk", ticket(7));
    await stopped.gateway.stop();
    const { out } = await stopped.propose("tickets --event", event, "--json");
    expect((JSON.parse(out) as { proposal: Proposal }).proposal).toMatchObject({
      problems: [],
      model: { ref: "local/big", rounds: 1 },
    });
    expect(stopped.hasWritten("tickets")).toBe(true);
  });
});

describe("POST /admin/v1/proposals", () => {
  it("needs the operator's token, says what it will do, and answers line by line", async () => {
    await open();
    const events = await world.post("desk", ticket(7));
    const wanted = { name: "tickets", events };
    expect((await world.admin("/proposals", wanted, { token: "wrong" })).status).toBe(401);
    for (const [body, status, code] of [
      [{ ...wanted, channel: "slack" }, 400, "usage"],
      [{ ...wanted, events: [] }, 400, "usage"],
      [{ ...wanted, events: Array.from({ length: 21 }, () => events[0]) }, 400, "usage"],
      [{ ...wanted, events: ["evt_gone"] }, 404, "not_found"],
      [{ ...wanted, model: "gone/big" }, 400, "unknown_model"],
      [{ events }, 400, "usage"],
    ] as const) {
      const answer = await world.admin("/proposals", body);
      expect([body, answer.status, await answer.json()]).toEqual([
        body,
        status,
        expect.objectContaining({ error: expect.objectContaining({ code }) }),
      ]);
    }
    const { plan } = (await (await world.admin("/proposals/check", wanted)).json()) as {
      plan: ProposalPlan;
    };
    expect(plan).toMatchObject({
      name: "tickets",
      path: "desk",
      model: { ref: "local/big", maxRounds: 4, maxTokens: 60_000, shown: events },
    });
    expect([world.model.asked.length, world.hasWritten("tickets")]).toEqual([0, false]);
    const answer = await world.admin("/proposals", wanted);
    expect(answer.headers.get("content-type")).toBe("application/x-ndjson");
    const lines = (await answer.text())
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as ProposalLine);
    expect(lines).toMatchObject([
      { type: "plan" },
      { type: "round", round: 1, taken: 1 },
      { type: "end", ok: true, proposal: { whatIf: { changed: 1 } } },
    ]);
    world.answers.splice(0, 1, "no");
    const failed = (await (await world.admin("/proposals", { ...wanted, name: "second" })).text())
      .trim()
      .split("\n");
    expect(JSON.parse(failed.at(-1) ?? "")).toMatchObject({
      type: "end",
      ok: false,
      code: "model_failed",
    });
    expect(existsSync(join(world.cli.dir, "mappings/second.json"))).toBe(false);
  });

  it("writes nothing for a caller that has left, and ends the call of the model", async () => {
    await open();
    const [first = "", second = ""] = await world.post(
      "desk",
      ticket(7),
      ticket(8, { subject: undefined }),
    );
    const left = new AbortController();
    const [half, says] = [{ ...ANSWER, sessionField: "ticket.subject" }, world.model.says];
    world.answers.splice(0, 1, half);
    world.model.says = async (asked, call) =>
      call === 0
        ? says(asked, call)
        : { ...(await says(asked, call)), wait: () => new Promise(() => undefined) };
    const answer = await world.admin(
      "/proposals",
      { name: "tickets", events: [first, second] },
      { signal: left.signal },
    );
    const read = answer.text().catch(() => "left");
    await vi.waitFor(() => expect(world.model.asked).toHaveLength(2));
    left.abort();
    expect(await read).toBe("left");
    await vi.waitFor(() => expect(world.model.asked[1]?.gone.aborted).toBe(true), {
      timeout: 30_000,
    });
    await new Promise((done) => setTimeout(done, 1500));
    expect([world.hasWritten("tickets"), await world.listFixtures("desk")]).toEqual([false, []]);
  });
});
