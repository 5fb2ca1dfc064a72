import { getTurnTokens } from "../agent/messages.ts";
import type { SessionRef, Reads, TurnRecord } from "../store/types.ts";

/** Turns that are read together: few, since one may be long. */
const PAGE = 32;

/** The turns of a session that a model may see. */
export interface SessionHistory {
  /** The newest checkpoint of the session, if it has one. */
  checkpoint?: TurnRecord | undefined;
  /** The turns after what the checkpoint replaces, oldest first. */
  turns: readonly TurnRecord[];
  /** An estimate of their tokens, the checkpoint's included. */
  tokens: number;
  /** Whether there are older turns, after what the checkpoint replaces, that were not read. */
  isCut: boolean;
}

export const NO_HISTORY: SessionHistory = { turns: [], tokens: 0, isCut: false };

/** How much of a session is read at most. */
export interface HistoryLimits {
  tokens: number;
  turns: number;
}

type Reader = Reads;

/** Numbers of turns that are not among those that are read. */
interface Range {
  before?: number;
  after?: number;
}

const readPage = (store: Reader, session: SessionRef, range: Range): Promise<TurnRecord[]> =>
  store.sessions.listTurns({ ...session, limit: PAGE, ...range });

/**
 * Yields the turns of a session from the newest one on. Other work of the gateway is done between two pages.
 * @param first the first page, if it is there already
 */
export async function* readNewest(
  store: Reader,
  session: SessionRef,
  range: Range = {},
  first?: readonly TurnRecord[],
): AsyncGenerator<TurnRecord> {
  for (let page = first ?? (await readPage(store, session, range)); ;) {
    yield* page.toReversed().filter(({ seq }) => seq > (range.after ?? 0));
    const [oldest] = page;
    if (!oldest || page.length < PAGE) return;
    await new Promise((resolve) => setImmediate(resolve));
    page = await readPage(store, session, { ...range, before: oldest.seq });
  }
}

/** Finds the checkpoint of a session, which has `newest` at its end: most sessions are so short that no more has to be read. */
const findCheckpoint = async (
  store: Reader,
  session: SessionRef,
  newest: readonly TurnRecord[],
): Promise<TurnRecord | undefined> =>
  newest.length < PAGE
    ? newest.findLast(({ checkpoint }) => checkpoint)
    : store.sessions.getCheckpoint(session);

/** Reads the newest turns of a session, those before the turn `before` if it is given, until `limits` are reached. */
export async function readHistory(
  store: Reader,
  session: SessionRef,
  limits: HistoryLimits,
  before?: number,
): Promise<SessionHistory> {
  const page = await readPage(store, session, before === undefined ? {} : { before });
  const found = await findCheckpoint(store, session, page);
  // A newer checkpoint may replace the turn `before` too.
  const checkpoint = (found?.checkpoint?.upTo ?? 0) < (before ?? Infinity) ? found : undefined;
  const turns: TurnRecord[] = [];
  let tokens = checkpoint ? getTurnTokens(checkpoint) : 0;
  for await (const turn of readNewest(
    store,
    session,
    { after: checkpoint?.checkpoint?.upTo ?? 0 },
    page,
  )) {
    if (turn.checkpoint) continue;
    if (tokens > limits.tokens || turns.length > limits.turns)
      return { checkpoint, turns: turns.reverse(), tokens, isCut: true };
    turns.push(turn);
    tokens += getTurnTokens(turn);
  }
  return { checkpoint, turns: turns.reverse(), tokens, isCut: false };
}

/** Finds the turn of a run in its session; undefined if it was not kept. */
export async function findTurn(
  store: Reader,
  session: SessionRef,
  runId: string,
): Promise<TurnRecord | undefined> {
  for await (const turn of readNewest(store, session))
    if (turn.runId === runId && !turn.checkpoint) return turn;
  return undefined;
}

/** Returns the last turn of a session; undefined if it has none. */
export async function getLastTurn(
  store: Reader,
  session: SessionRef,
): Promise<TurnRecord | undefined> {
  for await (const turn of readNewest(store, session)) if (!turn.checkpoint) return turn;
  return undefined;
}

/** The turns of a history as models see them: a checkpoint stands for those that it replaces. */
export const toTurns = ({ checkpoint, turns }: SessionHistory): readonly TurnRecord[] =>
  checkpoint ? [checkpoint, ...turns] : turns;
