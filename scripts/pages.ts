/** The pages that are made, whole or in part, from schemas, data files and plugins, and the list of plugins. */
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { configReference } from "./config-reference.ts";
import type { ModelProvider } from "../src/plugin/api.ts";
import { withOptions } from "./channel-options.ts";
import { errorReference } from "./error-reference.ts";
import { importPlugin, listPlugins, pluginCatalog, PLUGINS } from "./plugin-catalog.ts";
import { withResults } from "./performance-page.ts";
import { presetReference } from "./preset-reference.ts";
import { withSchemeFields } from "./scheme-fields.ts";

const DOCS = fileURLToPath(new URL("../docs/", import.meta.url));

export interface Page {
  /** Below `docs/`. */
  name: string;
  file: string;
  /** The text that the page must have. */
  text: string;
}

async function channelPage(id: string): Promise<Omit<Page, "file">> {
  const plugin = await importPlugin(id);
  const name = `channels/${id}.md`;
  return { name, text: withOptions(readFileSync(DOCS + name, "utf8"), plugin) };
}

/** The catalog of model providers, from all plugins, so that no start has to load all of them. */
async function providerCatalog(): Promise<string> {
  // The first with a key in the environment gives the default model.
  const first = ["openai", "anthropic", "google"];
  const ids = listPlugins();
  const ordered = [...first, ...ids.filter((id) => !first.includes(id))];
  const entries = ordered.map(async (plugin) => {
    const {
      default: { providers = [] },
    } = (await import(`${PLUGINS}${plugin}/index.ts`)) as {
      default: { providers?: ModelProvider[] };
    };
    return providers.map(({ type, fromEnvironment, embeddings, genAiName }) => ({
      plugin,
      type,
      fromEnvironment,
      embeddings,
      genAiName,
    }));
  });
  return `${JSON.stringify((await Promise.all(entries)).flat(), null, 2)}\n`;
}

/** All of them, as they should be. */
export async function generatedPages(): Promise<Page[]> {
  const ids = readdirSync(`${DOCS}channels`).map((name) => name.replace(/\.md$/, ""));
  const providers = await providerCatalog();
  const types = (JSON.parse(providers) as { type: string }[]).map(({ type }) => type);
  const pages = [
    { name: "../plugins/providers.json", text: providers },
    { name: "config.md", text: configReference(types) },
    { name: "presets.md", text: await presetReference() },
    { name: "signatures.md", text: withSchemeFields(readFileSync(`${DOCS}signatures.md`, "utf8")) },
    { name: "errors.md", text: errorReference() },
    { name: "performance.md", text: withResults(readFileSync(`${DOCS}performance.md`, "utf8")) },
    ...(await Promise.all(ids.map(channelPage))),
    { name: "../plugins/catalog.json", text: await pluginCatalog() },
  ];
  return pages.map((page) => ({ ...page, file: DOCS + page.name }));
}
