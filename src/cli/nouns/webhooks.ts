import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { editConfigFile } from "../../config/edit.ts";
import { systemClock } from "../../core/clock.ts";
import { RouseError } from "../../core/errors.ts";
import type { ServiceState } from "../../contract/channel.ts";
import type { CommandContext } from "../../contract/define.ts";
import { loadCommandPlugins, sectionFor, type CommandPlugin } from "../../plugin/commands.ts";
import { BUILTIN_PLUGINS } from "../../plugin/locations.ts";
import { addCommand, doing, type CommandSpec, type Noun } from "../command.ts";
import { connectRunning, read, type GatewayConnection } from "../gateway/connect.ts";
import type { CliIo } from "../io.ts";
import type { CommonOptions } from "../options.ts";
import { loadSettings, rawConfig, type Settings } from "../settings.ts";

const dashed = (name: string): string =>
  name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);

type PluginOptions = CommonOptions & Record<string, string | true | undefined>;

type Work<T> = (to: GatewayConnection) => Promise<T>;

/** Asks the gateway that runs; undefined if none does. */
async function withRunning<T>(
  options: CommonOptions,
  io: CliIo,
  work: Work<T>,
): Promise<T | undefined> {
  const to = await connectRunning(options, io);
  return to && work(to);
}

/** Hands an event to the gateway that runs, which vouches for its plugins: no credential of the path is needed. */
async function send(
  plugin: string,
  path: string,
  body: unknown,
  options: CommonOptions,
  io: CliIo,
) {
  const sent = await withRunning(options, io, ({ api }) =>
    read(api.hooks.send.$post({ json: { plugin, path, body } })),
  );
  if (sent) return sent;
  throw new RouseError({
    code: "internal",
    message: "no gateway runs on this config; start one with `rouse start`",
  });
}

async function findState(
  id: string,
  options: CommonOptions,
  io: CliIo,
): Promise<ServiceState | undefined> {
  const answer = await withRunning(options, io, ({ api }) => read(api.status.$get()));
  return answer?.status.services.find((service) => service.id === id);
}

/** What a plugin's command gets. Its signal aborts with Ctrl-C and SIGTERM. */
function createContext(
  plugin: CommandPlugin,
  settings: Settings,
  options: CommonOptions,
  io: CliIo,
  signal: AbortSignal,
) {
  const say = (message: string): void => io.err(`${message}\n`);
  const context: CommandContext<unknown> = {
    config: sectionFor(plugin, settings),
    fetch,
    clock: systemClock,
    log: { debug: () => undefined, info: say, warn: say, error: say },
    signal,
    baseDir: settings.baseDir,
    async stateDir() {
      const folder = join(settings.stateDir, "plugins", plugin.id);
      await mkdir(folder, { recursive: true, mode: 0o700 });
      return folder;
    },
    out: (text) => io.out(text),
    err: (text) => io.err(text),
    json: options.json ?? false,
    hook: (path, body) => send(plugin.id, path, body, options, io),
    serviceState: () => findState(plugin.id, options, io),
    writtenConfig: async () => (await rawConfig(options, io))?.raw ?? {},
    async editConfig(changes) {
      const { file } = settings;
      if (file === undefined)
        throw new RouseError({
          code: "config_invalid",
          message: "there is no config file to write to: make one with `rouse init`",
        });
      await editConfigFile(file, changes);
      return file;
    },
  };
  return context;
}

async function runCommand(
  plugin: CommandPlugin,
  name: string,
  options: PluginOptions,
  io: CliIo,
): Promise<void> {
  const command = plugin.commands[name];
  if (!command) return;
  const settings = await loadSettings(options, io);
  const abort = new AbortController();
  const stop = (): void => abort.abort();
  process.on("SIGINT", stop).on("SIGTERM", stop);
  try {
    io.exitCode = await command.run(
      createContext(plugin, settings, options, io, abort.signal),
      options,
    );
  } finally {
    process.off("SIGINT", stop).off("SIGTERM", stop);
    abort.abort();
  }
}

/** What a plugin does without the name of a command. */
const STATUS = "status";

function describeCommand(plugin: CommandPlugin, name: string, io: CliIo): CommandSpec {
  const { summary = "", options = {} } = plugin.commands[name] ?? {};
  const flags = Object.entries(options).map(([option, { describe, value }]) => [
    `--${dashed(option)}${value === undefined ? "" : ` <${value}>`}`,
    describe,
  ]);
  return doing({
    usage: name === STATUS ? plugin.id : name,
    about: summary,
    examples: [`rouse webhooks ${plugin.id}${name === STATUS ? "" : ` ${name}`}`],
    options: Object.fromEntries(flags) as Record<string, string>,
    json: true,
    run: (_, given) => runCommand(plugin, name, given as PluginOptions, io),
  });
}

/** Commands that plugins bring: `rouse webhooks <plugin> <command>`, and `rouse webhooks <plugin>` for its status. */
export const webhooksCommand: Noun = {
  commands: [],
  async register(group, io) {
    const settings = await loadSettings({}, io).catch(() => undefined);
    for (const plugin of await loadCommandPlugins(BUILTIN_PLUGINS, settings)) {
      const own = plugin.commands[STATUS]
        ? addCommand(group, describeCommand(plugin, STATUS, io), io)
        : group.command(plugin.id).description(`commands of ${plugin.id}`);
      for (const name of Object.keys(plugin.commands))
        if (name !== STATUS) addCommand(own, describeCommand(plugin, name, io), io);
    }
  },
};
