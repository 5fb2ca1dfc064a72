import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { SCOPES } from "../../src/config/schema/gateway.ts";
import { ROUTES } from "../../src/http/platform/routes.ts";
import { ROOT } from "../deploy/world.ts";

const read = (file: string): string => readFileSync(join(ROOT, file), "utf8");

it("docs/platform.md says of each scope which routes it opens", () => {
  const rows = [
    ...read("docs/platform.md").matchAll(/^\| `([a-z:]+)` +\| (`[A-Z]+ \/v1.*`) +\|$/gm),
  ];
  const listed = rows.flatMap(([, scope, routes = ""]) =>
    [...routes.matchAll(/`([^`]+)`/g)].map(([, route]) => `${scope} ${route}`),
  );
  const opened = Object.entries(ROUTES).flatMap(([path, methods]) =>
    Object.entries(methods).flatMap(([method, { scope }]) =>
      scope === undefined ? [] : [`${scope} ${method} /v1${path.replaceAll(/:(\w+)/g, "{$1}")}`],
    ),
  );
  expect(listed.toSorted()).toEqual(opened.toSorted());
});

it("docs: every scope of a key is one that `rouse keys create` and the config take", () => {
  const named = globSync(["*.md", "docs/**/*.md"], { cwd: ROOT }).flatMap((page) =>
    [...read(page).matchAll(/--scopes ([\w:,]+)|\bscopes: \[([^\]]*)\]/g)].flatMap(
      ([, option = "", field = ""]) => `${option},${field}`.match(/[\w:]+/g) ?? [],
    ),
  );
  expect(new Set(named)).toEqual(new Set(SCOPES));
});
