import { useResource } from "../../resource.ts";
import { Button, Section, Status } from "../../ui/basic.tsx";
import { Prose } from "../../ui/prose.tsx";
import { Loaded } from "../../ui/states.tsx";
import { checkHref } from "../overview/links.ts";
import type { CheckView } from "../overview/types.ts";

const ORDER = ["fail", "warn", "ok"];

/** Everything that the doctor looks at, what is not well first. */
export function Checks() {
  const doctor = useResource<{ checks: CheckView[] }>("/doctor");
  return (
    <Section title="Doctor" actions={<Button onClick={doctor.reload}>Check again</Button>}>
      <Loaded resource={doctor} lines={12}>
        {({ checks }) => (
          <ul class="system-checks">
            {checks
              .toSorted((one, other) => ORDER.indexOf(one.status) - ORDER.indexOf(other.status))
              .map(({ id, status, message }) => (
                <li key={id}>
                  <Status word={status} />
                  {status === "ok" ? <span>{id}</span> : <a href={checkHref(id)}>{id}</a>}
                  <span>
                    <Prose text={message} />
                  </span>
                </li>
              ))}
          </ul>
        )}
      </Loaded>
    </Section>
  );
}
