import { readFileSync } from "node:fs";
import { editText } from "../../config/edit.ts";
import { valueAt } from "../../config/load.ts";
import { readEnvironmentProviders } from "../../config/providers.ts";
import { secretFile } from "../../config/state.ts";
import { didYouMean } from "../../config/suggest.ts";
import { checkSnapshot } from "../../gateway/validate-config.ts";
import { BUILTIN_PLUGINS, readCatalog } from "../../plugin/locations.ts";
import { noSuch } from "../failure.ts";
import { getSetup, loadShippedPresets, type Presets } from "../hooks/find-presets.ts";
import type { CliIo } from "../io.ts";
import type { CommonOptions } from "../options.ts";
import { configInvalid, loadWithoutSecrets, member, toSnapshotOptions } from "../settings.ts";
import { shellWord } from "../text.ts";
import { findSecretUses, type SecretUse } from "./secret-uses.ts";

/** A secret of the config, with all fields that refer to it. */
export interface Secret {
  name: string;
  /** The place of its value: a file, a variable, or the config itself. */
  place: string;
  /** Undefined if it is in no file that this command finds. */
  file: string | undefined;
  uses: SecretUse[];
  /** The previous secret, which is still valid. */
  previous?: Secret;
}

/** The secrets of a config, and what is known of their senders. */
interface Place {
  secrets: Secret[];
  stateDir: string;
  presets: Presets;
}

/** Fields that take several secrets, all of them valid. */
const SEVERAL =
  /^(?:hooks\.token|hooks\.presets\[\d+\]\.secret|(?:.*[. ])?auth\.(?:secret|token))(\[\d+\])?$/;
/** The file of the value that is valid beside a new one. */
export const PREVIOUS = ".previous";

/** Reads which secrets the config refers to. The values of none are needed. */
export async function readPlace(options: CommonOptions, io: CliIo): Promise<Place> {
  const loaded = await loadWithoutSecrets(options, io);
  const { stateDir } = loaded;
  const found = findSecretUses(loaded, io.env);
  const all: Secret[] = [];
  for (const uses of Map.groupBy(found, ({ name, place }) => `${name}\n${place}`).values()) {
    const { name, place, file } = uses[0] as SecretUse;
    all.push({ name, place, file, uses });
  }
  if (loaded.config.hooks.token === undefined) {
    const file = secretFile(stateDir, "hook-token");
    all.push({ name: "hook-token", place: file, file, uses: [] });
  }
  const previousOf = ({ file }: Secret): Secret | undefined =>
    all.find((other) => other.file === `${file}${PREVIOUS}`);
  const previous = new Set(all.map(previousOf));
  const secrets = all
    .filter((secret) => !previous.has(secret))
    .map((secret): Secret => {
      const isTaken = all.some((other) => other !== secret && other.name === secret.name);
      const before = previousOf(secret);
      return {
        ...secret,
        name: isTaken ? secret.place : secret.name,
        ...(before && { previous: before }),
      };
    });
  return { secrets, stateDir, presets: await loadShippedPresets() };
}

/** The fields of a secret; a list of several is one field. */
export const getSecretFields = ({ uses }: Secret): string[] =>
  uses.length === 0 ? ["hooks.token"] : uses.map(({ at }) => at.replace(/\[\d+\]$/, ""));

/** The preset whose secret a field holds; undefined if it is no field of a preset. */
export const getPreset = ({ path, written }: SecretUse): string | undefined =>
  path[1] === "presets"
    ? (member(valueAt(written, path.slice(0, 3)), "use") as string | undefined)
    : undefined;

/**
 * Finds the secret that a name, or a field, means.
 * @throws RouseError `not_found` if there is none.
 */
export function findSecret({ secrets }: Place, name: string): Secret {
  const secret = secrets.find((one) => one.name === name || getSecretFields(one).includes(name));
  if (secret) return secret;
  const names = secrets.map((one) => one.name);
  throw noSuch(
    `there is no secret "${name}".${didYouMean(name, names)} \`rouse secrets\` shows all`,
  );
}

/** True if Rouse makes new values. The sender decides the form of all other secrets. */
const isMade = (use: SecretUse, presets: Presets): boolean =>
  /token(?:\[\d+\])?$/.test(use.at) || getSetup(presets, getPreset(use) ?? "").secret === "chosen";

/** The place where its owner finds a new value or enters it; undefined if that is not known. */
export function findWhere(use: SecretUse, presets: Presets): string | undefined {
  const { path, written } = use;
  const preset = getPreset(use);
  if (preset !== undefined) return getSetup(presets, preset).where;
  if (path[0] === "channels")
    return readCatalog(BUILTIN_PLUGINS).find(({ id }) => id === path[1])?.setupQuestions?.where;
  const type = path[0] === "models" && member(valueAt(written, path.slice(0, 3)), "type");
  return readEnvironmentProviders(BUILTIN_PLUGINS).find((one) => one.type === type)?.title;
}

/** The reason why a secret cannot be rotated, and what to do; undefined if it can be. */
export function findRefusal(
  { name, place, file, uses, previous }: Secret,
  presets: Presets,
  isGiven: boolean,
): string | undefined {
  if (previous)
    return `two values are valid already; end the old one: rouse secrets rotate ${shellWord(name)} --finish`;
  for (const use of uses) {
    const { at } = use;
    const where = findWhere(use, presets);
    const from = where === undefined ? "" : ` (${where})`;
    const [isSeveral, index] = SEVERAL.exec(at) ?? [];
    if (isSeveral === undefined)
      return `${at} takes one value at a time; get a new one${from}, and put it into ${place}`;
    if (index !== undefined) return `${at} is one of several that are valid: take the old ones out`;
    if (file === undefined)
      return `it is in ${place}; write both into ${at} for a while, the new one first: [new, old]. Saving the file is enough, and \`openssl rand -hex 32\` makes one`;
    if (!isGiven && !isMade(use, presets))
      return `its sender makes it${from}: rouse secrets rotate ${shellWord(name)} --secret-file <file>`;
  }
  return undefined;
}

/** Checks a value that was given, before anything is written. */
export async function checkGiven(
  value: string,
  { uses }: Secret,
  options: CommonOptions,
  io: CliIo,
): Promise<void> {
  const texts = new Map<string, string>();
  for (const { config, path } of uses) {
    const text = texts.get(config) ?? readFileSync(config, "utf8");
    texts.set(config, editText(text, [{ path, value }]));
  }
  const checked = await checkSnapshot({ ...toSnapshotOptions(options, io), texts });
  // This command may be unable to read other secrets.
  const issues = checked.ok
    ? []
    : checked.issues.filter((issue) => uses.some(({ at }) => issue.path === at));
  if (issues.length > 0) throw configInvalid({ issues }, "nothing was written: the new secret");
}
