import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { awaySince, signedOut, signIn, signOut, versions } from "./api.ts";
import { openApprovals, useOpenApprovals } from "./open-approvals.ts";
import { loadPage, PAGES, type PageEntry } from "./pages.ts";
import { href, place } from "./router.ts";
import { Button, Time } from "./ui/basic.tsx";
import { Dialog, Questions } from "./ui/dialog.tsx";
import { TextField } from "./ui/fields.tsx";
import { Icon, Mark } from "./ui/icon.tsx";
import { useKeys } from "./ui/keys.ts";
import { lazy } from "./ui/lazy.tsx";
import { Failed } from "./ui/states.tsx";
import { toastError, Toasts } from "./ui/toast.tsx";

const SECTIONS = ["Watch", "Build", "Operate"] as const;
const helpOpen = signal(false);
const Help = lazy(async () => (await import("./help.tsx")).Help);

function Rail() {
  useOpenApprovals();
  const current = place.value.page;
  const rail = useRef<HTMLElement>(null);
  // In a narrow window the rail is a line that moves sideways.
  useEffect(() => rail.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" }), [current]);
  return (
    <nav ref={rail} class="rail" aria-label="Pages">
      <a class="brand" href={href("overview")}>
        <Mark />
        Rouse
      </a>
      {SECTIONS.map((section) => (
        <div key={section} class="group">
          <h2>{section}</h2>
          {PAGES.filter((page) => page.section === section).map(({ name, title, badge }) => {
            const count = badge === "approvals" ? openApprovals.value : 0;
            return (
              <a key={name} href={href(name)} aria-current={current === name ? "page" : undefined}>
                <Icon name={name} />
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

const LOADED = new Map(PAGES.map(({ name }) => [name, lazy(() => loadPage(name))]));

/** The page that the address names, loaded when it is first opened. */
function Outlet({ entry: { name, title } }: { entry: PageEntry }) {
  const Page = LOADED.get(name);
  useEffect(() => {
    document.title = `${title} · Rouse`;
  }, [title]);
  return Page ? <Page /> : null;
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
      {helpOpen.value ? <Help onClose={() => (helpOpen.value = false)} /> : null}
    </div>
  );
}
