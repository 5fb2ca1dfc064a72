import { afterEach, describe, expect, it } from "vitest";
import { findLive } from "../agent/markdown-judge.ts";
import { eventsOf, platformWorld, type PlatformWorld } from "./world.ts";

let world: PlatformWorld;
afterEach(() => world?.close());

/** The reply of a model that obeys an attacker, with each way to an image. */
const SAID = [
  "Use `<div>` if a < b. ![one](https://x.example/1.png) ![two][r] ![r]",
  '<img src="https://x.example/3.png"> <!-- four --> <b\nonclick=5>',
  "```html\n<p>![six](kept)</p>\n```",
  "[r]: https://x.example/2.png",
].join("\n\n");
const SHOWN = [
  "Use `<div>` if a < b. one (https://x.example/1.png) ![two][r] ![r]",
  '<img src-disarmed="https://x.example/3.png"> <!-- four --> <b\nonclick=5>',
  "```html\n<p>![six](kept)</p>\n```",
  "[r] : https://x.example/2.png",
].join("\n\n");

const contentOf = (text: string): string[] =>
  eventsOf(text).flatMap((event) =>
    typeof event === "object" ? (event.choices[0]?.delta.content ?? []) : [],
  );

describe("a reply fetches nothing from outside", () => {
  it("of the chat API, whole and streamed, in the record of its run too", async () => {
    expect(findLive(SAID)).not.toEqual([]);
    expect(findLive(SHOWN)).toEqual([]);
    world = await platformWorld();
    world.model.says = () => ({ text: [...SAID] });
    expect((await world.chat()).body.choices[0].message.content).toBe(SHOWN);
    const pieces = contentOf((await world.chat({ stream: true })).text);
    expect(pieces.join("")).toBe(SHOWN);
    const { runs } = (await world.admin("/admin/v1/runs")).body;
    expect(runs).toHaveLength(2);
    for (const { id } of runs)
      expect((await world.admin(`/admin/v1/runs/${id}`)).body.run.reply).toBe(SHOWN);
  });

  it("on a channel and in the main session's summary", async () => {
    world = await platformWorld();
    world.model.says = ({ text }) => ({
      text: [text.includes("This is a heartbeat") ? "HEARTBEAT_OK" : SAID],
    });
    const { body } = await world.post("/hooks/agent", { message: "Say it.", name: "Deploy" });
    const run = await world.until(async () => {
      const { run } = (await world.get(`/hooks/runs/${body.runId}`)).body;
      return run.endedAt !== null && run.delivery?.status !== "pending" && run;
    });
    expect(run).toMatchObject({
      reply: SHOWN,
      delivery: { status: "delivered", channel: "console" },
    });
    expect(world.printed.join("")).toContain(SHOWN);
    const heartbeat = await world.until(async () =>
      world.model.asked.find(({ text }) => text.includes("This is a heartbeat")),
    );
    expect(heartbeat?.text).toContain("<img src-disarmed=");
    expect(heartbeat?.text).not.toContain("![one]");
  });
});
