import { mkdir, readFile, symlink } from "node:fs/promises";
import { join } from "node:path";
import JSON5 from "json5";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { TestedHook } from "../../src/operate/records/test-hook.ts";
import type { ImportNote } from "../../src/operate/edits/import-openclaw.ts";
import { createCli, TOKEN, type CliWorld } from "./world.ts";

let cli: CliWorld;
beforeEach(async () => {
  cli = await createCli();
  await cli.write("rouse.json5", { agents: { list: [{ id: "main" }, { id: "reader" }] } });
});
afterEach(() => cli.close());

interface Imported {
  document: { id: string; mappings: Record<string, unknown>[] };
  settings: Record<string, unknown>;
  notes: ImportNote[];
}

async function importHooks(config: unknown): Promise<Imported> {
  await cli.write("openclaw.json", config);
  const { code, out, err } = await cli.rouse("import openclaw openclaw.json --json");
  expect([code, err]).toEqual([0, ""]);
  return JSON.parse(out) as Imported;
}

/** Evaluates a body by the imported mappings, once they are live. */
async function evaluate(
  { settings, document }: Imported,
  path: string,
  payload: unknown,
  options = "",
): Promise<TestedHook> {
  const rouse = {
    agents: { list: [{ id: "main" }, { id: "reader" }] },
    hooks: { ...settings, presets: [], enabled: true, token: TOKEN },
  };
  await cli.write("rouse.json5", rouse);
  const live = document.mappings.map(({ shadow: _shadow, ...mapping }) => mapping);
  await mkdir(join(cli.dir, "mappings"), { recursive: true });
  await cli.write("mappings/imported.json5", { id: "imported", mappings: live });
  await cli.write("body.json", payload);
  const { out, err } = await cli.rouse(
    `hooks test --path ${path} --payload body.json --json ${options}`.trimEnd(),
  );
  expect(err).toBe("");
  return JSON.parse(out) as TestedHook;
}

const contents = ({ actions }: TestedHook): string[] =>
  actions.map((action) =>
    action.ok ? action.content.map(({ text }) => text).join("") : action.failure.message,
  );
const verdict = ({ notes }: Imported, path: string): string | undefined =>
  notes.find((note) => note.path === path)?.verdict;

describe("rouse import openclaw", () => {
  it("gives the same message, key and recipient on the same body", async () => {
    const imported = await importHooks({
      gateway: { port: 1 },
      hooks: {
        enabled: true,
        token: "a-secret-that-is-not-copied",
        path: "/hooks",
        mappings: [
          {
            id: "tickets",
            match: { path: "/tickets/", source: "desk" },
            action: "agent",
            wakeMode: "next-heartbeat",
            name: "Desk {{payload.kind}}",
            agentId: "reader",
            sessionKey: "hook:desk:{{ticket.id}}",
            sessionMode: "persistent",
            messageTemplate:
              "{{ticket.title}} by {{ticket.people[0].name}} ({{query.team}}, {{headers.x-desk-kind}}, {{path}})\n{{missing}}{{ticket.tags}}",
            deliver: true,
            channel: "last",
            to: "{{ticket.room}}",
            thinking: "low",
            timeoutSeconds: 30,
          },
        ],
      },
    });
    const body = {
      source: "desk",
      kind: "new",
      ticket: { id: 7, title: "Broken", people: [{ name: "Ada" }], tags: ["a", 1], room: "r1" },
    };
    const tested = await evaluate(
      imported,
      "tickets",
      body,
      "--header x-desk-kind=vip --query team=north",
    );
    expect(contents(tested)).toEqual(['Broken by Ada (north, vip, tickets)\n["a",1]']);
    expect(tested.actions[0]).toMatchObject({
      mapping: "tickets",
      action: "agent",
      fields: {
        name: "Desk new",
        agentId: "reader",
        sessionKey: "hook:desk:7",
        wakeMode: "next-heartbeat",
        deliver: true,
        channel: "last",
        to: "r1",
        thinking: "low",
        timeoutSeconds: 30,
      },
    });
    expect((await evaluate(imported, "tickets", { ...body, source: "Desk" })).outcome).toBe(
      "unmatched",
    );
    expect(JSON.stringify(imported)).not.toContain("a-secret-that-is-not-copied");
    expect(verdict(imported, "hooks.token")).toBe("differs");
    expect(verdict(imported, "hooks.path")).toBeUndefined();
    expect(imported.settings).toEqual({
      enabled: true,
      token: "${HOOK_TOKEN}",
      path: "/hooks",
      allowRequestSessionKey: false,
    });
  });

  it.each([["messages"], ["payload.messages"], [{ path: "messages" }]])(
    "makes an action of each item with forEach: %j",
    async (forEach) => {
      const imported = await importHooks({
        hooks: {
          mappings: [
            {
              match: { path: "mail" },
              forEach,
              name: "Mail {{account}}",
              sessionKey: "hook:mail:{{messages[0].id}}",
              messageTemplate:
                "{{messages[0].from}}: {{payload.messages[0].lines[1]}}{{messages[1].from}}",
            },
          ],
        },
      });
      const mail = (id: string) => ({ id, from: `from ${id}`, lines: ["first", `second ${id}`] });
      const tested = await evaluate(imported, "mail", {
        account: "a@b.example",
        messages: [mail("1"), mail("2")],
      });
      expect(contents(tested)).toEqual(["from 1: second 1", "from 2: second 2"]);
      expect(tested.actions.map((action) => action.ok && action.fields["sessionKey"])).toEqual([
        "hook:mail:1",
        "hook:mail:2",
      ]);
      expect((await evaluate(imported, "mail", { messages: [mail("3")] })).actions).toHaveLength(1);
      // OpenClaw takes no single object for a list, and a body without the list makes nothing.
      expect((await evaluate(imported, "mail", { messages: mail("4") })).outcome).toBe("skipped");
      expect((await evaluate(imported, "mail", {})).outcome).toBe("skipped");
      expect(imported.document.mappings[0]).toMatchObject({ id: "mapping-1" });
      expect(verdict(imported, "hooks.mappings[0].messageTemplate")).toBe("differs");
    },
  );

  it("tries the mappings in order, and takes wakes and fields with the names of roots", async () => {
    const imported = await importHooks({
      hooks: {
        mappings: [
          {
            id: "a b",
            match: { path: "x", source: "s1" },
            action: "wake",
            textTemplate: "{{item}} {{payload}} {{count}}",
            messageTemplate: "no",
          },
          { id: "a b", match: { path: "x" }, messageTemplate: "{{a b.c-d}} and {{index[0].e}}" },
          { match: {}, messageTemplate: "any {{path}}" },
        ],
      },
    });
    const wake = await evaluate(imported, "x", {
      source: "s1",
      item: "i",
      payload: { p: 1 },
      count: 3,
    });
    expect([wake.mapping, contents(wake)]).toEqual(["a-b", ['i {"p":1} 3']]);
    const agent = await evaluate(imported, "x", {
      source: "s2",
      "a b": { "c-d": "yes" },
      index: [{ e: "5" }],
    });
    expect([agent.mapping, contents(agent)]).toEqual(["a-b-2", ["yes and 5"]]);
    expect(contents(await evaluate(imported, "other", {}))).toEqual(["any other"]);
  });

  describe("of configs like those in OpenClaw's documentation:", () => {
    it("the endpoints alone, with the agents that may be asked for", async () => {
      const { document, settings, notes } = await importHooks({
        hooks: {
          enabled: true,
          token: "t",
          path: "/hooks",
          allowedAgentIds: ["main"],
          allowRequestSessionKey: false,
        },
      });
      expect(document.mappings).toEqual([]);
      expect(settings).toEqual({
        enabled: true,
        token: "${HOOK_TOKEN}",
        path: "/hooks",
        allowedAgentIds: ["main"],
        allowRequestSessionKey: false,
      });
      expect(notes.map(({ path, verdict: found }) => `${path} ${found}`)).toEqual([
        "hooks.token differs",
      ]);
    });

    it("every setting of a mapping that the documentation lists is taken over or named in the report", async () => {
      const mapping = {
        id: "all",
        match: { path: "all", source: "desk" },
        action: "agent",
        wakeMode: "now",
        name: "N",
        agentId: "main",
        sessionKey: "hook:all",
        sessionMode: "persistent",
        messageTemplate: "m",
        textTemplate: "t",
        forEach: "rows",
        deliver: true,
        channel: "last",
        to: "r",
        model: "m/x",
        thinking: "low",
        timeoutSeconds: 30,
        allowUnsafeExternalContent: false,
        transform: { module: "a.ts", export: "run" },
      };
      const { document, notes } = await importHooks({
        hooks: { mappings: [mapping], gmail: { account: "a@b.example" }, internal: {} },
      });
      // The mode is told with its key, and \`textTemplate\` says nothing to an agent.
      const { sessionMode: _mode, textTemplate: _text, ...taken } = mapping;
      expect(Object.keys(document.mappings[0] ?? {})).toEqual(
        expect.arrayContaining(Object.keys(taken)),
      );
      expect(
        notes.filter(({ verdict: found }) => found === "missing").map(({ path }) => path),
      ).toEqual(["hooks.gmail", "hooks.internal"]);
    });
  });

  it("lists what has no counterpart, and prints the settings for the config", async () => {
    await cli.write("openclaw.json", {
      hooks: {
        presets: ["gmail"],
        allowedSessionKeyPrefixes: ["hook:"],
        internal: { enabled: true },
        mappings: [
          {
            id: "t",
            match: { path: "t" },
            transform: { module: "t.ts", export: "run" },
            sessionKey: "k:{{id}}",
            later: 1,
          },
          { id: "e", match: { path: "e" } },
        ],
      },
    });
    const run = (...args: string[]) =>
      cli.rouse(["import", "openclaw", "openclaw.json", "--yes", ...args]);
    const refused = await run();
    expect([refused.code, refused.out]).toEqual([
      1,
      expect.stringMatching(/problem: .*transform\.module/),
    ]);
    await mkdir(join(cli.dir, "transforms"));
    await cli.write("transforms/t.ts", "export const run = () => null;\n");
    expect(await run()).toMatchObject({
      code: 2,
      err: expect.stringContaining("--confirm transform.module"),
    });
    const { code, out } = await run("--confirm", "transform.module");
    expect(code).toBe(0);
    expect(out).toMatch(/hooks\.presets +DIFFERS/);
    expect(out).toMatch(/hooks\.internal +NO COUNTERPART/);
    expect(out).toMatch(/hooks\.mappings\[0\]\.later +NO COUNTERPART/);
    expect(out).toMatch(/hooks\.mappings\[0\]\.transform +DIFFERS .*keepHeaders/);
    expect(out).toMatch(/hooks\.mappings\[0\]\.sessionKey +DIFFERS .*common history/);
    expect(out).toMatch(/hooks\.mappings\[1\]\.messageTemplate +DIFFERS .*enabled: false/);
    expect(out).toContain('"allowedSessionKeyPrefixes": [');
    expect(out).toContain("The mappings are in shadow: they start nothing: ");
    const text = await readFile(join(cli.dir, "mappings/openclaw.json5"), "utf8");
    expect(JSON5.parse<{ mappings: unknown[] }>(text).mappings).toMatchObject([
      { id: "t", shadow: true },
      { id: "e", shadow: true },
    ]);
    // Again, it is a change of the file that is there.
    const again = await run("--confirm", "transform.module");
    expect([again.code, again.out]).toEqual([
      0,
      expect.stringContaining("the files have this change already"),
    ]);
  });

  it("reads what $include names, in files beside and below the config only", async () => {
    await mkdir(join(cli.dir, "parts"));
    await cli.write(
      "parts/one.json5",
      `{ mappings: [{ id: "one", match: { path: "one" }, messageTemplate: "1" }], path: "/first" }`,
    );
    await cli.write(
      "parts/hooks.json5",
      `{ $include: ["./one.json5"], path: "/second", mappings: [{ $include: "./two.json5" }] }`,
    );
    await cli.write(
      "parts/two.json5",
      `{ id: "two", match: { path: "two" }, messageTemplate: "2" }`,
    );
    const { document, settings } = await importHooks({
      hooks: { $include: "./parts/hooks.json5" },
    });
    expect(document.mappings.map(({ id }) => id)).toEqual(["one", "two"]);
    expect(settings["path"]).toBe("/second");
    const fails = async (config: unknown): Promise<string> => {
      await cli.write("bad.json", config);
      const { code, err } = await cli.rouse("import openclaw bad.json");
      expect([code, err]).toEqual([3, expect.any(String)]);
      return err;
    };
    await cli.write("circle.json5", `{ $include: "./bad.json" }`);
    expect(await fails({ hooks: { $include: "./circle.json5" } })).toContain("in a circle");
    expect(await fails({ hooks: { $include: "../../../etc/hostname" } })).toContain("is outside");
    await symlink("/etc/hostname", join(cli.dir, "link.json5"));
    expect(await fails({ hooks: { $include: "./link.json5" } })).toContain("is outside");
    expect(await fails({ hooks: { $include: "./absent.json5" } })).toContain(
      "there is no such file",
    );
    expect(await fails("{ hooks: ")).toMatch(/line 1/);
    expect(await fails({ agents: {} })).toContain("no section `hooks`");
  });
});
