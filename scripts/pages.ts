/** The pages that are made, whole or in part, from schemas and data files. */
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { configReference } from "../src/config/document.ts";
import type { Plugin } from "../src/plugin/api.ts";
import { withOptions } from "./channel-options.ts";
import { errorReference } from "./error-reference.ts";
import { presetReference } from "./preset-reference.ts";

const DOCS = fileURLToPath(new URL("../docs/", import.meta.url));

export interface Page {
  /** Below `docs/`. */
  name: string;
  file: string;
  /** What it has to hold. */
  text: string;
}

async function channelPage(id: string): Promise<Omit<Page, "file">> {
  const { default: plugin } = (await import(new URL(`../plugins/${id}/index.ts`, import.meta.url).href)) as { default: Plugin };
  const name = `channels/${id}.md`;
  return { name, text: withOptions(readFileSync(DOCS + name, "utf8"), plugin) };
}

/** All of them, as they should be. */
export async function generatedPages(): Promise<Page[]> {
  const ids = readdirSync(`${DOCS}channels`).map((name) => name.replace(/\.md$/, ""));
  const pages = [
    { name: "config.md", text: configReference() },
    { name: "presets.md", text: presetReference() },
    { name: "errors.md", text: errorReference() },
    ...(await Promise.all(ids.map(channelPage))),
  ];
  return pages.map((page) => ({ ...page, file: DOCS + page.name }));
}
