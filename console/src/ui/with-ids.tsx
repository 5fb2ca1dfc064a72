import { href } from "../router.ts";
import { Id } from "./basic.tsx";
import { visibleText } from "./format.ts";

const PAGES: Readonly<Record<string, string>> = {
  evt: "events",
  run: "runs",
  dlv: "deliveries",
  apr: "approvals",
};
/** An id as a link to what it names; null if there is none. */
export const toLink = (id: string | null) =>
  id ? <Id id={id} to={href(PAGES[id.slice(0, 3)] ?? "", id)} /> : null;

/** An error by its code, in red; null if there is none. */
export const renderProblem = (error: { code: string; message: string } | null) =>
  error && <span class="bad">{`${error.code}: ${visibleText(error.message)}`}</span>;

const ID = /\b((?:evt|run|dlv|apr)_\w+)/;

/** A sentence of the gateway, in which ids are links to what they name. */
export const WithIds = ({ text }: { text: string }) => (
  <>
    {text.split(ID).map((part, index) => {
      const page = index % 2 === 1 ? PAGES[part.slice(0, 3)] : undefined;
      return page === undefined ? (
        visibleText(part)
      ) : (
        <Id key={index} id={part} to={href(page, part)} />
      );
    })}
  </>
);
