import { link, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { replaceFile, temporaryName } from "../core/replace-file.ts";
import { newToken } from "../core/secret.ts";

/** The secrets that are kept in the state folder: those of the gateway itself, and those that `rouse init` writes. */
export type StateSecret =
  | "hook-token"
  | "gateway-token"
  | `secrets/${string}`
  | `hook-secret-${string}`;

/** Makes the state folder, for its owner alone. */
export async function ensureState(stateDir: string): Promise<void> {
  await mkdir(stateDir, { recursive: true, mode: 0o700 });
}

/** The path of a kept secret. */
export function secretFile(stateDir: string, name: StateSecret): string {
  return join(stateDir, name);
}

async function read(file: string): Promise<string | undefined> {
  try {
    const text = (await readFile(file, "utf8")).trim();
    return text === "" ? undefined : text;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

/** Reads a kept secret, or makes it (mode 0600). Two processes that create it at the same time agree on one. */
export async function stateSecret(stateDir: string, name: StateSecret): Promise<string> {
  const file = secretFile(stateDir, name);
  const kept = await read(file);
  if (kept !== undefined) return kept;
  await ensureState(dirname(file));
  const temporary = temporaryName(file);
  await writeFile(temporary, `${newToken()}\n`, { mode: 0o600 });
  // A link fails if the file exists already, so the first process wins and the file is never half written.
  await link(temporary, file).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "EEXIST") throw error;
  });
  await rm(temporary);
  const made = await read(file);
  if (made !== undefined) return made;
  // The file was there, and empty.
  const token = newToken();
  await writeSecret(stateDir, name, token);
  return token;
}

/** Keeps a secret of the state folder in place of the one before it (mode 0600). Returns its file. */
export async function writeSecret(
  stateDir: string,
  name: StateSecret,
  value: string,
): Promise<string> {
  const file = secretFile(stateDir, name);
  await ensureState(dirname(file));
  await replaceFile(file, `${value}\n`, { mode: 0o600 });
  return file;
}

/** Keeps the secret of a hook path's sender in a file of its own, in place of an earlier one. Returns the file's path. */
export const keepSenderSecret = (stateDir: string, path: string, secret: string): Promise<string> =>
  writeSecret(stateDir, `hook-secret-${path.replaceAll("/", "%2F")}`, secret);
