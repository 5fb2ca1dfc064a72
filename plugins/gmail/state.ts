import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { replaceFile } from "#channel-kit";
import { GmailProblem } from "./problem.ts";

/** A message that the hook did not take, and will not. */
export interface RefusedMessage {
  id: string;
  at: number;
  reason: string;
}

/** The state of the watcher, on disk. Times are milliseconds since the epoch. */
export interface WatchState {
  account: string;
  /** Everything up to here has been given to the hook. */
  historyId?: string;
  /** The time of the first start: mail that came before it is old. */
  startedAt?: number;
  watchExpires?: number;
  watchedAt?: number;
  /** The topic and labels that the watch was started with: others need a new watch. */
  watched?: string;
  /** When the last complete look at the mailbox began. */
  lastSync?: number;
  /** When the watcher last heard from Google, to within some minutes. */
  aliveAt?: number;
  lastError?: { at: number; message: string };
  /** The ids that were given last, oldest first: a redelivery after the hook's duplicate window makes no second run. */
  delivered: string[];
  refused: RefusedMessage[];
}

const STATE = "watch.json";
const GRANT = "grant.json";
const MAX_DELIVERED = 5000;
const MAX_REFUSED = 20;

/** The files are the owner's of the process alone. */
const MODE = { mode: 0o600 };

async function readJson(file: string): Promise<unknown> {
  const text = await readFile(file, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return undefined;
    throw error;
  });
  if (text === undefined) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    throw new GmailProblem(
      `${file} is damaged: remove it and run \`rouse webhooks gmail setup\` again; mail is watched from then on`,
    );
  }
}

/** The state of an account's watcher; a new one where there is none, or another account's. */
export async function readState(dir: string, account: string): Promise<WatchState> {
  const found = (await readJson(join(dir, STATE))) as WatchState | undefined;
  return found?.account === account ? found : { account, delivered: [], refused: [] };
}

/** Writes the state; it is on disk when this resolves. */
export async function writeState(dir: string, state: WatchState): Promise<void> {
  state.delivered = state.delivered.slice(-MAX_DELIVERED);
  state.refused = state.refused.slice(-MAX_REFUSED);
  await replaceFile(join(dir, STATE), JSON.stringify(state), MODE);
}

/** The part of the state that another gateway can use. */
type SyncCheckpoint = Pick<WatchState, "account" | "historyId" | "startedAt" | "lastSync">;

/** The place of the watcher, for the gateway that watches next. */
export const renderCheckpoint = ({ account, historyId, startedAt, lastSync }: WatchState): string =>
  JSON.stringify({ account, historyId, startedAt, lastSync });

/** Takes over how far another gateway has come since this one watched last. */
export function goOnFrom(state: WatchState, place: string | undefined): void {
  if (place === undefined) return;
  const { account, ...rest } = JSON.parse(place) as SyncCheckpoint;
  if (account !== state.account || rest.historyId === undefined) return;
  if (state.historyId === undefined || BigInt(rest.historyId) > BigInt(state.historyId))
    Object.assign(state, rest);
}

/** The owner's consent, kept for the watcher. */
export interface Grant {
  account: string;
  clientId: string;
  refreshToken: string;
}

export async function readGrant(dir: string): Promise<Grant | undefined> {
  return (await readJson(join(dir, GRANT))) as Grant | undefined;
}

export const writeGrant = (dir: string, grant: Grant): Promise<void> =>
  replaceFile(join(dir, GRANT), JSON.stringify(grant), MODE);
