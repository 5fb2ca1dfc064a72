import { afterEach, describe, expect, it } from "vitest";
import { createWorld, type World } from "../e2e/world.ts";

let world: World;
afterEach(() => world.stop());

const comment = (login: string, body: string) => ({
  action: "created",
  issue: {
    number: 7,
    title: "Broken",
    html_url: "https://github.example/7",
    user: { login: "ann" },
    body: "It is broken",
  },
  comment: { id: 1, body, user: { login }, html_url: "https://github.example/7#1" },
  repository: { full_name: "acme/shop" },
  sender: { login },
});

describe("an event that the agent itself has caused", () => {
  it("is skipped by its account, and recorded with the reason; everybody else's is not", async () => {
    world = await createWorld({
      workers: false,
      config: {
        hooks: {
          presets: [{ use: "github", auth: "token", ignoreSelf: { accounts: ["Rouse-Bot[bot]"] } }],
        },
      },
    });
    const own = await world.post("/hooks/github", comment("rouse-bot[bot]", "Looking into it"));
    expect([own.status, own.body]).toEqual([
      200,
      {
        ok: true,
        eventId: expect.any(String),
        outcome: "skipped",
        reason: "own echo: it was caused by one of ignoreSelf.accounts",
      },
    ]);
    const receipt = (await world.get(`/hooks/events/${own.body.eventId}`)).body.event;
    expect(receipt).toMatchObject({
      outcome: "skipped",
      actions: [],
      reason: expect.stringContaining("own echo"),
    });
    expect((await world.post("/hooks/github", comment("ann", "Thanks!"))).status).toBe(202);
  });

  it("is known also where the preset leaves out what bots write", async () => {
    world = await createWorld({
      workers: false,
      config: {
        hooks: {
          presets: [{ use: "slack", auth: "token", ignoreSelf: { accounts: ["B0ROUSE"] } }],
        },
      },
    });
    const event = { type: "message", bot_id: "B0ROUSE", channel: "C1", ts: "1.2", text: "done" };
    const own = await world.post("/hooks/slack", {
      type: "event_callback",
      event_id: "Ev1",
      event,
    });
    expect([own.status, own.body.outcome]).toEqual([200, "skipped"]);
    const other = await world.post("/hooks/slack", {
      type: "event_callback",
      event_id: "Ev2",
      event: { ...event, bot_id: "B0OTHER" },
    });
    expect(other.body).toMatchObject({ ok: true, outcome: "unmatched" });
  });

  it("is known by the marker that its replies carry", async () => {
    world = await createWorld({
      config: {
        hooks: {
          mappings: [
            {
              id: "chat",
              match: { path: "chat" },
              messageTemplate: "{{text}}",
              channel: "console",
              to: "ops",
              ignoreSelf: { text: ["text", "quoted.text"], marker: "⁂ rouse" },
            },
          ],
        },
      },
    });
    await world.post("/hooks/chat", { text: "What now?" });
    const printed = await world.until(async () =>
      world.printed.find((text) => text.includes("reply to ops")),
    );
    expect(printed).toMatch(/\n\n⁂ rouse\n$/);
    const echo = await world.post("/hooks/chat", { text: "re", quoted: { text: printed } });
    expect([echo.status, echo.body.reason]).toEqual([
      200,
      "own echo: it carries ignoreSelf.marker",
    ]);
    // The marker is for channels: neither the receipt nor the summary has it.
    const { runs } = (await world.admin("/admin/v1/runs")).body;
    expect((await world.admin(`/admin/v1/runs/${runs.at(-1).id}`)).body.run.reply).not.toContain(
      "⁂",
    );
  });

  it("can only be recognised if the config says by which fields", async () => {
    world = await createWorld({ start: false });
    const load = (hooks: object) => createWorld({ start: false, config: { hooks } });
    const mapping = { id: "a", match: { path: "a" }, messageTemplate: "x" };
    await expect(
      load({ mappings: [{ ...mapping, ignoreSelf: { accounts: ["me"] } }] }),
    ).rejects.toThrow(/ignoreSelf\.from: is required/);
    await expect(
      load({ mappings: [{ ...mapping, ignoreSelf: { marker: "mark" } }] }),
    ).rejects.toThrow(/ignoreSelf\.text: is required/);
    await expect(
      load({ mappings: [{ ...mapping, ignoreSelf: { accounts: ["me"], from: ["a b"] } }] }),
    ).rejects.toThrow(/ignoreSelf\.from\[0\]: must be a plain path/);
    await expect(
      load({ presets: [{ use: "healthchecks", ignoreSelf: { accounts: ["me"] } }] }),
    ).rejects.toThrow(
      /hooks\.presets\[0\]\.ignoreSelf: this preset's events do not name who caused them/,
    );
  });
});
