import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { editConfigFile } from "../../config/edit.ts";
import { systemClock } from "../../core/clock.ts";
import { RouseError } from "../../core/errors.ts";
import type { CommandContext } from "../../contract/define.ts";
import { loadCommandPlugins, sectionFor, type CommandPlugin } from "../../plugin/commands.ts";
import { BUILTIN_PLUGINS } from "../../plugin/locations.ts";
import { addCommand, doing, type CommandSpec, type Noun } from "../command.ts";
import { connectGateway, connectRunning, read } from "../gateway/connect.ts";
import { reportError } from "../failure.ts";
import { EXIT, type CliIo } from "../io.ts";
import type { CommonOptions } from "../options.ts";
import { loadSettings, readWritten, type Settings } from "../settings.ts";

const dashed = (name: string): string =>
  name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);

type PluginOptions = CommonOptions & Record<string, string | true | undefined>;

/** Creates the context of a plugin's command. Its signal aborts on Ctrl-C and SIGTERM. */
function createContext(
  plugin: CommandPlugin,
  settings: Settings,
  options: CommonOptions,
  io: CliIo,
  signal: AbortSignal,
): CommandContext<unknown> {
  const say = (message: string): void => io.err(`${message}\n`);
  return {
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
    fail(message, exitCode = EXIT.failure) {
      reportError(new RouseError({ code: "internal", message }), io, false);
      return exitCode;
    },
    json: options.json ?? false,
    // The gateway that runs vouches for its plugins: no credential of the path is needed.
    async hook(path, body) {
      const { api } = await connectGateway(options, io);
      return read(api.hooks.send.$post({ json: { plugin: plugin.id, path, body } }));
    },
    async serviceState() {
      const to = await connectRunning(options, io);
      const answer = to && (await read(to.api.status.$get()));
      return answer?.status.services.find((service) => service.id === plugin.id);
    },
    writtenConfig: async () => readWritten(options, io) ?? {},
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

/** The command that runs if a plugin is named without a command. */
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
