import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Resource } from "../resource.ts";
import { Button, copy } from "./basic.tsx";
import { visibleText } from "./format.ts";
import { CopyIcon } from "./icon.tsx";
import { Prose } from "./prose.tsx";

/** Shown in place of an empty list: the reason, and a command to paste. */
export function Empty({ children, command }: { children: ComponentChildren; command?: string }) {
  return (
    <div class="empty">
      <p>{children}</p>
      {command ? (
        <div class="command-line">
          <pre class="command">{command}</pre>
          <button
            type="button"
            class="icon"
            aria-label="Copy this line"
            title="Copy"
            onClick={() => void copy(command, "the line")}
          >
            <CopyIcon />
          </button>
        </div>
      ) : null}
    </div>
  );
}

/** The shape of what is loading, so that nothing jumps when it comes. */
export function Skeleton({ lines = 6 }: { lines?: number }) {
  return (
    <div class="skeleton" role="status" aria-label="Loading">
      {Array.from({ length: lines }, (_, index) => (
        <div key={index} class={`line w${(index * 7) % 4}`} />
      ))}
    </div>
  );
}

const SIGN_OF_LOADING_MS = 150;

/** A skeleton for content that usually comes quickly: it shows after 150 ms. */
export function LateSkeleton({ lines = 6 }: { lines?: number }) {
  const [isLate, setLate] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setLate(true), SIGN_OF_LOADING_MS);
    return () => clearTimeout(timer);
  }, []);
  return isLate ? <Skeleton lines={lines} /> : null;
}

const DELETED =
  "It may have been deleted because it was older than the time for which records are kept.";

interface FailedProps {
  error: { code: string; message: string };
  retry?(): void;
  /** The reason why it may be gone, and what to do, for things that are not deleted by their age. */
  gone?: ComponentChildren;
}

/** Counts the times that a failed panel appeared, changed or disappeared. */
const changes = signal(0);

/** The failure and the remedy. If many panels fail for the same reason, only the first of them shows it in full. */
export function Failed({ error: { code, message }, retry, gone = DELETED }: FailedProps) {
  const panel = useRef<HTMLDivElement>(null);
  const [isFirst, setFirst] = useState(true);
  const isGone = code === "not_found" || code === "gone";
  useLayoutEffect(() => {
    changes.value++;
    return () => void changes.value++;
  }, [message]);
  useLayoutEffect(() => {
    const first = [...document.querySelectorAll<HTMLElement>(".failed")].find(
      ({ dataset }) => dataset["reason"] === message,
    );
    setFirst(first === panel.current);
  }, [changes.value]);
  return (
    <div
      ref={panel}
      data-reason={message}
      class={`failed ${isGone ? "gone" : ""}`}
      role={isFirst ? "alert" : undefined}
    >
      <p>{isFirst || isGone ? <Prose text={message} /> : "Not loaded, for the same reason."}</p>
      {isGone ? <p class="quiet">{gone}</p> : null}
      {retry ? <Button onClick={retry}>Try again</Button> : null}
    </div>
  );
}

/**
 * Shows what a panel asked for in each of its states: loading, failed, gone, and the data. Data that was shown stays while
 * it is asked for again, and while the gateway is away.
 */
export function Loaded<T>(props: {
  resource: Resource<T>;
  lines?: number;
  gone?: ComponentChildren;
  children(data: T): ComponentChildren;
}) {
  const { data, error, loading, reload } = props.resource;
  if (data !== undefined) {
    const failed = error && error.code !== "unreachable" && error.code !== "signed_out";
    return (
      <>
        {failed ? <Failed error={error} retry={reload} /> : null}
        {props.children(data)}
      </>
    );
  }
  if (error) return <Failed error={error} retry={reload} gone={props.gone} />;
  return loading ? <Skeleton lines={props.lines ?? 6} /> : null;
}

/** Problems of the config, each with the path of its field. */
export const Problems = ({ all }: { all: readonly { path: string; message: string }[] }) => (
  <ul>
    {all.map(({ path, message }) => (
      <li key={`${path}${message}`}>
        <code>{path}</code>: {visibleText(message)}
      </li>
    ))}
  </ul>
);
