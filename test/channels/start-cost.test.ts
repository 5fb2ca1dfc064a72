import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative, resolve } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { startProgram } from "../e2e/program.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const HOOK = `import { appendFileSync } from "node:fs";
import { registerHooks } from "node:module";
registerHooks({ load: (url, context, next) => (appendFileSync(process.env.LOADED, url + "\\n"), next(url, context)) });
`;

/** The modules that a gateway with this config loads until it listens, as paths in the repository. */
async function loadedWith(
  channels: object,
  config: object = {},
  variables: Record<string, string> = {},
): Promise<string[]> {
  const dir = mkdtempSync(join(tmpdir(), "rouse-loaded-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  const loaded = join(dir, "loaded.txt");
  writeFileSync(join(dir, "hook.mjs"), HOOK);
  writeFileSync(
    join(dir, "rouse.json"),
    JSON.stringify({
      gateway: { port: 0 },
      hooks: { enabled: true, token: "t".repeat(32) },
      channels,
      ...config,
    }),
  );
  const env = { ...variables, LOADED: loaded, NODE_OPTIONS: `--import ${join(dir, "hook.mjs")}` };
  const program = await startProgram(process.execPath, [join(ROOT, "bin/rouse.js"), "start"], {
    cwd: dir,
    env,
  });
  await program.stop();
  const urls = readFileSync(loaded, "utf8").trim().split("\n");
  return urls
    .filter((url) => url.startsWith("file:"))
    .map((url) => relative(ROOT, new URL(url).pathname));
}

const ofPlugins = (files: string[]): string[] =>
  files.filter(
    (file) =>
      file.startsWith("plugins/") ||
      /mdast|micromark|node_modules\/(?:@slack|@discordjs|grammy|jose)\b/.test(file),
  );

it("a gateway without channels loads nothing of what plugins are made with", async () => {
  const files = await loadedWith({});
  expect(ofPlugins(files)).toEqual(["plugins/console/index.ts"]);
  expect(files).toContain("src/plugin/host.ts");
});

it("a gateway with a channel loads its plugin, and no package before it is needed", async () => {
  const files = await loadedWith({
    telegram: { token: "1:a", apiUrl: "http://127.0.0.1:9", mode: "webhook", webhookSecret: "s" },
  });
  expect(files).toContain("src/channel-kit/dialect.ts");
  expect(files).toContain("plugins/telegram/index.ts");
  expect(
    ofPlugins(files).filter(
      (file) => !file.startsWith("plugins/telegram/") && !file.includes("grammy"),
    ),
  ).toEqual([]);
});

it("a gateway with models loads their plugins, and no vendor's package before a turn needs it", async () => {
  const models = {
    providers: { local: { type: "openai-compatible", baseUrl: "http://127.0.0.1:9/v1" } },
  };
  const files = await loadedWith(
    {},
    { models, agents: { defaults: { model: "local/big" } } },
    { ANTHROPIC_API_KEY: "k" },
  );
  expect(ofPlugins(files)).toEqual(
    expect.arrayContaining(["plugins/anthropic/index.ts", "plugins/openai-compatible/index.ts"]),
  );
  expect(ofPlugins(files)).not.toContain("plugins/google/index.ts");
  expect(files.filter((file) => /node_modules\/(?:@ai-sdk|ai)\//.test(file))).toEqual([]);
});
