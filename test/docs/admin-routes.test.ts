import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { createWorld, type World } from "../http/admin-world.ts";

let world: World;
beforeAll(async () => {
  world = await createWorld();
});
afterAll(() => world.close());

it("docs/cli.md lists every route of the admin API, and no other", () => {
  const page = readFileSync(join(import.meta.dirname, "../../docs/cli.md"), "utf8");
  const [, section = ""] = page.split("\n## The admin API\n");
  const rows = [...section.matchAll(/^\| `([^`]+)` +\| (`.+`) +\|$/gm)];
  const listed = rows.flatMap(([, path, methods = ""]) =>
    [...methods.matchAll(/`([A-Z]+)`/g)].map(([, method]) => `${method} ${path}`),
  );
  const routes = world.app.routes
    .filter(({ method }) => method !== "ALL")
    .map(
      ({ method, path }) => `${method} ${path.slice(1).replaceAll(/:(\w+)(\{[^}]*\})?/g, "{$1}")}`,
    );
  expect(listed.toSorted()).toEqual([...new Set(routes)].toSorted());
});
