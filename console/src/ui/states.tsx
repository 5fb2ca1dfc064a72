import type { ComponentChildren } from "preact";
import type { Resource } from "../resource.ts";
import { Button } from "./basic.tsx";

/** What stands in place of a list that is empty: why, and the line to paste. */
export function Empty({ children, command }: { children: ComponentChildren; command?: string }) {
  return (
    <div class="empty">
      <p>{children}</p>
      {command ? <pre class="command">{command}</pre> : null}
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

/** What failed and what to do; `gone` is for what retention has deleted. */
export function Failed({ error, retry }: { error: { code: string; message: string }; retry(): void }) {
  const gone = error.code === "not_found" || error.code === "gone";
  return (
    <div class={`failed ${gone ? "gone" : ""}`} role="alert">
      <p>{error.message}</p>
      {gone ? <p class="quiet">It may have been deleted because it was older than the time for which records are kept.</p> : null}
      <Button onClick={retry}>Try again</Button>
    </div>
  );
}

/**
 * Shows what a panel asked for in each of its states: loading, failed, gone, and the data. Data that was shown stays while
 * it is asked for again, and while the gateway is away.
 */
export function Loaded<T>(props: { resource: Resource<T>; lines?: number; children(data: T): ComponentChildren }) {
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
  if (error) return <Failed error={error} retry={reload} />;
  return loading ? <Skeleton lines={props.lines ?? 6} /> : null;
}
