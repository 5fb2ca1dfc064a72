import { renderIssue } from "../../config/issues.ts";
import { tokenInShell } from "../../config/load.ts";
import { safeError } from "../../core/errors.ts";
import type { LOG_LEVELS, Logger } from "../../core/log.ts";
import type { RunningGateway } from "../../gateway/gateway.ts";
import type { Addresses } from "../../gateway/types.ts";
import { doing, type Given } from "../command.ts";
import { usage } from "../failure.ts";
import type { CliIo } from "../io.ts";
import { createProgramLogger } from "../log.ts";
import type { CommonOptions } from "../options.ts";
import { shellWord } from "../text.ts";
import { loadSettings, toSnapshotOptions, type Settings } from "../settings.ts";

const START_OPTIONS = {
  "-p, --port <port>": "listen on this port instead of gateway.port; 0 takes a free one",
  "--host <address>": "listen on this address instead of gateway.host",
  "--no-workers": "accept hooks and run nothing; they wait in the store",
} as const;

function parsePort(text: string | undefined): { port?: number } {
  if (text === undefined) return {};
  const port = Number(text);
  if (!/^\d+$/.test(text) || port > 65535) throw usage("--port: write a number from 0 to 65535");
  return { port };
}

function tryLine(url: string, settings: Settings, io: CliIo): string {
  const { hooks } = settings.config;
  if (!hooks.enabled)
    return "Hooks are off: set hooks.enabled and hooks.token in the config, or see `rouse init`.\n";
  const token = tokenInShell(settings);
  const body = `{"message":"Hello! Who are you?"}`;
  const config = settings.file === undefined ? "" : ` -c ${shellWord(settings.file)}`;
  const send = `${io.program ?? "rouse"} hooks send agent --payload -${config}`;
  if (token === undefined) return `Try it from another terminal:\n\n  echo '${body}' | ${send}\n\n`;
  return `Try it from another terminal:\n\n  curl -sS ${url}${hooks.path}/agent -H "authorization: Bearer ${token}" -H 'content-type: application/json' -d '${body}'\n\n`;
}

/** Says once where everything is. The token is never printed, only how a shell reads it. */
async function greet(
  gateway: RunningGateway,
  ends: Addresses,
  options: CommonOptions,
  io: CliIo,
): Promise<void> {
  const { version, configFile, stateDir, workers } = gateway.status();
  io.out(`Rouse ${version} listens on ${ends.url}\n`);
  if (ends.adminUrl !== ends.url) io.out(`  admin   ${ends.adminUrl}\n`);
  io.out(`  config  ${configFile ?? "none: the defaults"}\n`);
  io.out(`  state   ${stateDir}\n`);
  io.out(
    `  console ${ends.adminUrl}/console (\`${io.program ?? "rouse"} status\` says where the token is)\n`,
  );
  if (!workers) io.out("  workers none: hooks are accepted and wait\n");
  const settings = await loadSettings(options, io).catch(() => undefined);
  if (settings) io.out(tryLine(ends.url, settings, io));
}

/** Resolves once the gateway has been asked to stop and has stopped. */
function untilStopped(gateway: RunningGateway, io: CliIo): Promise<void> {
  return new Promise((done, failed) => {
    let stopping = false;
    const stop = (signal: NodeJS.Signals): void => {
      if (stopping) {
        io.err("\nstopped immediately; what was running starts again at the next start\n");
        process.exit(signal === "SIGINT" ? 130 : 143);
      }
      stopping = true;
      if (signal === "SIGINT")
        io.err("\nstopping; running turns may end first (Ctrl-C again stops immediately)\n");
      gateway.stop().then(done, failed);
    };
    process.on("SIGINT", stop);
    process.on("SIGTERM", stop);
    process.on("SIGHUP", () => {
      gateway.reload().then(
        (reloaded) => {
          if (reloaded.ok) return;
          io.err("the config has problems; the one before it stays in use:\n");
          for (const issue of reloaded.issues) io.err(`  ${renderIssue(issue, io.cwd)}\n`);
        },
        () => io.err("the reload failed; the config before it stays in use\n"),
      );
    });
  });
}

/** The address of the program's own files, as a stack has it. */
const OWN_CODE = new URL("../../", import.meta.url).href;

/** True if the program's own code was running or waiting when an error was made, and not a plugin or a package of one alone. */
export function isOwnError(error: unknown): boolean {
  const frames = (safeError(error).frames ?? []).filter((frame) => !frame.includes("node:"));
  return frames.some(
    (frame, index) => frame.includes(OWN_CODE) && (index === 0 || frame.startsWith("at async ")),
  );
}

/** Decides about a promise whose error nothing handles: a plugin's is logged; one of the program's own may have been a worker. */
function watchStrayErrors(log: Logger): Disposable {
  const decide = (error: unknown): void => {
    if (!isOwnError(error))
      return log.error(
        { err: error },
        "a plugin did not handle an error; its frames name the file",
      );
    log.fatal({ err: error }, "the gateway ends because of an error of its own; start it again");
    process.exit(1);
  };
  process.on("unhandledRejection", decide);
  return { [Symbol.dispose]: () => void process.off("unhandledRejection", decide) };
}

async function startGateway(io: CliIo, options: Given<typeof START_OPTIONS>): Promise<void> {
  // By default Node opens its inspector at this signal, to anyone on this machine.
  process.on("SIGUSR1", () => undefined);
  const port = parsePort(options.port);
  const { openGateway } = await import("../../gateway/gateway.ts");
  const level = io.env["ROUSE_LOG_LEVEL"] as (typeof LOG_LEVELS)[number] | undefined;
  const log = createProgramLogger(level ?? "info", io.env);
  using _watch = watchStrayErrors(log);
  const work = io.terminal.err ? (await import("./work-lines.ts")).showWork(log) : {};
  const gateway = await openGateway({
    ...toSnapshotOptions(options, io),
    ...port,
    ...(options.host === undefined ? {} : { host: options.host }),
    log,
    ...work,
    // A level of the environment goes before that of the config.
    ...(level === undefined ? { setLogLevel: (configured) => void (log.level = configured) } : {}),
    print: (text) => io.out(text),
  });
  let ends: Addresses;
  try {
    ends = await gateway.start({ listen: true, workers: options.workers, watch: true });
  } catch (error) {
    await gateway.stop().catch(() => undefined);
    throw error;
  }
  const stopped = untilStopped(gateway, io);
  await greet(gateway, ends, options, io);
  await stopped;
}

export const startCommand = doing({
  usage: "start",
  about: "start the gateway; SIGHUP loads the config again, SIGTERM and Ctrl-C stop it",
  examples: ["rouse start", "rouse start --config /etc/rouse/rouse.json5 --port 8080"],
  options: START_OPTIONS,
  run: startGateway,
});
