import { fileURLToPath } from "node:url";
import { schemeSchema } from "../config/schema/signature.ts";
import type { Capabilities, Plugin } from "../contract/define.ts";
import type { Offers } from "../contract/offers.ts";
import type { Issue } from "../core/errors.ts";

export const noOffers = (): Offers => ({
  sources: [],
  tools: [],
  context: [],
  routes: [],
  presets: [],
  providers: [],
  extractors: [],
  schemes: new Map(),
  transforms: new Map(),
});

/** Adds what one account of a plugin offers. */
export function addCapabilities(
  plugin: string,
  { source, tools, context, routes }: Capabilities,
  offers: Offers,
): void {
  if (source) offers.sources.push({ plugin, value: source });
  if (tools) offers.tools.push({ plugin, value: tools });
  if (context) offers.context.push({ plugin, value: context });
  if (routes) offers.routes.push({ plugin, value: routes });
}

/** Adds what a plugin offers without a section. `origin`: where the plugin comes from, for lists and messages. */
export function addStatic(plugin: Plugin, origin: string, section: unknown, offers: Offers): void {
  const {
    id,
    presets = [],
    schemes = {},
    transforms = {},
    providers = [],
    extractors = [],
  } = plugin;
  const settings = typeof section === "object" && section !== null ? { settings: section } : {};
  offers.presets.push(
    ...presets.map((document) => ({ plugin: id, origin, document, ...settings })),
  );
  for (const [name, scheme] of Object.entries(schemes))
    if (!offers.schemes.has(name))
      offers.schemes.set(name, { plugin: id, value: schemeSchema.parse(scheme) });
  for (const [name, url] of Object.entries(transforms))
    offers.transforms.set(`${id}/${name}`, fileURLToPath(url));
  offers.providers.push(...providers.map((value) => ({ plugin: id, value })));
  offers.extractors.push(...extractors.map((value) => ({ plugin: id, value })));
}

/** The claims of a plugin that only one plugin may have. */
const getClaims = ({ schemes = {}, providers = [], extractors = [] }: Plugin): string[] => [
  ...Object.keys(schemes).map((name) => `the signature scheme "${name}"`),
  ...providers.map(({ type }) => `the provider type "${type}"`),
  ...extractors.flatMap(({ extensions, mediaTypes }) => [
    ...extensions.map((extension) => `files that end in ".${extension}"`),
    ...mediaTypes.map((type) => `the media type "${type}"`),
  ]),
];

/** Notes what a plugin claims. The problems: what another plugin has claimed before. */
export function claim(plugin: Plugin, path: string, claimed: Map<string, string>): Issue[] {
  const claims = [...new Set(getClaims(plugin))];
  const taken = claims.filter((name) => claimed.has(name));
  for (const name of claims) if (!claimed.has(name)) claimed.set(name, plugin.id);
  return taken.map((name) => ({
    path,
    message: `the plugins "${claimed.get(name)}" and "${plugin.id}" both bring ${name}: turn one of them off, or rename it in one`,
  }));
}
