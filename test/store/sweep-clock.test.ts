import { describe, expect, it } from "vitest";
import { DAY, event, HOUR, KEEP, type Home } from "./suite/make.ts";
import { createStage } from "./suite/stage.ts";
import { sqliteHome } from "./home.ts";
import { describePostgres, postgresHome } from "./postgres.ts";

/** Stores whose rows are in the order in which they were written: an event from the future is as old as those after it. */
function testRows(name: string, makeHome: () => Promise<Home>, counts = [1, 700]): void {
  describe(name, () => {
    const stage = createStage(makeHome);
    const accept = async (count = 1): Promise<void> => {
      // No more at a time than a busy database takes before the store refuses them.
      for (let left = count; left > 0; left -= 500) {
        const events = Array.from({ length: Math.min(left, 500) }, () =>
          event({ outcome: "skipped", receivedAt: stage.clock.now() }),
        );
        await Promise.all(events.map((one) => stage.store.accept(one)));
      }
    };
    const countBodies = async (): Promise<number> => {
      const events = await stage.store.events.list({ limit: 1000 });
      return events.filter(({ request }) => request.body !== null).length;
    };
    const ahead = async (count: number): Promise<void> => {
      stage.clock.set(400 * DAY);
      await accept(count);
      stage.clock.set(-400 * DAY);
    };

    it.each(counts)(
      "%i rows from the future go when those that came after them go",
      async (count) => {
        await accept();
        await ahead(count);
        stage.clock.advance(HOUR);
        // Nothing that came after them is old yet.
        expect(await stage.store.sweep(stage.clock.now() + 3 * DAY - HOUR, KEEP)).toBe(1);
        await accept();
        expect(await stage.store.sweep(stage.clock.now() + 3 * DAY - 1, KEEP)).toBe(0);
        expect(await stage.store.sweep(stage.clock.now() + 3 * DAY, KEEP)).toBe(count + 1);
        expect(await countBodies()).toBe(0);
        // The mark is behind them: the next sweep does not begin with them.
        expect(await stage.store.oldestBody(stage.clock.now() + 3 * DAY)).toBeUndefined();
        expect(await stage.store.sweep(stage.clock.now() + 31 * DAY, KEEP)).toBe(count + 2);
        expect(await stage.store.events.list({})).toEqual([]);
      },
    );

    it("with bodies 0 they lose theirs as soon as an event came after them", async () => {
      await ahead(3);
      await accept();
      expect(await stage.store.sweep(stage.clock.now(), { ...KEEP, bodies: 0 })).toBe(4);
      expect(await countBodies()).toBe(0);
    });
  });
}

// More than the store looks at in one go.
testRows("rows from the future in SQLite", sqliteHome, [1, 700, 6000]);
describePostgres("with a schema of its own", () =>
  testRows("rows from the future in PostgreSQL", postgresHome),
);
