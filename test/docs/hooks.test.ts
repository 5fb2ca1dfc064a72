import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { agentBody, wakeBody } from "../../src/turns/validate.ts";
import { createWorld, TOKEN, type World } from "../e2e/world.ts";

const PAGE = readFileSync(resolve(import.meta.dirname, "../../docs/hooks.md"), "utf8");

/** The first column of the table below a heading. */
function firstColumn(heading: string): string[] {
  const section = PAGE.split(/^## /m).find((part) => part.startsWith(`${heading}\n`)) ?? "";
  return [...section.matchAll(/^\| `?(\w+)`? +\|/gm)].map(([, name = ""]) => name).slice(1);
}

const examples = [...PAGE.matchAll(/^# (\d{3})\n(curl .*)$/gm)].map(
  ([, status = "", line = ""]) => [line, Number(status)] as const,
);

describe("docs/hooks.md", () => {
  let world: World;
  beforeAll(async () => {
    world = await createWorld();
  });
  afterAll(() => world.stop());

  it("has an example of every kind", () =>
    expect(new Set(examples.map(([, status]) => status))).toEqual(new Set([200, 202, 400, 401])));

  it.each(examples)("%s", async (line, status) => {
    const [, path = ""] = /http:\/\/127\.0\.0\.1:7420(\S+)/.exec(line) ?? [];
    const headers = [...line.matchAll(/-H "([^:]+): ([^"]*)"/g)].map(
      ([, name = "", value = ""]) => [name, value.replace("$HOOK_TOKEN", TOKEN)],
    );
    const request = {
      method: "POST",
      headers: Object.fromEntries(headers) as Record<string, string>,
      body: /-d '(.*)'/.exec(line)?.[1] ?? "",
    };
    const response = await world.gateway.fetch(new Request(`http://127.0.0.1${path}`, request));
    const answer = (await response.json()) as { ok: boolean; status?: string; warnings?: string[] };
    expect([response.status, answer.warnings]).toEqual([status, undefined]);
    if (line.includes("prefer: wait"))
      expect(answer).toMatchObject({ ok: true, status: "succeeded" });
  });

  it.each([
    ["Wake", wakeBody],
    ["Agent", agentBody],
  ])("%s: names every field", (heading, body) => {
    expect(firstColumn(heading).toSorted()).toEqual(Object.keys(body.shape).toSorted());
  });
});
