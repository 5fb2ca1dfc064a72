import { cp, mkdir, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createWorld, type World } from "../e2e/world.ts";
import { readJunit } from "./junit-reader.ts";
import { createCli, shopConfig, TOKEN, type CliWorld } from "./world.ts";

let cli: CliWorld;
let world: World | undefined;
beforeEach(async () => {
  cli = await createCli();
});
afterEach(async () => {
  await world?.stop();
  world = undefined;
  await cli.close();
});

const ORDER = {
  type: "order",
  id: 7,
  total: 240,
  customer: { name: "Ada Lovelace", email: "ada@shop.example", phone: "+44 20 7946 0000" },
};
const SHOP = {
  id: "shop.order",
  match: { path: "shop", payload: { type: "order" } },
  sessionKey: "hook:shop:{{payload.id}}",
  messageTemplate:
    "New order {{payload.id}} from {{payload.customer.name}} ({{payload.customer.email}})",
};
const withShop = (change: object = {}, ...more: object[]): object =>
  shopConfig({
    hooks: { enabled: true, token: TOKEN, mappings: [{ ...SHOP, ...change }, ...more] },
  });

/** Posts a body to a gateway on the folder, and returns the id of its event. */
async function send(
  body: unknown,
  { path = "shop", type = "application/json" } = {},
): Promise<string> {
  world ??= await createWorld({
    dir: cli.dir,
    workers: false,
    config: { hooks: { mappings: [SHOP, ANY] } },
  });
  const answer = await world.post(`/hooks/${path}`, body, { "content-type": type });
  return answer.headers.get("x-request-id") ?? (answer.body.eventId as string);
}

const ANY = { id: "any", match: { path: "any" }, messageTemplate: "Got {{payload}}" };

const read = (name: string): Promise<string> => readFile(join(cli.dir, name), "utf8");
const fixture = (change: object = {}): object => ({
  request: { path: "shop", json: ORDER },
  receivedAt: "2026-01-02T03:04:05Z",
  expect: { outcome: "accepted", mapping: "shop.order", missing: [] },
  ...change,
});

async function writeFixture(name: string, content: unknown): Promise<void> {
  await mkdir(join(cli.dir, "tests", "shop"), { recursive: true });
  await writeFile(
    join(cli.dir, "tests", "shop", name),
    typeof content === "string" ? content : JSON.stringify(content),
  );
}

describe("from an event to a test", () => {
  it("writes a fixture, fails with the field named after the mapping has changed, and expects the change after --update", async () => {
    const id = await send(ORDER);
    const added = await cli.rouse(`test add ${id}`);
    expect(added).toMatchObject({
      code: 0,
      out: expect.stringContaining("tests/shop/shop.order.json5"),
    });
    expect(added.out).toContain(
      "payload.customer.name, payload.customer.email, payload.customer.phone",
    );
    const text = await read("tests/shop/shop.order.json5");
    for (const value of ["Ada", "Lovelace", "ada@", "7946"]) expect(text).not.toContain(value);
    expect(await cli.rouse("test")).toMatchObject({ code: 0, out: "1 fixture: 1 as expected\n" });
    await world?.stop();
    world = undefined;

    await cli.write(
      "rouse.json5",
      withShop(
        {
          messageTemplate:
            "An order {{payload.id}} from {{payload.customer.name}} ({{payload.customer.email}})",
        },
        ANY,
      ),
    );
    const red = await cli.rouse("test");
    expect(red.code).toBe(1);
    expect(red.out).toContain("  expect.actions[0].text\n    [-New-]{+An+} order ⟦7⟧ from");
    expect(red.out).toContain("1 fixture: 1 differs\n");
    expect(await read("tests/shop/shop.order.json5")).toBe(text);
    expect((await cli.rouse("test --update")).code).toBe(0);
    expect((await cli.rouse("test")).code).toBe(0);
    expect(await read("tests/shop/shop.order.json5")).toContain("An order");
  });

  it("gives equal values equal stand-ins, wherever they stand, and keeps and masks what the options name", async () => {
    const id = await send({
      ...ORDER,
      note: "Call +44 20 7946 0000 or ada@shop.example",
      key: "ghp_0123456789abcdefABCDEF",
      ref: "R-1",
    });
    const { out } = await cli.rouse(
      `test add ${id} --json --mask ref --keep payload.customer.name`,
    );
    const { written } = JSON.parse(out) as { written: string };
    const { request } = JSON.parse(await readFile(written, "utf8")) as {
      request: { json: Record<string, unknown> & typeof ORDER };
    };
    const { email, phone, name } = request.json.customer;
    expect(name).toBe("Ada Lovelace");
    expect([email, phone]).toEqual([
      expect.stringMatching(/^user1\w*@example\.com$/),
      "+00 00 0000 0001",
    ]);
    expect(request.json["note"]).toBe(`Call ${phone} or ${email}`);
    expect(request.json["key"]).toMatch(/^ghp_0{10}[xX]{9,}/);
    expect(request.json["ref"]).toMatch(/^X-\d$/);
    await cli.fails(
      `test add ${id} --keep customer.nmae`,
      2,
      'customer.nmae: the request has no such field. Did you mean "customer.name"?',
    );
  });
});

const NETWORK_USED = 99;

describe("a fresh checkout", () => {
  const secrets = {
    gateway: { port: "${PORT}", token: { file: "/nowhere/token" } },
    hooks: {
      enabled: "${ON}",
      token: { file: "secrets/hooks" },
      presets: [
        { use: "github", secret: "${GITHUB_SECRET}" },
        { use: "stripe", secret: { file: "secrets/stripe" } },
      ],
      mappings: [
        SHOP,
        {
          id: "own",
          match: { path: "own" },
          auth: { token: "${OWN_TOKEN}" },
          messageTemplate: "x",
          deliver: true,
          channel: "telegram",
          to: "1",
        },
      ],
    },
    channels: {
      telegram: { token: "${TELEGRAM}" },
      slack: { botToken: { file: "secrets/slack" }, signingSecret: "${SLACK}" },
    },
    mcp: {
      servers: {
        files: { url: "${MCP_URL}", headers: { authorization: "Bearer ${MCP}" } },
        other: { command: "${MCP_COMMAND}" },
      },
    },
    models: {
      providers: {
        own: {
          type: "openai-compatible",
          baseUrl: "${MODEL_URL}",
          apiKey: { file: "secrets/model" },
        },
      },
    },
    store: { url: "${DATABASE_URL}" },
    platform: { apiKeys: [{ id: "web", key: "${WEB_KEY}" }] },
  };

  /** Runs a program that ends when it uses the network. */
  function runAlone(args: string[], env: Record<string, string> = {}) {
    const preload = [
      "--conditions=rouse-source",
      "--import",
      join(import.meta.dirname, "no-network-child.ts"),
    ];
    const all = { PATH: process.env["PATH"], ...env };
    const { status, stdout, stderr } = spawnSync(process.execPath, [...preload, ...args], {
      cwd: cli.dir,
      env: all,
      encoding: "utf8",
    });
    return { status, out: stdout, err: stderr };
  }

  it("runs 200 fixtures without secrets, network and state, and leaves no file behind", async () => {
    await cli.write("rouse.json5", secrets);
    for (const folder of ["mappings", "transforms", ".home", ".temp"])
      await mkdir(join(cli.dir, folder));
    await cli.write("mappings/own.json5", {
      id: "own",
      auth: { scheme: "standard-webhooks", secret: { file: "absent" } },
      mappings: [{ id: "made", match: { path: "made" }, transform: { module: "a.ts" } }],
    });
    await cli.write(
      "transforms/a.ts",
      'export default (): { message: string } => ({ message: "made" });',
    );
    for (let index = 0; index < 199; index++) await writeFixture(`order-${index}.json5`, fixture());
    const made = {
      request: { path: "made", json: {} },
      expect: { outcome: "accepted", actions: [{ text: "⟦made⟧" }] },
    };
    await writeFixture("made.json5", fixture(made));
    const copy = `${cli.dir}-copy`;
    await cp(cli.dir, copy, { recursive: true });
    await rm(cli.dir, { recursive: true });
    await cp(copy, cli.dir, { recursive: true });
    await rm(copy, { recursive: true });
    const list = async (): Promise<string[]> => {
      const entries = await readdir(cli.dir, { recursive: true, withFileTypes: true });
      return entries.map(({ name, parentPath }) => join(parentPath, name)).toSorted();
    };
    const before = await list();
    const home = join(cli.dir, ".home");
    const places = {
      HOME: home,
      XDG_STATE_HOME: home,
      XDG_CACHE_HOME: home,
      TMPDIR: join(cli.dir, ".temp"),
    };
    const ended = runAlone([join(import.meta.dirname, "../../bin/rouse.js"), "test"], places);
    expect(ended).toEqual({ status: 0, out: "200 fixtures: 200 as expected\n", err: "" });
    expect(await list()).toEqual(before);
  });

  it.each([
    ["a request", 'await fetch("http://127.0.0.1:12345").catch(() => {})'],
    ["a name", 'await (await import("node:dns/promises")).lookup("localhost")'],
    ["a server", '(await import("node:http")).createServer().listen(0)'],
  ])("which would notice %s", (_name, source) => {
    expect(runAlone(["--input-type=module", "-e", source]).status).toBe(NETWORK_USED);
  });
});

describe("fixtures by hand", () => {
  beforeEach(async () => void (await cli.write("rouse.json5", withShop())));

  it("says which field is wrong and what may have been meant, with file and line", async () => {
    await writeFixture(
      "wrong.json5",
      '{\n  request: { path: "shop", haeders: {} },\n  receivedAt: "yesterday",\n  expect: { outcome: "done" },\n}',
    );
    const { code, err } = await cli.rouse("test");
    expect(code).toBe(3);
    expect(err).toContain(
      'tests/shop/wrong.json5:2:28  request.haeders: is not known. Did you mean "headers"?',
    );
    expect(err).toContain("tests/shop/wrong.json5:3:3  receivedAt: ");
    expect(err).toContain("tests/shop/wrong.json5:4:13  expect.outcome: ");
    await writeFixture("wrong.json5", "{ request: ");
    await cli.fails("test", 3, "is not valid JSON5");
  });

  it("reads links to files of the folder, as a ConfigMap is mounted, and names links out of it", async () => {
    const tests = join(cli.dir, "tests");
    await mkdir(join(tests, "..2026_01"), { recursive: true });
    await cli.write("tests/..2026_01/a.json5", fixture());
    await symlink("..2026_01", join(tests, "..data"));
    await symlink("..data/a.json5", join(tests, "a.json5"));
    await writeFixture("b.json5", fixture());
    await symlink("../shop", join(tests, "shop", "again"));
    const { out } = await cli.rouse("test --json");
    expect(
      (JSON.parse(out) as { fixtures: { name: string }[] }).fixtures.map(({ name }) => name),
    ).toEqual(["a", "shop/b"]);
    await cli.write("outside.json5", fixture());
    await symlink("../../outside.json5", join(tests, "shop", "out.json5"));
    await symlink("gone.json5", join(tests, "shop", "lost.json5"));
    await symlink("/etc", join(tests, "etc"));
    const { code, err } = await cli.rouse("test");
    expect(code).toBe(3);
    for (const name of ["etc", "shop/out.json5"])
      expect(err).toContain(`tests/${name}  is a link out of the folder of fixtures: put what`);
    expect(err).toContain("tests/shop/lost.json5  is a link that leads nowhere (ENOENT)");
    await cli.fails("test tests/a.json5", 3, "is no folder");
  });

  it("ends with 3 if the config has problems, and with 1 if there is no fixture or none of that name", async () => {
    await cli.fails("test", 1, "there are no fixtures in tests");
    await writeFixture("a.json5", fixture());
    expect(await cli.rouse("test --filter b")).toMatchObject({ code: 1 });
    expect((await cli.rouse("test --filter shop/a")).out).toBe("1 fixture: 1 as expected\n");
    await cli.write("rouse.json5", withShop({ matsch: 1 }));
    await cli.fails("test", 3, "matsch");
  });

  it("keeps comments at --update, and evaluates at the time of the fixture", async () => {
    await cli.write("rouse.json5", withShop({ messageTemplate: "At {{now}}" }));
    const text = `{\n  // an order\n  request: { path: "shop", json: ${JSON.stringify(ORDER)} },\n  receivedAt: "2026-01-02T03:04:05Z",\n  expect: { outcome: "skipped" },\n}\n`;
    await writeFixture("a.json5", text);
    expect((await cli.rouse("test --update")).code).toBe(0);
    const written = await read("tests/shop/a.json5");
    expect(written).toContain("// an order");
    expect(written).toContain("2026-01-02");
    expect((await cli.rouse("test")).code).toBe(0);
  });

  it("writes JUnit that an XML parser reads, whatever the values hold", async () => {
    const json = { ...ORDER, customer: { name: '\u001b[31m<b>&"\u0000\ud800]]>', email: "x" } };
    await writeFixture("a.json5", fixture());
    await writeFixture(
      "bad <&>.json5",
      fixture({
        request: { path: "shop", json },
        expect: { outcome: "accepted", actions: [{ text: "other" }] },
      }),
    );
    expect((await cli.rouse("test --junit out.xml")).code).toBe(1);
    const found = readJunit(await read("out.xml"));
    expect(found.map(({ name }) => name)).toEqual([
      "testsuites",
      "testsuite",
      "testcase",
      "testcase",
      "failure",
    ]);
    const [all, suite, first, second, failure] = found;
    for (const one of [all, suite])
      expect(one?.attributes).toMatchObject({ tests: "2", failures: "1", errors: "0" });
    expect(first?.attributes).toMatchObject({
      classname: "shop",
      name: "shop/a",
      time: expect.stringMatching(/^\d+\.\d{3}$/),
    });
    expect(second?.attributes["name"]).toBe("shop/bad <&>");
    expect(failure?.attributes["message"]).toBe("expect.actions[0].text");
    expect(failure).toMatchObject({ attributes: { type: "difference" }, within: "testcase" });
    expect(failure?.text).toContain('\\u001b[31m<b>&"\\u0000\\ud800]]>');
  });
});

describe("rouse hooks test", () => {
  it("takes bodies that are not JSON, and says when an earlier mapping would take the hook", async () => {
    await cli.write(
      "rouse.json5",
      withShop(
        { match: { path: "shop" } },
        { id: "late", match: { path: "shop" }, messageTemplate: "{{payload.name}}" },
      ),
    );
    await cli.write("body.txt", "name=Ada+L&type=order");
    const args = [
      "hooks",
      "test",
      "late",
      "--payload",
      "body.txt",
      "--content-type",
      "application/x-www-form-urlencoded",
    ];
    const { code, out } = await cli.rouse(args);
    expect([code, out]).toEqual([0, expect.stringContaining("⟦Ada L⟧")]);
    expect(out).toContain("shop.order (rouse.json5:1) stands before it and would take this hook\n");
    expect((await cli.rouse(["hooks", "test", "shop.order", ...args.slice(3)])).out).not.toContain(
      "stands before it",
    );
    await cli.fails(args.slice(0, 5), 2, "--content-type says what it is");
  });
});
