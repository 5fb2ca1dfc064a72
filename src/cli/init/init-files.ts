import { existsSync, readFileSync, realpathSync } from "node:fs";
import { appendFile, mkdir, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, isAbsolute, join, relative } from "node:path";
import { editText, type ConfigChange } from "../../config/edit.ts";
import { secretFile, stateSecret, writeSecret, type StateSecret } from "../../config/state.ts";
import { RouseError } from "../../core/errors.ts";
import { replaceFile } from "../../core/replace-file.ts";
import { checkSnapshot } from "../../gateway/validate-config.ts";
import { PACKAGE_ROOT } from "../../plugin/locations.ts";
import { getSetup, type Presets } from "../hooks/find-presets.ts";
import type { CliIo } from "../io.ts";
import { member, readWritten, toSnapshotOptions } from "../settings.ts";
import type { Answers, ChosenChannel } from "./init-questions.ts";
import { schemaDocument } from "./schema-document.ts";

/** A config to begin with: comments that teach, and one mapping to change. */
const FIRST_CONFIG = `// Rouse's config. \`rouse config validate\` checks it, docs/config.md explains each key.
{
  $schema: "./rouse.schema.json",
  gateway: { port: 7420 },
  hooks: {
    enabled: true,
    // What callers that do not sign send as \`Authorization: Bearer …\`.
    token: {},
    presets: [],
    // Your own mappings; also every file in ./mappings. Modules for \`transform\` go to ./transforms, channels to ./plugins.
    mappings: [
      {
        id: "example",
        match: { path: "example" },
        name: "Example",
        messageTemplate: "Something happened: {{title}}",
        // The main session reads the summary at its next heartbeat; "now" starts one, a second call of the model.
        wakeMode: "next-heartbeat",
      },
    ],
  },
}
`;

/** A preset that was named, with the path that it has in the config. */
export interface AddedPreset {
  preset: string;
  /** Below `hooks.path`. */
  path: string;
}

/** The folders of a setup: that of the config and that of the secrets. */
export interface InitFolders {
  folder: string;
  stateDir: string;
  /** The presets that ship. */
  presets: Presets;
}

/** Refers to a secret of the state folder by its file. The path is relative if the file lies below the config's folder. */
function reference({ folder, stateDir }: InitFolders, name: StateSecret): { file: string } {
  const file = secretFile(stateDir, name);
  const path = relative(folder, file);
  return { file: path.startsWith("..") || isAbsolute(path) ? file : path };
}

async function writeStateSecret(
  place: InitFolders,
  name: StateSecret,
  value: string,
): Promise<{ file: string }> {
  await writeSecret(place.stateDir, name, value);
  return reference(place, name);
}

/** Keeps the secret of a preset, if its sender signs: the sender's own, else a new one, which the sender's replaces later. */
async function presetSecret(
  place: InitFolders,
  preset: string,
  given: string | undefined,
): Promise<{ file: string } | undefined> {
  const { secret } = getSetup(place.presets, preset);
  if (secret === undefined) return undefined;
  const name: StateSecret = `secrets/${preset}`;
  if (given !== undefined) return writeStateSecret(place, name, given);
  if (secret === "sent") return writeStateSecret(place, name, "pending");
  await stateSecret(place.stateDir, name);
  return reference(place, name);
}

/** The list of presets with the chosen ones in it. An entry that has a secret, or does without on purpose, stays as it is. */
async function presetList(
  raw: unknown,
  answers: Answers,
  place: InitFolders,
): Promise<{ list: unknown[]; added: AddedPreset[] }> {
  const list: unknown[] = Array.isArray(raw) ? [...(raw as unknown[])] : [];
  const added: AddedPreset[] = [];
  const channel = answers.channels.find(({ to }) => to !== "")?.id;
  for (const preset of answers.presets) {
    const at = list.findIndex((entry) => entry === preset || member(entry, "use") === preset);
    const before = at < 0 ? undefined : list[at];
    const path = member(before, "path");
    const isSame = { preset, path: typeof path === "string" ? path : preset };
    if (member(before, "secret") !== undefined || member(before, "auth") !== undefined) {
      // Of a set-up that broke off, the file may be missing.
      const { file } = reference(place, `secrets/${preset}`);
      if (member(member(before, "secret"), "file") === file)
        await stateSecret(place.stateDir, `secrets/${preset}`);
      added.push(isSame);
      continue;
    }
    const secret = await presetSecret(place, preset, answers.secrets[preset]);
    if (before !== undefined && secret === undefined) {
      added.push(isSame);
      continue;
    }
    const kept = typeof before === "object" ? before : {};
    const entry = {
      use: preset,
      ...kept,
      ...(secret ? { secret } : {}),
      ...(channel === undefined ? {} : { channel }),
    };
    list.splice(
      at < 0 ? list.length : at,
      at < 0 ? 0 : 1,
      Object.keys(entry).length === 1 ? preset : entry,
    );
    added.push(isSame);
  }
  return { list, added };
}

/** True if a required field of the channel has no value yet. */
export const isUnfinished = ({ fields }: Pick<ChosenChannel, "fields">): boolean =>
  fields.some(({ value }) => value === "");

async function channelSection(
  { id, fields, allowFrom, to }: ChosenChannel,
  place: InitFolders,
): Promise<Record<string, unknown>> {
  // The owner enters the missing values later; until then the gateway starts without the channel.
  const section: Record<string, unknown> = isUnfinished({ fields }) ? { enabled: false } : {};
  for (const { name, value, secret } of fields)
    section[name] = secret ? await writeStateSecret(place, `secrets/${id}-${name}`, value) : value;
  return { ...section, allowFrom, ...(to === "" ? {} : { defaultTo: to }) };
}

async function modelChanges(
  raw: Record<string, unknown>,
  { model }: Answers,
  place: InitFolders,
): Promise<ConfigChange[]> {
  if (!model) return [];
  const provider = model.ref.slice(0, model.ref.indexOf("/"));
  const known = member(member(raw["models"], "providers"), provider) !== undefined;
  const changes: ConfigChange[] = [{ path: ["agents", "defaults", "model"], value: model.ref }];
  if (model.key === undefined && (known || model.baseUrl === undefined)) return changes;
  const apiKey =
    model.key === undefined
      ? {}
      : { apiKey: await writeStateSecret(place, `secrets/${provider}-key`, model.key) };
  if (known && apiKey.apiKey)
    return [
      ...changes,
      { path: ["models", "providers", provider, "apiKey"], value: apiKey.apiKey },
    ];
  const baseUrl = model.baseUrl === undefined ? {} : { baseUrl: model.baseUrl };
  return [
    ...changes,
    { path: ["models", "providers", provider], value: { type: model.type, ...baseUrl, ...apiKey } },
  ];
}

/**
 * Makes the changes of a config from the answers, and lists the presets that are new in it. Writes the secrets to the
 * state folder. Existing sections and entries stay.
 * @param raw the config as it is written now.
 * @param isNew true if the config is `FIRST_CONFIG`.
 */
async function planChanges(
  raw: Record<string, unknown>,
  answers: Answers,
  place: InitFolders,
  isNew: boolean,
): Promise<{ changes: ConfigChange[]; added: AddedPreset[] }> {
  const { port, publicUrl } = answers;
  const changes: ConfigChange[] = [];
  const set = (path: readonly string[], value: unknown): void => void changes.push({ path, value });
  if (port !== undefined) set(["gateway", "port"], port);
  if (publicUrl !== undefined) set(["gateway", "publicUrl"], publicUrl);
  if (isNew || member(raw["hooks"], "token") === undefined) {
    await stateSecret(place.stateDir, "secrets/hook-token");
    set(["hooks", "token"], reference(place, "secrets/hook-token"));
    if (member(raw["hooks"], "enabled") === undefined) set(["hooks", "enabled"], true);
  }
  const { list, added } = await presetList(member(raw["hooks"], "presets"), answers, place);
  if (added.length > 0) set(["hooks", "presets"], list);
  for (const channel of answers.channels) {
    const before = member(raw["channels"], channel.id);
    if (before !== undefined && channel.asked.length === 0) continue;
    const section = await channelSection(channel, place);
    if (before === undefined) set(["channels", channel.id], section);
    else
      for (const key of channel.asked)
        if (section[key] !== undefined || member(before, key) !== undefined)
          set(["channels", channel.id, key], section[key]);
  }
  return { changes: [...changes, ...(await modelChanges(raw, answers, place))], added };
}

/**
 * Writes the config, new or with what is added to it. Returns the presets that are new in it.
 * @throws RouseError `config_invalid`, and writes nothing, if a gateway would not start with it.
 */
export async function writeConfig(
  file: string,
  answers: Answers,
  place: InitFolders,
  isNew: boolean,
  io: CliIo,
): Promise<AddedPreset[]> {
  const text = isNew ? FIRST_CONFIG : readFileSync(file, "utf8");
  const raw = (isNew ? undefined : readWritten({ config: file }, io)) ?? {};
  const { changes, added } = await planChanges(raw, answers, place, isNew);
  const edited = editText(text, changes);
  const files = toSnapshotOptions({ config: file }, { ...io, cwd: place.folder });
  const checked = await checkSnapshot({ ...files, texts: new Map([[file, edited]]) });
  if (!checked.ok)
    throw new RouseError({
      code: "config_invalid",
      message: "nothing was written: the gateway would not start with that:",
      // Places in a file that was not written would lead nowhere.
      issues: checked.issues.map(({ file: _file, ...issue }) => issue),
    });
  if (!isNew && edited === text) io.out(`${file} has all of that already\n`);
  else {
    await replaceFile(
      existsSync(file) ? realpathSync(file) : file,
      edited,
      isNew ? { mode: 0o600 } : {},
    );
    io.out(`${isNew ? "Wrote" : "Changed"} ${file}\n`);
  }
  return added;
}

/** The path of a preset's secret, to be shown. */
export function getSecretFile({ stateDir }: InitFolders, preset: string): string {
  return secretFile(stateDir, `secrets/${preset}`);
}

/** The folder of a package that is installed with Rouse; undefined if it is not. */
function findPackage(name: string): string | undefined {
  try {
    return dirname(createRequire(import.meta.url).resolve(`${name}/package.json`));
  } catch {
    return undefined;
  }
}

/** Options that transforms and plugins have in an editor. */
const COMPILER_OPTIONS = {
  target: "es2024",
  module: "nodenext",
  strict: true,
  noEmit: true,
  skipLibCheck: true,
  allowImportingTsExtensions: true,
  types: ["node"],
};
/** Further ones that the sources of a clone need. */
const SOURCE_OPTIONS = {
  customConditions: ["rouse-source"],
  exactOptionalPropertyTypes: true,
  lib: ["es2024", "esnext.disposable", "esnext.iterator"],
};

/** Compiler options for transforms and plugins in an editor. The paths say where Rouse is, as the gateway does when it runs them. */
function typescriptConfig(): object {
  const source = existsSync(join(PACKAGE_ROOT, "src"));
  const api = (path: string): string[] => [
    join(PACKAGE_ROOT, source ? `src/${path}.ts` : `dist/src/${path}.d.ts`),
  ];
  const zod = findPackage("zod");
  const types = findPackage("@types/node");
  return {
    compilerOptions: {
      ...COMPILER_OPTIONS,
      ...(source && SOURCE_OPTIONS),
      ...(types !== undefined && { typeRoots: [dirname(types)] }),
      paths: {
        "rouse/plugin": api("plugin/api"),
        "rouse/channel-kit": api("channel-kit/api"),
        "rouse/transform": api("mapping/api"),
        ...(zod !== undefined && { zod: [join(zod, "index.d.ts")] }),
      },
    },
    include: ["transforms", "plugins"],
  };
}

/** Adds the lines that a file does not have. */
async function addLines(file: string, lines: readonly string[]): Promise<boolean> {
  const text = existsSync(file) ? readFileSync(file, "utf8") : "";
  const missing = lines.filter((line) => !text.split(/\r?\n/).includes(line));
  if (missing.length === 0) return false;
  await appendFile(
    file,
    `${text === "" || text.endsWith("\n") ? "" : "\n"}${missing.join("\n")}\n`,
  );
  return true;
}

/** Writes the files beside the config that are not there yet; returns the names of what it wrote. */
export async function writeFiles({ folder, stateDir }: InitFolders): Promise<string[]> {
  const written: string[] = [];
  for (const name of ["mappings", "transforms", "plugins"])
    await mkdir(join(folder, name), { recursive: true });
  const state = relative(folder, stateDir);
  const isInside = state !== "" && !state.startsWith("..") && !isAbsolute(state);
  if (
    await addLines(join(folder, ".gitignore"), [
      ...(isInside ? [`${state}/`] : []),
      "node_modules/",
      "*.before",
    ])
  )
    written.push(".gitignore");
  const files: [string, () => object | Promise<object>][] = [
    ["package.json", () => ({ private: true, type: "module" })],
    ["tsconfig.json", typescriptConfig],
    ["rouse.schema.json", () => schemaDocument("config")],
  ];
  for (const [name, make] of files) {
    const file = join(folder, name);
    if (existsSync(file)) continue;
    await writeFile(file, `${JSON.stringify(await make(), null, 2)}\n`);
    written.push(name);
  }
  return written;
}
