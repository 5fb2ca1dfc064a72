/** What is wrong with a day in the office: nothing, if all lists are empty. */
import { NOTICES, type Arrived, type Ledger, type Mark, type Notice } from "./ledger.ts";

const tally = (list: readonly string[]): Record<string, number> => {
  const counts: Record<string, number> = {};
  for (const one of list) counts[one] = (counts[one] ?? 0) + 1;
  return counts;
};

/** Requests with texts that are not of one conversation: somebody's words that another person's model has read. */
function findLeaks({ asked, marks }: Ledger): string[] {
  return asked.flatMap(({ all, newest }) => {
    const conversations = new Set(all.map((mark) => marks.get(mark)?.conversation));
    return conversations.size > 1
      ? [`asked about ${newest.join()}, the model got ${[...conversations].join(" and ")}`]
      : [];
  });
}

/** Replies that arrived elsewhere than their messages were written. */
const findMisplaced = (ledger: Ledger): string[] =>
  ledger.answers().flatMap(({ place, marks }) => {
    const wrong = marks.filter((mark) => ledger.marks.get(mark)?.place !== place);
    return wrong.map(
      (mark) => `${mark} of ${ledger.marks.get(mark)?.place} was answered at ${place}`,
    );
  });

const describe = ({ mark, place, fate }: Mark): string => `${mark} (${fate}, ${place})`;

/** Messages that were not answered as often as they should. */
export function findMiscounted(ledger: Ledger): { lost: string[]; doubled: string[] } {
  const answers = ledger.answers();
  const counts = tally(answers.flatMap(({ marks }) => marks));
  // Two replies that are not alike are of two turns: a model was given a text twice.
  const replies = (mark: string): string =>
    answers.flatMap(({ marks }) => (marks.includes(mark) ? [marks.join(" ")] : [])).join(" | ");
  const all = [...ledger.marks.values()];
  return {
    lost: all
      .filter(({ mark, fate }) => fate === "answered" && !counts[mark] && !ledger.isUnknown(mark))
      .map(describe),
    // What belongs to a message is in one reply at most, too.
    doubled: all
      .filter(
        ({ mark, fate }) => (counts[mark] ?? 0) > (fate === "stopped" || fate === "unread" ? 0 : 1),
      )
      .map(
        (mark) =>
          `${counts[mark.mark]} times ${describe(mark)}, in the replies to ${replies(mark.mark)}`,
      ),
  };
}

/** Texts that a model got and should not have, or the other way round. */
function findMisread({ asked, marks }: Ledger): string[] {
  const read = new Set(asked.flatMap(({ all }) => all));
  return [...marks.values()]
    .filter(
      ({ mark, fate }) =>
        (fate === "unread" && read.has(mark)) || (fate === "given" && !read.has(mark)),
    )
    .map(describe);
}

const findWrongAgents = ({ asked, marks }: Ledger): string[] =>
  asked.flatMap(({ agent, newest }) =>
    newest
      .filter((mark) => marks.get(mark)?.agent !== agent)
      .map((mark) => `${mark} went to ${agent}, not to ${marks.get(mark)?.agent}`),
  );

/** Conversations that have forgotten: the first request about a message has to hold the one that was answered before it. */
function findForgotten({ asked, marks }: Ledger): string[] {
  const answered = [...marks.values()].filter(({ fate }) => fate === "answered");
  return [...Map.groupBy(answered, ({ conversation }) => conversation).values()].flatMap((own) =>
    own.slice(1).flatMap(({ mark }, index) => {
      const before = own[index]?.mark ?? "";
      const first = asked.find(({ newest }) => newest.includes(mark));
      return !first || first.all.includes(before)
        ? []
        : [`asked about ${mark}, the model did not get ${before}`];
    }),
  );
}

function findWrongNotices(ledger: Ledger): { missing: string[]; doubled: string[] } {
  const kinds = Object.keys(NOTICES) as Notice[];
  const count = (arrived?: Arrived[]): Record<string, number> =>
    tally(
      ledger
        .said(arrived)
        .map(
          ({ place, text }) =>
            `${kinds.find((kind) => NOTICES[kind].test(text)) ?? text} at ${place}`,
        ),
    );
  const found = count();
  const unknown = count(ledger.unknown);
  const wanted = tally(ledger.notices.map(({ place, notice }) => `${notice} at ${place}`));
  const names = [...new Set([...Object.keys(found), ...Object.keys(wanted)])];
  return {
    missing: names.filter(
      (name) => (found[name] ?? 0) + (unknown[name] ?? 0) < (wanted[name] ?? 0),
    ),
    doubled: names.filter((name) => (found[name] ?? 0) > (wanted[name] ?? 0)),
  };
}

export function judge(ledger: Ledger) {
  const { lost, doubled } = findMiscounted(ledger);
  const notices = findWrongNotices(ledger);
  return {
    leaks: findLeaks(ledger),
    misplaced: findMisplaced(ledger),
    misread: findMisread(ledger),
    wrongAgents: findWrongAgents(ledger),
    forgotten: findForgotten(ledger),
    lost: [...lost, ...notices.missing],
    doubled: [...doubled, ...notices.doubled],
  };
}

/** The verdict on a day without fault. */
export const NOTHING: ReturnType<typeof judge> = {
  leaks: [],
  misplaced: [],
  misread: [],
  wrongAgents: [],
  forgotten: [],
  lost: [],
  doubled: [],
};
