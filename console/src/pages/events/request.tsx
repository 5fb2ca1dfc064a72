import { listParameters } from "./curl.ts";
import { useMemo, useState } from "preact/hooks";
import { Button, Facts, Section } from "../../ui/basic.tsx";
import { Search, Tabs } from "../../ui/fields.tsx";
import { bytes, visibleText } from "../../ui/format.ts";
import { JsonTree } from "../../ui/json-tree.tsx";
import { hexDump, MAX_READ, readBody } from "./body.ts";
import type { EventInFull } from "./types.ts";

/** So many characters of a text are drawn before a button asks for more. */
const STEP = 50_000;

/** A text of any length, drawn in steps. */
export function LongText({ text }: { text: string }) {
  const [shown, setShown] = useState(STEP);
  return (
    <>
      <pre class="code" tabIndex={0}>
        {visibleText(text.slice(0, shown))}
      </pre>
      {text.length > shown ? (
        <Button onClick={() => setShown(shown + 4 * STEP)}>
          Show more: {bytes(shown)} of {bytes(text.length)} are shown
        </Button>
      ) : null}
    </>
  );
}

const Pairs = ({ pairs, none }: { pairs: readonly (readonly [string, string])[]; none: string }) =>
  pairs.length === 0 ? (
    <p class="quiet">{none}</p>
  ) : (
    <div class="events-as-sent">
      <Facts
        pairs={pairs
          .slice(0, 2000)
          .map(([name, value]) => [visibleText(name), visibleText(value)] as const)}
      />
    </div>
  );

function ReadBody({ text, contentType }: { text: string; contentType: string | null }) {
  const [search, setSearch] = useState("");
  const read = useMemo(() => readBody(text, contentType), [text, contentType]);
  if (read.kind === "json")
    return (
      <>
        <Search label="Search the body" value={search} onSearch={setSearch} />
        <JsonTree value={read.value} search={search} />
      </>
    );
  if (read.kind === "form") return <Pairs pairs={read.fields} none="The form has no fields." />;
  if (read.kind === "mail")
    return (
      <>
        <Pairs pairs={read.headers} none="The e-mail has no headers." />
        <LongText text={read.text} />
      </>
    );
  return <LongText text={read.text} />;
}

function Body({ request }: { request: EventInFull["request"] }) {
  const { body, encoding, contentType } = request;
  const [asRead, setAsRead] = useState(false);
  if (body === null) return <p class="quiet">The body is no longer kept (hooks.retention).</p>;
  if (body === "") return <p class="quiet">The body is empty.</p>;
  if (encoding === "base64")
    return (
      <>
        <p class="quiet">The body is not text in UTF-8. Its first bytes:</p>
        <pre class="code" tabIndex={0}>
          {hexDump(body)}
        </pre>
      </>
    );
  if (body.length > MAX_READ && !asRead)
    return (
      <>
        <p class="events-reach">
          <span>The body has {bytes(body.length)}. It is shown as text.</span>
          <Button onClick={() => setAsRead(true)}>Read it by its content type</Button>
        </p>
        <LongText text={body} />
      </>
    );
  return <ReadBody text={body} contentType={contentType} />;
}

/** The request as it came in, without what carried a credential. */
export function Request({ event }: { event: EventInFull }) {
  const [tab, setTab] = useState("body");
  const { request } = event;
  const headers = Object.entries(request.headers);
  const query = listParameters(request.query);
  return (
    <Section title="Request">
      <Tabs
        label="Parts of the request"
        value={tab}
        onChange={setTab}
        tabs={[
          { name: "body", title: "Body" },
          { name: "headers", title: "Headers", count: headers.length },
          { name: "query", title: "Query", count: query.length },
          { name: "raw", title: "Raw" },
        ]}
      />
      <div class="events-part" role="tabpanel" aria-label={tab}>
        {tab === "body" ? (
          <>
            <p class="quiet">
              {request.method} {visibleText(event.path)}
              {request.contentType === null ? "" : ` · ${visibleText(request.contentType)}`}
              {event.bodyBytes === null ? "" : ` · ${bytes(event.bodyBytes)}`}
            </p>
            <Body request={request} />
          </>
        ) : null}
        {tab === "headers" ? (
          <Pairs pairs={headers} none="The request has no headers that are kept." />
        ) : null}
        {tab === "query" ? (
          <Pairs pairs={query} none="The request has no query parameters." />
        ) : null}
        {tab === "raw" ? (
          <LongText
            text={[
              `${request.method} /${event.path}`,
              ...headers.map(([name, value]) => `${name}: ${value}`),
              "",
              request.body ?? "",
            ].join("\n")}
          />
        ) : null}
      </div>
    </Section>
  );
}
