import { expect, it } from "vitest";
import { readListPage, type SearchAnswer } from "../../src/cli/command.ts";
import type { CliIo } from "../../src/cli/io.ts";

interface Answer extends SearchAnswer {
  rows: number[];
}

/** A gateway that ends each search after one row. */
function createGateway(count: number) {
  const asked: (string | undefined)[] = [];
  return {
    asked,
    async ask({ before }: { before: string | undefined }): Promise<Answer> {
      asked.push(before);
      const row = before === undefined ? count : Number(before);
      const isLast = row === 1;
      return {
        rows: [row],
        next: isLast ? null : String(row - 1),
        searchedTo: isLast ? null : "2026-01-05T12:00:00.000Z",
        looked: 1_000,
      };
    },
  };
}

function createIo(onErr: (text: string, interrupt: () => void) => void = () => undefined): CliIo {
  let interrupt = (): void => undefined;
  let now = 0;
  return {
    out: () => undefined,
    err: (text) => onErr(text, interrupt),
    env: {},
    cwd: "/",
    terminal: { in: true, out: true, err: true, columns: 80 },
    now: () => (now += 1000),
    exitCode: 0,
    onInterrupt(listener) {
      interrupt = listener;
      return () => undefined;
    },
  };
}

const getRows = ({ rows }: Answer): number[] => rows;

it("list pages: a search that the gateway ended is continued until the page is full", async () => {
  const gateway = createGateway(9);
  const printed: string[] = [];
  const io = createIo((text) => printed.push(text));
  const answer = await readListPage(io, { before: undefined, limit: "4" }, gateway.ask, getRows);
  expect(answer).toMatchObject({ rows: [9, 8, 7, 6], next: "5" });
  expect(gateway.asked).toEqual([undefined, "8", "7", "6"]);
  expect(printed.join("")).toContain("1 found; Ctrl-C ends the search");
});

it("list pages: a search is continued until there are no older rows", async () => {
  const gateway = createGateway(3);
  const answer = await readListPage(
    createIo(),
    { before: undefined, limit: undefined },
    gateway.ask,
    getRows,
  );
  expect(answer).toEqual({ rows: [3, 2, 1], next: null, searchedTo: null, looked: 3_000 });
});

it("list pages: Ctrl-C ends a search with the rows found so far", async () => {
  const gateway = createGateway(9);
  const io = createIo((_text, interrupt) => interrupt());
  const answer = await readListPage(io, { before: undefined, limit: "8" }, gateway.ask, getRows);
  expect(answer).toMatchObject({ rows: [9, 8], next: "7", searchedTo: "2026-01-05T12:00:00.000Z" });
});
