import { cutText, oneLine } from "../core/text.ts";
import { readImageInfo } from "../core/image-info.ts";

const MAX_NAME = 100;
/** Characters that no system lets stand in a name, and those that turn the direction of what follows. */
// oxlint-disable-next-line no-misleading-character-class -- single characters are what is looked for
const UNSAFE = /[<>:"/\\|?*\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;

/** What the first bytes of a file say of its type. */
const HEADS: readonly (readonly [head: string, at: number, mediaType: string])[] = [
  ["%PDF-", 0, "application/pdf"],
  ["PK\x03\x04", 0, "application/zip"],
  ["\x1f\x8b", 0, "application/gzip"],
  ["OggS", 0, "audio/ogg"],
  ["ID3", 0, "audio/mpeg"],
  ["fLaC", 0, "audio/flac"],
  ["WAVE", 8, "audio/wav"],
  ["ftyp", 4, "video/mp4"],
  ["\x1aE\xdf\xa3", 0, "video/webm"],
];
/** Types that only the ending of a name tells apart: those of text, and of packed documents. */
const TEXTS: Readonly<Record<string, string>> = {
  csv: "text/csv",
  md: "text/markdown",
  json: "application/json",
  ics: "text/calendar",
};
const OFFICE = "application/vnd.openxmlformats-officedocument.";
const PACKED: Readonly<Record<string, string>> = {
  docx: `${OFFICE}wordprocessingml.document`,
  xlsx: `${OFFICE}spreadsheetml.sheet`,
  pptx: `${OFFICE}presentationml.presentation`,
};
/** Endings that are added to a name without one. */
const ENDINGS: Readonly<Record<string, string>> = {
  "image/png": "png",
  "image/jpeg": "jpg",
  "image/gif": "gif",
  "image/webp": "webp",
  "application/pdf": "pdf",
  "audio/ogg": "ogg",
  "audio/mpeg": "mp3",
  "text/plain": "txt",
};

function isText(data: Uint8Array): boolean {
  if (data.includes(0)) return false;
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(data);
    return true;
  } catch {
    return false;
  }
}

const getEnding = (name: string): string | undefined =>
  /\.([a-z0-9]{1,8})$/i.exec(name)?.[1]?.toLowerCase();

/** Finds the type of a file by its bytes; the ending of its name decides only between forms of the same kind. */
export function sniffType(data: Buffer, name: string): string {
  const image = readImageInfo(data)?.mediaType;
  if (image !== undefined) return image;
  const ending = getEnding(name) ?? "";
  const head = data.toString("latin1", 0, 16);
  const found = HEADS.find(([bytes, at]) => head.startsWith(bytes, at))?.[2];
  if (found === "application/zip") return PACKED[ending] ?? found;
  return found ?? (isText(data) ? (TEXTS[ending] ?? "text/plain") : "application/octet-stream");
}

/** Makes a name safe for every system: the last part of a path, in one line, with an ending that fits an image. */
export function toSafeName(given: string, mediaType: string): string {
  const last = given.split(/[/\\]/).at(-1) ?? "";
  const clean = oneLine(last.replace(UNSAFE, " ")).replace(/^[. ]+|[. ]+$/g, "");
  const ending = getEnding(clean);
  const fitting = ENDINGS[mediaType];
  const isMisnamed =
    mediaType.startsWith("image/") &&
    ending !== fitting &&
    !(ending === "jpeg" && fitting === "jpg");
  const stem =
    cutText(
      ending === undefined ? clean : clean.slice(0, -ending.length - 1),
      MAX_NAME - 10,
    ).text.trim() || "file";
  const shown = fitting !== undefined && (ending === undefined || isMisnamed) ? fitting : ending;
  return shown === undefined ? stem : `${stem}.${shown}`;
}
