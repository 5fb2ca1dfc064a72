import { useResource, type Resource } from "../../resource.ts";
import { href } from "../../router.ts";
import { Section, Status, Time } from "../../ui/basic.tsx";
import { Prose } from "../../ui/prose.tsx";
import { Spark } from "../../ui/chart.tsx";
import { number, plural, visibleText } from "../../ui/format.ts";
import { Loaded } from "../../ui/states.tsx";
import { Figure } from "./figure.tsx";
import { checkHref, findingHref } from "./links.ts";
import type { CheckView, Finding, OpenFailures } from "./types.ts";

const SHOWN_FINDINGS = 8;

/** The groups of failures that failed last. */
export function TopFailures({ failures }: { failures: Resource<OpenFailures> }) {
  return (
    <Section title="Failures" actions={<a href={href("failures")}>All failures</a>}>
      <Loaded resource={failures} lines={3}>
        {({ failures: rows, total }) =>
          rows.length === 0 ? (
            <p class="good">✓ Nothing has failed in the last seven days that is not dealt with.</p>
          ) : (
            <>
              <ul class="overview-list overview-failures">
                {rows.map((row) => (
                  <li key={row.id}>
                    <span class="number">
                      <Figure to={href("failures", row.id)}>{number(row.count)}×</Figure>
                    </span>
                    <a href={href("failures", row.id)} title={visibleText(row.title)}>
                      {visibleText(row.title)}
                    </a>
                    <Spark
                      values={row.hours}
                      label={`Failures in each of the last 24 hours: ${row.hours.join(", ")}`}
                    />
                    <Time iso={row.lastSeen} />
                  </li>
                ))}
              </ul>
              {total > rows.length ? (
                <p>
                  <a href={href("failures")}>
                    {plural(total - rows.length, "more group", "more groups")}
                  </a>
                </p>
              ) : null}
            </>
          )
        }
      </Loaded>
    </Section>
  );
}

const NAMES: Record<Finding["from"], string> = {
  config: "config",
  lint: "lint",
  shadow: "in shadow",
};

/** The findings of lint, and mappings in shadow. */
export function Mappings() {
  const found = useResource<{ findings: Finding[] }>("/findings");
  return (
    <Section title="Mappings" actions={<a href={href("mappings")}>All mappings</a>}>
      <Loaded resource={found} lines={3}>
        {({ findings: all }) => {
          // The problems of the config stand above.
          const findings = all.filter(({ from }) => from !== "config");
          return findings.length === 0 ? (
            <p class="good">✓ Lint shows no problem.</p>
          ) : (
            <>
              <ul class="overview-list">
                {findings.slice(0, SHOWN_FINDINGS).map((finding) => (
                  <li key={`${finding.from}${finding.path}${finding.message}`}>
                    <Status
                      word={NAMES[finding.from]}
                      tone={
                        finding.from === "config"
                          ? "bad"
                          : finding.from === "shadow"
                            ? "quiet"
                            : "warn"
                      }
                    />{" "}
                    <a href={findingHref(finding)}>{finding.mapping ?? finding.path}</a>
                    {finding.mapping === null ? null : <code>{finding.path}</code>}{" "}
                    <Prose text={finding.message} />
                    {finding.file ? (
                      <span class="quiet">
                        {" "}
                        {finding.file}
                        {finding.line === null ? "" : `:${finding.line}`}
                      </span>
                    ) : null}
                  </li>
                ))}
              </ul>
              {findings.length > SHOWN_FINDINGS ? (
                <p class="quiet">
                  <a href={href("mappings")}>And {number(findings.length - SHOWN_FINDINGS)} more</a>
                  : <code>rouse config validate</code> lists all.
                </p>
              ) : null}
            </>
          );
        }}
      </Loaded>
    </Section>
  );
}

/** The problems that the doctor found. */
export function Doctor() {
  const doctor = useResource<{ checks: CheckView[] }>("/doctor");
  return (
    <Section title="Doctor" actions={<a href={href("system", "doctor")}>All checks</a>}>
      <Loaded resource={doctor} lines={3}>
        {({ checks }) => {
          // The problems of the config stand above.
          const found = checks.filter(({ id, status }) => status !== "ok" && id !== "config");
          if (found.length === 0) return <p class="good">✓ No problems found.</p>;
          return (
            <ul class="overview-list">
              {found
                .toSorted((one, other) => (one.status < other.status ? -1 : 1))
                .map(({ id, status, message }) => (
                  <li key={id}>
                    <Status word={status} /> <a href={checkHref(id)}>{id}</a>{" "}
                    <Prose text={message} />
                  </li>
                ))}
            </ul>
          );
        }}
      </Loaded>
    </Section>
  );
}
