/** The page about presets and schemes, from their files. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { readBodies, readSources } from "./recorded-bodies.ts";
import type { Sender } from "../src/config/schema/signature.ts";
import { renderDisablesAfter } from "../src/signatures/sender.ts";

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
  duplicate?: { header?: string; query?: string; body?: string };
  handshakes?: { signed: boolean }[];
  docs?: string;
  sender?: Sender;
}

function files<T>(folder: string): [string, T][] {
  return readdirSync(folder)
    .filter((name) => name.endsWith(".json"))
    .toSorted()
    .map((name) => [name.slice(0, -".json".length), JSON.parse(readFileSync(join(folder, name), "utf8")) as T]);
}

const cell = (text: string): string => text.replaceAll("|", "\\|");

function duplicateOf({ duplicate, algorithm, timestamp }: Scheme): string {
  const found = duplicate?.header ?? duplicate?.query ?? duplicate?.body;
  if (found !== undefined) return `\`${found}\``;
  if (algorithm === "equals") return "–";
  return timestamp ? "body and time" : "body, 30 days";
}

const count = (amount: number, one: string, many: string): string => `${amount} ${amount === 1 ? one : many}`;
/** What algorithms sign that have no signed text. */
const SIGNED: Partial<Record<string, string>> = { equals: "nothing", oidc: "nothing", x509: "fields of the body" };
const REDELIVERY = { automatic: "by itself", api: "by its API", manual: "by hand" };

/** A row about what a scheme's sender does about errors; what its documentation does not say is a dash. */
function senderRow(name: string, { timeoutSeconds, retries, redelivery, disablesAfter, docs, name: title }: Sender): string {
  const columns = [
    `\`${name}\``,
    docs === undefined ? title : `[${title}](${docs})`,
    timeoutSeconds === undefined ? "–" : `${timeoutSeconds} s`,
    String(retries ?? "–"),
    redelivery === undefined ? "–" : REDELIVERY[redelivery],
    disablesAfter === undefined ? "–" : renderDisablesAfter(disablesAfter),
  ];
  return `| ${columns.join(" | ")} |`;
}

/** Markdown of docs/presets.md. */
export function presetReference(): string {
  const sources = readSources().map((source) => ({ ...source, bodies: readBodies(source).length }));
  const testedWith = (preset: string): string => {
    const own = sources.filter(({ sender }) => sender === preset);
    if (own.length === 0) return "–";
    const bodies = own.reduce((sum, source) => sum + source.bodies, 0);
    return `${count(bodies, "recorded body", "recorded bodies")} from ${count(own.length, "source", "sources")}`;
  };
  const recorded = sources.map(
    ({ sender, title, url, origin, paths, copyright, licence, bodies }) =>
      `| \`${sender}\` | [${title}](${url}) | ${cell(origin)}: ${cell(paths)} | ${bodies} | ${licence}, © ${copyright} |`,
  );
  const presets = files<Preset>(MAPPINGS).map(([name, { description, auth, mappings }]) => {
    const events = [...new Set(mappings.map((mapping) => mapping.event?.replaceAll(/\{\{[^}]*\}\}/g, "…") ?? "–"))].join(", ");
    return `| \`${name}\` | ${cell(description)} | ${auth ? `\`${auth.scheme}\`` : "hook token"} | ${cell(events)} | ${testedWith(name)} |`;
  });
  const schemeFiles = files<Scheme>(join(MAPPINGS, "schemes"));
  const senders = schemeFiles.flatMap(([name, { sender }]) => (sender ? [senderRow(name, sender)] : []));
  const schemes = schemeFiles.map(([name, scheme]) => {
    const signed = SIGNED[scheme.algorithm] ?? `\`${scheme.signed ?? "{raw}"}\``;
    const time = scheme.timestamp ? `±${scheme.timestamp.toleranceSeconds ?? 300} s` : "–";
    const handshake = scheme.handshakes?.length ? (scheme.handshakes.every((one) => one.signed) ? "signed" : "unsigned") : "–";
    const title = scheme.docs ? `[\`${name}\`](${scheme.docs})` : `\`${name}\``;
    return `| ${title} | ${cell(scheme.description)} | ${scheme.algorithm} | ${signed} | ${time} | ${duplicateOf(scheme)} | ${handshake} |`;
  });
  return `# Presets and signature schemes

Generated from the files in \`mappings/\` by \`npm run docs\`. How to use them: [signatures.md](signatures.md), [mappings.md](mappings.md).

## Presets

\`presets: ["gmail", { use: "github", secret: "\${GITHUB_SECRET}", events: ["issue.opened"] }]\`. A preset that has a signature needs the sender's secret: \`rouse init --preset <name>\` adds one, and \`auth: "token"\` accepts the hook token instead. \`rouse presets show <name>\` prints one, to be copied and changed. A sender may send more events than its preset takes: the others are answered 200 and recorded as \`unmatched\`.

| preset | what it makes | signature | events | tested with |
| --- | --- | --- | --- | --- |
${presets.join("\n")}

## Recorded bodies

Tests post these bodies through HTTP, signed as the sender signs, and none may get a 4xx or 5xx answer. None was written for Rouse: they were recorded from the sender's program, or others published them as test data or documentation. \`test/fixtures/recorded\` in the repository has them, with the licence texts; the npm package has one or two of each preset, for \`rouse hooks send <preset> --sample\`.

| preset | source | where | bodies | licence |
| --- | --- | --- | --- | --- |
${recorded.join("\n")}

## Schemes

| scheme | of | algorithm | signs | time | a repeat is told by | handshake |
| --- | --- | --- | --- | --- | --- | --- |
${schemes.join("\n")}

## What senders do about errors

From the senders' own documentation; "–" is what is not documented, or not known here. An event whose mapping, transform or validation fails is answered with an error, so that the sender repeats it. A sender that disables hooks is answered 200 with \`outcome: "failed"\` in its place: the event is kept with its reason, counted by \`rouse_failed_events_acknowledged_total\`, and comes in again with \`rouse events replay --failed\`. \`rouse doctor\` counts the errors that such a sender was answered in a row.

| scheme | sender | waits | retries | a failed delivery comes again | it disables a hook after |
| --- | --- | --- | --- | --- | --- |
${senders.join("\n")}
`;
}
