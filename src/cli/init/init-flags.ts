import { readEnvironmentProviders } from "../../config/providers.ts";
import { didYouMean } from "../../config/suggest.ts";
import { BUILTIN_PLUGINS } from "../../plugin/locations.ts";
import type { Given } from "../command.ts";
import { usage } from "../failure.ts";
import type { Presets } from "../hooks/find-presets.ts";
import type { CliIo } from "../io.ts";
import { readSecret } from "../options.ts";
import {
  getAskableChannels,
  withoutQuestions,
  type Answers,
  type ChosenModel,
} from "./init-questions.ts";

const PROVIDERS = readEnvironmentProviders(BUILTIN_PLUGINS);
const PROVIDER_NAMES = PROVIDERS.map(({ name }) => name).join(", ");

export const INIT_OPTIONS = {
  "--preset <name...>": "senders to receive from; a secret is made for each that signs",
  "--secret-file <preset=file>": {
    about: "a secret that the sender has shown; - reads standard input (repeatable)",
    repeat: "pairs",
  },
  "--channel <name...>":
    "channels for replies; secrets come from the variables that the config then names",
  "--to <recipient>": "who gets the replies on the channel",
  "--provider <name>": `${PROVIDER_NAMES}, or another name with --base-url`,
  "--key-file <file>": "the provider's key, kept in the state folder; - reads standard input",
  "--model <name>": "the model, `<provider>/<model>`",
  "--base-url <url>": "an OpenAI-compatible server for that model's provider",
  "--port <n>": "port to listen on (default 7420)",
  "--public-url <url>": "the address under which senders reach the gateway",
  "-y, --yes": "ask nothing, use the defaults",
  "--no-test": "do not post a test event",
} as const;
export type InitOptions = Given<typeof INIT_OPTIONS>;

type Provider = (typeof PROVIDERS)[number];

/** @throws RouseError `usage` if the flags name no model, or not how its provider is reached. */
function checkModel(
  known: Provider | undefined,
  name: string | undefined,
  { provider, model, baseUrl, keyFile }: InitOptions,
  { env }: CliIo,
): void {
  if (!known && provider !== undefined && baseUrl === undefined)
    throw usage(`--provider: use ${PROVIDER_NAMES}, or another name with --base-url`);
  if (!known && !name) throw usage("--model: name the model of that provider");
  const hasKey = keyFile !== undefined || known?.variables.some((key) => env[key]);
  if (!known || baseUrl !== undefined || hasKey) return;
  const flag = provider === undefined ? `--model ${model}` : `--provider ${provider}`;
  throw usage(
    `${flag}: give its key with --key-file (- reads standard input), or set ${known.variables[0]}`,
  );
}

/** The model that the flags name; undefined if they name none. */
async function readModel(options: InitOptions, io: CliIo): Promise<ChosenModel | undefined> {
  const { provider, model, baseUrl, keyFile } = options;
  if (provider === undefined && model === undefined) {
    if (keyFile !== undefined) throw usage("--key-file: say whose key it is with --provider");
    return undefined;
  }
  const [first = "", ...rest] = (model ?? "").split("/");
  const id = provider ?? first;
  const name = provider !== undefined && first !== provider ? model : rest.join("/");
  const known = PROVIDERS.find((one) => one.name === id);
  checkModel(known, name, options, io);
  return {
    ref: `${id}/${name || known?.defaultModel}`,
    type: known && baseUrl === undefined ? known.type : "openai-compatible",
    ...(baseUrl === undefined ? {} : { baseUrl }),
    ...(keyFile === undefined ? {} : { key: await readSecret(keyFile, io) }),
  };
}

/** Reads the answers that flags give. */
export async function readFlags(
  options: InitOptions,
  presets: Presets,
  io: CliIo,
): Promise<Answers> {
  if (options.port !== undefined && !/^\d{1,5}$/.test(options.port))
    throw usage("--port: must be a number");
  const known = getAskableChannels();
  const ids = known.map(({ id }) => id);
  const channel = options.channel?.find((name) => !ids.includes(name));
  if (channel !== undefined)
    throw usage(`--channel: there is no "${channel}"; use ${ids.join(", ")}`);
  const preset = options.preset?.find((name) => !presets.has(name));
  if (preset !== undefined)
    throw usage(
      `--preset: there is no "${preset}"; \`rouse presets\` lists them.${didYouMean(preset, presets.keys())}`,
    );
  const secrets: Record<string, string> = {};
  for (const [name, file] of Object.entries(options.secretFile ?? {}))
    secrets[name] = await readSecret(file, io);
  return {
    presets: options.preset ?? [],
    secrets,
    channels: known
      .filter(({ id }) => options.channel?.includes(id))
      .map((entry) => withoutQuestions(entry, options.to ?? "")),
    model: await readModel(options, io),
    port: options.port === undefined ? undefined : Number(options.port),
    publicUrl: options.publicUrl,
  };
}
