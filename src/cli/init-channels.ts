import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { CatalogEntry, ChannelSetup } from "../plugin/sources.ts";
import type { CliIo } from "./io.ts";

/** A channel that was chosen, and what was said of it; secrets are texts to be written to files, or variables. */
export interface ChosenChannel {
  id: string;
  fields: { name: string; value: string; secret: boolean }[];
  allowFrom: string[];
}

export type Known = CatalogEntry & { setup: ChannelSetup };

/** The channels that can be set up by answering questions. */
export function askable(catalog: readonly CatalogEntry[]): Known[] {
  return catalog.filter((entry): entry is Known => entry.setup !== undefined);
}

const variable = (name: string): string => `\${${name}}`;

/** A channel by its flag alone: secrets come from the variables that the catalog names; the rest is left to be filled in. */
export function withoutQuestions({ id, setup }: Known): ChosenChannel {
  const fields = setup.fields.map(({ name, env, value }) => ({
    name,
    value: env === undefined ? (value ?? "") : variable(env),
    secret: false,
  }));
  return { id, fields, allowFrom: [] };
}

/** Asks for one channel; undefined where the user gave up. */
export async function askChannel({ id, setup }: Known, io: CliIo): Promise<ChosenChannel | undefined> {
  const { isCancel, note, password, text } = await import("@clack/prompts");
  note(setup.where, setup.name);
  const fields: ChosenChannel["fields"] = [];
  for (const { name, ask, env, value } of setup.fields) {
    if (env !== undefined && io.env[env]) {
      fields.push({ name, value: variable(env), secret: false });
      continue;
    }
    const given =
      env === undefined
        ? await text({ message: ask, ...(value === undefined ? {} : { initialValue: value }) })
        : await password({ message: ask });
    if (isCancel(given)) return undefined;
    fields.push({ name, value: given, secret: env !== undefined });
  }
  const owner = await text({ message: `Who may write to the agent there? ${setup.owner}; empty: nobody`, defaultValue: "" });
  if (isCancel(owner)) return undefined;
  return { id, fields, allowFrom: owner.split(/[\s,]+/).filter((entry) => entry !== "") };
}

/** Writes the secrets to files of their own and returns the lines of the config's `channels`. */
export async function renderChannels(chosen: readonly ChosenChannel[], folder: string): Promise<string[]> {
  if (chosen.length === 0) return [];
  const lines = ["  channels: {"];
  for (const { id, fields, allowFrom } of chosen) {
    lines.push(`    ${id}: {`);
    for (const { name, value, secret } of fields) {
      if (!secret) {
        lines.push(`      ${name}: ${JSON.stringify(value)},`);
        continue;
      }
      const file = join("secrets", `${id}-${name}`);
      await mkdir(join(folder, "secrets"), { recursive: true, mode: 0o700 });
      await writeFile(join(folder, file), `${value}\n`, { mode: 0o600 });
      lines.push(`      ${name}: { file: ${JSON.stringify(file)} },`);
    }
    lines.push(`      // Ids of those whom the agent answers there; docs/channels/${id}.md says what they look like.`);
    lines.push(`      allowFrom: ${JSON.stringify(allowFrom)},`, "    },");
  }
  return [...lines, "  },"];
}
