import { existsSync, readFileSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Prompts } from "../../src/cli/prompts.ts";
import { CONFIRMATIONS } from "../../src/operate/edits/confirmation-names.ts";
import { createGateway, type StartedGateway } from "../gateway.ts";
import { createCli, shopConfig, TOKEN, type CliWorld } from "./world.ts";

/** In shadow, with what an editor by hand leaves: a comment, quotes, a comma at the end. */
const toText = (more = "") =>
  `{ id: 'acme', mappings: [\n  // ours\n  {\n    id: 'acme.order',\n    shadow: true, // until Monday\n    match: { path: 'acme', payload: { type: 'order' } },${more}\n    messageTemplate: 'Order {{id}}',\n  },\n] }\n`;
const FILE = "mappings/acme.json5";

let cli: CliWorld;
let gateway: StartedGateway | undefined;
beforeEach(async () => {
  cli = await createCli();
  await cli.write("rouse.json5", shopConfig());
  await mkdir(join(cli.dir, "mappings"), { recursive: true });
  await cli.write(FILE, toText());
});
afterEach(async () => {
  await gateway?.stop();
  gateway = undefined;
  await cli.close();
});

const start = async (): Promise<void> => {
  gateway = await createGateway({ cwd: cli.dir, env: {}, workers: false });
  await gateway.start();
};
const read = (name = FILE): string => readFileSync(join(cli.dir, name), "utf8");
const enable = (...args: string[]) => cli.rouse(["hooks", "enable", "acme.order", ...args]);
const post = async (body: object) => {
  const request = new Request(`http://127.0.0.1/hooks/acme`, {
    method: "POST",
    headers: { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  const answer = await (gateway as StartedGateway).fetch(request);
  return { status: answer.status, id: answer.headers.get("x-request-id") ?? "" };
};

describe("rouse hooks enable", () => {
  it("shows what changes, takes `shadow` away at the running gateway, and leaves the file of before", async () => {
    await start();
    expect((await cli.rouse("hooks")).out).toMatch(
      /acme\.order .* mappings\/acme\.json5 \(in shadow\)/,
    );
    const { status, id } = await post({ type: "order", id: 1 });
    expect(status).toBe(200);
    expect((await cli.rouse(`explain ${id}`)).out).toMatch(
      /acme\.order {2}\(acme\.json5:3\) {2}matches, in shadow[^]*in shadow, action 1: agent by acme\.order[^]*Order ⟦1⟧/,
    );
    const asked = await enable();
    expect(asked).toMatchObject({ code: 2, err: expect.stringContaining("add --yes") });
    expect(asked.out).toMatch(/^-    shadow: true, \/\/ until Monday$/m);
    expect(asked.out).toMatch(/^1 event of .* 1 changes\. 1 would run that did not\.$/m);
    expect(read()).toBe(toText());
    expect(await enable("--yes")).toMatchObject({
      code: 0,
      out: expect.stringMatching(/^acme\.order is live: .*acme\.json5, in use\n$/m),
    });
    expect(read()).toMatch(/\/\/ ours\n[^]*id: 'acme\.order',\n[^]*messageTemplate/);
    expect([read().includes("shadow"), read(`${FILE}.before`)]).toEqual([false, toText()]);
    expect((await post({ type: "order", id: 2 })).status).toBe(202);
    expect(await enable("--yes")).toMatchObject({
      code: 2,
      err: expect.stringContaining('"acme.order" is not in shadow'),
    });
  });

  it("compares recorded events also while no gateway runs, and needs no secret", async () => {
    await start();
    await post({ type: "order", id: 1 });
    await gateway?.stop();
    gateway = undefined;
    const config = "{\n  hooks: { enabled: true, token: '${NOT_SET}', mappings: [] },\n}\n";
    await cli.write("rouse.json5", config);
    const { code, out } = await enable("--yes");
    expect([code, out]).toEqual([0, expect.stringContaining("starts a run  acme.order  1")]);
    expect(out).not.toContain("in use");
  });

  it("writes nothing if the file is edited between the question and the answer", async () => {
    await start();
    const edited = toText().replace("ours", "theirs");
    const prompts = {
      select: async () => {
        await cli.write(FILE, edited);
        return "yes";
      },
    } as unknown as Prompts;
    const { code, err } = await cli.rouse("hooks enable acme.order", { prompts });
    expect([code, err]).toEqual([
      1,
      expect.stringContaining("is not as it was shown any more; nothing was written"),
    ]);
    expect([read(), existsSync(join(cli.dir, `${FILE}.before`))]).toEqual([edited, false]);
  });

  it.each([
    ["allowUnsafeExternalContent", "allowUnsafeExternalContent: true,"],
    ["recipient", "channel: 'console', to: '{{reply_to}}',"],
  ])("asks for %s by its name, and stops at a no", async (name, fields) => {
    await cli.write(FILE, toText(fields));
    const answers = (typed: string, choice: string) => ({
      prompts: { text: async () => typed, select: async () => choice } as unknown as Prompts,
    });
    for (const given of [answers("yes", "yes"), answers(name, "no")])
      expect(await cli.rouse("hooks enable acme.order", given)).toMatchObject({
        code: 2,
        err: expect.stringContaining("stopped; nothing was written"),
      });
    expect(await enable("--yes")).toMatchObject({
      code: 2,
      err: expect.stringContaining(`--confirm ${name}`),
    });
    expect(read()).toBe(toText(fields));
    expect(await enable("--yes", "--confirm", name)).toMatchObject({ code: 0 });
  });

  it("takes only names of confirmations, and lists them", async () => {
    expect(await enable("--yes", "--confirm", "auth,all")).toMatchObject({
      code: 2,
      err: expect.stringContaining(
        "--confirm all: the names are auth, allowUnsafeExternalContent, transform.module, recipient, failing-tests",
      ),
    });
    expect((await enable("--help")).out.replaceAll(/\s+/g, " ")).toContain(
      "transform.module, recipient, failing-tests",
    );
    const docs = readFileSync(join(import.meta.dirname, "../../docs/workbench.md"), "utf8");
    for (const [name, what] of Object.entries(CONFIRMATIONS))
      expect(docs).toMatch(new RegExp(`\\| \`${name}\` +\\| ${what} +\\|`));
  });

  it("writes nothing if the config would have problems with it, and says which", async () => {
    const broken = toText("agentId: 'nobody',");
    await cli.write(FILE, broken);
    expect(await enable("--yes")).toMatchObject({
      code: 3,
      err: expect.stringMatching(/acme\.json5:6:\d+ .*agentId/),
    });
    expect(read()).toBe(broken);
  });

  describe("with tests that fail", () => {
    const test = (text: string) => ({
      request: { method: "POST", path: "acme", json: { type: "order", id: 7 } },
      receivedAt: "2026-01-01T00:00:00Z",
      expect: { outcome: "accepted", mapping: "acme.order", actions: [{ contains: [text] }] },
    });
    beforeEach(async () => {
      await mkdir(join(cli.dir, "tests/acme"), { recursive: true });
      await cli.write("tests/acme/order.json5", test("New order"));
      await cli.write("tests/acme/other.json5", test("Order"));
    });

    it.each([false, true])(
      "goes live only if that is confirmed by name; running gateway: %s",
      async (isRunning) => {
        if (isRunning) await start();
        // A mapping in shadow that alone takes a request is tested as if it were live.
        expect((await cli.rouse("test")).out).toMatch(/acme\/order[^]*contains/);
        const { code, out, err } = await enable("--yes");
        expect([code, out]).toEqual([
          2,
          expect.stringContaining(
            "tests: 1 pass, 1 fail\n  acme/order: expect.actions[0].contains\n",
          ),
        ]);
        expect(err).toContain(
          "tests fail with the change: nothing was written; to go on, confirm by name with --confirm failing-tests",
        );
        expect(await enable("--yes", "--confirm", "recipient")).toMatchObject({ code: 2 });
        expect(read()).toBe(toText());
        expect((await enable("--yes", "--confirm", "failing-tests")).code).toBe(0);
        expect(read()).not.toContain("shadow");
      },
    );

    it("counts a file that is no test", async () => {
      await cli.write("tests/acme/order.json5", test("Order"));
      await cli.write("tests/acme/wrong.json5", { ...test("Order"), expct: {} });
      const { code, out } = await enable("--yes");
      expect([code, out]).toEqual([
        2,
        expect.stringMatching(/not a test: tests\/acme\/wrong\.json5:1:\d+ +expct: is not known/),
      ]);
    });
  });
});
