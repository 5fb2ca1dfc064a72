import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, it } from "vitest";
import type { Extract } from "../../src/plugin/api.ts";
import { testChannel, type Fault } from "../../src/testing/channel.ts";
import { serve } from "../channels/wire.ts";
import { load, userFolder } from "./support.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const PAGE = readFileSync(join(ROOT, "docs/plugins.md"), "utf8");
/** The page's files by their names. */
const FILES = Object.fromEntries(
  [...PAGE.matchAll(/```ts\n(\/\/ (\S+)\n[^]*?)```/g)].map(
    ([, text = "", name = ""]) => [name, text] as const,
  ),
);
const CODE = FILES["plugins/acme.ts"] ?? "";

interface Message {
  to: string;
  text: string;
}

const STATUS: Partial<Record<Fault, number>> = {
  "rate-limited": 429,
  unavailable: 503,
  "bad-credential": 401,
  "no-such-recipient": 404,
};

/** The far side of the page's plugin. */
async function acmeServer(): Promise<{
  url: string;
  close(): Promise<void>;
  arrived: Message[];
  fail: (fault: Fault) => void;
}> {
  const arrived: Message[] = [];
  let fault: Fault | undefined;
  const { url, close } = await serve(({ path, body }) => {
    if (fault === "hang") return "hang";
    if (fault === "cut-connection") return "cut";
    if (fault !== undefined)
      return {
        status: STATUS[fault] ?? 500,
        headers: { "retry-after": "2" },
        text: "quotes body-mark-7f3a",
      };
    arrived.push({ to: path.split("/")[2] ?? "", text: String(body["text"]) });
    return { status: 200, json: { id: String(arrived.length) } };
  });
  return { url, close, arrived, fail: (next) => void (fault = next) };
}

testChannel("of the page", async () => {
  const { url, close, arrived, fail } = await acmeServer();
  const { dir } = userFolder({ "plugins/acme.ts": CODE });
  const { channels, issues } = await load(dir, {
    channels: { acme: { token: "token-4711", apiUrl: url, defaultTo: "ops" } },
  });
  expect(issues).toEqual([]);
  const channel = channels.get("acme")?.channel;
  if (!channel) throw new Error("the page's plugin is not there");
  return {
    channel,
    to: "ops",
    malformed: ["no room", "a/b"],
    sent: () => arrived,
    fail,
    retryAfterMs: 2000,
    secrets: ["token-4711"],
    close,
  };
});

it("docs/plugins.md: each plugin of the page is loaded, and offers what the page says", async () => {
  const { dir } = userFolder(FILES);
  const section = { token: "token-4711", apiUrl: "http://127.0.0.1:9" };
  const { channels, offers, plugins, issues } = await load(dir, {
    channels: { acme: section, knock: section },
    hooks: { box: {}, presets: ["shop-orders"] },
    plugins: { settings: { crm: { apiKey: "key" }, hello: {} } },
  });
  expect(issues).toEqual([]);
  const users = plugins.filter(({ origin }) => origin !== "rouse");
  expect(users.filter(({ configured }) => !configured)).toEqual([]);
  expect(users.map(({ id }) => id).toSorted()).toEqual([
    "acme",
    "box",
    "crm",
    "hello",
    "kinds",
    "knock",
    "seal",
    "shop",
  ]);
  expect(channels.loaded.map(({ id }) => id)).toEqual(["acme", "knock"]);
  expect(offers.sources.map(({ plugin }) => plugin)).toEqual(["box"]);
  expect(offers.tools[0]?.value.map(({ name }) => name)).toEqual(["lookup"]);
  expect(offers.context[0]?.plugin).toBe("crm");
  const answer = await offers.routes[0]?.value.fetch(
    new Request("http://127.0.0.1/plugins/hello/x"),
  );
  expect(await answer?.json()).toEqual({ path: "/plugins/hello/x" });
  expect([[...offers.schemes.keys()], [...offers.transforms.keys()]]).toEqual([
    ["wax-seal"],
    ["seal/shorten"],
  ]);
  const [provider] = offers.providers;
  expect(provider?.value.check?.({ name: "house", headers: {} })).toEqual([
    { field: "baseUrl", message: "is required" },
  ]);
  const model = await provider?.value.create(
    { name: "house", baseUrl: "http://127.0.0.1:9", headers: {} },
    { fetch },
  );
  expect(model?.("small")).toMatchObject({ modelId: "small" });
  const { default: extract } = (await import(offers.extractors[0]?.value.module ?? "")) as {
    default: Extract;
  };
  const { blocks } = await extract({ bytes: Buffer.from("a\nb"), filename: "x.log" });
  expect([...blocks]).toEqual([{ text: "a" }, { text: "b" }]);
});
