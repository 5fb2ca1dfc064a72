import { isDeepStrictEqual } from "node:util";
import { z } from "zod";
import type { Tool } from "../../contract/kinds.ts";
import type { Reads, RunSpec } from "../../store/types.ts";
import type { TurnExtension } from "../types.ts";
import { READ_RESULT, renderMore, takeBytes } from "./tool-results.ts";

const INPUT = z.strictObject({
  id: z.string().describe("The id that the cut result names."),
  offset: z.int().min(0).default(0).describe("The number of the character to go on from."),
});
const DESCRIPTION =
  "Reads more of a tool's result that was cut because it is long. The end of a cut result says with which id and offset.";
/** For the note on how to read on. */
const NOTE_BYTES = 400;
const NOT_FOUND =
  "There is no stored result with this id in this conversation. It may no longer be kept: call the tool again.";

/**
 * Returns the tool that reads on in results that were cut: those of this run and of earlier runs of its session, and no other.
 * A piece is `maxBytes` bytes of UTF-8 at most, with its note.
 */
export function createReadResult(
  { id: runId, spec }: { id: string; spec: Pick<RunSpec, "session"> },
  store: Pick<Reads, "toolResults"> & { runs: Pick<Reads["runs"], "get"> },
  maxBytes: number,
): TurnExtension {
  const isOwn = async (id: string): Promise<boolean> =>
    id === runId || isDeepStrictEqual((await store.runs.get(id))?.spec.session, spec.session);
  const tool: Tool<typeof INPUT> = {
    name: READ_RESULT,
    description: DESCRIPTION,
    input: INPUT,
    readOnly: true,
    idempotent: true,
    async execute({ id, offset }) {
      const stored = await store.toolResults.get(id);
      if (!stored || !(await isOwn(stored.runId))) return NOT_FOUND;
      const { length } = stored.text;
      if (offset >= length)
        return `The result has ${length} characters: there is nothing behind offset ${offset}.`;
      const piece = takeBytes(stored.text.slice(offset), maxBytes - NOTE_BYTES);
      const next = offset + piece.length;
      return next < length ? piece + renderMore(id, next, length) : piece;
    },
  };
  return { id: "rouse", tools: [tool], warning: "" };
}
