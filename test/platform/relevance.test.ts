import { afterEach, expect, it } from "vitest";
import { describePostgres, newSchema } from "../store/postgres.ts";
import { documentsWorld, type DocumentsWorld } from "./documents.ts";
import { expectRelevance } from "./relevance.ts";

let world: DocumentsWorld;
afterEach(() => world.close());

const AGENTS = [{ id: "ops", knowledge: "auto" }, { id: "sales" }];

it("a turn is given only passages that have enough of the question", async () => {
  world = await documentsWorld({ agents: AGENTS });
  await expectRelevance(world);
  expect(world.staged()).toEqual([]);
});

describePostgres("documents in PostgreSQL", () => {
  it("a turn is given only passages that have enough of the question", async () => {
    const schema = newSchema();
    world = await documentsWorld({ agents: AGENTS, config: { store: { url: schema.url } } });
    await expectRelevance(world);
    await world.close();
    await schema.drop();
  });
});
