import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { createGateway, type StartedGateway } from "../gateway.ts";
import { createCli, TOKEN, type CliWorld } from "./world.ts";

const COUNT = 1000;

const mapping = (n: number, text: string): string =>
  `      // Number ${n}.\n      {\n        id: "shop.m${n}",\n        match: { path: "shop", payload: { type: "t${n}", "customer.age": { $gte: ${n} } } },\n        messageTemplate: "${text} ${n} of {{customer.name}}: {{id}}",\n      },\n`;
const file = (text: string): string =>
  Array.from({ length: COUNT }, (_, n) => mapping(n, text)).join("");
const CONFIG = `{\n  gateway: { port: 0 },\n  hooks: {\n    enabled: true,\n    token: "${TOKEN}",\n    mappings: [\n${file("Order")}    ],\n  },\n}\n`;

const SHADOWED = CONFIG.replace('id: "shop.m999",', 'id: "shop.m999",\n        shadow: true,');

let cli: CliWorld;
let gateway: StartedGateway | undefined;
beforeAll(async () => {
  cli = await createCli();
  await cli.write("rouse.json5", CONFIG);
  mkdirSync(join(cli.dir, "tests/shop"), { recursive: true });
  const ordered = (n: number) => ({ type: `t${n}`, id: n, customer: { name: "Ann", age: n } });
  for (let n = 0; n < 50; n++) {
    const request = { method: "POST", path: "shop", json: ordered(n * 20) };
    const expected = {
      outcome: "accepted",
      mapping: `shop.m${n * 20}`,
      actions: [{ contains: [`${n * 20} of Ann`] }],
    };
    await cli.write(`tests/shop/t${n}.json5`, {
      request,
      receivedAt: "2026-01-01T00:00:00Z",
      expect: expected,
    });
  }
});
afterAll(async () => {
  await gateway?.stop();
  await cli.close();
});

const run = async (...words: string[]): Promise<string> => {
  const { code, out, err } = await cli.rouse(words);
  expect([code, err.replace(/^config: .*\n/, "")]).toEqual([0, ""]);
  return out;
};

it("1,000 mappings on a path stay usable for commands, without and with a gateway", async () => {
  expect(await run("config", "validate")).toContain("fine, 1,000 mappings");
  expect(await run("test")).toContain("50 fixtures: 50 as expected");
  await cli.write("rouse.json5", SHADOWED);
  gateway = await createGateway({ cwd: cli.dir, env: {}, workers: false });
  await gateway.start();
  for (let n = 0; n < 100; n++) {
    const headers = { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" };
    const body = JSON.stringify({
      type: `t${n * 9}`,
      id: n,
      customer: { name: "Ann", age: n * 9 },
    });
    await gateway.fetch(
      new Request("http://127.0.0.1/hooks/shop", { method: "POST", headers, body }),
    );
  }
  expect(await run("explain", "latest")).toContain("shop.m891");
  await cli.write("next.json5", CONFIG.replaceAll('"Order ', '"All '));
  expect(await run("hooks", "diff", "--config", "next.json5")).toMatch(
    /^100 events of .* 100 change\./m,
  );
  expect(await run("hooks", "enable", "shop.m999", "--yes")).toMatch(/^100 events of /m);
  expect(readFileSync(join(cli.dir, "rouse.json5"), "utf8")).toBe(CONFIG);
}, 180_000);

/** Processor time of this thread, in milliseconds. */
const readCpu = (): number => {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
};

it("hooks get their turns while a config with 1,000 mappings is read", async () => {
  await cli.write(
    "rouse.json5",
    CONFIG.replaceAll(
      '"Order ',
      '"{{ $uppercase(id) & $join(rows.name) }} {{ $count(rows[price > 1]) }} ',
    ),
  );
  let longest = 0;
  let last = readCpu();
  const begun = last;
  let isReading = true;
  const look = (): void => {
    const now = readCpu();
    longest = Math.max(longest, now - last);
    last = now;
    if (isReading) setImmediate(look);
  };
  setImmediate(look);
  expect(await gateway?.reload()).toMatchObject({ ok: true });
  const whole = readCpu() - begun;
  isReading = false;
  // One part after the other, the longest of which is to read the file.
  expect(longest).toBeLessThan(whole * 0.4);
});
