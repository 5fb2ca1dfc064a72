import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { checkSnapshot } from "../../src/gateway/validate-config.ts";
import { REAL } from "../gateway.ts";

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "rouse-words-"));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const TOKEN = `token: "a-token-of-24-characters"`;

it.each([
  [`{ gateway: { port: "many" } }`, "gateway.port", "must be a number, and is text"],
  [
    `{ gateway: { port: 1e400 } }`,
    "gateway.port",
    "is too large, or has more digits than a number can have",
  ],
  [
    `{ gateway: { port: 1.5 } }`,
    "gateway.port",
    "must be a whole number, and is a number with a fraction",
  ],
  [
    `{ hooks: { enabled: true, ${TOKEN}, mappings: [{ match: { path: "x", payload: { "__proto__": "a" } }, messageTemplate: "x" }] } }`,
    "hooks.mappings[0].match.payload.__proto__",
    "is a name that no field can have: take it out",
  ],
  [`{ "__proto__": 1 }`, "__proto__", "is not known."],
  ...["stateDir", "hooks.mappingsDir", "store.url"].map((path): [string, string, string] => {
    const value = path === "store.url" ? "sqlite:~/rouse.db" : "~/rouse";
    const [last = "", ...outer] = path.split(".").toReversed();
    const field = outer.reduce((inner, name) => `${name}: { ${inner} }`, `${last}: "${value}"`);
    return [`{ ${field} }`, path, "`~` is no folder here: write ${HOME}, or the whole path"];
  }),
  [
    `{ hooks: { enabled: true, token: { file: "~/token" } } }`,
    "hooks.token",
    "`~` is no folder here: write ${HOME}, or the whole path",
  ],
  ...[
    "$ROUSE_HOOK_TOKEN",
    "${{ secrets.HOOK_TOKEN }}",
    "{{ env.HOOK_TOKEN }}",
    "%ROUSE_HOOK_TOKEN%",
    "env:ROUSE_HOOK_TOKEN",
    "process.env.HOOK_TOKEN",
  ].map((token): [string, string, string] => [
    `{ hooks: { enabled: true, token: "${token}" } }`,
    "hooks.token",
    'is no secret but a reference: write "${NAME}", or { file: "…" }',
  ]),
  [
    `{ hooks: { mappings: [{ match: { path: "x" }, message: "x" }] } }`,
    "hooks.mappings[0].message",
    'is not known. Did you mean "messageTemplate"?',
  ],
  [
    `{ hooks: { mappings: [{ path: "x", messageTemplate: "x" }] } }`,
    "hooks.mappings[0].path",
    'is not known. Did you mean "match.path"?',
  ],
  [
    `{ agents: ${"[".repeat(20_000)}${"]".repeat(20_000)} }`,
    "",
    "the config file is nested deeper than 250 levels",
  ],
  ["// nothing yet\r\n", "", "the config file is empty: write an object, such as {}"],
  [
    Buffer.from(`{\r\n  gateway: { host: "caf\u00e9" },\r\n}`, "latin1"),
    "",
    "the config file is not UTF-8 at line 2, column 24: save it in this encoding",
  ],
  [
    Buffer.from("\ufeff{}", "utf16le"),
    "",
    "the config file is not UTF-8 at line 1, column 1: save it in this encoding",
  ],
  ...["http://localhost", "[::]"].map((host): [string, string, string] => [
    `{ gateway: { host: "${host}" } }`,
    "gateway.host",
    'must be a name or an address alone, such as "0.0.0.0" or "::"',
  ]),
  [`{ gateway: { port: 70000 } }`, "gateway.port", "must be at most 65535"],
  [`{ hooks: { enabled: 1 } }`, "hooks.enabled", "must be true or false, and is a number"],
  [
    `{ hooks: { enabled: true, token: "short" } }`,
    "hooks.token",
    "must have at least 16 characters, and has 5; `openssl rand -hex 32` makes one",
  ],
  [
    `{ hooks: { enabled: true, token: { file: "gone" } } }`,
    "hooks.token",
    /^there is no file \/.*\/gone; write the secret into it, and nothing else$/,
  ],
  [
    `{ hooks: { enabled: true, ${TOKEN}, presets: ["gmial"] } }`,
    "hooks.presets[0]",
    `there is no preset of this name. Did you mean "gmail"?`,
  ],
  [
    `{ hooks: { enabled: true, ${TOKEN}, mappings: [{ match: { path: 5 }, messageTemplate: "x" }] } }`,
    "hooks.mappings[0].match.path",
    "must be text or a list, and is a number",
  ],
  [
    `{ hooks: { enabled: true, ${TOKEN}, mappings: [{ match: { path: "x" }, messageTemplate: "x", wakeMode: "nwo" }] } }`,
    "hooks.mappings[0].wakeMode",
    `must be "now" or "next-heartbeat". Did you mean "now"?`,
  ],
  [
    `{ agents: { defaults: { model: "openai/gpt-5" } } }`,
    "agents.defaults.model",
    "OpenAI needs a key: set OPENAI_API_KEY, or add models.providers.openai",
  ],
  [
    `{ agents: { defaults: { model: "antropic/claude" } } }`,
    "agents.defaults.model",
    `models.providers has no "antropic". Did you mean "anthropic"?`,
  ],
  [
    `{ gateway: { port: 1 } hooks: {} }`,
    "",
    `the config file is not valid JSON5 at line 1, column 24: "h" is not expected here; look for a comma, a quote or a bracket before it that is missing or too many`,
  ],
  [
    `{ gateway: { port: 1 } } and more`,
    "",
    /: "a" is not expected here: the object before it is complete; take out what follows$/,
  ],
  [
    `{\n  gateway: {},\n}\n}`,
    "",
    /at line 4, column 1: "}" is not expected here: the object before/,
  ],
  [`{ gateway: { host: “127.0.0.1” } }`, "", /: “ is no quote of JSON5: write " or '$/],
  [`hooks:\n  enabled: true`, "", /"h" is not expected here; look for a comma/],
  [`{ gateway: { port: 1 }`, "", /the text ends before its objects, lists and quotes are closed$/],
  [`{ a: "b\n}`, "", /the line before it ends within a text that has no closing quote$/],
])("the config %s is refused in plain words that name the value", async (text, path, message) => {
  writeFileSync(join(dir, "rouse.json5"), text);
  const checked = await checkSnapshot({ ...REAL, cwd: dir, env: {} });
  const issues = checked.ok ? [] : checked.issues;
  const found = issues.find((issue) => issue.path === path);
  expect(found?.message).toEqual(
    typeof message === "string" ? message : expect.stringMatching(message),
  );
});

it("a config takes `~/` in texts, and in words that another program reads", async () => {
  const mapping = `{ match: { path: "x", payload: { name: "~/a" } }, messageTemplate: "~/a" }`;
  const server = `{ command: "sh", args: ["-c", "~/tool"] }`;
  writeFileSync(
    join(dir, "rouse.json5"),
    `{ hooks: { enabled: true, ${TOKEN}, mappings: [${mapping}] }, mcp: { servers: { s: ${server} } } }`,
  );
  const checked = await checkSnapshot({ ...REAL, cwd: dir, env: {} });
  expect(checked.ok ? [] : checked.issues).toEqual([]);
});
