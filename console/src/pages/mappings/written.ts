import { useEffect, useRef, useState } from "preact/hooks";

/** Text that is not saved, as it is kept in this browser: it survives a reload and a sign-out. */
export interface KeptText {
  text: string;
  /** The text of the file that it was written from. */
  base: string;
  /** ISO 8601. */
  at: string;
}

/** Older ones are forgotten. */
const MOST = 5;

const toKey = (mapping: string): string => `rouse.mapping.${mapping}`;

const isKept = (one: unknown): one is KeptText =>
  typeof (one as KeptText | null)?.text === "string";

/** The texts that are kept of a mapping, the newest first. There are several if one was written while another was offered. */
function readKept(mapping: string): KeptText[] {
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(toKey(mapping)) ?? "[]");
    return (Array.isArray(kept) ? kept : [kept]).filter(isKept);
  } catch {
    return [];
  }
}

/** Keeps the text of a mapping, and those that were not taken up yet. Text as it is in the file need not be kept. */
function keep(mapping: string, text: string, base: string, others: readonly KeptText[]): void {
  const written =
    text === base || others.some((one) => one.text === text)
      ? []
      : [{ text, base, at: new Date().toISOString() }];
  const kept = [...written, ...others].slice(0, MOST);
  if (kept.length === 0) return localStorage.removeItem(toKey(mapping));
  try {
    localStorage.setItem(toKey(mapping), JSON.stringify(kept));
  } catch {
    // A browser that keeps nothing: the text is on the page alone.
  }
}

/** The text in the editor, and where it comes from. */
export interface Written {
  /** Under which it is kept in the browser. */
  name: string;
  /** The text of the file; null until it is there. */
  base: string | null;
  text: string;
  setText(text: string): void;
  /** Takes a text for the one of the file. */
  setBase(text: string): void;
  /** Texts of earlier visits that were not saved; they are offered, the newest first. */
  offered: readonly KeptText[];
  /** The text of an offer that is taken up; null if it is dropped. */
  answerOffer(offer: KeptText, take: boolean): string | null;
  /** The text was written into the file. */
  saved(): void;
  /** The text that the file had before it was saved here: the list of mappings may still show it. */
  savedOver: string | null;
}

/** Keeps what is written of a mapping. `loaded`: the text of the file when it was opened. */
export function useWritten(name: string, loaded: string | undefined): Written {
  const [base, setBase] = useState<string | null>(null);
  const [text, setText] = useState("");
  const [offered, setOffered] = useState<readonly KeptText[]>([]);
  // The editor says that its text has changed before the page is drawn with the offers that are left.
  const open = useRef(offered);
  const offer = (texts: readonly KeptText[]): void => {
    open.current = texts;
    setOffered(texts);
  };
  const [savedOver, setSavedOver] = useState<string | null>(null);
  useEffect(() => {
    if (loaded === undefined || base !== null) return;
    setBase(loaded);
    setText(loaded);
    offer(readKept(name).filter((kept) => kept.text !== loaded));
  }, [name, loaded, base]);
  useEffect(() => {
    // The file has been read since.
    if (loaded !== savedOver) setSavedOver(null);
  }, [loaded, savedOver]);
  const write = (next: string): void => {
    setText(next);
    if (base !== null) keep(name, next, base, open.current);
  };
  return {
    name,
    base,
    text,
    setText: write,
    setBase,
    offered,
    answerOffer(chosen, take) {
      const others = offered.filter((one) => one !== chosen);
      const isWritten = base !== null && text !== base;
      // The text that the editor had is offered in place of the chosen one, so that nothing written is lost.
      const left =
        take && isWritten && text !== chosen.text
          ? [{ text, base, at: new Date().toISOString() }, ...others]
          : others;
      offer(left);
      if (base !== null) keep(name, take ? chosen.text : text, base, left);
      if (!take) return null;
      setText(chosen.text);
      return chosen.text;
    },
    saved() {
      setSavedOver(base);
      setBase(text);
      keep(name, text, text, open.current);
    },
    savedOver,
  };
}
