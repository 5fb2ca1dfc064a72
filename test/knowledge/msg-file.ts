import { createRequire } from "node:module";

/** Writes compound files; the package has it for mails inside of mails. */
const { burn } = createRequire(import.meta.url)("@kenjiuno/msgreader/lib/Burner.js") as {
  burn(entries: readonly Entry[]): Uint8Array;
};

interface Entry {
  name: string;
  type: number;
  length: number;
  binaryProvider?: () => ArrayLike<number>;
  children?: number[];
}

const [DIRECTORY, DOCUMENT, ROOT] = [1, 2, 5] as const;
const UNICODE = "001F";
const BINARY = "0102";

interface MsgFile {
  subject: string;
  text: string;
  from: { name: string; address: string };
  to: { name: string; address: string };
  attachments?: readonly { name: string; content: Uint8Array }[];
}

/** A mail as Outlook saves it (MS-OXMSG), as far as it is read. */
export function msg({ subject, text, from, to, attachments = [] }: MsgFile): Uint8Array {
  const entries: Entry[] = [];
  const add = (entry: Entry): number => entries.push(entry) - 1;
  // A buffer of its own: the writer reads all of it.
  const stream = (name: string, bytes: Uint8Array): number =>
    add({
      name,
      type: DOCUMENT,
      length: bytes.length,
      binaryProvider: () => Uint8Array.from(bytes),
    });
  const value = (id: string, of: string): number =>
    stream(`__substg1.0_${id}${UNICODE}`, Buffer.from(of, "utf16le"));
  const folder = (name: string, type: number, make: () => number[]): number => {
    const at = add({ name, type, length: 0, children: [] });
    (entries[at] as Entry).children = make();
    return at;
  };
  folder("Root Entry", ROOT, () => [
    stream("__properties_version1.0", Buffer.alloc(32)),
    folder("__nameid_version1.0", DIRECTORY, () =>
      ["00020102", "00030102", "00040102"].map((id) =>
        stream(`__substg1.0_${id}`, new Uint8Array()),
      ),
    ),
    value("001A", "IPM.Note"),
    value("0037", subject),
    value("1000", text),
    value("0C1A", from.name),
    value("5D01", from.address),
    folder("__recip_version1.0_#00000000", DIRECTORY, () => [
      stream("__properties_version1.0", Buffer.alloc(8)),
      value("3001", to.name),
      value("39FE", to.address),
    ]),
    ...attachments.map(({ name, content }, index) =>
      folder(`__attach_version1.0_#0000000${index}`, DIRECTORY, () => [
        stream("__properties_version1.0", Buffer.alloc(8)),
        value("3707", name),
        stream(`__substg1.0_3701${BINARY}`, content),
      ]),
    ),
  ]);
  return burn(entries);
}
