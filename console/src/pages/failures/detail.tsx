import type {
  FailureGroup,
  FailureSender,
  showFailure,
} from "../../../../src/operate/watch/failures.ts";
import { ask, type Answer } from "../../api.ts";
import { useAction, useResource } from "../../resource.ts";
import { href } from "../../router.ts";
import { Button, Facts, Id, Section, Status, Time } from "../../ui/basic.tsx";
import { Prose } from "../../ui/prose.tsx";
import { TimeBars } from "../../ui/chart.tsx";
import { number, visibleText } from "../../ui/format.ts";
import { Loaded } from "../../ui/states.tsx";
import { Table, type Column } from "../../ui/table.tsx";
import { toast, toastError } from "../../ui/toast.tsx";

type Change = Record<string, string>;
type Act = (change: Change, said: string) => void;

const HOUR_MS = 3_600_000;
const PAGES = { event: "events", run: "runs", delivery: "deliveries" } as const;

const exampleHref = ({ kind, example }: FailureGroup): string => href(PAGES[kind], example);

/** The list of all failures of a kind and state, as far as the list has filters for them. */
function listHref({ kind, state, path, mapping, channel }: FailureGroup): string {
  if (kind === "event")
    return href("events", "", {
      outcome: state,
      path: path ?? undefined,
      ...(state === "unmatched" ? {} : { mapping: mapping ?? undefined }),
    });
  return kind === "run"
    ? href("runs", "", { status: state })
    : href("deliveries", "", { status: state, channel: channel ?? undefined });
}

function Actions({ group, act, busy }: { group: FailureGroup; act: Act; busy: boolean }) {
  return (
    <div class="actions">
      {group.status === "open" ? (
        <Button
          kind="primary"
          busy={busy}
          onClick={() => act({ action: "resolve" }, "Resolved. It opens again if it comes back.")}
        >
          Resolve
        </Button>
      ) : (
        <Button busy={busy} onClick={() => act({ action: "reopen" }, "Open again.")}>
          Reopen
        </Button>
      )}
    </div>
  );
}

function toState({ status, resolvedAt, isReopened }: FailureGroup) {
  return (
    <>
      <Status word={status} tone={status === "resolved" ? "good" : "bad"} />
      {resolvedAt === null ? null : (
        <>
          {isReopened ? " · came back after it was resolved " : " "}
          <Time iso={resolvedAt} />
        </>
      )}
    </>
  );
}

const SENDERS: readonly Column<FailureSender>[] = [
  { head: "Sender", cell: ({ name }) => visibleText(name), grow: true },
  {
    head: "Mapping",
    cell: ({ mapping }) =>
      mapping === null ? "–" : <a href={href("mappings", mapping)}>{mapping}</a>,
  },
  { head: "Count", numeric: true, cell: ({ count }) => number(count) },
  { head: "Last", cell: ({ lastSeen }) => <Time iso={lastSeen} /> },
];

function Group({ group }: { group: FailureGroup }) {
  const current = Math.floor(Date.now() / HOUR_MS);
  const times = group.hours.map((_, index) =>
    new Date((current - group.hours.length + 1 + index) * HOUR_MS).toISOString(),
  );
  return (
    <>
      <Facts
        pairs={[
          ["Status", toState(group)],
          ["Count", number(group.count)],
          ["Last seen", <Time key="last" iso={group.lastSeen} />],
          ["First seen", <Time key="first" iso={group.firstSeen} />],
          ["Kind", group.kind],
          ["State", group.state.replaceAll("_", " ")],
          ["Path", group.path === null ? null : visibleText(group.path)],
          [
            "Mapping",
            group.mapping === null ? null : (
              <a href={href("mappings", group.mapping)}>{group.mapping}</a>
            ),
          ],
          ["Error", group.code],
          ["Provider", group.provider],
          ["Channel", group.channel],
        ]}
      />
      {group.message === null ? null : (
        <pre class="code">
          <Prose text={group.message} />
        </pre>
      )}
      <TimeBars
        label="Failures an hour"
        times={times}
        series={[{ name: "failures", color: "--plot-bad", values: group.hours }]}
      />
      {group.senders.length === 0 ? null : (
        <Section title="Senders">
          <Table
            label="Senders"
            rows={group.senders}
            rowId={({ path, mapping, sender }) => JSON.stringify([path, mapping, sender])}
            columns={SENDERS}
          />
        </Section>
      )}
      <Section title="Example">
        <p>
          <Id id={group.example} to={exampleHref(group)} /> ·{" "}
          <a href={listHref(group)}>
            All {group.kind === "delivery" ? "deliveries" : `${group.kind}s`} like it
          </a>
        </p>
      </Section>
    </>
  );
}

/** One group of failures: how it went, an example, and what is done about it. */
export function Detail({ id, onChange }: { id: string; onChange(): void }) {
  const path = `/failures/${encodeURIComponent(id)}`;
  const group = useResource<Answer<typeof showFailure>>(path, { live: true });
  const [act, busy] = useAction(async (change: Change, said: string) => {
    await ask(path, { method: "POST", body: change });
    group.reload();
    onChange();
    toast(said);
  }, toastError);
  return (
    <Loaded resource={group}>
      {({ failure }) => (
        <>
          <h2 class="failures-title">{visibleText(failure.title)}</h2>
          <Actions group={failure} act={act} busy={busy} />
          <Group group={failure} />
        </>
      )}
    </Loaded>
  );
}
