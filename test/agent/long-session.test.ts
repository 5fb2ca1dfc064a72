import { rmSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, describe, expect, it } from "vitest";
import { digest } from "../../plugins/postgres/client/digest.ts";
import { approvalWorld, VENDOR, type ApprovalWorld } from "../approvals/world.ts";
import { message, sayOn, sentOn } from "../channels/pipe.ts";
import { describePostgres, newSchema, plainly } from "../store/postgres.ts";
import type { ModelRequest } from "./vendors.ts";

const TURNS = 120_000;
/** Of the turns so many can be read at all: whoever reads one that is older fails. */
const READABLE = 100;
const SESSION = "main/main/main";

let world: ApprovalWorld;
afterEach(async () => {
  await world.close();
  rmSync(world.dir, { recursive: true, force: true });
});

/** The record of a seeded turn as SQL, by its number `n`. */
const record = (text: (n: string) => string): string =>
  `CASE WHEN n <= ${TURNS - READABLE} THEN '{"broken' ELSE ${text("n")} END`;
const READABLE_TURN = (n: string): string =>
  `'{"runId":"run_' || ${n} || '","at":1,"hook":"channels/pipe","unsafe":false,"input":[{"text":"said-' || ${n} || '.","outside":false,"by":"owner"}],"messages":[{"role":"assistant","content":"noted"}]}'`;

const say = async (text: string): Promise<void> => {
  const before = sentOn(world).length;
  await sayOn(world, message(text));
  await world.until(async () => sentOn(world).length > before);
};
const textOf = (request: ModelRequest | undefined): string =>
  VENDOR.turns(request as ModelRequest)
    .map(({ text }) => text)
    .join("\n");

/** A session with a day of traffic: turns, lists and summaries read its end. */
function testLongSession(start: () => Promise<void>, seed: () => Promise<void>): void {
  it("is read from its end: a turn, its checkpoint and `rouse sessions main` reach no turn that is much older", async () => {
    await start();
    world.model.handler = (request) => ({
      text: VENDOR.instructions(request).includes("You summarise") ? "SUMMARY" : "noted",
    });
    await say("hello");
    await seed();
    await say("next");
    const [, summary, turn] = world.model.requests;
    expect(textOf(turn)).toContain(`said-${TURNS}.`);
    expect(textOf(turn)).toContain("SUMMARY");
    expect(textOf(summary)).not.toContain(`said-${TURNS}.`);
    const { runs } = (await world.admin("/admin/v1/runs?limit=1")).body;
    const { run } = (await world.admin(`/admin/v1/runs/${runs[0].id}`)).body;
    // The sweep after the start deletes the oldest, if it is under way still.
    expect(run).toMatchObject({
      status: "succeeded",
      warnings: [
        expect.stringMatching(/^1[01]\d{4} older turns were left out to fit the model's window$/),
      ],
    });
    const shown = (await world.admin("/admin/v1/sessions/show?key=main&limit=20")).body;
    expect(shown.turns).toHaveLength(20);
    expect(shown.turns.at(-2)).toMatchObject({
      checkpoint: { model: "local/big", outside: true },
    });
    expect((await world.rouse("sessions", "main", "--limit", "20")).out).toContain(
      "checkpoint: replaces ",
    );
    await say("/new");
    await say("again");
    expect(textOf(world.model.requests.at(-1))).not.toMatch(/said-|SUMMARY/);
  });
}

describe("a session of 120,000 turns on SQLite", () => {
  const start = async (): Promise<void> => {
    world = await approvalWorld({ contextTokens: 12_000 });
  };
  testLongSession(start, async () => {
    const db = new DatabaseSync(join(world.dir, ".rouse/rouse.db"));
    db.exec(`WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ${TURNS})
      INSERT INTO turns (session, record) SELECT '${SESSION}', ${record(READABLE_TURN)} FROM numbers`);
    db.exec(`UPDATE sessions SET turns = turns + ${TURNS} WHERE session = '${SESSION}'`);
    db.close();
  });
});

describePostgres("a session of 120,000 turns on PostgreSQL", () => {
  const schema = newSchema();
  afterEach(() => schema.drop());
  const start = async (): Promise<void> => {
    world = await approvalWorld({ contextTokens: 12_000, config: { store: { url: schema.url } } });
  };
  testLongSession(start, () =>
    plainly(async (client) => {
      const id = digest(SESSION);
      await client.query(`SET search_path TO "${schema.name}"`);
      await client.query(
        `INSERT INTO turns (session, record) SELECT $1, ${record(READABLE_TURN)} FROM generate_series(1, ${TURNS}) AS numbers (n) ORDER BY n`,
        [id],
      );
      await client.query(`UPDATE sessions SET turns = turns + ${TURNS} WHERE id = $1`, [id]);
    }),
  );
});
