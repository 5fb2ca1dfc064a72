import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import JSON5 from "json5";
import type { ConfigInput } from "../../src/config/schema/index.ts";
import { load, userFolder } from "../plugin/support.ts";

const DOCS = resolve(import.meta.dirname, "../../docs/channels");

/** What is wrong with the configs on the page of a channel, each loaded as it stands there. */
export async function issuesOfPage(id: string): Promise<unknown[]> {
  const page = readFileSync(`${DOCS}/${id}.md`, "utf8");
  const configs = [...page.matchAll(/^```json5\n([^]*?)^```$/gm)].map(([, text = ""]) =>
    JSON5.parse<ConfigInput>(text),
  );
  const loaded = await Promise.all(configs.map((config) => load(userFolder({}).dir, config)));
  return loaded.length === 0
    ? ["the page shows no config"]
    : loaded.flatMap(({ issues }) => issues);
}
