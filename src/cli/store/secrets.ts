import { link, rm, stat } from "node:fs/promises";
import { editConfigFile } from "../../config/edit.ts";
import { valueAt } from "../../config/load.ts";
import { writeSecret } from "../../config/state.ts";
import { RouseError } from "../../core/errors.ts";
import { replaceFile } from "../../core/replace-file.ts";
import { newToken } from "../../core/secret.ts";
import { answering, doing, type Given, type Noun } from "../command.ts";
import { printRecord } from "../print.ts";
import { connectRunning } from "../gateway/connect.ts";
import { usage } from "../failure.ts";
import type { CliIo } from "../io.ts";
import { readSecret, type CommonOptions } from "../options.ts";
import { shellWord } from "../text.ts";
import {
  checkGiven,
  findRefusal,
  findSecret,
  findWhere,
  getSecretFields,
  getPreset,
  PREVIOUS,
  readPlace,
  type Secret,
} from "./rotation.ts";

const ROTATE_OPTIONS = {
  "--secret-file <file>": "the new value, if the sender makes it; - reads standard input",
  "--finish": "end the old value",
} as const;

async function list(io: CliIo, options: CommonOptions) {
  const { secrets: all, presets } = await readPlace(options, io);
  const secrets = await Promise.all(
    all.map(async (secret) => {
      const { name, place, file, previous } = secret;
      const found = await stat(file ?? "").catch(() => undefined);
      return {
        name,
        fields: getSecretFields(secret),
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
  const found = await readPlace(options, io);
  const { presets, stateDir } = found;
  const secret = findSecret(found, name);
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
    about:
      "the secrets of the config: the fields that use each, the place where it is kept, and its age; values are not printed",
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
