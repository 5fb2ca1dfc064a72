import { afterEach, expect, it } from "vitest";
import type { Embedder } from "../../src/knowledge/types.ts";
import { describePostgres, newSchema, plainly } from "../store/postgres.ts";
import { onPostgres, type KnowledgeWorld } from "./world.ts";

/** Whether the server has pgvector to offer; most do not. */
const offered =
  process.env["TEST_POSTGRES_ANSWERS"] === "yes" &&
  (
    await plainly((client) =>
      client.query("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'"),
    )
  ).rows.length > 0;

let worlds: KnowledgeWorld[] = [];
afterEach(async () => {
  for (const world of worlds) await world.knowledge.close();
  for (const world of worlds) await world.close();
  worlds = [];
});

const DIMENSION = 24;
/** A vector for each text, always the same. */
const embed: Embedder = {
  model: "m",
  embed: async (texts) =>
    texts.map((text) => {
      let state = [...text].reduce(
        (sum, letter) => (sum * 31 + letter.charCodeAt(0)) % 2147483647,
        7,
      );
      return Float32Array.from(
        { length: DIMENSION },
        () => (state = (state * 48271) % 2147483647) / 2147483647 - 0.5,
      );
    }),
};

describePostgres("vectors by pgvector", () => {
  it.runIf(offered)(
    "are compared as the scan compares them, also those that were there before the extension",
    async () => {
      const schema = newSchema();
      await plainly((client) => client.query("DROP EXTENSION IF EXISTS vector CASCADE"));
      const scanning = await onPostgres({ embed }, schema);
      worlds.push(scanning);
      const ids: string[] = [];
      for (let n = 0; n < 40; n++)
        ids.push((await scanning.index(`Text ${n}.`, { agentIds: [n % 2 === 0 ? "a" : "b"] })).id);
      for (const id of ids)
        while ((await scanning.knowledge.get("t", id))?.embeddedCount !== 1)
          await new Promise((resolve) => setTimeout(resolve, 20));
      const ask = (world: KnowledgeWorld, agent: string) =>
        world.knowledge.search({
          tenant: "t",
          text: "another question",
          limit: 40,
          agentIds: [agent],
        });
      const scanned = [await ask(scanning, "a"), await ask(scanning, "b")];
      expect(scanned.map((passages) => passages.length)).toEqual([20, 20]);

      await plainly((client) => client.query("CREATE EXTENSION vector"));
      const comparing = await onPostgres({ embed }, schema);
      worlds.push(comparing);
      const count = () =>
        plainly((client) =>
          client.query(`SELECT count(*)::int AS n FROM "${schema.name}".knowledge_embeddings`),
        );
      expect((await count()).rows).toEqual([{ n: 40 }]);
      expect([await ask(comparing, "a"), await ask(comparing, "b")]).toEqual(scanned);
      await comparing.knowledge.remove("t", ids[0] ?? "");
      expect((await count()).rows).toEqual([{ n: 39 }]);
    },
  );
});
