/** A number in brackets by which a text names a passage, with its place in UTF-16 units. */
export interface CitationMark {
  number: number;
  start: number;
  end: number;
}

type Span = Pick<CitationMark, "start" | "end">;

const FENCE = /^[ \t]*(`{3,}|~{3,})([^\n]*)$/gm;
const TICKS = /`+/g;
/** Up to four digits: longer numbers are years with a month, amounts, and the like. */
const MARK = /\[(\d{1,4})\](?!\()/g;
/** The box of a checklist, and the definition of a link. */
const NO_MARK = /(?:^|\n)[ \t]*[-*+][ \t]+$/;
const DEFINITION = /^:[ \t]*https?:/;
const LINE_MARK = /^([ \t]*)\[(?=\d{1,4}\])/gm;

/** Finds the fenced blocks of a text; one that is not closed reaches to the end. */
function findBlocks(text: string): Span[] {
  const blocks: Span[] = [];
  let open: { start: number; fence: string } | undefined;
  for (const { index, 0: line, 1: fence = "", 2: rest = "" } of text.matchAll(FENCE)) {
    if (!open) open = { start: index, fence };
    else if (fence.startsWith(open.fence) && rest.trim() === "") {
      blocks.push({ start: open.start, end: index + line.length });
      open = undefined;
    }
  }
  return open ? [...blocks, { start: open.start, end: text.length }] : blocks;
}

/** Finds the code between equally long runs of backticks, outside of blocks. */
function findSpans(text: string, blocks: readonly Span[]): Span[] {
  const runs = [...text.matchAll(TICKS)].map(({ index, 0: run }) => ({
    start: index,
    end: index + run.length,
    next: -1,
  }));
  const outside = runs.filter(
    ({ start }) => !blocks.some((block) => start >= block.start && start < block.end),
  );
  const last = new Map<number, number>();
  for (let at = outside.length - 1; at >= 0; at--) {
    const run = outside[at] as (typeof outside)[number];
    run.next = last.get(run.end - run.start) ?? -1;
    last.set(run.end - run.start, at);
  }
  const spans: Span[] = [];
  for (let at = 0; at < outside.length; at++) {
    const run = outside[at] as (typeof outside)[number];
    const closing = outside[run.next];
    // A paragraph ends all that is open.
    if (!closing || text.slice(run.end, closing.start).includes("\n\n")) continue;
    spans.push({ start: run.start, end: closing.end });
    at = run.next;
  }
  return spans;
}

function createCodeTest(text: string): (at: number) => boolean {
  const blocks = findBlocks(text);
  const code = [...blocks, ...findSpans(text, blocks)];
  return (at) => code.some(({ start, end }) => at >= start && at < end);
}

/** Finds the numbers by which a text names passages: not those in code, in checklists, in links or after a backslash. */
export function findCitationMarks(text: string): CitationMark[] {
  const isCode = createCodeTest(text);
  return [...text.matchAll(MARK)].flatMap(({ index: start, 0: mark, 1: digits }) => {
    const end = start + mark.length;
    const before = text.slice(Math.max(0, start - 80), start);
    const isOther =
      before.endsWith("\\") || NO_MARK.test(before) || DEFINITION.test(text.slice(end, end + 20));
    return isOther || isCode(start) ? [] : [{ number: Number(digits), start, end }];
  });
}

/** Puts a backslash before what a passage has in the form of a citation, such as the marks of footnotes: no answer copies it as one. */
export function escapeCitationMarks(text: string): string {
  const isCode = createCodeTest(text);
  const escaped = text.replaceAll(MARK, (mark: string, _digits: string, at: number) =>
    isCode(at) ? mark : `\\${mark}`,
  );
  return escaped.replaceAll(LINE_MARK, String.raw`$1\[`);
}
