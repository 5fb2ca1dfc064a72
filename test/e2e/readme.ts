import { execFile } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { promisify } from "node:util";
import JSON5 from "json5";
import { expect } from "vitest";
import { editText } from "../../src/config/edit.ts";
import { startProgram, type Program } from "./program.ts";

const ROOT = resolve(import.meta.dirname, "../..");

/** The place in which the guides are followed: a clone, or a folder in which the package is installed. */
export interface Tour {
  /** The user's home folder. */
  home: string;
  /** The folder that the guides' files are in. */
  folder: string;
  /** Replaces the first block, which is for a clone. Undefined: the block runs as it is. */
  instead?: string;
}

export interface Block {
  language: string;
  text: string;
}

/** Returns the code blocks of pages, in the order in which they are printed, without the output that pages show. */
export function readBlocks(...pages: string[]): Block[] {
  return pages.flatMap((page) =>
    [...readFileSync(join(ROOT, page), "utf8").matchAll(/^```(\w+)\n([^]*?)^```$/gm)].map(
      ([, language = "", text = ""]) => ({
        language,
        text,
      }),
    ),
  );
}

async function until<T>(read: () => Promise<T | undefined>): Promise<T> {
  for (let i = 0; i < 1500; i++) {
    const value = await read();
    if (value !== undefined) return value;
    await new Promise((done) => setTimeout(done, 50));
  }
  throw new Error("what was waited for did not come");
}

/** Does what a new user does with the guides: runs each command and saves each file, in order. */
class Follower {
  readonly outputs: string[] = [];
  program: Program | undefined;
  readonly #tour: Tour;
  readonly #env: Record<string, string>;
  #prelude = "";
  #snapshot: string | undefined;

  constructor(tour: Tour) {
    this.#tour = tour;
    this.#env = { PATH: process.env["PATH"] ?? "", HOME: tour.home };
  }

  async follow({ language, text }: Block): Promise<void> {
    if (language !== "sh") return this.#save(text);
    // A user takes longer to type than the gateway to see a saved file.
    if (this.#snapshot !== undefined)
      await until(async () => ((await this.#current()) === this.#snapshot ? undefined : true));
    this.#snapshot = undefined;
    if (this.#prelude === "") this.#prelude = this.#tour.instead ?? text;
    else if (text.trimEnd().endsWith("&")) await this.#start(text.replace(/&\s*$/, ""));
    else await this.#run(text);
  }

  async #run(text: string): Promise<void> {
    const script = `set -e\n${this.#prelude}\n${text.replaceAll("http://127.0.0.1:7420", this.program?.url ?? "")}`;
    const { stdout, stderr } = await promisify(execFile)("bash", ["-c", script], {
      cwd: ROOT,
      env: this.#env,
    });
    // Commands that a running gateway answers say which config that gateway runs on.
    expect(stderr.replace(/^config: .*\n/gm, "")).toBe("");
    this.outputs.push(stdout);
    const config = join(this.#tour.folder, "rouse.json5");
    // Another program may have the port on this machine.
    if (text.includes("rouse init"))
      writeFileSync(config, readFileSync(config, "utf8").replace("port: 7420", "port: 0"));
  }

  async #start(text: string): Promise<void> {
    this.program = await startProgram("bash", ["-c", `${this.#prelude}\n${text}`], {
      cwd: ROOT,
      env: this.#env,
    });
  }

  async #save(text: string): Promise<void> {
    const [, name = "", adds] = /^\/\/ ([\w./]+)(: add)?\n/.exec(text) ?? [];
    expect(name).not.toBe("");
    this.#snapshot ??= await this.#current();
    const file = join(this.#tour.folder, name);
    mkdirSync(dirname(file), { recursive: true });
    const changes = Object.entries(adds ? JSON5.parse<object>(text) : {}).map(([key, value]) => ({
      path: [key],
      value: value as unknown,
    }));
    writeFileSync(file, adds ? editText(readFileSync(file, "utf8"), changes) : text);
  }

  /** The hash of what the gateway has loaded. */
  async #current(): Promise<string> {
    const token = readFileSync(join(this.#tour.folder, ".rouse", "gateway-token"), "utf8").trim();
    const answer = await fetch(`${this.program?.url}/admin/v1/status`, {
      headers: { authorization: `Bearer ${token}` },
    });
    return ((await answer.json()) as { status: { snapshot: string } }).status.snapshot;
  }
}

/** Follows the blocks of `docs/first-event.md`, as a page shows them, and checks the results that the page promises. */
async function followFirstEvent(follower: Follower, blocks: readonly Block[]): Promise<void> {
  // The clone is there, and its packages are installed.
  for (const block of blocks.filter(({ text }) => !text.startsWith("npm ")))
    await follower.follow(block);
  const [init = "", sent = "", lists = ""] = follower.outputs;
  expect(init).toMatch(
    /Posted the recorded event issues.opened to \/hooks\/github: 202\n\nThe reply, delivered to console/,
  );
  expect(sent).toMatch(/^202 [^]*"mapping": "github.issue"/);
  expect(lists).toMatch(/^ID +RECEIVED [^]*accepted[^]*^ID +CREATED [^]*succeeded/m);
  await until(
    async () => follower.program?.output().includes('through hook "github.issue"') || undefined,
  );
}

/** Follows the first guide alone, by the blocks that a reader sees. */
export async function followGuide(tour: Tour, blocks: readonly Block[]): Promise<void> {
  const follower = new Follower(tour);
  try {
    await followFirstEvent(follower, blocks);
  } finally {
    await follower.program?.stop();
  }
}

/** Follows both guides for newcomers to their end, and checks each result that they promise. */
export async function followTour(tour: Tour): Promise<void> {
  const follower = new Follower(tour);
  try {
    await followFirstEvent(follower, readBlocks("docs/first-event.md"));
    for (const block of readBlocks("docs/first-mapping.md")) await follower.follow(block);
    const [shop = "", ci = "", toChannel = ""] = follower.outputs.slice(3);
    expect(shop).toMatch(
      /order {2}\(shop\.json5:5\) {2}took it[^]*"status":"queued"[^]*"mapping":"order"/,
    );
    expect(ci).toMatch(/^202 [^]*"mapping": "ci"/);
    expect(toChannel).toMatch(/^202 /);
    const log = join(tour.folder, "replies.log");
    const replies = await until(async () => {
      try {
        return readFileSync(log, "utf8") || undefined;
      } catch {
        return undefined;
      }
    });
    expect(replies).toMatch(/^everyone: \[no model\]/);
  } finally {
    await follower.program?.stop();
  }
}
