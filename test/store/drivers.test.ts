import { expect, it } from "vitest";
import { findStoreDriver } from "../../src/store/open.ts";

it.each([
  ["mysql://host/db", 'no store has the protocol "mysql:"'],
  ["constructor:x", 'no store has the protocol "constructor:"'],
  ["/srv/rouse.db", "the URL has no protocol"],
])("store.url: %s is refused, and the message names what is known", async (url, what) => {
  await expect(findStoreDriver(url)).rejects.toMatchObject({
    code: "config_invalid",
    message: `store.url: ${what}; known are sqlite:, postgres:, postgresql:`,
    issues: [{ path: "store.url" }],
  });
});
