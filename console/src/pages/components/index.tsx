import "./style.css";
import { useState } from "preact/hooks";
import { Fields } from "./fields.tsx";
import { Lists } from "./lists.tsx";
import { Words } from "./words.tsx";

const THEMES = ["light", "dark"] as const;

/** All components in their states, in both themes. For those who work on the console; the rail does not lead here. */
export function Page() {
  const [theme, setTheme] = useState<"both" | (typeof THEMES)[number]>("both");
  return (
    <>
      <header class="page-head">
        <h1>Components</h1>
        <div class="actions">
          {(["both", ...THEMES] as const).map((name) => (
            <button
              key={name}
              type="button"
              class="button"
              aria-pressed={theme === name}
              onClick={() => setTheme(name)}
            >
              {name}
            </button>
          ))}
        </div>
      </header>
      <div class="components-themes">
        {THEMES.filter((name) => theme === "both" || theme === name).map((name) => (
          <div
            key={name}
            class={`components-theme ${name}`}
            role="group"
            aria-label={`${name} theme`}
          >
            <Words theme={name} />
            <Fields theme={name} />
            <Lists theme={name} />
          </div>
        ))}
      </div>
    </>
  );
}
