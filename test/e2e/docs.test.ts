import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import JSON5 from "json5";
import { afterEach, describe, expect, it } from "vitest";
import { compile, input } from "../mapping/world.ts";
import { createWorld, type World } from "./world.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const blocksOf = (file: string, language: string): string[] =>
  [...readFileSync(join(ROOT, file), "utf8").matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\``, "gms"))].map(
    (found) => found[1] as string,
  );

let world: World;
afterEach(() => world?.stop());

describe("the README's tour", () => {
  it("works as written: config, transform and plugin from its code blocks", async () => {
    const [configText = ""] = blocksOf("README.md", "json5");
    const config = JSON5.parse<{ hooks: { token: string }; channels: { logfile: { file: string } } }>(configText);
    const files = Object.fromEntries(blocksOf("README.md", "ts").map((text) => [/^\/\/ (\S+)/.exec(text)?.[1] ?? "", text]));
    expect(Object.keys(files)).toEqual(["transforms/ci.ts", "plugins/logfile.ts"]);
    world = await createWorld({ config: { ...config, gateway: { port: 0 } }, files });
    // The channel writes relative to where Rouse was started.
    const log = resolve(config.channels.logfile.file);
    const [curl = ""] = blocksOf("README.md", "sh");
    const token = /Bearer ([\w-]+)/.exec(curl)?.[1];
    expect(token).toBe(config.hooks.token);
    const body = /-d '(.*)'/.exec(curl)?.[1] ?? "";
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/x-www-form-urlencoded" };
    try {
      const order = await world.post("/hooks/shop", body, headers);
      expect([order.status, order.body.sessionKey]).toEqual([202, "hook:shop:c1"]);
      expect((await world.post("/hooks/shop", body.replace("240", "20"), headers)).body).toMatchObject({
        outcome: "unmatched",
        nearest: { condition: "match.payload.data.total" },
      });
      expect((await world.post("/hooks/ci", '{"status":"failed","url":"u","branch":"b"}', headers)).body.sessionKey).toBe("hook:ci:b");
      expect((await world.post("/hooks/ci", '{"status":"passed"}', headers)).status).toBe(204);
      await world.until(async () => existsSync(log) && readFileSync(log, "utf8").includes("everyone: [no model]"));
    } finally {
      const { rmSync } = await import("node:fs");
      rmSync(log, { force: true });
    }
  });

  it("names commands that are there", () => {
    const { scripts } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { scripts: Record<string, string> };
    const named = [...readFileSync(join(ROOT, "README.md"), "utf8").matchAll(/npm run (?:-s )?([a-z:]+)/g)].map(
      (found) => found[1] as string,
    );
    for (const name of named) expect(Object.keys(scripts)).toContain(name);
    for (const [, link] of readFileSync(join(ROOT, "README.md"), "utf8").matchAll(/\]\((docs\/[^)]+)\)/g))
      expect(existsSync(join(ROOT, link as string))).toBe(true);
  });
});

describe("docs/mappings.md", () => {
  it("shows a mapping that does what the page says", async () => {
    const [text = ""] = blocksOf("docs/mappings.md", "json5");
    const { set, issues } = await compile({ mappings: [JSON5.parse(text)] });
    expect(issues).toEqual([]);
    const deploy = { status: "failed", dry_run: false, service: { name: "api-x" }, steps: [{ state: "error" }] };
    const headers = { "x-env": "production" };
    expect(await set.run(input("deploy", { deploy }, { headers }))).toMatchObject({ kind: "actions" });
    const { dry_run: _missing, ...without } = deploy;
    expect((await set.run(input("deploy", { deploy: without }, { headers }))).kind).toBe("unmatched");
  });
});
