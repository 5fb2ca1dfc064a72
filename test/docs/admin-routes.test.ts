import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { createAdminRoutes } from "../../src/http/admin/app.ts";
import type { AdminDeps } from "../../src/operate/types.ts";
import type { Workbench } from "../../src/operate/workbench.ts";

it("docs/cli.md lists every route of the admin API, and no other", () => {
  const page = readFileSync(join(import.meta.dirname, "../../docs/cli.md"), "utf8");
  const [, section = ""] = page.split("\n## The admin API\n");
  const rows = [...section.matchAll(/^- `([A-Z]+)` (`.+`)$/gm)];
  const listed = rows.flatMap(([, method, paths = ""]) =>
    [...paths.matchAll(/`([^`]+)`/g)].map(([, path]) => `${method} ${path}`),
  );
  // None of them is asked.
  const { routes: all } = createAdminRoutes({ cluster: {} } as AdminDeps, {} as Workbench);
  const routes = all
    .filter(({ method }) => method !== "ALL")
    .map(
      ({ method, path }) => `${method} ${path.slice(1).replaceAll(/:(\w+)(\{[^}]*\})?/g, "{$1}")}`,
    );
  expect(listed.toSorted()).toEqual([...new Set(routes)].toSorted());
});
