import type { FieldShape } from "../../operate/shapes/shape.ts";
import { asking, doing, type AskedGateway, type Noun } from "../command.ts";
import { printRows } from "../print.ts";
import { read } from "../gateway/connect.ts";
import { noSuch, usage } from "../failure.ts";
import type { CliIo } from "../io.ts";
import { diff } from "./hooks-diff.ts";
import { send } from "./hooks-send.ts";
import { hooksTest } from "./hooks-test.ts";
import { makeChange } from "./landing.ts";
import { LANDING_OPTIONS } from "../options.ts";
import { toHookPath } from "../settings.ts";
import { cell } from "../text.ts";
import { plural } from "../../core/text.ts";

/** The types of a field, the most frequent first. With several each has its number of bodies. */
function renderTypes({ types }: FieldShape): string {
  const found = Object.entries(types).toSorted(([, a], [, b]) => b - a);
  return found.length === 1
    ? (found[0]?.[0] ?? "")
    : found.map(([type, count]) => `${type} ${count}`).join(", ");
}

const renderShare = ({ share }: FieldShape): string =>
  share > 0 && share < 0.01 ? "<1%" : `${Math.round(share * 100)}%`;

const renderValues = ({ values }: FieldShape): string =>
  (values ?? []).map((value) => JSON.stringify(value)).join(" ");

/** Prints the fields of the bodies that came to a path. */
function printShape(
  { events, fields }: { events: number; fields: readonly FieldShape[] },
  io: CliIo,
): void {
  io.out(`\nfields of ${plural(events, "recorded body", "recorded bodies")}\n`);
  if (fields.length === 0) return;
  io.out("\n");
  printRows(
    io,
    [
      ["field", ({ name }) => name],
      ["type", renderTypes],
      ["in", renderShare],
      ["first", ({ firstSeen }) => firstSeen],
      ["last", ({ lastSeen }) => lastSeen],
      ["values", renderValues],
    ],
    fields,
  );
}

/** The secrets that requests brought to a path whose secret is `pending`, or the one of them that is kept from now on. */
async function acceptSecret(
  { api }: AskedGateway,
  path: string | undefined,
  number: string | true,
) {
  const { secrets } = api.hooks;
  if (path === undefined) throw usage("--accept goes with a path: name it");
  if (number === true) return read(secrets.$get({ query: { path } }));
  if (!/^\d{1,15}$/.test(number))
    throw usage(`"${number}" is no number of \`rouse hooks ${path} --accept\``);
  return read(secrets.$post({ json: { path, id: Number(number) } }));
}

function printAccepted(answer: Awaited<ReturnType<typeof acceptSecret>>, io: CliIo): void {
  if ("candidates" in answer) {
    if (!io.live) return io.out("no gateway runs: such secrets are kept in its memory only\n");
    if (answer.candidates.length === 0)
      return io.out(
        'no request has brought a secret to this path since the gateway started; they are kept if the config has `secret: "pending"` for it\n',
      );
    return printRows(
      io,
      [["number", ({ id }) => id], ["from", ({ address }) => address], "at", "secret"],
      answer.candidates,
    );
  }
  const { file, secret } = answer;
  io.out(`the secret is kept in ${file}\n\n`);
  io.out(
    `in the config, write it in place of "pending":  secret: { file: ${JSON.stringify(file)} }\n`,
  );
  io.out(`if the sender asks you to confirm it, enter:  ${cell(secret)}\n`);
}

const list = asking({
  usage: "[path]",
  about:
    "paths and mappings, in the order in which they are tried; of one path also the fields of the bodies that came to it: types, how many of the last 500 bodies have them, and values if they are few",
  examples: [
    "rouse hooks",
    "rouse hooks shop",
    "rouse hooks shop --json | jq '.shape.fields[] | select(.share < 1).name'",
    "rouse hooks crm --accept",
    "rouse hooks crm --accept 1",
  ],
  options: {
    "--accept [number]":
      "list the secrets that requests brought to a path whose secret is `pending`, or keep one of them",
  },
  async ask(to, { accept, ...options }, written) {
    const path = written && (await toHookPath(written, options, to.io));
    if (accept !== undefined) return acceptSecret(to, path, accept);
    const { api } = to;
    const answer = await read(api.mappings.$get());
    const shape = path && (await read(api.hooks.shape.$get({ query: { path } }))).shape;
    const mappings = answer.mappings.filter(
      ({ paths }) => path === undefined || paths.length === 0 || paths.includes(path),
    );
    if (shape && shape.events === 0 && mappings.length === 0)
      throw noSuch(
        `no mapping names the path "${path}", and no event that came to it is kept; \`rouse hooks\` shows all paths`,
      );
    return { ...answer, mappings, ...(shape && { shape }) };
  },
  print(answer, io) {
    if (!("mappings" in answer)) return printAccepted(answer, io);
    const { paths, base, enabled, mappings, shape } = answer;
    if (!enabled) io.out("hooks are off: set hooks.enabled to true\n\n");
    const builtIn = ["wake", "agent"].map((name) => {
      const path = `${base}/${name}`;
      return { path, mapping: null, action: name, auth: "hooks.token", from: "built in" };
    });
    const auth = new Map(paths.map((one) => [one.path, one.auth]));
    const rows = mappings.map((mapping) => {
      const state = mapping.enabled ? (mapping.shadow ? " (in shadow)" : "") : " (disabled)";
      const all = mapping.paths.length === 0 ? ["*"] : mapping.paths;
      return {
        path: all.map((one) => `${base}/${one}`).join(" "),
        mapping: mapping.id,
        action: mapping.action,
        auth: auth.get(mapping.paths[0] ?? "") ?? "hooks.token",
        from: `${mapping.origin}${state}`,
      };
    });
    const columns = ["path", "mapping", "action", "auth", "from"] as const;
    printRows(io, columns, shape ? rows : [...builtIn, ...rows]);
    if (shape) printShape(shape, io);
  },
});

const enable = doing({
  usage: "enable <mapping>",
  about:
    "make a mapping live that is in shadow: shows what changes for the hooks that came in, checks the whole config, and takes `shadow` away",
  examples: [
    "rouse hooks enable shop.refund",
    "rouse hooks enable shop.refund --yes",
    "rouse hooks enable shop.refund --patch | git apply",
  ],
  options: LANDING_OPTIONS,
  json: true,
  async run(io, options, mapping) {
    await makeChange({ kind: "enable", mapping }, `${mapping} is live`, options, io);
  },
});

export const hooksCommand: Noun = { list, commands: [hooksTest, enable, diff, send] };
