import { visibleText } from "./format.ts";

/** A sentence of the gateway, in which what stands between backticks is code. */
export const Prose = ({ text }: { text: string }) => (
  <>
    {visibleText(text)
      .split("`")
      .map((part, index) => (index % 2 === 1 ? <code key={index}>{part}</code> : part))}
  </>
);
