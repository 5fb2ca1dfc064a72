import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { visibleText } from "./format.ts";
import { useKeys } from "./keys.ts";

export type SelectOptions = readonly (string | readonly [value: string, label: string])[];

/** A choice among words; the empty one means any. */
export function Select(props: {
  label: string;
  value: string;
  options: SelectOptions;
  onChange(value: string): void;
}) {
  return (
    <label class="field">
      <span class="unseen">{props.label}</span>
      <select
        class="input"
        value={props.value}
        onChange={(event) => props.onChange(event.currentTarget.value)}
      >
        {props.options.map((option) => {
          const [value, label] =
            typeof option === "string"
              ? [option, option || `Any ${props.label.toLowerCase()}`]
              : option;
          return (
            <option key={value} value={value}>
              {label.replaceAll("_", " ")}
            </option>
          );
        })}
      </select>
    </label>
  );
}

const SETTLED_MS = 250;

/** A search that follows the typing, a quarter of a second behind it. `/` puts the focus here. */
export function Search(props: {
  label: string;
  value: string;
  placeholder?: string;
  onSearch(text: string): void;
}) {
  const input = useRef<HTMLInputElement>(null);
  const [text, setText] = useState(props.value);
  const searched = useRef(props.value);
  const search = (wanted: string): void => {
    searched.current = wanted;
    props.onSearch(wanted);
  };
  useLayoutEffect(() => {
    // The answer to what was typed here: what was typed since then stays.
    if (props.value === searched.current) return;
    searched.current = props.value;
    setText(props.value);
  }, [props.value]);
  useEffect(() => {
    if (text === props.value) return;
    const timer = setTimeout(() => search(text), SETTLED_MS);
    return () => clearTimeout(timer);
  }, [text, props.value]);
  useKeys({ "/": () => input.current?.focus() });
  return (
    <label class="field search">
      <span class="unseen">{props.label}</span>
      <input
        ref={input}
        class="input"
        type="search"
        placeholder={props.placeholder ?? props.label}
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Enter") search(text);
          if (event.key === "Escape") input.current?.blur();
        }}
      />
    </label>
  );
}

/** A field under its label, with what it is for and what is wrong with it. */
export function TextField(props: {
  label: string;
  value: string;
  onInput(value: string): void;
  hint?: ComponentChildren;
  error?: string | null;
  type?: "text" | "password" | "number";
  lines?: number;
  required?: boolean;
  autoFocus?: boolean;
}) {
  const shared = {
    class: "input",
    value: props.value,
    required: props.required ?? false,
    "aria-invalid": Boolean(props.error),
  };
  const input = (event: { currentTarget: { value: string } }): void =>
    props.onInput(event.currentTarget.value);
  return (
    <label class="field block">
      <span>{props.label}</span>
      {props.lines ? (
        <textarea {...shared} rows={props.lines} onInput={input} />
      ) : props.type === "password" ? (
        <input
          {...shared}
          type="password"
          autoComplete="current-password"
          autoFocus={props.autoFocus ?? false}
          onInput={input}
        />
      ) : (
        <input
          {...shared}
          type="text"
          inputMode={props.type === "number" ? "numeric" : "text"}
          autoFocus={props.autoFocus ?? false}
          onInput={input}
        />
      )}
      {props.error ? (
        <span class="bad">{props.error}</span>
      ) : props.hint ? (
        <span class="quiet">{props.hint}</span>
      ) : null}
    </label>
  );
}

/** Boxes to tick, under a legend. */
export function Checkboxes(props: {
  legend: string;
  names: readonly string[];
  ticked: readonly string[];
  onChange(ticked: string[]): void;
}) {
  const { legend, names, ticked, onChange } = props;
  return (
    <fieldset class="checks">
      <legend>{legend}</legend>
      {names.map((name) => (
        <label key={name}>
          <input
            type="checkbox"
            checked={ticked.includes(name)}
            onChange={({ currentTarget }) =>
              onChange(
                names.filter((one) =>
                  one === name ? currentTarget.checked : ticked.includes(one),
                ),
              )
            }
          />{" "}
          {visibleText(name)}
        </label>
      ))}
    </fieldset>
  );
}

/** Tabs over panels; the arrow keys move between them. */
export function Tabs(props: {
  label: string;
  tabs: readonly { name: string; title: string; count?: number }[];
  value: string;
  onChange(name: string): void;
}) {
  const list = useRef<HTMLDivElement>(null);
  const move = (step: number): void => {
    const at = props.tabs.findIndex(({ name }) => name === props.value);
    const index = (at + step + props.tabs.length) % props.tabs.length;
    const next = props.tabs[index];
    if (!next) return;
    props.onChange(next.name);
    list.current?.querySelectorAll<HTMLElement>("[role=tab]")[index]?.focus();
  };
  return (
    <div
      ref={list}
      class="tabs"
      role="tablist"
      aria-label={props.label}
      onKeyDown={(event) => {
        if (event.key === "ArrowRight") move(1);
        if (event.key === "ArrowLeft") move(-1);
      }}
    >
      {props.tabs.map(({ name, title, count }) => (
        <button
          key={name}
          type="button"
          role="tab"
          aria-selected={name === props.value}
          tabIndex={name === props.value ? 0 : -1}
          onClick={() => props.onChange(name)}
        >
          {title}
          {count === undefined ? null : <span class="count">{count}</span>}
        </button>
      ))}
    </div>
  );
}
