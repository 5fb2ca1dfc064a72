import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { exactTime, relativeTime, visibleText } from "./format.ts";
import { CopyIcon } from "./icon.tsx";
import { toast } from "./toast.tsx";
import { toneOf, type Tone } from "./tone.ts";

export type { Tone } from "./tone.ts";

const MARKS: Record<Tone, string> = { good: "✓", info: "○", warn: "●", bad: "✗", quiet: "–" };

/** A state: a mark of its own shape and its word, so that colour is never all that tells. */
export function Status({ word, tone = toneOf(word) }: { word: string; tone?: Tone }) {
  return (
    <span class={`status ${tone}`}>
      <span class="mark" aria-hidden="true">
        {MARKS[tone]}
      </span>
      {word.replaceAll("_", " ")}
    </span>
  );
}

const TICK_MS = 10_000;
/** One clock for all times of the page: a list has hundreds of them. */
const now = signal(Date.now());
setInterval(() => {
  if (!document.hidden) now.value = Date.now();
}, TICK_MS);

/** A time as people say it, with the exact one in its title; it stays true while the page is open. Of a plan that is over, it says `due`. */
export function Time({
  iso,
  planned = false,
}: {
  iso: string | null | undefined;
  planned?: boolean;
}) {
  const ticked = now.value;
  if (!iso) return <span class="quiet">–</span>;
  // A time after the last tick is not in the future, so it is compared with the clock.
  const reference = Date.parse(iso) > ticked ? Date.now() : ticked;
  return (
    <time dateTime={iso} title={exactTime(iso)}>
      {planned && Date.parse(iso) <= reference ? "due" : relativeTime(iso, reference)}
    </time>
  );
}

/** Puts text on the clipboard and says so. */
export async function copy(text: string, what: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    toast(`Copied ${what}.`);
  } catch {
    // Without HTTPS or the permission, browsers have no clipboard.
    toast(`Your browser does not allow copying here. ${what}: ${text}`, { tone: "warn" });
  }
}

/** The kind and the first characters of an id, with a button that copies the whole. */
export function Id({ id, to }: { id: string; to?: string }) {
  const [prefix = "", rest = ""] = id.includes("_") ? id.split("_", 2) : ["", id];
  const short = rest.length > 10 ? `${prefix ? `${prefix}_` : ""}…${rest.slice(-8)}` : id;
  return (
    <span class="id mono" title={id}>
      {to ? <a href={to}>{short}</a> : short}
      <button
        type="button"
        class="icon"
        aria-label={`Copy ${id}`}
        onClick={() => void copy(id, id)}
      >
        <CopyIcon />
      </button>
    </span>
  );
}

export interface ButtonProps {
  children: ComponentChildren;
  onClick?: () => void;
  kind?: "primary" | "danger" | "plain";
  busy?: boolean;
  disabled?: boolean;
  title?: string;
  submit?: boolean;
}

/** A button that is at work does nothing, and keeps the focus: with `disabled` the browser would take it away. */
export function Button({
  children,
  onClick,
  kind,
  busy = false,
  disabled = false,
  title,
  submit = false,
}: ButtonProps) {
  return (
    <button
      type={submit ? "submit" : "button"}
      class={`button ${kind ?? ""}`}
      disabled={disabled}
      aria-busy={busy}
      {...(busy ? { "aria-disabled": true } : {})}
      {...(title ? { title } : {})}
      onClick={(event) => (busy ? event.preventDefault() : onClick?.())}
    >
      {children}
    </button>
  );
}

/** Longer values have a line of their own. */
const LONG_VALUE = 22;

/** Names and values of one thing; pairs without a value are left out. A third part that is true gives a value a line of its own. */
export function Facts({
  pairs,
}: {
  pairs: readonly (readonly [name: string, value: ComponentChildren, isLong?: boolean])[];
}) {
  const shown = pairs.filter(
    ([, value]) => value !== null && value !== undefined && value !== "" && value !== false,
  );
  return (
    <dl class="facts">
      {shown.map(
        ([name, value, isLong = typeof value === "string" && value.length > LONG_VALUE]) => (
          <div key={name} class={isLong ? "long" : ""}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ),
      )}
    </dl>
  );
}

/** A part of a page under a heading of its own; `actions` stand at the right of the heading. */
export function Section(props: {
  title: string;
  actions?: ComponentChildren;
  children: ComponentChildren;
  label?: string;
}) {
  return (
    <section class="section" aria-label={props.label ?? props.title}>
      <header>
        <h2>{props.title}</h2>
        {props.actions ? <div class="actions">{props.actions}</div> : null}
      </header>
      {props.children}
    </section>
  );
}

interface ShownPart {
  text: string;
  outside: boolean;
  /** Whose it is, if that is not the sender. */
  origin?: string;
}

/** Text in which the parts that came from outside are marked, also for those who do not see the colour. */
export function OutsideText({ parts }: { parts: readonly ShownPart[] }) {
  return (
    <pre class="outside-text" tabIndex={0}>
      {parts.map((part, index) =>
        part.outside ? (
          <mark key={index} title={part.origin ?? "from the sender"}>
            {visibleText(part.origin === undefined ? part.text : `[${part.origin}] ${part.text}`)}
          </mark>
        ) : (
          visibleText(part.text)
        ),
      )}
    </pre>
  );
}
