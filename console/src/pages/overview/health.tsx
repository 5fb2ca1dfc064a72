import type { ComponentChildren } from "preact";
import type { Resource } from "../../resource.ts";
import { href } from "../../router.ts";
import { Section, Status, Time, type Tone } from "../../ui/basic.tsx";
import { number, plural } from "../../ui/format.ts";
import { Loaded, Problems } from "../../ui/states.tsx";
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

/** Counts, each with the list of what is counted. */
function Cards({ status: { counts, waiting }, failures }: SummaryProps<GatewayStatus>) {
  // A failure is counted until it is deleted, so a count without open failures is no alarm.
  const failed = failures?.total === 0 ? "" : "bad";
  const events = (outcome: string, name = outcome, tone = "") =>
    [name, counts[`events.${outcome}`], href("events", "", { outcome }), tone] as const;
  const listed = (page: "runs" | "deliveries", status: string, name: string, tone = "") =>
    [name, counts[`${page}.${status}`], href(page, "", { status }), tone] as const;
  const cards = [
    events("accepted"),
    events("unmatched"),
    events("rejected"),
    events("failed", "failed events", failed),
    ["calls waiting for approval", counts["approvals.open"], href("approvals"), "warn"] as const,
    listed("runs", "queued", "runs queued"),
    listed("runs", "failed", "runs failed", failed),
    [
      "deliveries waiting",
      waiting.delivery.count,
      href("deliveries", "", { status: "pending" }),
      "",
    ] as const,
    listed("deliveries", "failed", "deliveries failed", failed),
    listed("deliveries", "no_route", "replies without a route", failed),
  ];
  return (
    <div class="cards overview-cards">
      {cards.map(([name, value = 0, to, tone]) => (
        <a key={name} class="card" href={to}>
          <span class="quiet">{name}</span>
          <b class={value > 0 ? tone : ""}>{number(value)}</b>
        </a>
      ))}
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
      <Problems all={problems} />
      <a href={href("system", "config")}>The config in use, and loading it again</a>
    </section>
  );
}

/** The list of runs or deliveries that wait. The name of a model has a slash after its provider; other names are channels. */
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
