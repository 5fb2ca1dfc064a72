import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { createGateway, definePlugin } from "../../src/index.ts";
import { findStoreDriver, isShippedStore, openStore } from "../../src/store/open.ts";
import type { StoreDriver } from "../../src/store/types.ts";
import { createCli } from "../cli/world.ts";
import { silent } from "./home.ts";

const TOKEN = "hook-token-of-the-store-test";
const ROOT = join(import.meta.dirname, "../..");

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "rouse-drivers-"));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

/** A store as a plugin brings it: under the protocol `acme`, with a file behind it. */
const acme = (): StoreDriver => {
  const toFile = <T extends { url: string }>(options: T): T => ({
    ...options,
    url: options.url.replace("acme:", "sqlite:"),
  });
  return {
    protocols: ["acme"],
    shared: false,
    open: (options) => openStore(toFile(options)),
    status: async (options) => ({
      ...(await (await findStoreDriver("sqlite:x")).status(toFile(options))),
      driver: "acme",
    }),
    exportTables: () => Promise.reject(new Error("not used")),
    importTables: () => Promise.reject(new Error("not used")),
  };
};

describe("the store of a plugin", () => {
  it("keeps the work of a gateway whose `store.url` has its protocol", async () => {
    const file = join(dir, "acme.db");
    const config = {
      hooks: {
        enabled: true,
        token: TOKEN,
        mappings: [{ match: { path: "shop" }, action: "wake" as const, textTemplate: "sold" }],
      },
      store: { url: `acme:${file}` },
    };
    const plugins = [definePlugin({ id: "acme", store: acme() })];
    const gateway = await createGateway({ config, plugins, stateDir: join(dir, "state") });
    const request = new Request("http://localhost/hooks/shop", {
      method: "POST",
      headers: { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" },
      body: "{}",
    });
    expect((await gateway.fetch(request)).status).toBe(200);
    await gateway.stop();
    const { store } = await openStore({
      url: `sqlite:${file}`,
      clock: systemClock,
      log: silent,
    });
    expect(await store.counts()).toMatchObject({ "events.accepted": 1 });
    await store.close();
  });

  it("is found by the commands among the plugins of the config", async () => {
    const cli = await createCli();
    try {
      await cli.write(
        "acme.ts",
        `import { definePlugin } from "rouse/plugin";
const status = async ({ url }) => ({ driver: "acme", where: url, schema: 1, known: 1, bytes: 0 });
export default definePlugin({ id: "acme", store: { protocols: ["acme"], shared: false, open() { throw new Error(); }, status } });
`,
      );
      await cli.write(
        "rouse.json5",
        JSON.stringify({ plugins: ["./acme.ts"], store: { url: "acme:somewhere" } }),
      );
      const { out } = await cli.rouse(["store", "--json"]);
      expect(JSON.parse(out)).toMatchObject({ ok: true, driver: "acme", where: "acme:somewhere" });
    } finally {
      await cli.close();
    }
  });

  it("is named beside the others if no store has the protocol", async () => {
    const message =
      /no store has the protocol "mysql:"; known are sqlite:, acme:, postgres:, postgresql:\. .*`plugins`/;
    await expect(findStoreDriver("mysql://host/db", [acme()])).rejects.toMatchObject({
      code: "config_invalid",
      message: expect.stringMatching(message) as unknown,
      issues: [{ path: "store.url" }],
    });
  });
});

describe("the stores that come with Rouse", () => {
  it("are found by the catalog, which lists the protocols that each of them claims", async () => {
    const catalog = JSON.parse(readFileSync(join(ROOT, "plugins/catalog.json"), "utf8")) as {
      id: string;
      protocols?: string[];
    }[];
    const stores = catalog.flatMap(({ protocols }) => (protocols ? [protocols] : []));
    expect(stores.length).toBeGreaterThan(0);
    for (const protocols of stores)
      for (const protocol of protocols) {
        expect(isShippedStore(`${protocol}://host/db`)).toBe(true);
        expect((await findStoreDriver(`${protocol}://host/db`)).protocols).toEqual(protocols);
      }
    expect(isShippedStore("acme:file")).toBe(false);
  });
});
