import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import JSON5 from "json5";
import { expect, it } from "vitest";
import { platformWorld, KEY } from "./world.ts";

const PAGE = readFileSync(join(resolve(import.meta.dirname, "../.."), "docs/platform.md"), "utf8");
const blocksOf = (language: string): string[] =>
  [...PAGE.matchAll(new RegExp(`^\`\`\`${language}\\n([^]*?)^\`\`\`$`, "gm"))].map(
    ([, text]) => text ?? "",
  );

it("docs/platform.md: the page's config is accepted, and every curl on it is answered", async () => {
  const [config = ""] = blocksOf("json5");
  const { platform, agents } = JSON5.parse<{
    platform: { apiKeys: { id: string }[] };
    agents: { list: object[] };
  }>(config.replace("${ROUSE_API_KEY}", `${KEY}-page`));
  const approvers = platform.apiKeys.map(({ id }) => `api:${id}`);
  const world = await platformWorld({
    platform: { apiKeys: platform.apiKeys },
    agents: agents.list,
    config: { tools: { approvers } },
  });
  const curls = blocksOf("sh").filter(
    (text) => text.startsWith("curl") && !text.includes("$APPROVAL_ID"),
  );
  let responseId = "";
  try {
    for (const text of curls) {
      const path = (/7420(\/[^\s"]+)/.exec(text)?.[1] ?? "").replace("$RESPONSE_ID", responseId);
      const headers = Object.fromEntries(
        [...text.matchAll(/-H "([\w-]+): ([^"]*)"/g)].map(([, name, value]) => [name, value]),
      ) as Record<string, string>;
      expect(headers["authorization"]).toBe("Bearer $ROUSE_API_KEY");
      const body = /-d '([^']*)'/.exec(text)?.[1];
      const init = body === undefined ? {} : { method: "POST", body };
      const response = await world.ask(path, {
        ...init,
        headers: { ...headers, authorization: `Bearer ${KEY}-page` },
      });
      expect([path, response.status, response.headers.get("x-request-id")]).toEqual([
        path,
        200,
        expect.any(String),
      ]);
      if (path === "/v1/responses") responseId = ((await response.json()) as { id: string }).id;
    }
    expect(curls.length).toBeGreaterThan(3);
    expect(world.model.asked).toHaveLength(3);
  } finally {
    await world.close();
  }
});
