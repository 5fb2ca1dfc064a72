import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import JSON5 from "json5";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { listJson } from "../../src/core/files.ts";
import { PRESETS_DIR } from "../../src/mapping/presets.ts";
import { createGateway } from "../gateway.ts";
import { createProvider } from "../e2e/provider.ts";
import { createWorld } from "../e2e/world.ts";
import { typed } from "./typed-answers.ts";
import { createCli, type CliWorld } from "./world.ts";

let cli: CliWorld;
beforeEach(async () => {
  cli = await createCli();
});
afterEach(() => cli.close());

describe("rouse init", () => {
  it.each([
    ["nothing but --yes", ["--yes"]],
    [
      "every flag",
      ["--yes", "--port", "8123", "--preset", "github", "gmail", "--model", "builtin/echo"],
    ],
    ["no terminal to ask in", []],
  ])(
    "with %s writes a config that is valid and that a gateway starts with",
    async (_name, flags) => {
      const { code, out, err } = await cli.rouse(["init", ...flags]);
      expect([err, code]).toEqual(["", 0]);
      expect(out).toContain("rouse start");
      expect(out).toMatch(
        /Posted .* to \/hooks\/(?:example|github): 202\n\nThe reply, delivered to console, terminal:\n {2}\S/,
      );
      expect((await cli.rouse("config validate")).code).toBe(0);
      const file = join(cli.dir, "rouse.json5");
      expect(statSync(file).mode & 0o777).toBe(0o600);
      const text = readFileSync(file, "utf8");
      if (flags.includes("--port")) {
        expect(text).toContain("port: 8123");
        expect(
          JSON.parse((await cli.rouse("hooks --json")).out).mappings.map(
            (one: { origin: string }) => one.origin,
          ),
        ).toContain("preset:gmail");
      }
      const token = join(cli.dir, ".rouse/secrets/hook-token");
      if (flags.length === 0) {
        const secret = readFileSync(token, "utf8").trim();
        expect(text).not.toContain(secret);
        // The same file, in a gateway.
        const world = await createWorld({
          start: false,
          workers: false,
          files: { "rouse.json5": text, ".rouse/secrets/hook-token": secret },
        });
        const answer = await world.post(
          "/hooks/example",
          { title: "It works" },
          { authorization: `Bearer ${secret}` },
        );
        expect([answer.status, answer.body.mapping]).toEqual([202, "example"]);
        await world.stop();
      }
    },
  );

  it("sets channels up: secrets by variables, allow-lists to fill in, and a config that is valid once they are there", async () => {
    const catalog = JSON.parse(
      readFileSync(join(import.meta.dirname, "../../plugins/catalog.json"), "utf8"),
    ) as {
      id: string;
      setupQuestions?: { where: string; fields: { name: string; env?: string }[] };
    }[];
    const channels = catalog.filter(({ setupQuestions }) => setupQuestions !== undefined);
    expect(channels).toHaveLength(8);
    for (const { id, setupQuestions: setup } of channels) {
      const env = Object.fromEntries(
        (setup?.fields ?? []).flatMap((field) =>
          field.env === undefined ? [] : [[field.env, "a-secret-of-sixteen-characters"]],
        ),
      );
      const { code, out, err } = await cli.rouse(`init ${id} --yes --no-test --channel ${id}`, {
        env,
      });
      const text = readFileSync(join(cli.dir, id, "rouse.json5"), "utf8");
      for (const { name } of setup?.fields ?? []) expect(text).toContain(`${name}:`);
      expect(text).toContain("allowFrom: []");
      expect(text).not.toContain("a-secret-of");
      expect(existsSync(join(import.meta.dirname, `../../docs/channels/${id}.md`))).toBe(true);
      // Values that only the owner knows are left empty and are named. Until they are set, the gateway starts without the channel.
      const empty = (setup?.fields ?? []).filter(
        (field) => field.env === undefined && text.includes(`${field.name}: "",`),
      );
      expect([id, code, err, text.includes("enabled: false")]).toEqual([
        id,
        0,
        "",
        empty.length > 0,
      ]);
      const until = empty.map(({ name }) => name).join(", ");
      if (empty.length > 0)
        expect(out).toContain(`channels.${id} is off until you fill in ${until}`);
    }
  });

  it("leaves a config alone that it cannot read", async () => {
    await cli.write("rouse.json5", "// mine");
    await cli.fails("init --yes", 3, "nothing was changed");
    expect(readFileSync(join(cli.dir, "rouse.json5"), "utf8")).toBe("// mine");
  });

  it.each([
    [["--port", "many"], "--port"],
    [["--preset", "githbu"], 'Did you mean "github"?'],
    [["--provider", "nowhere"], "--provider: use openai, anthropic, google"],
    [["--provider", "openai"], "--key-file (- reads standard input), or set OPENAI_API_KEY"],
    [["--key-file", "key.txt"], "--provider"],
    [["--channel", "pigeon"], 'there is no "pigeon"'],
  ])("says what is wrong with %j, and writes nothing", async (flags, message) => {
    await cli.fails(["init", "--yes", ...flags], 2, message);
    expect(existsSync(join(cli.dir, "rouse.json5"))).toBe(false);
  });

  it("writes no config that a gateway would not start with, and says why", async () => {
    await cli.fails("init --yes --model nowhere/x", 3, "agents.defaults.model");
    expect(existsSync(join(cli.dir, "rouse.json5"))).toBe(false);
  });
});

const file = (name: string): string => readFileSync(join(cli.dir, name), "utf8");

describe("rouse init for a sender that signs", () => {
  it("makes the secret, refers to it, prints what to register, and shows a reply to a signed event", async () => {
    const { code, out, err } = await cli.rouse("init --preset github");
    expect([code, err]).toEqual([0, ""]);
    const secret = file(".rouse/secrets/github").trim();
    expect(statSync(join(cli.dir, ".rouse/secrets/github")).mode & 0o777).toBe(0o600);
    expect(JSON5.parse<{ hooks: { presets: unknown } }>(file("rouse.json5")).hooks.presets).toEqual(
      [{ use: "github", secret: { file: ".rouse/secrets/github" } }],
    );
    expect(file("rouse.json5")).not.toContain(secret);
    expect(out).toMatch(
      /Posted the recorded event issues.opened to \/hooks\/github: 202\n\nThe reply, delivered to console, terminal:\n {2}.*github/,
    );
    expect(out).toMatch(
      new RegExp(
        `Settings → Webhooks.*\\n {2}URL {5}https://<your public address>/hooks/github\\n {2}secret {2}${secret}`,
      ),
    );
    for (const tunnel of ["ngrok http 7420", "cloudflared tunnel --url http://127.0.0.1:7420"])
      expect(out).toContain(tunnel);
    expect(file(".gitignore").split("\n")).toEqual(
      expect.arrayContaining([".rouse/", "node_modules/"]),
    );
    expect(JSON.parse(file("rouse.schema.json"))).toHaveProperty("properties.hooks");
    expect(file("rouse.json5")).toContain('$schema: "./rouse.schema.json"');
  });

  it("adds to a setup, changes nothing twice, and keeps every file that is there", async () => {
    await cli.write("package.json", '{ "name": "mine" }');
    await cli.write(".gitignore", "*.log");
    expect((await cli.rouse("init --yes --preset github")).code).toBe(0);
    const before = file(".rouse/secrets/github");
    const added = await cli.rouse(
      "init --yes --preset jira --public-url https://hooks.example.com",
    );
    expect([added.code, added.err]).toEqual([0, ""]);
    expect(added.out).toContain("URL     https://hooks.example.com/hooks/jira");
    expect(added.out).toContain("Posted the recorded event comment_created to /hooks/jira: 202");
    expect(added.out).not.toContain("Register at github");
    const text = file("rouse.json5");
    expect(
      JSON5.parse<{ hooks: { presets: { use: string }[] } }>(text).hooks.presets.map(
        ({ use }) => use,
      ),
    ).toEqual(["github", "jira"]);
    expect(text).toContain("// Your own mappings");
    expect([file(".rouse/secrets/github"), file("package.json"), file(".gitignore")]).toEqual([
      before,
      '{ "name": "mine" }',
      "*.log\n.rouse/\nnode_modules/\n*.before\n",
    ]);
    expect((await cli.rouse("init --yes --preset jira")).out).toContain("has all of that already");
    expect(file("rouse.json5")).toBe(text);
  });

  it("makes a valid config for every preset that ships", async () => {
    const presets = listJson(PRESETS_DIR);
    const { code, err } = await cli.rouse([
      "init",
      "--yes",
      "--no-test",
      "--public-url",
      "https://hooks.example.com",
      "--preset",
      ...presets,
    ]);
    expect([code, err]).toEqual([0, ""]);
  });

  it("adds to rouse.json as well, and makes no second config beside it", async () => {
    await cli.write("rouse.json", { hooks: { enabled: true, token: "hook-token-0123456789" } });
    expect((await cli.rouse("init --yes --preset jira")).code).toBe(0);
    expect(existsSync(join(cli.dir, "rouse.json5"))).toBe(false);
    expect(JSON5.parse(file("rouse.json"))).toMatchObject({
      hooks: { token: "hook-token-0123456789", presets: [{ use: "jira" }] },
    });
  });

  it("mends a config whose preset has no secret: the command that the error names", async () => {
    const config = {
      gateway: { port: 0 },
      hooks: { enabled: true, token: "hook-token-0123456789", presets: ["healthchecks", "github"] },
    };
    await cli.write("rouse.json5", config);
    const refused = await cli.rouse("start");
    const [, command = ""] = /run `rouse ([^`]*)`/.exec(refused.err) ?? [];
    expect([refused.code, command]).toEqual([3, "init --preset github"]);
    expect(await cli.rouse(command.split(" "))).toMatchObject({ code: 0, err: "" });
    expect((await cli.rouse("config validate")).code).toBe(0);
    expect(
      JSON5.parse<{ hooks: { presets: unknown[] } }>(file("rouse.json5")).hooks.presets,
    ).toEqual(["healthchecks", { use: "github", secret: { file: ".rouse/secrets/github" } }]);
  });

  it("posts to the gateway that runs, once that has the new config", async () => {
    await cli.rouse("init --yes --port 0 --no-test");
    const gateway = await createGateway({
      cwd: cli.dir,
      env: {},
      workers: true,
    });
    const { url } = await gateway.start();
    try {
      const { code, out, err } = await cli.rouse("init --yes --preset github");
      expect([code, err]).toEqual([0, ""]);
      expect(out).toContain("to /hooks/github: 202");
      expect(gateway.status().url).toBe(url);
    } finally {
      await gateway.stop();
    }
  });

  it("keeps a secret that the sender has shown, and says where to put one that it will show", async () => {
    await cli.write("stripe.txt", "whsec_shown-by-the-sender\n");
    const { code, out } = await cli.rouse(
      "init --yes --preset stripe slack notion --secret-file stripe=stripe.txt",
    );
    expect(code).toBe(0);
    expect([file(".rouse/secrets/stripe").trim(), file(".rouse/secrets/notion").trim()]).toEqual([
      "whsec_shown-by-the-sender",
      "pending",
    ]);
    expect(out).toContain(
      `write it into ${join(cli.dir, ".rouse/secrets/slack")}; until then its requests are refused`,
    );
  });

  it("ends with 1 and says why if the test event gets no reply", async () => {
    const refusing = await createProvider();
    refusing.answer = (_request, response) => {
      response
        .writeHead(401, { "content-type": "application/json" })
        .end('{"error":{"message":"no such key"}}');
      return undefined;
    };
    const { code, err, out } = await cli.rouse([
      "init",
      "--yes",
      "--preset",
      "github",
      "--model",
      "local/x",
      "--base-url",
      refusing.url,
    ]);
    await refusing.close();
    expect([code, err]).toEqual([1, expect.stringMatching(/the run run_\S+ failed: /)]);
    expect(out).toContain("Register at github");
  });
});

describe("rouse init, asking", () => {
  it("asks for senders, a channel with its recipient, and a provider with its key; secrets go to files of the state folder", async () => {
    const prompts = typed([
      ["Whose webhooks", ["github", "stripe"]],
      ["The secret that stripe shows", "whsec_typed-into-the-terminal"],
      ["Where do replies go", ["telegram"]],
      ["Bot token", "123:typed-bot-token"],
      ["Who may write", "4711"],
      ["Who gets the replies", "4711"],
      ["Which model", "anthropic"],
      ["Model", "claude-sonnet-4-5"],
      ["API key", "typed-api-key-0123456789"],
    ]);
    const { code, err } = await cli.rouse("init --no-test", { prompts });
    expect([code, err, prompts.left]).toEqual([0, "", []]);
    const text = file("rouse.json5");
    expect(JSON5.parse(text)).toMatchObject({
      hooks: {
        presets: [
          { use: "github", secret: { file: ".rouse/secrets/github" }, channel: "telegram" },
          { use: "stripe", secret: { file: ".rouse/secrets/stripe" }, channel: "telegram" },
        ],
      },
      channels: {
        telegram: {
          token: { file: ".rouse/secrets/telegram-token" },
          allowFrom: ["4711"],
          defaultTo: "4711",
        },
      },
      agents: { defaults: { model: "anthropic/claude-sonnet-4-5" } },
      models: {
        providers: {
          anthropic: { type: "anthropic", apiKey: { file: ".rouse/secrets/anthropic-key" } },
        },
      },
    });
    for (const secret of ["typed-into", "typed-bot", "typed-api"])
      expect(text).not.toContain(secret);
    expect(file(".rouse/secrets/anthropic-key")).toBe("typed-api-key-0123456789\n");
    for (const name of readdirSync(join(cli.dir, ".rouse/secrets")))
      expect(statSync(join(cli.dir, ".rouse/secrets", name)).mode & 0o777).toBe(0o600);
  });

  it("does the same by flags, with the key from a file", async () => {
    await cli.write("key.txt", "key-of-a-file-0123456789\n");
    const flags = [
      "--preset",
      "github",
      "--channel",
      "telegram",
      "--to",
      "4711",
      "--provider",
      "openai",
      "--key-file",
      "key.txt",
      "--no-test",
    ];
    const { code, err } = await cli.rouse(["init", "--yes", ...flags], {
      env: { TELEGRAM_BOT_TOKEN: "123:token" },
    });
    expect([code, err]).toEqual([0, ""]);
    expect(JSON5.parse(file("rouse.json5"))).toMatchObject({
      channels: { telegram: { defaultTo: "4711" } },
      agents: { defaults: { model: "openai/gpt-5-mini" } },
      models: {
        providers: { openai: { type: "openai", apiKey: { file: ".rouse/secrets/openai-key" } } },
      },
    });
    expect(file(".rouse/secrets/openai-key")).toBe("key-of-a-file-0123456789\n");
  });
});

it("rouse init: types of transforms and plugins resolve in the new folder", async () => {
  await cli.rouse("init --yes --no-test");
  await cli.write(
    "transforms/ci.ts",
    'import type { Transform } from "rouse/transform";\nconst t: Transform = ({ payload }) => (payload.ok ? null : { message: String(payload.url) });\nexport default t;\n',
  );
  await cli.write(
    "plugins/log.ts",
    `import { appendFile } from "node:fs/promises";
import { z } from "zod";
import { definePlugin } from "rouse/plugin";
export default definePlugin({
  id: "log",
  config: z.strictObject({ file: z.string() }),
  channel: ({ config }) => ({
    send: async ({ to, text }) => {
      await appendFile(config.file, to + text);
      return { status: "sent" };
    },
  }),
});
`,
  );
  const tsc = () =>
    execFileSync(
      process.execPath,
      [join(import.meta.dirname, "../../node_modules/typescript/bin/tsc"), "-p", cli.dir],
      {
        encoding: "utf8",
      },
    );
  expect(tsc()).toBe("");
  await cli.write(
    "transforms/wrong.ts",
    'import type { Transform } from "rouse/transform";\nexport const t: Transform = () => ({ mesage: "x" });\n',
  );
  expect(tsc).toThrow();
});
