import { readAll } from "../records/operation.ts";
import { readRecordedInput } from "../../intake/replay.ts";
import type { Snapshot } from "../../intake/types.ts";
import type { EventRecord, FencingToken, Ms, Store, Writes } from "../../store/types.ts";
import {
  addToShape,
  createShape,
  fromKeptShape,
  toHookShape,
  toKeptShape,
  type HookShape,
  type KeptShape,
  type Shape,
} from "./shape.ts";

/** Events hold their bodies: pages are small. */
const PAGE = 20;
/** A larger body takes long to read, and says little more about its fields. */
const MAX_BODY_BYTES = 256 * 1024;
/** The newest events that one update looks at, and the bodies of them that it counts. */
const MAX_EVENTS = 5000;
const MAX_BODIES = 500;
const MAX_BYTES = 16 * 1024 * 1024;
/** Events are in order of time but for what waited before it was written. */
const DISORDER_MS = 3_600_000;

const PROGRESS_KEY = "shapes";
const toShapeKey = (path: string): string => `shape:${path}`;

/** The last event that was counted. */
interface ShapeProgress {
  last?: { id: string; at: Ms };
}

/** Reads a value of the store by its key. Undefined or null if there is none. */
type ReadValue = (key: string) => Promise<unknown>;

const readShape = async (read: ReadValue, path: string): Promise<Shape | undefined> => {
  const kept = (await read(toShapeKey(path))) as KeptShape | null | undefined;
  return kept ? fromKeptShape(path, kept) : undefined;
};

/** Reads the shapes that are kept, by path. */
export async function readShapes(
  read: ReadValue,
  paths: readonly string[],
): Promise<Map<string, Shape>> {
  const shapes = new Map<string, Shape>();
  for (const path of paths) {
    const shape = await readShape(read, path);
    if (shape) shapes.set(path, shape);
  }
  return shapes;
}

const pause = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

const getSize = ({ request: { body } }: EventRecord): number => body?.length ?? 0;

/** Returns whether an event says something about its sender's bodies: that of a replay was counted before. */
const isCountable = ({ outcome, replayOf, request: { body } }: EventRecord): boolean =>
  outcome !== "duplicate" &&
  replayOf === undefined &&
  body !== null &&
  body.length <= MAX_BODY_BYTES;

/** Counts the body of an event. Returns false if there is none that can be read. */
async function addEvent(shape: Shape, event: EventRecord): Promise<boolean> {
  if (!isCountable(event)) return false;
  const read = readRecordedInput(event, undefined);
  if (!read.ok) return false;
  addToShape(shape, read.input.payload, event.receivedAt);
  // Between two bodies hooks are answered.
  await pause();
  return true;
}

/** The events after those that were counted, oldest first. Bodies that are not to be counted are left out of them. */
async function readNewEvents(store: Store, last: ShapeProgress["last"]): Promise<EventRecord[]> {
  const events: EventRecord[] = [];
  let bodies = 0;
  let bytes = 0;
  for await (const event of readAll(store, "events", {}, PAGE)) {
    if (
      event.id === last?.id ||
      event.receivedAt < (last?.at ?? 0) - DISORDER_MS ||
      events.length === MAX_EVENTS
    )
      break;
    const isCounted = isCountable(event) && bodies < MAX_BODIES && bytes < MAX_BYTES;
    if (isCounted) bodies++;
    if (isCounted) bytes += getSize(event);
    // Hooks are answered between two pages.
    if (events.length % PAGE === 0) await pause();
    events.push(isCounted ? event : { ...event, request: { ...event.request, body: null } });
  }
  return events.toReversed();
}

/** Counts the bodies of events, added to what is kept of their paths. */
async function countBodies(
  events: readonly EventRecord[],
  paths: readonly string[],
  read: ReadValue,
): Promise<Map<string, Shape>> {
  const known = new Set(paths);
  const shapes = new Map<string, Shape>();
  for (const event of events) {
    const { path } = event;
    if (!known.has(path) || getSize(event) === 0) continue;
    const shape = shapes.get(path) ?? (await readShape(read, path)) ?? createShape(path);
    shapes.set(path, shape);
    await addEvent(shape, event);
  }
  return shapes;
}

/**
 * Counts the fields of bodies that have come in since the last update: their names and types stay when `hooks.retention` has
 * taken the bodies. With retention 0 nothing is kept. One gateway at a time does this, beside its answers.
 * @returns whether there were new events
 */
export async function updateShapes(
  store: Store,
  snapshot: Snapshot,
  fencingToken?: FencingToken,
): Promise<boolean> {
  const { config, mappings } = snapshot;
  const paths = mappings.paths.map(({ path }) => path);
  const read: ReadValue = (key) => store.values.get(key);
  const isKept = config.hooks.retention > 0;
  const gone = isKept ? [] : [...(await readShapes(read, paths)).keys()];
  const clear = (tx: Writes): void => gone.forEach((path) => tx.values.set(toShapeKey(path), null));
  if (gone.length > 0) await store.commit(clear, fencingToken);
  const { last } = ((await read(PROGRESS_KEY)) as ShapeProgress | null | undefined) ?? {};
  const events = await readNewEvents(store, last);
  const newest = events.at(-1);
  if (!newest) return false;
  const shapes = await countBodies(isKept ? events : [], paths, read);
  const next: ShapeProgress = { last: { id: newest.id, at: newest.receivedAt } };
  return store.commit((tx) => {
    for (const [path, shape] of shapes) tx.values.set(toShapeKey(path), toKeptShape(shape));
    tx.values.set(PROGRESS_KEY, next);
  }, fencingToken);
}

/** Shows the fields of the last bodies of a path, and the names of those that earlier bodies had. */
export async function showShape(
  store: Store,
  path: string,
  last: number,
): Promise<{ shape: HookShape }> {
  const shape = createShape(path);
  let looked = 0;
  for await (const event of readAll(store, "events", { path }, PAGE)) {
    if (shape.events === last || ++looked > MAX_EVENTS) break;
    await addEvent(shape, event);
  }
  return { shape: toHookShape(shape, await readShape((key) => store.values.get(key), path)) };
}
