import type { Answer, Call } from "./wire.ts";

/** A file that a vendor keeps. */
export interface ShelvedFile {
  id: string;
  name: string;
  mime: string;
  bytes: Buffer;
}

/** The files of a vendor's server, and who asked for them. */
export interface Shelf {
  put(file: Omit<ShelvedFile, "id">): ShelvedFile;
  /** Takes a file down: undefined if it is not there. */
  take(id: string, path: string, authorization: string | undefined): ShelvedFile | undefined;
  /** Requests for bytes. */
  asked: { path: string; authorization: string | undefined }[];
  /** So many of the next requests fail with a 503. */
  failing: number;
  /** No request is answered. */
  isStuck?: boolean;
  /** The address to which all requests are redirected. */
  redirect?: string;
  /** Deletes all. */
  clear(): void;
}

export function createShelf(): Shelf {
  const files = new Map<string, ShelvedFile>();
  const shelf: Shelf = {
    asked: [],
    failing: 0,
    put(file) {
      const shelved = { ...file, id: `F0FILE${files.size + 1}` };
      files.set(shelved.id, shelved);
      return shelved;
    },
    take(id, path, authorization) {
      shelf.asked.push({ path, authorization });
      return files.get(id);
    },
    clear: () => files.clear(),
  };
  return shelf;
}

/** The answer of a server to a request for bytes. */
export function bytesAnswer(
  shelf: Shelf,
  id: string,
  { path, headers: { authorization } }: Pick<Call, "path" | "headers">,
): Answer {
  if (shelf.isStuck === true) return "hang";
  const file = shelf.take(id, path, authorization);
  if (shelf.failing > 0) {
    shelf.failing--;
    return { status: 503, text: "busy" };
  }
  if (shelf.redirect !== undefined)
    return { status: 302, text: "", headers: { location: shelf.redirect } };
  if (!file) return { status: 404, text: "gone" };
  return { status: 200, bytes: file.bytes, headers: { "content-type": file.mime } };
}
