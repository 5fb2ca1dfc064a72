import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";

/** One operation on the files of a database, as `disk.c` records it. */
export interface Operation {
  kind: "c" | "w" | "t" | "s" | "e";
  file: "d" | "l" | "f";
  /** It was done by the thread that runs the event loop. */
  isMain: boolean;
  /** The offset of a write, the size of a truncation, the descriptor of a sync. */
  at: number;
  bytes: Buffer;
  /** The end of its record. */
  end: number;
}

const HEAD = 24;

/** Reads the records of `disk.c`. What is cut off at the end is left out. */
export function readOperations(file: string): Operation[] {
  const all = readFileSync(file);
  const operations: Operation[] = [];
  for (let at = 0; at + HEAD <= all.length;) {
    const kind = String.fromCharCode(all[at] ?? 0) as Operation["kind"];
    const length = Number(all.readBigUInt64LE(at + 16));
    const end = at + HEAD + length;
    if (end > all.length) break;
    operations.push({
      kind,
      file: String.fromCharCode(all[at + 1] ?? 0) as Operation["file"],
      isMain: all[at + 2] === 1,
      at: Number(all.readBigUInt64LE(at + 8)),
      bytes: all.subarray(at + HEAD, end),
      end,
    });
    at = end;
  }
  return operations;
}

/** A file that grows. */
class Image {
  #bytes: Buffer = Buffer.alloc(1 << 20);
  #size = 0;

  write(at: number, bytes: Buffer): void {
    const end = at + bytes.length;
    while (end > this.#bytes.length)
      this.#bytes = Buffer.concat([this.#bytes, Buffer.alloc(this.#bytes.length)]);
    bytes.copy(this.#bytes, at);
    this.#size = Math.max(this.#size, end);
  }

  truncate(size: number): void {
    this.#bytes.fill(0, size, Math.max(size, this.#size));
    this.#size = size;
  }

  copy(): Image {
    const image = new Image();
    image.#bytes = Buffer.from(this.#bytes);
    image.#size = this.#size;
    return image;
  }

  get bytes(): Buffer {
    return this.#bytes.subarray(0, this.#size);
  }
}

/** The fate of writes that were not synced. */
export interface Loss {
  /** Returns true if the disk has kept a piece of a write. `order` numbers the writes from 0 to 1. */
  keeps(order: number): boolean;
  /** The most bytes that the disk writes at once. */
  piece: number;
}

/** Ways in which a disk loses its power. `random` gives numbers from 0 to 1. */
export function createLosses(random: () => number): Record<string, Loss> {
  const cut = random();
  return {
    "nothing kept": { keeps: () => false, piece: 4096 },
    "some kept": { keeps: () => random() < 0.4, piece: 512 },
    "most kept": { keeps: () => random() < 0.9, piece: 4096 },
    "the last kept": { keeps: (order) => order > cut, piece: 4096 },
  };
}

/** So many operations after the log's new header. */
const AFTER_RESTART = [0, 1, 3, 8, 15, 25, 40];

/** Chooses moments at which the power fails: any, and those around each restart of the log. */
export function choosePoints(
  operations: readonly Operation[],
  count: number,
  random: () => number,
): { points: Set<number>; restarts: number } {
  const points = new Set(
    Array.from({ length: count }, () => Math.floor(random() * operations.length)),
  );
  const restarts = operations.flatMap(({ kind, file, at }, index) =>
    kind === "w" && file === "l" && at === 0 ? [index] : [],
  );
  for (const restart of restarts) for (const n of AFTER_RESTART) points.add(restart + n);
  return { points, restarts: restarts.length };
}

/** Says what is wrong with a database that a power loss left: of itself, and by what `look` finds in it. */
export function findDamage(file: string, look: (db: DatabaseSync) => string[]): string[] {
  const db = new DatabaseSync(file);
  try {
    const [{ integrity_check: integrity }] = db.prepare("PRAGMA integrity_check(1)").all() as [
      { integrity_check: string },
    ];
    return integrity === "ok" ? look(db) : [integrity];
  } catch (error) {
    return [(error as Error).message];
  } finally {
    db.close();
  }
}

/** Says what acknowledged hooks are not there once. */
export function findLost(db: DatabaseSync, acknowledged: readonly string[]): string[] {
  const rows = db.prepare("SELECT json_extract(actions, '$[0].runId') AS id FROM events").all() as {
    id: string;
  }[];
  const seen = new Map<string, number>();
  for (const { id } of rows) seen.set(id, (seen.get(id) ?? 0) + 1);
  const lost = acknowledged.filter((id) => seen.get(id) !== 1).length;
  return lost === 0
    ? []
    : [`of ${acknowledged.length} acknowledged hooks ${lost} are not there, or not once`];
}

/** One file of the database on a disk that keeps nothing for certain before a sync of it has ended. */
class DiskFile {
  readonly #durable = new Image();
  #unsynced: Operation[] = [];
  /** Syncs under way, by descriptor: so many of the unsynced operations came before them. */
  readonly #syncs = new Map<number, number>();
  /** Its name is in the folder, and the folder has been synced since. */
  named = false;

  apply(operation: Operation): void {
    if (operation.kind === "w" || operation.kind === "t") this.#unsynced.push(operation);
    else if (operation.kind === "s") this.#syncs.set(operation.at, this.#unsynced.length);
    else if (operation.kind === "e") this.#synced(this.#syncs.get(operation.at) ?? 0);
  }

  #synced(count: number): void {
    for (const { kind, at, bytes } of this.#unsynced.splice(0, count)) {
      if (kind === "w") this.#durable.write(at, bytes);
      else this.#durable.truncate(at);
    }
    for (const [descriptor, before] of this.#syncs)
      this.#syncs.set(descriptor, Math.max(0, before - count));
  }

  /** The contents of the file after a power loss. */
  afterLoss({ keeps, piece }: Loss): Buffer {
    const image = this.#durable.copy();
    for (const [index, { kind, at, bytes }] of this.#unsynced.entries()) {
      const order = index / this.#unsynced.length;
      if (kind === "t") {
        if (keeps(order)) image.truncate(at);
        continue;
      }
      for (let from = 0; from < bytes.length;) {
        // Pieces of a disk begin at multiples of their length in the file.
        const to = Math.min(bytes.length, from + piece - ((at + from) % piece));
        if (keeps(order)) image.write(at + from, bytes.subarray(from, to));
        from = to;
      }
    }
    return image.bytes;
  }
}

/** A disk that plays recorded operations. */
export class Disk {
  readonly #files = { d: new DiskFile(), l: new DiskFile() };
  /** Names that were made and are not yet on disk, and how many there were when a sync of the folder began. */
  #made: DiskFile[] = [];
  readonly #syncs = new Map<number, number>();

  apply(operation: Operation): void {
    const { kind, file, at } = operation;
    if (file === "f") {
      if (kind === "s") this.#syncs.set(at, this.#made.length);
      else if (kind === "e")
        for (const made of this.#made.splice(0, this.#syncs.get(at))) made.named = true;
    } else if (kind === "c") this.#made.push(this.#files[file]);
    else this.#files[file].apply(operation);
  }

  /** Writes the database as a power loss leaves it into a folder. Returns its file; undefined if its name is lost. */
  lose(folder: string, loss: Loss): string | undefined {
    const file = join(folder, "rouse.db");
    if (!this.#files.d.named) return undefined;
    writeFileSync(file, this.#files.d.afterLoss(loss));
    if (this.#files.l.named) writeFileSync(`${file}-wal`, this.#files.l.afterLoss(loss));
    return file;
  }
}
