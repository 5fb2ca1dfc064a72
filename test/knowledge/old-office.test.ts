import { spawnSync } from "node:child_process";
import { chmod, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { installedFormats } from "../../src/knowledge/formats.ts";
import { createWorld, FIXTURES, type KnowledgeWorld } from "./world.ts";

/** Programs of the system: the tests that need them say so. */
const [SOFFICE, PGREP] = ["soffice", "pgrep"] as const;

describe("Office files of before 2007", () => {
  let folder: string | undefined;
  afterEach(async () => {
    if (folder !== undefined) await rm(folder, { recursive: true });
    folder = undefined;
  });
  /** A world whose `soffice` is this script of a shell; without one, there is none. */
  async function withOffice(script?: string, timeout = "50s"): Promise<KnowledgeWorld> {
    folder = await mkdtemp(join(tmpdir(), "rouse-soffice-"));
    if (script !== undefined) {
      await writeFile(join(folder, "soffice"), `#!/bin/sh\n${script}\n`);
      await chmod(join(folder, "soffice"), 0o755);
    }
    const PATH = script === undefined ? folder : `${folder}${delimiter}${process.env["PATH"]}`;
    return createWorld({ config: { timeout }, env: { PATH } });
  }
  const doc = () => readFile(join(FIXTURES, "libreoffice.doc"));
  const OUT = 'while [ $# -gt 1 ]; do [ "$1" = --outdir ] && out="$2"; shift; done';

  it("are converted by LibreOffice and read as what it makes of them", async () => {
    const office = await withOffice(
      `${OUT}\ncp ${join(FIXTURES, "libreoffice.docx")} "$out/document.docx"`,
    );
    const document = await office.index(await doc(), { filename: "a.doc" });
    expect(document).toMatchObject({ status: "ready", mimeType: "application/msword" });
    expect((await office.found("How long does descaling take?"))[0]).toContain(
      "Descaling takes twenty minutes",
    );
    await office.close();
  });

  it("say what to install if LibreOffice is not there, and the list of formats says so too", async () => {
    const office = await withOffice();
    const { error } = await office.index(await doc(), { filename: "a.doc" });
    expect(error).toMatchObject({
      code: "missing_extractor",
      message: expect.stringContaining("install LibreOffice"),
    });
    expect(installedFormats([], folder).find(({ id }) => id === "doc")?.missing).toEqual([
      "LibreOffice (soffice)",
    ]);
    await office.close();
  });

  it("that it cannot read fail", async () => {
    const office = await withOffice("exit 1");
    expect((await office.index(await doc(), { filename: "a.doc" })).error).toMatchObject({
      code: "broken_document",
    });
    await office.close();
  });

  it("on which it hangs are given up, and its process ends", async () => {
    const office = await withOffice("exec sleep 4711.25", "3s");
    expect((await office.index(await doc(), { filename: "a.doc" })).error).toMatchObject({
      code: "timeout",
    });
    await office.close();
    expect(spawnSync(PGREP, ["-f", "sleep 4711.25"]).stdout.toString()).toBe("");
  });

  it.skipIf(spawnSync(SOFFICE, ["--version"]).error !== undefined)(
    "are read by the real program",
    async () => {
      const office = await createWorld({ config: { timeout: "60s" }, env: process.env });
      expect(await office.fixture("libreoffice.doc")).toMatchObject({
        status: "ready",
        title: "Harbour café handbook",
      });
      expect((await office.found("How long does descaling take?"))[0]).toContain(
        "Descaling takes twenty minutes",
      );
      await office.close();
    },
  );
});
