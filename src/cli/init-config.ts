import { isAbsolute, relative } from "node:path";
import type { ConfigChange } from "../config/edit.ts";
import { secretFile, stateSecret, writeSecret, type StateSecret } from "../config/state.ts";
import { getSetup, type Presets } from "./shipped-presets.ts";
import type { Answers, ChosenChannel } from "./init-questions.ts";
import { member } from "./settings.ts";

/** A config to begin with: comments that teach, and one mapping to change. */
export const FIRST_CONFIG = `// Rouse's config. \`rouse config validate\` checks it, docs/config.md explains each key.
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
      },
    ],
  },
}
`;

/** A preset that is new in a config, or newly has its secret. */
export interface AddedPreset {
  preset: string;
  /** Below `hooks.path`. */
  path: string;
}

/** Where a setup is, and where its secrets are kept. */
export interface InitFolders {
  folder: string;
  stateDir: string;
  /** The presets that ship. */
  presets: Presets;
}

/** How the config refers to a secret of the state folder: by the file's path, from the config's folder if it lies there. */
function reference({ folder, stateDir }: InitFolders, name: StateSecret): { file: string } {
  const file = secretFile(stateDir, name);
  const path = relative(folder, file);
  return { file: path.startsWith("..") || isAbsolute(path) ? file : path };
}

async function writeStateSecret(place: InitFolders, name: StateSecret, value: string): Promise<{ file: string }> {
  await writeSecret(place.stateDir, name, value);
  return reference(place, name);
}

/** Keeps the secret of a preset, if its sender signs: the sender's own, else a new one, which the sender's replaces later. */
async function presetSecret(place: InitFolders, preset: string, given: string | undefined): Promise<{ file: string } | undefined> {
  const { secret } = getSetup(place.presets, preset);
  if (secret === undefined) return undefined;
  const name: StateSecret = `secrets/${preset}`;
  if (given !== undefined) return writeStateSecret(place, name, given);
  if (secret === "sent") return writeStateSecret(place, name, "pending");
  await stateSecret(place.stateDir, name);
  return reference(place, name);
}

/** The list of presets with the chosen ones in it. An entry that has a secret, or does without on purpose, stays as it is. */
async function presetList(raw: unknown, answers: Answers, place: InitFolders): Promise<{ list: unknown[]; added: AddedPreset[] }> {
  const list: unknown[] = Array.isArray(raw) ? [...(raw as unknown[])] : [];
  const added: AddedPreset[] = [];
  const channel = answers.channels.find(({ to }) => to !== "")?.id;
  for (const preset of answers.presets) {
    const at = list.findIndex((entry) => entry === preset || member(entry, "use") === preset);
    const before = at < 0 ? undefined : list[at];
    if (member(before, "secret") !== undefined || member(before, "auth") !== undefined) continue;
    const secret = await presetSecret(place, preset, answers.secrets[preset]);
    if (before !== undefined && secret === undefined) continue;
    const kept = typeof before === "object" ? before : {};
    const entry = { use: preset, ...kept, ...(secret ? { secret } : {}), ...(channel === undefined ? {} : { channel }) };
    list.splice(at < 0 ? list.length : at, at < 0 ? 0 : 1, Object.keys(entry).length === 1 ? preset : entry);
    const path = member(before, "path");
    added.push({ preset, path: typeof path === "string" ? path : preset });
  }
  return { list, added };
}

async function channelSection({ id, fields, allowFrom, to }: ChosenChannel, place: InitFolders): Promise<Record<string, unknown>> {
  const section: Record<string, unknown> = {};
  for (const { name, value, secret } of fields)
    section[name] = secret ? await writeStateSecret(place, `secrets/${id}-${name}`, value) : value;
  return { ...section, allowFrom, ...(to === "" ? {} : { defaultTo: to }) };
}

async function modelChanges(raw: Record<string, unknown>, { model }: Answers, place: InitFolders): Promise<ConfigChange[]> {
  if (!model) return [];
  const provider = model.ref.slice(0, model.ref.indexOf("/"));
  const known = member(member(raw["models"], "providers"), provider) !== undefined;
  const changes: ConfigChange[] = [{ path: ["agents", "defaults", "model"], value: model.ref }];
  if (known || (model.key === undefined && model.baseUrl === undefined)) return changes;
  const apiKey = model.key === undefined ? {} : { apiKey: await writeStateSecret(place, `secrets/${provider}-key`, model.key) };
  const baseUrl = model.baseUrl === undefined ? {} : { baseUrl: model.baseUrl };
  return [...changes, { path: ["models", "providers", provider], value: { type: model.type, ...baseUrl, ...apiKey } }];
}

/**
 * What the answers change in a config, and the presets that are new in it. Writes the secrets to the state folder;
 * sections and entries that are there stay.
 * @param raw the config as it is written now.
 * @param isNew whether the config is `FIRST_CONFIG`.
 */
export async function planChanges(
  raw: Record<string, unknown>,
  answers: Answers,
  place: InitFolders,
  isNew: boolean,
): Promise<{ changes: ConfigChange[]; added: AddedPreset[] }> {
  const { tokenEnv, port, publicUrl } = answers;
  const changes: ConfigChange[] = [];
  const set = (path: readonly string[], value: unknown): void => void changes.push({ path, value });
  if (port !== undefined) set(["gateway", "port"], port);
  if (publicUrl !== undefined) set(["gateway", "publicUrl"], publicUrl);
  if (isNew || member(raw["hooks"], "token") === undefined) {
    if (tokenEnv === undefined) await stateSecret(place.stateDir, "secrets/hook-token");
    set(["hooks", "token"], tokenEnv === undefined ? reference(place, "secrets/hook-token") : `\${${tokenEnv}}`);
    if (member(raw["hooks"], "enabled") === undefined) set(["hooks", "enabled"], true);
  }
  const { list, added } = await presetList(member(raw["hooks"], "presets"), answers, place);
  if (added.length > 0) set(["hooks", "presets"], list);
  for (const channel of answers.channels)
    if (member(raw["channels"], channel.id) === undefined) set(["channels", channel.id], await channelSection(channel, place));
  return { changes: [...changes, ...(await modelChanges(raw, answers, place))], added };
}

/** The path of a preset's secret, to be shown. */
export function getSecretFile({ stateDir }: InitFolders, preset: string): string {
  return secretFile(stateDir, `secrets/${preset}`);
}
