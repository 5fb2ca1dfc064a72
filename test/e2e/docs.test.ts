import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import JSON5 from "json5";
import { describe, expect, it, onTestFinished } from "vitest";
import { compile, input } from "../mapping/world.ts";
import { followTour, readBlocks } from "./readme.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const blocksOf = (file: string, language: string): string[] =>
  [
    ...readFileSync(join(ROOT, file), "utf8").matchAll(
      new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\``, "gms"),
    ),
  ].map((found) => found[1] as string);

describe("the guides for newcomers", () => {
  it("work in a clone, followed to the letter and in its order by somebody with an empty home", async () => {
    const home = mkdtempSync(join(tmpdir(), "rouse-home-"));
    onTestFinished(() => rmSync(home, { recursive: true, force: true }));
    await followTour({ home, folder: join(home, "my-rouse") });
  });

  it("have every command of README's first event, in its order", () => {
    const commands = (page: string): string[] =>
      readBlocks(page).flatMap(({ language, text }) =>
        language === "sh" ? text.trim().split("\n") : [],
      );
    const guide = commands("docs/first-event.md");
    const readme = commands("README.md").filter((line) => line !== "npm start");
    expect(readme.length).toBeGreaterThan(5);
    expect(guide.filter((line) => readme.includes(line))).toEqual(readme);
  });

  it("README names commands that are there", () => {
    const { scripts } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as {
      scripts: Record<string, string>;
    };
    const named = [
      ...readFileSync(join(ROOT, "README.md"), "utf8").matchAll(/npm run (?:-s )?([a-z:]+)/g),
    ].map((found) => found[1] as string);
    for (const name of named) expect(Object.keys(scripts)).toContain(name);
  });
});

describe("docs/mappings.md", () => {
  it("shows a mapping that does what the page says", async () => {
    const [text = ""] = blocksOf("docs/mappings.md", "json5");
    const { set, issues } = await compile({ mappings: [JSON5.parse(text)] });
    expect(issues).toEqual([]);
    const deploy = {
      status: "failed",
      dry_run: false,
      service: { name: "api-x" },
      steps: [{ state: "error" }],
    };
    const headers = { "x-env": "production" };
    expect(await set.run(input("deploy", { deploy }, { headers }))).toMatchObject({
      kind: "actions",
    });
    const { dry_run: _missing, ...without } = deploy;
    expect((await set.run(input("deploy", { deploy: without }, { headers }))).kind).toBe(
      "unmatched",
    );
  });
});
