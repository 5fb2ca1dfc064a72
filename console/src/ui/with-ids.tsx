import { href } from "../router.ts";
import { Id } from "./basic.tsx";
import { visibleText } from "./format.ts";

const PAGES: Readonly<Record<string, string>> = {
  evt: "events",
  run: "runs",
  dlv: "deliveries",
  apr: "approvals",
};
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
