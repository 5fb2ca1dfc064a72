import { readFileSync } from "node:fs";
import { link, rm, stat } from "node:fs/promises";
import { basename, resolve } from "node:path";
import { editConfigFile, editText } from "../../config/edit.ts";
import { readVariable } from "../../config/environment.ts";
import { renderPath } from "../../config/issues.ts";
import { valueAt, type LoadedConfig } from "../../config/load.ts";
import { mask, maskConfig } from "../../config/mask.ts";
import { readEnvironmentProviders } from "../../config/providers.ts";
import type { Config } from "../../config/schema/index.ts";
import { mappingFileSchema } from "../../config/schema/mapping.ts";
import { findSecretFields, VARIABLE_REFERENCE, type SecretField } from "../../config/secrets.ts";
import { secretFile, writeSecret } from "../../config/state.ts";
import { didYouMean } from "../../config/suggest.ts";
import { RouseError } from "../../core/errors.ts";
import { replaceFile } from "../../core/replace-file.ts";
import { newToken } from "../../core/secret.ts";
import { checkSnapshot } from "../../gateway/validate-config.ts";
import { readMappings } from "../../mapping/catalog.ts";
import { PRESETS_DIR } from "../../mapping/presets.ts";
import { BUILTIN_PLUGINS, readCatalog } from "../../plugin/locations.ts";
import { answering, doing, printRecord, type Given, type Noun } from "../command.ts";
import { connectRunning } from "../gateway/connect.ts";
import { usage } from "../failure.ts";
import type { CliIo } from "../io.ts";
import { readSecret, type CommonOptions } from "../options.ts";
import { getSetup, loadShippedPresets, type Presets } from "../init/shipped-presets.ts";
import { configInvalid, loadWithoutSecrets, member, toSnapshotOptions } from "../settings.ts";
import { shellWord } from "../text.ts";

const ROTATE_OPTIONS = {
  "--secret-file <file>": "the new value, if the sender makes it; - reads standard input",
  "--finish": "end the old value",
} as const;

/** A field that holds a secret. */
interface Use extends SecretField {
  /** The file that the field is in, and all that is written there. */
  config: string;
  written: unknown;
  /** The field's path, as people write it. */
  at: string;
}

interface Secret {
  name: string;
  /** Where it is kept: a file, a variable, or the config itself. */
  place: string;
  /** Undefined if it is in no file that this command finds. */
  file: string | undefined;
  uses: Use[];
  /** What is still valid beside it. */
  previous?: Secret;
}

interface Place {
  secrets: Secret[];
  stateDir: string;
  presets: Presets;
}

/** Fields that take several secrets, all of them valid. */
const SEVERAL =
  /^(?:hooks\.token|hooks\.presets\[\d+\]\.secret|(?:.*[. ])?auth\.(?:secret|token))(\[\d+\])?$/;
/** The file of the value that is valid beside a new one. */
const PREVIOUS = ".previous";

function findUses({ written, file, config: { hooks } }: LoadedConfig): Use[] {
  const ofConfig = maskConfig({ plugins: {}, ...(written as Partial<Config>) } as Config);
  const files = readMappings({ presetsDir: PRESETS_DIR, mappingsDir: hooks.mappingsDir }).files;
  const documents = [
    { config: file ?? "", written, masked: ofConfig, label: "" },
    ...files.flatMap(({ place, label, read }) => {
      const { value } = { value: undefined, ...read() };
      const masked = mask(value, [mappingFileSchema]);
      return { config: place, written: value, masked, label: `${label}: ` };
    }),
  ];
  return documents.flatMap(({ config, written: value, masked, label }) =>
    findSecretFields(value, masked).map((field) => ({
      ...field,
      config,
      written: value,
      at: label + renderPath(field.path),
    })),
  );
}

function toSecret(use: Use, { baseDir }: LoadedConfig, env: CliIo["env"]): Secret {
  const { value, at, config } = use;
  if (typeof value === "string") {
    const variable = VARIABLE_REFERENCE.exec(value)?.[1];
    const place = variable === undefined ? `${at} in ${config}` : `the variable ${variable}`;
    return { name: variable ?? at, place, file: undefined, uses: [use] };
  }
  const text = value.file.replaceAll(
    /\$\{(\w+)\}/g,
    (all, name: string) => readVariable(env, name) ?? all,
  );
  const file = text.includes("${") ? undefined : resolve(baseDir, text);
  return { name: basename(text), place: file ?? text, file, uses: [use] };
}

/** Reads which secrets the config refers to. The values of none are needed. */
async function readPlace(options: CommonOptions, io: CliIo): Promise<Place> {
  const loaded = await loadWithoutSecrets(options, io);
  const { stateDir } = loaded;
  const found = findUses(loaded).map((use) => toSecret(use, loaded, io.env));
  const all = [...Map.groupBy(found, ({ name, place }) => `${name}\n${place}`).values()].map(
    (same) => ({ ...(same[0] as Secret), uses: same.flatMap(({ uses }) => uses) }),
  );
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
const getFields = ({ uses }: Secret): string[] =>
  uses.length === 0 ? ["hooks.token"] : uses.map(({ at }) => at.replace(/\[\d+\]$/, ""));

const getPreset = ({ path, written }: Use): string | undefined =>
  path[1] === "presets"
    ? (member(valueAt(written, path.slice(0, 3)), "use") as string | undefined)
    : undefined;

/** Whether Rouse makes new values: the form of others is their sender's. */
const isMade = (use: Use, presets: Presets): boolean =>
  /token(?:\[\d+\])?$/.test(use.at) || getSetup(presets, getPreset(use) ?? "").secret === "chosen";

/** Where its owner finds a new value or enters it; undefined if that is not known. */
function findWhere(use: Use, presets: Presets): string | undefined {
  const { path, written } = use;
  const preset = getPreset(use);
  if (preset !== undefined) return getSetup(presets, preset).where;
  if (path[0] === "channels")
    return readCatalog(BUILTIN_PLUGINS).find(({ id }) => id === path[1])?.setupQuestions?.where;
  const type = path[0] === "models" && member(valueAt(written, path.slice(0, 3)), "type");
  return readEnvironmentProviders(BUILTIN_PLUGINS).find((one) => one.type === type)?.title;
}

/** Why a secret cannot be rotated, and what to do; undefined if it can be. */
function findRefusal(
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

async function list(io: CliIo, options: CommonOptions) {
  const { secrets: all, presets } = await readPlace(options, io);
  const secrets = await Promise.all(
    all.map(async (secret) => {
      const { name, place, file, previous } = secret;
      const found = await stat(file ?? "").catch(() => undefined);
      return {
        name,
        fields: getFields(secret),
        place,
        since: found?.mtime.toISOString() ?? null,
        valid: previous ? 2 : 1,
        toRotate: findRefusal(secret, presets, false) ?? `rouse secrets rotate ${shellWord(name)}`,
      };
    }),
  );
  return { secrets };
}

async function reload(options: CommonOptions, io: CliIo): Promise<void> {
  const running = await connectRunning(options, io);
  await running?.api.reload.$post();
}

/** Checks a value that was given, before anything is written. */
async function checkGiven(value: string, { uses }: Secret, options: CommonOptions, io: CliIo) {
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

/** Ends the older of two values that are valid. */
async function finish(secret: Secret, options: CommonOptions, io: CliIo): Promise<void> {
  const { name, previous } = secret;
  if (!previous) throw usage(`${name} has one value: there is no old one to end`);
  for (const { config, written, path } of previous.uses) {
    const values = valueAt(written, path.slice(0, -1)) as unknown[];
    const rest = values.filter((_, index) => index !== path.at(-1));
    const value = rest.length === 1 ? rest[0] : rest;
    await editConfigFile(config, [{ path: path.slice(0, -1), value }]);
  }
  await reload(options, io);
  await rm(previous.place);
  io.out(`the old value of ${name} is no longer valid\n`);
}

async function rotate(
  io: CliIo,
  { finish: isFinished, secretFile: given, ...options }: Given<typeof ROTATE_OPTIONS>,
  name: string,
): Promise<void> {
  const { secrets: all, presets, stateDir } = await readPlace(options, io);
  const secret = all.find((one) => one.name === name || getFields(one).includes(name));
  if (!secret)
    throw usage(
      `there is no secret "${name}".${didYouMean(
        name,
        all.map((one) => one.name),
      )} \`rouse secrets\` shows all`,
    );
  if (isFinished) return finish(secret, options, io);
  const refusal = findRefusal(secret, presets, given !== undefined);
  if (refusal !== undefined)
    throw new RouseError({ code: "conflict", message: `${secret.name}: ${refusal}` });
  const { place: file, uses } = secret;
  const value = given === undefined ? newToken() : await readSecret(given, io);
  if (uses.length === 0) {
    await writeSecret(stateDir, "hook-token", value);
    await reload(options, io);
    return io.out(`a new hook token is in ${file}; the old one is no longer valid\n`);
  }
  if (given !== undefined) await checkGiven(value, secret, options, io);
  // The owner and the mode stay with both: a service reads them.
  await rm(`${file}${PREVIOUS}`, { force: true });
  await link(file, `${file}${PREVIOUS}`);
  for (const { config, path, value: written } of uses) {
    const before = (written as { file: string }).file;
    await editConfigFile(config, [{ path, value: [written, { file: `${before}${PREVIOUS}` }] }]);
  }
  await replaceFile(file, `${value}\n`, { mode: 0o600 });
  await reload(options, io);
  io.out(`a new value of ${secret.name} is in ${file}; the old one is valid too\n`);
  for (const use of given === undefined ? uses : []) {
    const preset = getPreset(use);
    if (preset !== undefined)
      io.out(`\nPaste it at ${preset}: ${findWhere(use, presets)}\n  secret  ${value}\n`);
  }
  io.out(
    `\nOnce no sender uses the old one, end it:\n  rouse secrets rotate ${shellWord(secret.name)} --finish\n`,
  );
}

export const secretsCommand: Noun = {
  list: answering({
    usage: "",
    about: "which fields each is for, where it is kept and since when; never a value",
    examples: ["rouse secrets"],
    answer: list,
    print({ secrets }, io) {
      for (const secret of secrets) {
        printRecord(io, secret, [
          ["secret", ({ name }) => name],
          "fields",
          "place",
          "since",
          "valid",
          "toRotate",
        ]);
        io.out("\n");
      }
    },
  }),
  commands: [
    doing({
      usage: "rotate <name>",
      about:
        "make a new value; the old one is valid too until --finish ends it. hooks.token names the hook token",
      examples: ["rouse secrets rotate hooks.token", "rouse secrets rotate hooks.token --finish"],
      options: ROTATE_OPTIONS,
      run: rotate,
    }),
  ],
};
