import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { PROGRAM } from "../formats.ts";
import { broken, ExtractionError, type ExtractSource } from "./types.ts";

/** Shorter than the time that a document has: the reason is LibreOffice's then. */
const TIMEOUT_MS = 45_000;
/** No proxy listens there: a link to a picture on the web is not followed. */
const NO_NETWORK = { http_proxy: "http://127.0.0.1:9", https_proxy: "http://127.0.0.1:9" };

/**
 * Converts a document with LibreOffice, in a profile of its own, so that a program on the desktop does not take part.
 * @throws ExtractionError `missing_extractor` if LibreOffice is not installed, `timeout`, or `broken_document`
 */
export async function convert(
  { bytes, programs }: ExtractSource,
  from: string,
  to: string,
): Promise<Buffer> {
  const folder = await mkdtemp(join(tmpdir(), "rouse-office-"));
  try {
    const file = join(folder, `document.${from}`);
    await writeFile(file, bytes);
    const profile = `-env:UserInstallation=${pathToFileURL(join(folder, "profile")).href}`;
    const options = {
      timeout: TIMEOUT_MS,
      killSignal: "SIGKILL" as const,
      env: { PATH: programs, HOME: folder, ...NO_NETWORK },
    };
    await promisify(execFile)(
      PROGRAM,
      [profile, "--headless", "--norestore", "--convert-to", to, "--outdir", folder, file],
      options,
    );
    return await readFile(join(folder, `document.${to}`));
  } catch (error) {
    const { code, killed, path } = error as NodeJS.ErrnoException & { killed?: boolean };
    if (code === "ENOENT" && path === PROGRAM)
      throw new ExtractionError(
        "missing_extractor",
        "install LibreOffice to read documents of this format, or save it as docx, xlsx or pptx",
      );
    if (killed === true)
      throw new ExtractionError(
        "timeout",
        `LibreOffice took longer than ${TIMEOUT_MS / 1000} seconds to read the document`,
      );
    throw broken(
      "LibreOffice cannot read the document; it may be damaged, or protected by a password",
    );
  } finally {
    await rm(folder, { recursive: true, force: true, maxRetries: 3 });
  }
}
