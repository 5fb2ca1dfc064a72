import { existsSync, readFileSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Prompts } from "../../src/cli/prompts.ts";
import { CONFIRMATIONS } from "../../src/workbench/confirmation-names.ts";
import { createGateway, type StartedGateway } from "../gateway.ts";
import { createCli, shopConfig, TOKEN, type CliWorld } from "./world.ts";

const ACME = {
  id: "acme",
  mappings: [
    {
      id: "acme.order",
      match: { path: "acme", payload: { type: "order" } },
      messageTemplate: "Order {{id}}",
    },
  ],
};

let cli: CliWorld;
let gateway: StartedGateway | undefined;
beforeEach(async () => {
  cli = await createCli();
  await cli.write("rouse.json5", shopConfig());
  await mkdir(join(cli.dir, "mappings/drafts"), { recursive: true });
});
afterEach(async () => {
  await gateway?.stop();
  gateway = undefined;
  await cli.close();
});

const start = async (): Promise<StartedGateway> => {
  gateway = await createGateway({ cwd: cli.dir, env: {}, workers: false });
  await gateway.start();
  return gateway;
};
const writeDraft = (name: string, content: unknown) =>
  cli.write(`mappings/drafts/${name}`, content);
const read = (name: string): string => readFileSync(join(cli.dir, name), "utf8");

const post = async (path: string, body: object) => {
  const request = new Request(`http://127.0.0.1/hooks/${path}`, {
    method: "POST",
    headers: { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  const answer = await (gateway as StartedGateway).fetch(request);
  return { status: answer.status, id: answer.headers.get("x-request-id") ?? "" };
};

async function json<T>(...args: string[]): Promise<T> {
  const { out, err } = await cli.rouse([...args, "--json"]);
  expect([err.includes("rouse:") ? err : "", out]).toEqual(["", expect.stringContaining("{")]);
  return JSON.parse(out) as T;
}

type Listed = {
  drafts: {
    name: string;
    landsIn: string | null;
    replaces: string[];
    landed: boolean;
    problems: { file: string; line?: number; message: string }[];
  }[];
};

describe("drafts", () => {
  it("are listed with their problems, and are warnings to a config that is fine", async () => {
    await writeDraft("acme.json", ACME);
    await writeDraft("broken.json5", "{ id: 'broken',\n  mappings: [ }");
    await writeDraft(
      "wrong.json5",
      "{\n  id: 'wrong',\n  mappings: [\n    { match: { path: 'w' }, mesageTemplate: 'x' },\n  ],\n}",
    );
    await writeDraft(
      "late.json5",
      "{\n  id: 'late',\n  mappings: [\n    { match: { path: 'w' }, messageTemplate: 'x',\n      agentId: 'nobody' },\n  ],\n}",
    );
    const { drafts } = await json<Listed>("drafts", "list");
    expect(
      drafts.map(({ name, problems }) => [
        name,
        problems.map(({ file, line }) => [file.slice(cli.dir.length + 1), line]),
      ]),
    ).toEqual([
      ["acme", []],
      ["broken", [["mappings/drafts/broken.json5", 2]]],
      ["late", [["mappings/drafts/late.json5", 5]]],
      ["wrong", [["mappings/drafts/wrong.json5", 4]]],
    ]);
    const validated = await cli.rouse(["config", "validate"]);
    expect(validated.code).toBe(0);
    expect(validated.out).toMatch(/fine, 1 mapping\.\n/);
    expect(
      validated.out.match(/^warning: mappings\/drafts\/(?:broken|late|wrong)\.json5:/gm),
    ).toHaveLength(3);
    const list = await cli.rouse(["drafts", "list"]);
    expect(list.out).toMatch(/^acme +mappings\/acme\.json +fine$/m);
    expect(list.out).toMatch(/^broken .* 1 problem$/m);
    await start();
    expect((await post("acme", { type: "order", id: 1 })).status).toBe(404);
    expect((await post("w", {})).status).toBe(404);
  });

  it("are shown, tested and dropped without a gateway, a store or a file written", async () => {
    const text = "// why\n" + JSON.stringify(ACME);
    await writeDraft("acme.json5", text);
    await cli.write("order.json", { type: "order", id: 7 });
    expect((await cli.rouse(["drafts", "show", "acme"])).out).toBe(
      `// A draft, not live: ${join(cli.dir, "mappings/drafts/acme.json5")}\n${text}`,
    );
    const tested = await cli.rouse(["drafts", "test", "acme", "--payload", "order.json"]);
    expect(tested).toMatchObject({
      code: 0,
      out: expect.stringMatching(/^a test of the draft acme, which is not live\n/),
    });
    expect(tested.out).toContain("Order ⟦7⟧");
    expect(
      await cli.rouse(["hooks", "test", "--path", "acme", "--payload", "order.json"]),
    ).toMatchObject({ code: 1 });
    expect(existsSync(join(cli.dir, ".rouse"))).toBe(false);
    expect(await cli.rouse(["drafts", "show", "acne"])).toMatchObject({
      code: 1,
      err: expect.stringContaining('no draft "acne"; there are acme'),
    });
    expect(await cli.rouse(["drafts", "try", "acme"])).toMatchObject({
      code: 2,
      err: expect.stringContaining("no gateway runs"),
    });
    expect((await cli.rouse(["drafts", "drop", "acme"])).code).toBe(0);
    expect((await cli.rouse(["drafts", "list"])).out).toContain("there are no drafts");
  });

  it("are tested with a recorded event, while the event's own outcome stays", async () => {
    await start();
    const { id } = await post("acme", { type: "order", id: 9 });
    await writeDraft("acme.json", ACME);
    expect((await cli.rouse(["drafts", "test", "acme", "--event", id])).out).toContain("Order ⟦9⟧");
    expect(await json("explain", id)).toMatchObject({
      explanation: { event: { outcome: "unmatched" } },
    });
  });

  it("never mix with live mappings of the same name: it is said what they replace, or refused", async () => {
    await cli.write("mappings/acme.json", {
      id: "acme",
      mappings: [{ id: "acme.old", match: { path: "acme" }, messageTemplate: "old" }],
    });
    await writeDraft("acme.json5", ACME);
    await writeDraft(
      "shop.json5",
      "{ id: 'shop', mappings: [ { id: 'shop.order', match: { path: 'shop' }, messageTemplate: 'Changed' } ] }",
    );
    await writeDraft("two.json", ACME);
    await writeDraft("two.json5", ACME);
    const { drafts } = await json<Listed>("drafts", "list");
    expect(
      drafts.map(({ name, replaces, landsIn, problems }) => [
        name,
        replaces,
        landsIn?.slice(cli.dir.length + 1) ?? null,
        problems.map(({ message }) => message),
      ]),
    ).toEqual([
      [
        "acme",
        [],
        null,
        [expect.stringContaining("there is a live file acme.json with the name of the draft")],
      ],
      ["shop", ["shop.order"], "rouse.json5", []],
      [
        "two",
        expect.anything(),
        expect.anything(),
        [expect.stringContaining("there are two drafts of the name")],
      ],
      [
        "two",
        expect.anything(),
        expect.anything(),
        [expect.stringContaining("there are two drafts of the name")],
      ],
    ]);
    await start();
    expect((await post("acme", { type: "order" })).status).toBe(202);
    expect(await json("explain", "latest")).toMatchObject({
      explanation: { event: { mapping: "acme.old" } },
    });
    expect(await cli.rouse(["drafts", "accept", "acme", "--yes"])).toMatchObject({
      code: 2,
      err: expect.stringContaining("rename the draft, or name a file with --into"),
    });
    expect(
      (await cli.rouse(["drafts", "accept", "acme", "--into", "acme.json", "--yes"])).code,
    ).toBe(0);
    expect(
      (JSON.parse(read("mappings/acme.json")) as typeof ACME).mappings.map(({ id }) => id),
    ).toEqual(["acme.old", "acme.order"]);
  });
});

describe("rouse drafts accept and rouse config undo", () => {
  it("takes a change into use at the running gateway, and takes it back with the draft", async () => {
    await start();
    await writeDraft("acme.json", ACME);
    const draft = read("mappings/drafts/acme.json");
    const { id } = await post("acme", { type: "order", id: 1 });
    const asked = await cli.rouse(["drafts", "accept", "acme"]);
    expect(asked).toMatchObject({
      code: 2,
      out: expect.stringContaining("+++ b/mappings/acme.json"),
    });
    expect(asked.out).toMatch(/^1 event of .* 1 changes\. 1 would run that did not\.$/m);
    expect((await cli.rouse(["drafts", "diff", "acme"])).out).toMatch(
      /^starts a run {2}acme\.order {2}1$/m,
    );
    expect(existsSync(join(cli.dir, "mappings/acme.json"))).toBe(false);
    const accepted = await cli.rouse(["drafts", "accept", "acme", "--yes"]);
    expect(accepted).toMatchObject({
      code: 0,
      out: expect.stringMatching(/^The draft acme is live .*: .*mappings\/acme\.json, in use\n$/m),
    });
    expect(read("mappings/acme.json")).toBe(draft);
    expect(existsSync(join(cli.dir, "mappings/drafts/acme.json"))).toBe(false);
    expect((await post("acme", { type: "order", id: 2 })).status).toBe(202);
    expect((await cli.rouse(["config", "undo", "--list"])).out).toMatch(
      /draft acme accepted +mappings\/acme\.json/,
    );
    expect(await cli.rouse(["config", "undo", "--yes"])).toMatchObject({
      code: 0,
      out: expect.stringContaining("Taken back: "),
    });
    expect([
      existsSync(join(cli.dir, "mappings/acme.json")),
      read("mappings/drafts/acme.json"),
    ]).toEqual([false, draft]);
    expect((await post("acme", { type: "order", id: 3 })).status).toBe(404);
    expect(await cli.rouse(["config", "undo", "--yes"])).toMatchObject({
      code: 1,
      err: expect.stringContaining("no change is kept"),
    });
    expect(await json("explain", id)).toMatchObject({
      explanation: { event: { outcome: "unmatched" } },
    });
  });

  it("compares recorded events also while no gateway runs", async () => {
    await (await start()).fetch(new Request("http://127.0.0.1/livez"));
    await post("acme", { type: "order", id: 1 });
    await gateway?.stop();
    gateway = undefined;
    await writeDraft("acme.json", ACME);
    const { code, out } = await cli.rouse(["drafts", "accept", "acme", "--yes"]);
    expect([code, out]).toEqual([0, expect.stringContaining("starts a run  acme.order  1")]);
  });

  it("writes nothing if the draft is edited between the question and the answer", async () => {
    await writeDraft("acme.json", ACME);
    await start();
    const prompts = {
      select: async () => {
        await writeDraft("acme.json", { ...ACME, description: "edited" });
        return "yes";
      },
    } as unknown as Prompts;
    const { code, err } = await cli.rouse(["drafts", "accept", "acme"], { prompts });
    expect([code, err]).toEqual([
      1,
      expect.stringContaining("the change is not as it was shown any more; nothing was written"),
    ]);
    expect(existsSync(join(cli.dir, "mappings/acme.json"))).toBe(false);
  });

  it("asks, and stops at a no", async () => {
    await writeDraft("acme.json", {
      id: "acme",
      mappings: [{ ...ACME.mappings[0], allowUnsafeExternalContent: true }],
    });
    const answers = (typed: string, choice: string) => ({
      prompts: { text: async () => typed, select: async () => choice } as unknown as Prompts,
    });
    for (const given of [answers("yes", "yes"), answers("allowUnsafeExternalContent", "no")])
      expect(await cli.rouse(["drafts", "accept", "acme"], given)).toMatchObject({
        code: 2,
        err: expect.stringContaining("stopped; nothing was written"),
      });
    expect(existsSync(join(cli.dir, "mappings/acme.json"))).toBe(false);
    expect(
      (await cli.rouse(["drafts", "accept", "acme"], answers("allowUnsafeExternalContent", "yes")))
        .code,
    ).toBe(0);
  });

  describe("with tests that fail", () => {
    const test = (text: string) => ({
      request: {
        method: "POST",
        path: "shop",
        json: { type: "order", payload: { id: 7, customer: { name: "Ann" } } },
      },
      receivedAt: "2026-01-01T00:00:00Z",
      expect: { outcome: "accepted", mapping: "shop.order", actions: [{ contains: [text] }] },
    });
    const inGateway = (path: string, body: object): Promise<Response> => {
      const running = gateway as StartedGateway;
      const headers = {
        authorization: `Bearer ${running.operatorToken}`,
        "content-type": "application/json",
      };
      return running.fetch(
        new Request(`http://127.0.0.1/admin/v1/changes${path}`, {
          method: "POST",
          headers,
          body: JSON.stringify(body),
        }),
      );
    };
    beforeEach(async () => {
      await mkdir(join(cli.dir, "tests/shop"), { recursive: true });
      await cli.write("tests/shop/order.json5", test("New order"));
      await cli.write("tests/shop/other.json5", test("order"));
      await writeDraft(
        "shop.json5",
        "{ id: 'shop', mappings: [ { id: 'shop.order', match: { path: 'shop' }, messageTemplate: 'An order' } ] }",
      );
    });

    it.each([false, true])(
      "lands only if that is confirmed by name; running gateway: %s",
      async (isRunning) => {
        if (isRunning) await start();
        const before = read("rouse.json5");
        const { code, out, err } = await cli.rouse(["drafts", "accept", "shop", "--yes"]);
        expect([code, out]).toEqual([
          2,
          expect.stringContaining(
            "tests: 1 pass, 1 fail\n  shop/order: expect.actions[0].contains\n",
          ),
        ]);
        expect(err).toContain(
          "tests fail with the change: nothing was written; to go on, confirm by name with --confirm failing-tests",
        );
        expect(
          await cli.rouse(["drafts", "accept", "shop", "--yes", "--confirm", "recipient"]),
        ).toMatchObject({ code: 2 });
        const typed = {
          prompts: { text: async () => "yes", select: async () => "yes" } as unknown as Prompts,
        };
        expect(await cli.rouse(["drafts", "accept", "shop"], typed)).toMatchObject({ code: 2 });
        expect(read("rouse.json5")).toBe(before);
        expect(
          (await cli.rouse(["drafts", "accept", "shop", "--yes", "--confirm", "failing-tests"]))
            .code,
        ).toBe(0);
        expect(read("rouse.json5")).toContain("An order");
        // Taking it back mends the test, so nothing has to be confirmed; the next time it is broken again.
        expect((await cli.rouse(["config", "undo", "--yes"])).code).toBe(0);
        expect(read("rouse.json5")).toBe(before);
      },
    );

    it("counts a file that is no test, and asks again when a change is taken back", async () => {
      await cli.write("tests/shop/order.json5", test("An order"));
      await cli.write("tests/shop/wrong.json5", { ...test("order"), expct: {} });
      expect((await cli.rouse(["drafts", "accept", "shop", "--yes"])).out).toMatch(
        /not a test: tests\/shop\/wrong\.json5:1:\d+ +expct: is not known/,
      );
      expect(
        (await cli.rouse(["drafts", "accept", "shop", "--yes", "--confirm", "failing-tests"])).code,
      ).toBe(0);
      await cli.write("tests/shop/wrong.json5", test("order"));
      expect(await cli.rouse(["config", "undo", "--yes"])).toMatchObject({
        code: 2,
        err: expect.stringContaining("--confirm failing-tests"),
      });
      expect(
        (await cli.rouse(["config", "undo", "--yes", "--confirm", "failing-tests"])).code,
      ).toBe(0);
    });

    it("answers over HTTP, too", async () => {
      await start();
      const change = { kind: "draft", name: "shop" };
      expect(await (await inGateway("/check", { change })).json()).toMatchObject({
        check: { confirm: ["failing-tests"], tests: { passed: 1 } },
      });
      const refused = await inGateway("", { change });
      expect([refused.status, await refused.json()]).toMatchObject([
        409,
        { error: { code: "not_confirmed" } },
      ]);
      expect((await inGateway("", { change, confirm: ["all"] })).status).toBe(400);
      expect(
        await (await inGateway("", { change, confirm: ["failing-tests"] })).json(),
      ).toMatchObject({ result: { landed: true } });
    });
  });

  it("takes only names of confirmations, and lists them", async () => {
    await writeDraft("acme.json", ACME);
    expect(
      await cli.rouse(["drafts", "accept", "acme", "--yes", "--confirm", "auth,all"]),
    ).toMatchObject({
      code: 2,
      err: expect.stringContaining(
        "--confirm all: the names are auth, allowUnsafeExternalContent, transform.module, recipient, failing-tests",
      ),
    });
    for (const command of [
      ["drafts", "accept"],
      ["config", "undo"],
    ])
      expect((await cli.rouse([...command, "--help"])).out.replaceAll(/\s+/g, " ")).toContain(
        "transform.module, recipient, failing-tests",
      );
    const docs = readFileSync(join(import.meta.dirname, "../../docs/workbench.md"), "utf8");
    for (const [name, what] of Object.entries(CONFIRMATIONS))
      expect(docs).toMatch(new RegExp(`\\| \`${name}\` +\\| ${what} +\\|`));
  });

  it("needs no gateway, and no secret", async () => {
    await cli.write(
      "rouse.json5",
      "{\n  // ours\n  hooks: { enabled: true, token: '${NOT_SET}', mappings: [] },\n}\n",
    );
    await writeDraft(
      "acme.json5",
      "{ id: 'acme', mappings: [\n  {\n    id: 'acme.order', // kept\n    match: { path: 'acme' },\n    messageTemplate: 'x',\n  },\n] }",
    );
    expect(
      await cli.rouse(["drafts", "accept", "acme", "--into", "rouse.json5", "--yes"]),
    ).toMatchObject({
      code: 0,
      out: expect.not.stringContaining("in use"),
    });
    expect(read("rouse.json5")).toBe(
      "{\n  // ours\n  hooks: { enabled: true, token: '${NOT_SET}', mappings: [\n    {\n      id: 'acme.order', // kept\n      match: { path: 'acme' },\n      messageTemplate: 'x',\n    }\n  ] },\n}\n",
    );
  });

  it("writes nothing if the config would have problems with it, and says which", async () => {
    await writeDraft(
      "acme.json5",
      "{ id: 'acme', mappings: [ { id: 'acme.order', match: { path: 'acme', when: '(' }, messageTemplate: 'x' } ] }",
    );
    await start();
    const { code, out } = await cli.rouse(["drafts", "accept", "acme", "--yes"]);
    expect([code, out]).toEqual([1, expect.stringMatching(/problem: .*is not valid JSONata/)]);
    expect(existsSync(join(cli.dir, "mappings/acme.json"))).toBe(false);
  });

  it.each([
    ["auth", { auth: { token: "a-token-of-its-own-0123" } }],
    ["allowUnsafeExternalContent", { allowUnsafeExternalContent: true }],
    ["transform.module", { transform: { module: "own.ts" } }],
    ["recipient", { channel: "console", to: "{{reply_to}}" }],
  ])("asks for %s by its name", async (name, fields) => {
    await mkdir(join(cli.dir, "transforms"));
    await cli.write("transforms/own.ts", "export default () => ({});\n");
    await writeDraft("acme.json", { id: "acme", mappings: [{ ...ACME.mappings[0], ...fields }] });
    expect(await cli.rouse(["drafts", "accept", "acme", "--yes"])).toMatchObject({
      code: 2,
      err: expect.stringContaining(`--confirm ${name}`),
    });
    expect(existsSync(join(cli.dir, "mappings/acme.json"))).toBe(false);
    expect(await cli.rouse(["drafts", "accept", "acme", "--yes", "--confirm", name])).toMatchObject(
      {
        code: 0,
        out: expect.stringContaining("+++ b/mappings/acme.json"),
      },
    );
  });

  it("takes back 20 changes one by one, stops at a file that was edited by hand, and shows both changes", async () => {
    const config = (text: string) =>
      `{\n  hooks: { enabled: true, token: "${TOKEN}", mappings: [\n    // ours\n    { id: "shop.order", match: { path: "shop" }, messageTemplate: "${text}" },\n  ] },\n}\n`;
    await cli.write("rouse.json5", config("v0"));
    for (let n = 1; n <= 22; n++) {
      await writeDraft(
        "shop.json5",
        `{ id: "shop", mappings: [ { id: "shop.order", match: { path: "shop" }, messageTemplate: "v${n}" } ] }`,
      );
      expect((await cli.rouse(["drafts", "accept", "shop", "--yes"])).code).toBe(0);
      await cli.rouse(["drafts", "drop", "shop"]);
    }
    expect(
      (await cli.rouse(["config", "undo", "--list"])).out.match(
        /draft shop accepted +rouse\.json5/g,
      ),
    ).toHaveLength(20);
    for (let n = 21; n >= 10; n--) {
      expect((await cli.rouse(["config", "undo", "--yes"])).code).toBe(0);
      expect(read("rouse.json5")).toBe(config(`v${n}`));
    }
    await cli.write("rouse.json5", config("v10").replace("// ours", "// by hand"));
    const { code, err } = await cli.rouse(["config", "undo", "--yes"]);
    expect([code, err]).toEqual([
      1,
      expect.stringMatching(/nothing was written[^]*by hand[^]*was to be changed like this:[^]*v9/),
    ]);
    expect(read("rouse.json5")).toContain("// by hand");
    await cli.write("rouse.json5", config("v10"));
    for (let n = 9; n >= 2; n--)
      expect((await cli.rouse(["config", "undo", "--yes"])).code).toBe(0);
    expect(read("rouse.json5")).toBe(config("v2"));
    expect(await cli.rouse(["config", "undo", "--yes"])).toMatchObject({
      code: 1,
      err: expect.stringContaining("no change is kept"),
    });
  });

  it("reports a draft as landed whose live file was written before a crash", async () => {
    await writeDraft("acme.json", ACME);
    await cli.write("mappings/acme.json", ACME);
    expect(await json<Listed>("drafts", "list")).toMatchObject({
      drafts: [{ name: "acme", landed: true, problems: [] }],
    });
    expect((await cli.rouse(["drafts", "list"])).out).toContain(
      "landed: `rouse drafts drop` removes the draft",
    );
    expect((await cli.rouse(["config", "validate"])).out).toContain("this draft has landed");
    expect((await cli.rouse(["drafts", "accept", "acme", "--yes"])).code).toBe(0);
    expect(existsSync(join(cli.dir, "mappings/drafts/acme.json"))).toBe(false);
  });
});
