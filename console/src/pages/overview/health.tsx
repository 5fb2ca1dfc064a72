import type { ComponentChildren } from "preact";
import type { Resource } from "../../resource.ts";
import { href } from "../../router.ts";
import { Section, Status, Time, type Tone } from "../../ui/basic.tsx";
import { number, plural, visibleText } from "../../ui/format.ts";
import { Loaded } from "../../ui/states.tsx";
import type { GatewayStatus, OpenFailures } from "./types.ts";

interface SummaryProps<S> {
  status: S;
  failures: OpenFailures | undefined;
}

/** Says in one line how the gateway is. Nothing is called good as long as it is not known what has failed. */
function toHealth(
  status: GatewayStatus,
  failures: OpenFailures | undefined,
): { word: string; tone: Tone; text: string } {
  if (status.draining) return { word: "Stopping", tone: "warn", text: "it takes no further work" };
  if (status.reloadProblems.length > 0)
    return {
      word: "Running",
      tone: "bad",
      text: "with the config before the one on disk, which has problems",
    };
  const away = [
    ...status.breakers.filter(({ state }) => state !== "closed").map(({ of }) => of),
    ...status.services.filter(({ ok }) => !ok).map(({ id }) => id),
    ...status.mcpServers.filter(({ state }) => state === "failing").map(({ name }) => name),
  ];
  if (away.length > 0)
    return {
      word: "Running",
      tone: "warn",
      text: `${away.join(", ")} ${away.length === 1 ? "is" : "are"} away`,
    };
  if (!status.workers)
    return {
      word: "Accepting, without workers",
      tone: "warn",
      text: "hooks are recorded, and no run starts",
    };
  return failures?.lastDay
    ? { word: "Running", tone: "warn", text: "" }
    : {
        word: "Running",
        tone: failures ? "good" : "quiet",
        text: "all that it needs can be reached",
      };
}

function Health({ status, failures }: SummaryProps<GatewayStatus>) {
  const { word, tone, text } = toHealth(status, failures);
  return (
    <div class="overview-health">
      <p>
        <a href={href("system", status.reloadProblems.length > 0 ? "config" : "gateway")}>
          <Status word={word} tone={tone} /> <span>{text}</span>
        </a>
        {failures?.lastDay ? (
          <>
            {" · "}
            <a class="warn" href={href("failures")}>
              {failures.lastDay}
            </a>
          </>
        ) : null}
      </p>
      <p class="quiet">
        <a href={href("system", "gateway")}>Version {status.version}</a>,{" "}
        <a href={href("system", "config")}>
          config{" "}
          {status.configFile ? (
            <span title={status.configFile}>{status.configFile.split("/").at(-1)}</span>
          ) : (
            "none: the defaults"
          )}
        </a>
        , since <Time iso={status.startedAt} />
      </p>
    </div>
  );
}

function Card({
  name,
  value,
  tone,
  to,
}: {
  name: string;
  value: number;
  tone?: Tone | undefined;
  to: string;
}) {
  return (
    <a class="card" href={to}>
      <span class="quiet">{name}</span>
      <b class={value > 0 ? (tone ?? "") : ""}>{number(value)}</b>
    </a>
  );
}

function Cards({ status: { counts, waiting }, failures }: SummaryProps<GatewayStatus>) {
  // What failed is counted as long as it is kept, also when it is dealt with.
  const failed = failures?.total === 0 ? undefined : "bad";
  const count = (name: string): number => counts[name] ?? 0;
  const events = (outcome: string): string => href("events", "", { outcome });
  return (
    <div class="cards overview-cards">
      <Card name="accepted" value={count("events.accepted")} to={events("accepted")} />
      <Card name="unmatched" value={count("events.unmatched")} to={events("unmatched")} />
      <Card name="rejected" value={count("events.rejected")} to={events("rejected")} />
      <Card
        name="failed events"
        value={count("events.failed")}
        tone={failed}
        to={events("failed")}
      />
      <Card
        name="calls waiting for approval"
        value={count("approvals.open")}
        tone="warn"
        to={href("approvals")}
      />
      <Card
        name="runs queued"
        value={count("runs.queued")}
        to={href("runs", "", { status: "queued" })}
      />
      <Card
        name="runs failed"
        value={count("runs.failed")}
        tone={failed}
        to={href("runs", "", { status: "failed" })}
      />
      <Card
        name="deliveries waiting"
        value={waiting.delivery.count}
        to={href("deliveries", "", { status: "pending" })}
      />
      <Card
        name="deliveries failed"
        value={count("deliveries.failed")}
        tone={failed}
        to={href("deliveries", "", { status: "failed" })}
      />
      <Card
        name="replies without a route"
        value={count("deliveries.no_route")}
        tone={failed}
        to={href("deliveries", "", { status: "no_route" })}
      />
    </div>
  );
}

function ConfigProblems({
  problems,
}: {
  problems: GatewayStatus["reloadProblems"];
}): ComponentChildren {
  if (problems.length === 0) return null;
  return (
    <section class="overview-problems" aria-label="Problems of the config on disk">
      <h2 class="bad">
        ✗ The config on disk has {plural(problems.length, "problem")}; the one before it is in use
      </h2>
      <ul>
        {problems.map(({ path, message }) => (
          <li key={`${path}${message}`}>
            <code>{path}</code>: {visibleText(message)}
          </li>
        ))}
      </ul>
      <a href={href("system", "config")}>The config in use, and loading it again</a>
    </section>
  );
}

/** What waits for a model, whose name has its provider before a slash, or for a channel. */
const waitingHref = (of: string): string =>
  of.includes("/")
    ? href("runs", "", { status: "parked" })
    : href("deliveries", "", { status: "pending", channel: of });

function Breakers({ breakers }: Pick<GatewayStatus, "breakers">) {
  const open = breakers.filter(({ state }) => state !== "closed");
  if (open.length === 0) return null;
  return (
    <Section title="Breakers">
      <ul class="overview-list">
        {open.map(({ of, state, since, nextTest, waiting }) => (
          <li key={of}>
            <Status word={state} /> <a href={href("system", "gateway")}>{of}</a> away since{" "}
            <Time iso={since} />, tested next <Time iso={nextTest} planned />,{" "}
            <a href={waitingHref(of)}>{number(waiting)} waiting</a>
          </li>
        ))}
      </ul>
    </Section>
  );
}

/** The health of the gateway in one line, the problems of its config, counts and breakers. */
export function Summary({ status, failures }: SummaryProps<Resource<{ status: GatewayStatus }>>) {
  return (
    <Loaded resource={status}>
      {({ status: now }) => (
        <>
          <Health status={now} failures={failures} />
          <ConfigProblems problems={now.reloadProblems} />
          <Cards status={now} failures={failures} />
          <Breakers breakers={now.breakers} />
        </>
      )}
    </Loaded>
  );
}
