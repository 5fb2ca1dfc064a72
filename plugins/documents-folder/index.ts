import { constants, watch } from "node:fs";
import { lstat, open, opendir } from "node:fs/promises";
import { extname, join, relative, resolve, sep } from "node:path";
import { z } from "zod";
import {
  definePlugin,
  type ServiceState,
  type SourceEntry,
  type SourceHost,
  type SyncReport,
} from "#plugin";
import { plural, sleep } from "#channel-kit";

/** Changes come in groups: a copied folder, a file that is written in pieces. */
const SETTLE_MS = 500;
const RETRY_MS = 30_000;

function renderReport(report: SyncReport): ServiceState {
  const { added, replaced, removed, unchanged, failed, kept } = report;
  const documents = plural(added + replaced + unchanged, "document");
  const counts = `${documents} (${added} new, ${replaced} changed, ${removed} removed)`;
  if (kept > 0)
    return {
      ok: false,
      message: `the folder is empty; Rouse keeps its ${plural(kept, "document")} until a file is there again`,
    };
  const [first] = failed;
  if (!first) return { ok: true, message: counts };
  return {
    ok: false,
    message: `${counts}; ${failed.length} could not be read, such as ${first.id}: ${first.message}`,
  };
}

const text = z.string().min(1);
const config = z.strictObject({
  folders: z
    .array(
      z.strictObject({
        path: text.describe("The folder, from the config's folder."),
        extensions: z
          .array(z.string().regex(/^\w+$/, "write it without the dot").toLowerCase())
          .optional()
          .describe("Only files with these endings. Default: all."),
        agents: z
          .array(text)
          .optional()
          .describe("Agents that may search the documents. Default: all of the tenant."),
        tenant: text
          .optional()
          .describe("The tenant that they belong to. Default: the operator's."),
        everyMinutes: z
          .number()
          .positive()
          .default(10)
          .describe(
            "How often the folder is read, besides when the system says that it has changed.",
          ),
      }),
    )
    .min(1)
    .describe("Folders whose files are documents, those of their folders too."),
});

type Folder = z.output<typeof config>["folders"][number];

const MAX_DEPTH = 50;
const MAX_FILE_BYTES = 1e9;
/** Names of hidden files, of files by which Office locks a document, and of the folder that only the system may read. */
const LEFT_OUT = /^(?:\.|~\$|lost\+found$)/;

/** Reads a file that is one: no link, which may lead out of the folder. */
async function readFile(path: string, signal: AbortSignal): Promise<Uint8Array | "gone"> {
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW).catch(
    (error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT" || error.code === "ELOOP") return undefined;
      throw new Error(`the file cannot be opened (${error.code ?? "error"})`);
    },
  );
  if (!file) return "gone";
  try {
    const { size } = await file.stat();
    if (size > MAX_FILE_BYTES) throw new Error("the file is larger than any document may be");
    return await file.readFile({ signal });
  } finally {
    await file.close();
  }
}

/** Lists the files of a folder and of those in it. Hidden files and links are left out. */
async function* listFiles(
  root: string,
  folder: string,
  extensions: Folder["extensions"],
  depth = 0,
): AsyncGenerator<SourceEntry> {
  const entries = await opendir(folder).catch((error: NodeJS.ErrnoException) => {
    const name = relative(root, folder);
    throw new Error(`the folder ${name && `${name} `}cannot be read (${error.code ?? "error"})`);
  });
  for await (const entry of entries) {
    const path = join(folder, entry.name);
    if (LEFT_OUT.test(entry.name)) continue;
    if (entry.isDirectory() && depth < MAX_DEPTH)
      yield* listFiles(root, path, extensions, depth + 1);
    if (
      !entry.isFile() ||
      (extensions && !extensions.includes(extname(entry.name).slice(1).toLowerCase()))
    )
      continue;
    const version = await getVersion(path);
    if (version === undefined) continue;
    yield {
      id: relative(root, path).split(sep).join("/"),
      filename: entry.name,
      version,
      read: (signal) => readFile(path, signal),
    };
  }
}

async function getVersion(path: string): Promise<string | undefined> {
  const found = await lstat(path, { bigint: true }).catch(() => undefined);
  return found && `${found.mtimeNs}-${found.size}`;
}

/** Resolves when `signal` aborts. Rejects if the system cannot watch the folder: then it is only read at its interval. */
const watchFolder = (root: string, onChange: () => void, signal: AbortSignal): Promise<void> =>
  new Promise((done) => {
    const watcher = watch(root, { recursive: true, signal }, onChange);
    watcher.on("error", () => undefined).on("close", done);
  });

/** Syncs folders until `signal` aborts: at the start, whenever one may have changed, and after its time. Reports all in one line. */
async function keepInStep(
  folders: readonly Folder[],
  baseDir: string,
  signal: AbortSignal,
  host: Pick<SourceHost, "documents" | "report">,
): Promise<void> {
  const states = new Map<string, ServiceState>();
  const report = (name: string, state: ServiceState): void => {
    states.set(name, state);
    const all = [...states];
    host.report({
      ok: all.every(([, { ok }]) => ok),
      message: all.map(([of, { message }]) => `${of}: ${message}`).join(" · "),
    });
  };

  const run = async ({ path, extensions, everyMinutes, ...audience }: Folder): Promise<void> => {
    const root = resolve(baseDir, path);
    const everyMs = everyMinutes * 60_000;
    let wake = new AbortController();
    void watchFolder(root, () => wake.abort(), signal).catch(() => undefined);
    while (!signal.aborted) {
      wake = new AbortController();
      let pauseMs = everyMs;
      try {
        const entries = listFiles(root, root, extensions);
        const synced = await host.documents.sync(path, entries, { ...audience, signal });
        report(path, renderReport(synced));
      } catch (error) {
        if (signal.aborted) return;
        pauseMs = Math.min(RETRY_MS, everyMs);
        const message = error instanceof Error ? error.message : "it cannot be listed";
        report(path, { ok: false, message });
      }
      await sleep(pauseMs, AbortSignal.any([signal, wake.signal]));
      if (wake.signal.aborted) await sleep(SETTLE_MS, signal);
    }
  };
  await Promise.all(folders.map(run));
}

/** Files of folders are documents, as long as they are there. */
export default definePlugin({
  id: "documents-folder",
  config,
  source: ({ config: { folders }, baseDir }) => ({
    start: (signal, host) => keepInStep(folders, baseDir, signal, host),
  }),
});
