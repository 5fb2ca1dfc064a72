/** The page about presets and schemes, from their files. */
import { globSync, readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { importPlugin, pluginCatalog } from "./plugin-catalog.ts";
import { readBodies, readSources } from "./recorded-bodies.ts";
import type { CatalogEntry } from "../src/plugin/locations.ts";
import type { Sender, SignatureSource } from "../src/config/schema/signature.ts";
import { parseDuration } from "../src/config/schema/common.ts";
import { plural } from "../src/core/text.ts";
import { parseHttpSample } from "../src/contract/http-sample.ts";

const FIXTURES = fileURLToPath(new URL("../test/fixtures", import.meta.url));
const MAPPINGS = fileURLToPath(new URL("../mappings", import.meta.url));

interface Preset {
  description: string;
  auth?: { scheme: string };
  mappings: { id: string; match: { path: string }; event?: string; sessionKey?: string }[];
}
interface Scheme {
  description: string;
  algorithm: string;
  signed?: string;
  timestamp?: { toleranceSeconds?: number };
  id?: SignatureSource | SignatureSource[];
  duplicate?: "id" | "none" | { for: string };
  handshakes?: { signed: boolean }[];
  docs?: string;
  sender?: WrittenSender;
}
/** As it is written in a file: durations are text. */
type WrittenSender = Omit<Sender, "retryWindow"> & { retryWindow?: string };

function files<T>(folder: string): [string, T][] {
  return readdirSync(folder)
    .filter((name) => name.endsWith(".json"))
    .toSorted()
    .map((name) => [
      name.slice(0, -".json".length),
      JSON.parse(readFileSync(join(folder, name), "utf8")) as T,
    ]);
}

/** The presets of Rouse's own plugins. */
async function pluginPresets(): Promise<[string, Preset][]> {
  const catalog = JSON.parse(await pluginCatalog()) as CatalogEntry[];
  const plugins = await Promise.all(
    catalog.filter(({ presets }) => presets).map(({ id }) => importPlugin(id)),
  );
  return plugins.flatMap(({ presets = [] }) =>
    presets.map((preset): [string, Preset] => [preset.id, preset as Preset]),
  );
}

const cell = (text: string): string => text.replaceAll("|", "\\|");

function renderDuplicate({ id, duplicate = "none" }: Scheme): string {
  if (duplicate === "none") return "none";
  if (duplicate !== "id") return `body, ${duplicate.for}`;
  const places = [id ?? []]
    .flat()
    .map(({ header, query, body }) => `\`${header ?? query ?? body}\``);
  return `id: ${places.join(", ")}`;
}

/** The allowed difference of a signed time. If an id protects against copies, it is the time of the last retry. */
function renderTolerance({ timestamp, duplicate, sender }: Scheme): string {
  if (!timestamp) return "–";
  const seconds = timestamp.toleranceSeconds ?? 300;
  const windowMs = duplicate === "id" ? (parseDuration(sender?.retryWindow ?? 0) ?? 0) : 0;
  return windowMs > seconds * 1000 ? `±${sender?.retryWindow}` : `±${seconds} s`;
}

/** The signed parts for algorithms without a signed text. */
const SIGNED: Partial<Record<string, string>> = {
  equals: "nothing",
  oidc: "nothing",
  x509: "fields of the body",
};
const REDELIVERY = { automatic: "automatic", api: "by API", manual: "by hand" };

/** A share as text: `95 %`. */
const percent = (share: number): string => `${Math.round(share * 1000) / 10} %`;

/** Says when a sender disables a hook: `4 failures in a row`. */
function renderDisablesAfter(rule: NonNullable<Sender["disablesAfter"]>): string {
  if ("failures" in rule) return `${plural(rule.failures, "failure")} in a row`;
  if ("failedShare" in rule)
    return `more than ${percent(rule.failedShare)} failures within ${plural(rule.withinMinutes, "minute")}`;
  return `${plural(rule.failingHours, "hour")} of nothing but failures`;
}

/** A row about a sender's behaviour after errors, without the sender's name; empty if nothing is documented. */
function senderCells(sender: WrittenSender): string[] {
  const { timeoutSeconds, retries, retryWindow, maxBodyBytes, redelivery, disablesAfter } = sender;
  const cells = [
    timeoutSeconds === undefined ? "–" : `${timeoutSeconds} s`,
    String(retries ?? "–"),
    retryWindow ?? "–",
    maxBodyBytes === undefined ? "–" : `${maxBodyBytes / 2 ** 20} MiB`,
    redelivery === undefined ? "–" : REDELIVERY[redelivery],
    disablesAfter === undefined ? "–" : renderDisablesAfter(disablesAfter),
  ];
  return cells.every((text) => text === "–") ? [] : cells;
}

/** Counts the requests in the preset's folder that were written by hand. */
function countHandMade(preset: string): number {
  return globSync(`${preset}/*.http`, { cwd: FIXTURES }).filter(
    (name) => parseHttpSample(name, readFileSync(join(FIXTURES, name), "utf8")).isHandMade,
  ).length;
}

/** Markdown of docs/presets.md. */
export async function presetReference(): Promise<string> {
  const sources = readSources().map((source) => ({ ...source, bodies: readBodies(source).length }));
  const testedWith = (preset: string): string => {
    const own = sources.filter(({ sender }) => sender === preset);
    const bodies = own.reduce((sum, source) => sum + source.bodies, 0);
    return `${bodies || ""} | ${countHandMade(preset)}`;
  };
  const presets = [...files<Preset>(MAPPINGS), ...(await pluginPresets())]
    .toSorted(([a], [b]) => a.localeCompare(b))
    .map(([name, { description, auth, mappings }]) => {
      const events = [
        ...new Set(
          mappings.map((mapping) => mapping.event?.replaceAll(/\{\{[^}]*\}\}/g, "…") ?? "–"),
        ),
      ].join(", ");
      return `| \`${name}\` | ${cell(description)} | ${auth ? `\`${auth.scheme}\`` : "hook token"} | ${cell(events)} | ${testedWith(name)} |`;
    });
  const schemeFiles = files<Scheme>(join(MAPPINGS, "schemes"));
  const senders = schemeFiles.flatMap(([name, { sender }]) => {
    const cells = sender ? senderCells(sender) : [];
    const title = sender?.docs ? `[\`${name}\`](${sender.docs})` : `\`${name}\``;
    return cells.length === 0 ? [] : [`| ${[title, ...cells].join(" | ")} |`];
  });
  const schemes = schemeFiles.map(([name, scheme]) => {
    const signed = SIGNED[scheme.algorithm] ?? `\`${scheme.signed ?? "{raw}"}\``;
    const time = renderTolerance(scheme);
    const handshake = scheme.handshakes?.length
      ? scheme.handshakes.every((one) => one.signed)
        ? "signed"
        : "unsigned"
      : "–";
    const title = scheme.docs ? `[\`${name}\`](${scheme.docs})` : `\`${name}\``;
    return `| ${title} | ${cell(scheme.description)} | ${scheme.algorithm} | ${signed} | ${time} | ${renderDuplicate(scheme)} | ${handshake} |`;
  });
  return `# Presets and signature schemes

Generated from the files in \`mappings/\` and the plugins (\`npm run docs\`). How to use them: [Senders that sign](signatures.md), [Mappings](mappings.md).

## Presets

\`presets: ["gmail", { use: "github", secret: "\${GITHUB_SECRET}", events: ["issue.opened"] }]\` enables two presets. If the sender signs, the preset needs its secret: \`rouse init --preset <name>\` adds one.

The last columns count the requests in tests. Recorded bodies come from the sender's program or documentation; \`test/fixtures/recorded/SOURCES.json\` in the repository has their sources and licences. Hand-made requests follow the sender's documentation: without recorded bodies, a preset has not been tested with a body of its sender.

| preset | events | signature | names | recorded | hand-made |
| --- | --- | --- | --- | --- | --- |
${presets.join("\n")}

## Schemes

If an id protects against copies, a signed time may be as old as the last retry.

| scheme | sender | algorithm | signed text | timestamp | repeats | handshake |
| --- | --- | --- | --- | --- | --- | --- |
${schemes.join("\n")}

## What senders do about errors

From the documentation of the senders; "–" means: not documented. [Senders that sign](signatures.md#what-senders-do-about-errors) says what follows from it.

| scheme | timeout | retries | within | largest body | redelivery | disables a hook after |
| --- | --- | --- | --- | --- | --- | --- |
${senders.join("\n")}
`;
}
