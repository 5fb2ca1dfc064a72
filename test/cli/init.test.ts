import { existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createWorld } from "../e2e/world.ts";
import { createCli, type CliWorld } from "./world.ts";

let cli: CliWorld;
beforeEach(async () => {
  cli = await createCli();
});
afterEach(() => cli.close());

describe("rouse init", () => {
  it.each([
    ["nothing but --yes", ["--yes"], {}],
    [
      "every flag",
      ["--yes", "--port", "8123", "--preset", "github", "gmail", "--model", "local/qwen3", "--base-url", "http://127.0.0.1:11434/v1"],
      {},
    ],
    ["a token from the environment", ["--yes", "--token-env", "HOOK_TOKEN"], { HOOK_TOKEN: "hook-token-of-the-environment" }],
    ["no terminal to ask in", [], {}],
  ])("with %s writes a config that is valid and that a gateway starts with", async (_name, flags, env) => {
    const { code, out, err } = await cli.rouse(["init", ...flags], { env });
    expect([code, err]).toEqual([0, ""]);
    expect(out).toContain("rouse start");
    expect((await cli.rouse(["config", "validate"], { env })).code).toBe(0);
    const file = join(cli.dir, "rouse.json5");
    expect(statSync(file).mode & 0o777).toBe(0o600);
    const text = readFileSync(file, "utf8");
    if (flags.includes("--port")) {
      expect(text).toContain("port: 8123");
      expect(
        JSON.parse((await cli.rouse(["hooks", "list", "--json"], { env })).out).mappings.map((one: { origin: string }) => one.origin),
      ).toContain("preset:gmail");
    }
    expect(existsSync(join(cli.dir, "hook-token"))).toBe(!flags.includes("--token-env"));
    if (flags.length === 0) {
      const token = readFileSync(join(cli.dir, "hook-token"), "utf8").trim();
      expect(text).not.toContain(token);
      // The same file, in a gateway.
      const world = await createWorld({ start: false, workers: false, files: { "rouse.json5": text, "hook-token": token } });
      const answer = await world.post("/hooks/example", { title: "It works" }, { authorization: `Bearer ${token}` });
      expect([answer.status, answer.body.mapping]).toEqual([202, "example"]);
      await world.stop();
    }
  });

  it("sets channels up: secrets by variables, allow-lists to fill in, and a config that is valid once they are there", async () => {
    const catalog = JSON.parse(readFileSync(join(import.meta.dirname, "../../plugins/catalog.json"), "utf8")) as {
      id: string;
      setup?: { where: string; fields: { name: string; env?: string }[] };
    }[];
    const channels = catalog.filter(({ setup }) => setup !== undefined);
    expect(channels).toHaveLength(8);
    for (const { id, setup } of channels) {
      const env = Object.fromEntries(
        (setup?.fields ?? []).flatMap((field) => (field.env === undefined ? [] : [[field.env, "a-secret-of-sixteen-characters"]])),
      );
      const { code, err } = await cli.rouse(["init", "--yes", "--force", "--channel", id], { env });
      const text = readFileSync(join(cli.dir, "rouse.json5"), "utf8");
      for (const { name } of setup?.fields ?? []) expect(text).toContain(`${name}:`);
      expect(text).toContain("allowFrom: []");
      expect(text).not.toContain("a-secret-of");
      expect(existsSync(join(import.meta.dirname, `../../docs/channels/${id}.md`))).toBe(true);
      // What only its owner knows is left empty, and named; nothing else is wrong.
      const empty = (setup?.fields ?? []).filter((field) => field.env === undefined && text.includes(`${field.name}: "",`));
      if (empty.length === 0) expect([id, code, err]).toEqual([id, 0, ""]);
      else for (const { name } of empty) expect(err).toContain(`channels.${id}.${name}`);
    }
    const unknown = await cli.rouse(["init", "--yes", "--force", "--channel", "pigeon"]);
    expect([unknown.code, unknown.err]).toEqual([2, expect.stringContaining('there is no "pigeon"')]);
  });

  it("never writes over a config unless it is told to", async () => {
    await cli.write("rouse.json5", "// mine");
    const refused = await cli.rouse(["init", "--yes"]);
    expect([refused.code, refused.err]).toEqual([1, expect.stringContaining("--force overwrites it")]);
    expect(readFileSync(join(cli.dir, "rouse.json5"), "utf8")).toBe("// mine");
    expect((await cli.rouse(["init", "--yes", "--force"])).code).toBe(0);
    expect(readFileSync(join(cli.dir, "rouse.json5"), "utf8")).toContain("hooks:");
  });

  it.each([
    [["--port", "many"], 2, "--port"],
    [["--preset", "githbu"], 3, 'Did you mean "github"?'],
    [["--model", "nowhere/x"], 3, "agents.defaults.model"],
  ])("says what is wrong with %j", async (flags, code, message) => {
    const result = await cli.rouse(["init", "--yes", ...flags]);
    expect([result.code, result.err]).toEqual([code, expect.stringContaining(message)]);
  });
});
