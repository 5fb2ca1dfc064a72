import { signal } from "@preact/signals";
import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { awaySince, signedOut, signIn, signOut, versions } from "./api.ts";
import { loadPage, PAGES, type PageEntry } from "./pages.ts";
import { useResource } from "./resource.ts";
import { href, place } from "./router.ts";
import { Button, Time } from "./ui/basic.tsx";
import { Dialog, Questions } from "./ui/dialog.tsx";
import { TextField } from "./ui/fields.tsx";
import { useKeys } from "./ui/keys.ts";
import { Failed, Skeleton } from "./ui/states.tsx";
import { toastError, Toasts } from "./ui/toast.tsx";

const SECTIONS = ["Watch", "Build", "Operate"] as const;
const helpOpen = signal(false);

/** Keys that work on every page; pages have their own besides. */
const SHORTCUTS: readonly (readonly [string, string])[] = [
  ["/", "search"],
  ["j, k", "next and previous row of the list"],
  ["e", "edit beside the event"],
  ["f", "freeze the event as a test"],
  ["p", "pause Live, or go on"],
  ["Ctrl Enter", "evaluate what is in the editor"],
  ["Ctrl S", "open the save dialog"],
  ["Escape, Tab", "leave the editor"],
  ["g then a letter", "go to a page: o overview, l live, e events, f failures, r runs, a approvals, m mappings"],
  ["?", "this list"],
];

interface StatusAnswer {
  status: { version: string; counts: Record<string, number> };
}

function Rail() {
  const { data } = useResource<StatusAnswer>("/status", { live: true });
  const current = place.value.page;
  return (
    <nav class="rail" aria-label="Pages">
      <a class="brand" href={href("overview")}>
        Rouse
      </a>
      {SECTIONS.map((section) => (
        <div key={section} class="group">
          <h2>{section}</h2>
          {PAGES.filter((page) => page.section === section).map(({ name, title, badge }) => {
            const count = badge ? (data?.status.counts[badge] ?? 0) : 0;
            return (
              <a key={name} href={href(name)} aria-current={current === name ? "page" : undefined}>
                {title}
                {count > 0 ? <span class="count">{count}</span> : null}
              </a>
            );
          })}
        </div>
      ))}
      <div class="foot">
        <button type="button" class="button plain" onClick={() => (helpOpen.value = true)}>
          Keys <kbd>?</kbd>
        </button>
        <button type="button" class="button plain" onClick={() => void signOut()}>
          Sign out
        </button>
      </div>
    </nav>
  );
}

/** Lines above every page: the gateway is away, or another version runs than this page is of. */
function Banner() {
  const away = awaySince.value;
  const seen = versions.value;
  return (
    <div class="banners" role="status">
      {away ? (
        <p class="banner warn">
          The gateway has not answered since <Time iso={away.toISOString()} />. What is shown stays; the page tries again by itself.
        </p>
      ) : null}
      {seen && seen.first !== seen.now ? (
        <p class="banner">
          The gateway runs version {seen.now} now, and this page is of {seen.first}. Unsaved text is kept.{" "}
          <Button onClick={() => location.reload()}>Load the page again</Button>
        </p>
      ) : null}
    </div>
  );
}

/** Asks for the token above the page when the session has ended, so that nothing that is being written is lost. */
function SignInAgain() {
  const [token, setToken] = useState("");
  const [error, setError] = useState<string | null>(null);
  if (!signedOut.value) return null;
  const submit = async (): Promise<void> => {
    const refused = await signIn(token.trim());
    setError(refused);
    if (refused === null) setToken("");
  };
  return (
    <Dialog title="Your session has ended" onClose={() => {}}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          submit().catch(toastError);
        }}
      >
        <div class="body">
          <p>What is on the page is kept. Sign in again to go on.</p>
          <TextField label="Gateway token" type="password" value={token} onInput={setToken} error={error} required autoFocus />
        </div>
        <footer>
          <Button kind="primary" submit>
            Sign in
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}

function Help() {
  if (!helpOpen.value) return null;
  return (
    <Dialog title="Keys" onClose={() => (helpOpen.value = false)}>
      <dl class="keys body">
        {SHORTCUTS.map(([key, text]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{text}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}

const loaded = new Map<string, ComponentType>();

/** The page that the address names, loaded when it is first opened. */
function Outlet({ entry }: { entry: PageEntry }) {
  const [, setTurn] = useState(0);
  const [error, setError] = useState<string | null>(null);
  const Page = loaded.get(entry.name);
  useEffect(() => {
    document.title = `${entry.title} · Rouse`;
    if (loaded.has(entry.name)) return;
    setError(null);
    loadPage(entry.name)
      .then((Page) => {
        loaded.set(entry.name, Page);
        setTurn((turn) => turn + 1);
      })
      .catch(() => setError("This part of the page could not be loaded. The gateway may have been updated: load the page again."));
  }, [entry]);
  if (error) return <Failed error={{ code: "load", message: error }} retry={() => location.reload()} />;
  return Page ? <Page /> : <Skeleton />;
}

/** `g` and then the first letter of a page goes there. */
function useGoKeys(): void {
  useEffect(() => {
    let pending = 0;
    const listen = (event: KeyboardEvent): void => {
      const target = event.composedPath()[0];
      const typing = target instanceof HTMLElement && (target.isContentEditable || /^(?:INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
      if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "g") pending = Date.now();
      else if (Date.now() - pending < 1000) {
        pending = 0;
        const page = PAGES.find(({ name }) => name.startsWith(event.key));
        if (page) {
          event.preventDefault();
          event.stopImmediatePropagation();
          location.hash = href(page.name);
        }
      }
    };
    addEventListener("keydown", listen, { capture: true });
    return () => removeEventListener("keydown", listen, { capture: true });
  }, []);
}

/** The whole page: the rail, what the address names, and what stands above it. */
export function App() {
  useGoKeys();
  useKeys({ "?": () => (helpOpen.value = true) });
  const entry = PAGES.find(({ name }) => name === place.value.page);
  return (
    <div class="app">
      <a class="skip" href="#main" onClick={(event) => (event.preventDefault(), document.getElementById("main")?.focus())}>
        Skip to the content
      </a>
      <Rail />
      <main id="main" tabIndex={-1}>
        <Banner />
        {entry ? (
          <Outlet key={entry.name} entry={entry} />
        ) : (
          <Failed
            error={{ code: "not_found", message: "There is no page at this address." }}
            retry={() => (location.hash = href("overview"))}
          />
        )}
      </main>
      <Toasts />
      <Questions />
      <SignInAgain />
      <Help />
    </div>
  );
}
