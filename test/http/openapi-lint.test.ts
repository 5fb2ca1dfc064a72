import { createConfig, lintFromString } from "@redocly/openapi-core";
import { expect, it } from "vitest";
import { openApiDocument } from "../../src/http/openapi/document.ts";

/** Lints as `redocly lint` does, with the rules that it recommends. A warning is a problem too. */
async function lint(document: object): Promise<string[]> {
  const config = await createConfig({ extends: ["recommended"] });
  const problems = await lintFromString({ source: JSON.stringify(document), config });
  return problems.map(
    ({ ruleId, message, location }) => `${ruleId} ${location[0]?.pointer ?? ""}: ${message}`,
  );
}

it("OpenAPI: the published document has no problem", async () => {
  expect(await lint(openApiDocument("/hooks"))).toEqual([]);
});
