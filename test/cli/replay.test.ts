import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { createWorld, type World } from "../e2e/world.ts";
import { createCli, type CliWorld } from "./world.ts";

let cli: CliWorld;
let world: World;
beforeAll(async () => {
  cli = await createCli();
  const mappings = [
    { id: "items", match: { path: "cart" }, forEach: "items", messageTemplate: "Item {{item}}" },
    {
      id: "note",
      match: { path: "note", payload: { kind: "good" } },
      messageTemplate: "Note {{text}}",
    },
  ];
  world = await createWorld({ dir: cli.dir, workers: false, config: { hooks: { mappings } } });
});
afterAll(async () => {
  await world.stop();
  await cli.close();
});

const send = async (path: string, body: unknown): Promise<string> => {
  const { body: answer } = await world.post(`/hooks/${path}`, body);
  return (answer.eventId ?? answer.requestId) as string;
};

describe("rouse events replay", () => {
  it("takes the body of a file, and says that the new event has an edited body", async () => {
    const id = await send("note", { kind: "bad", text: "hello" });
    await cli.write("body.json", { kind: "good", text: "hello" });
    const { code, out } = await cli.rouse(`events replay ${id} --body body.json`);
    expect([code, out]).toEqual([0, expect.stringContaining("accepted  note")]);
    const made = /→ (evt_\w+)/.exec(out)?.[1] ?? "";
    expect((await cli.rouse(`explain ${made} --request`)).out).toContain(
      `${id}, with an edited body`,
    );
    expect((await cli.rouse(`explain ${id} --request`)).out).toContain('"kind":"bad"');
  });

  it("replays one action of an event", async () => {
    const id = await send("cart", { items: ["a", "b"] });
    const { out } = await cli.rouse(`events replay ${id} --action 2`);
    expect(out).toContain("Item b");
    expect(out).not.toContain("Item a");
    expect((await cli.rouse(`events replay ${id} --action 3`)).err).toContain(
      "there is no action 3: the event makes 2 actions now",
    );
  });

  it("replays what filters leave, at a rate, and asks before work is done twice", async () => {
    for (let n = 0; n < 3; n++) await send("note", { kind: "other", n });
    await cli.fails("events replay --path note", 2, "do their work a second time");
    const tried = await cli.rouse("events replay --path note --outcome unmatched --dry-run");
    expect(tried.out).toContain("\n3 would be replayed: 3 unmatched\n");
    const { code, out } = await cli.rouse(
      "events replay --path note --outcome unmatched --limit 2 --rate 20/s",
    );
    expect([code, out.trimEnd().split("\n").at(-1)]).toEqual([0, "2 replayed: 2 unmatched"]);
    expect((await cli.rouse("events replay --path cart --yes")).out).toContain("Item a");
  });

  it("takes the events of a path, a mapping, an outcome and a time, the newest first where there are too many", async () => {
    const clock = { ...systemClock, now: () => at };
    const start = Date.UTC(2026, 0, 1);
    let at = start;
    const own = await createCli();
    const mappings = ["a", "b"].map((kind) => ({
      id: kind,
      match: { path: "t", payload: { kind } },
      messageTemplate: "{{n}}",
    }));
    const other = { id: "other", match: { path: "o" }, messageTemplate: "{{n}}" };
    const timed = await createWorld({
      dir: own.dir,
      workers: false,
      clock,
      config: { hooks: { mappings: [...mappings, other] } },
    });
    try {
      for (let n = 0; n < 6; n++) {
        at = start + n * 3_600_000;
        await timed.post(n === 5 ? "/hooks/o" : "/hooks/t", { kind: "abc"[n % 3], n });
      }
      const sum = async (...args: string[]): Promise<string | undefined> => {
        const { code, out } = await own.rouse(["events", "replay", "--dry-run", ...args]);
        expect(code).toBe(0);
        return out.trimEnd().split("\n").at(-1);
      };
      expect(await sum("--path", "t")).toBe("5 would be replayed: 4 accepted, 1 unmatched");
      expect(await sum("--mapping", "a")).toBe("2 would be replayed: 2 accepted");
      expect(await sum("--outcome", "unmatched")).toBe("1 would be replayed: 1 unmatched");
      expect(await sum("--since", "2026-01-01T01:30Z", "--until", "2026-01-01T04:30Z")).toBe(
        "3 would be replayed: 1 unmatched, 2 accepted",
      );
      // Done: two of b's at 01:00 and 04:00; the limit keeps the newer one.
      const { out } = await own.rouse("events replay --mapping b --limit 1 --yes");
      const replayed = /^(evt_\w+)  accepted {2}b; /m.exec(out)?.[1] ?? "";
      expect((await own.rouse(`explain ${replayed} --request`)).out).toContain('"n":4');
      expect(out.trimEnd().split("\n").at(-1)).toBe("1 replayed: 1 accepted");
    } finally {
      await timed.stop();
      await own.close();
    }
  });

  it("replays several events that are named, the oldest first, and each once", async () => {
    const [first, second] = [
      await send("note", { kind: "first" }),
      await send("note", { kind: "second" }),
    ];
    const named = ["events", "replay", second, first];
    const tried = await cli.rouse([...named, "--dry-run"]);
    const expected = new RegExp(
      `^${first}  unmatched[^]*\n${second}  unmatched[^]*\n2 would be replayed: 2 unmatched\n$`,
    );
    expect([tried.code, tried.out]).toEqual([0, expect.stringMatching(expected)]);
    const { code, out } = await cli.rouse([...named, "--rate", "20/s"]);
    expect([code, out]).toEqual([
      0,
      expect.stringMatching(
        new RegExp(
          `^${first}  unmatched[^]*\n${second}  unmatched[^]*\n2 replayed: 2 unmatched\n$`,
        ),
      ),
    ]);
    const again = await cli.rouse(named);
    expect([again.code, again.out]).toEqual([
      1,
      expect.stringContaining(`${first}  not replayed: it was replayed before, as evt_`),
    ]);
  });

  it("says which options do not go together", async () => {
    const fails = async (...args: string[]): Promise<string> => {
      const { code, err } = await cli.rouse(["events", "replay", ...args]);
      expect(code).toBe(2);
      return err;
    };
    expect(await fails()).toContain("write an id, or choose several");
    expect(await fails("evt_1", "--path", "note")).toContain("--path cannot be used beside an id");
    expect(await fails("evt_1", "evt_2", "--body", "b")).toContain("--body takes exactly one id");
    expect(await fails("evt_1", "evt_2", "--failed")).toContain(
      "--failed cannot be used beside an id",
    );
    expect(await fails("--failed", "--body", "b")).toContain("--body takes exactly one id");
    expect(await fails("--outcome", "unmatched", "--rate", "fast")).toContain("such as 5/s");
    for (const dryRun of [[], ["--dry-run"]]) {
      const wrong = (...args: string[]): Promise<string> =>
        fails("--outcome", "unmatched", ...args, ...dryRun);
      for (const limit of ["0", "many", "-1", "1.5", "1e9"])
        expect(await wrong("--limit", limit)).toContain("write a whole number from 1");
      for (const name of ["since", "until"])
        for (const time of ["yesterday", "7", "2026-13-01", "1y", ""])
          expect(await wrong(`--${name}`, time)).toContain(
            `${name}: write an age such as "90m" or "2d", or a date`,
          );
      expect(await wrong("--rate", "0")).toContain("such as 5/s");
      expect(await fails("--outcome", "done", ...dryRun)).toContain(
        "Allowed choices are accepted, skipped, unmatched, duplicate, rejected, failed",
      );
    }
  });
});
