import { RouseError } from "../core/errors.ts";
import { printable } from "./text.ts";

export interface Choice {
  value: string;
  label: string;
}

/** Says what is wrong with an answer; undefined if nothing is. The question stays until then. */
export type CheckAnswer = (answer: string) => string | undefined;

/** Questions with choices on a terminal. Each throws a RouseError if the user gives up. */
export interface Prompts {
  text(options: {
    message: string;
    initialValue?: string;
    defaultValue?: string;
    check?: CheckAnswer;
  }): Promise<string>;
  password(options: { message: string; check?: CheckAnswer }): Promise<string>;
  select(options: { message: string; options: Choice[] }): Promise<string>;
  multiselect(options: { message: string; options: Choice[] }): Promise<string[]>;
  note(text: string, title: string): Promise<void>;
}

/** Asks on the terminal of this process. */
export function terminalPrompts(): Prompts {
  const clack = () => import("@clack/prompts");
  const answered = async <T>(answer: Promise<T>): Promise<Exclude<T, symbol>> => {
    const value = await answer;
    if (typeof value === "symbol")
      throw new RouseError({ code: "usage", message: "stopped; nothing was written" });
    return value as Exclude<T, symbol>;
  };
  const shown = <T extends { message: string; check?: CheckAnswer }>({ check, ...options }: T) => ({
    ...options,
    message: printable(options.message),
    ...(check && { validate: (answer: string | undefined) => check(answer ?? "") }),
  });
  return {
    text: async (options) => answered((await clack()).text(shown(options))),
    password: async (options) => answered((await clack()).password(shown(options))),
    select: async (options) => answered((await clack()).select<string>(shown(options))),
    multiselect: async (options) =>
      answered((await clack()).multiselect<string>({ ...shown(options), required: false })),
    note: async (text, title) => (await clack()).note(printable(text), printable(title)),
  };
}
