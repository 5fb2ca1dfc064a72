import { signal } from "@preact/signals";
import type { ComponentType } from "preact";
import { useEffect, useLayoutEffect } from "preact/hooks";
import { awaySince, signedOut, versions } from "./api.ts";
import { PAGES, type PageEntry } from "./pages.ts";
import { Rail } from "./rail.tsx";
import { href, place } from "./router.ts";
import { Button } from "./ui/basic.tsx";
import { Questions } from "./ui/dialog.tsx";
import { clockTime } from "./ui/format.ts";
import { isBehindDialog, isTyping, useKeys } from "./ui/keys.ts";
import { lazy } from "./ui/lazy.tsx";
import { Failed } from "./ui/states.tsx";
import { Toasts } from "./ui/toast.tsx";
import { TokenDialog, TokenQuestion } from "./ui/token.tsx";

const helpOpen = signal(false);
const Help = lazy(async () => (await import("./help.tsx")).Help);

/** Lines above every page: the gateway is away, or another version runs than this page is of. */
function Banner() {
  const away = awaySince.value;
  const seen = versions.value;
  return (
    <div class="banners" role="status">
      {away ? (
        <p class="banner warn">
          The gateway has not answered since {clockTime(away.toISOString())}. What is shown stays;
          the page tries again by itself.
        </p>
      ) : null}
      {seen && seen.first !== seen.now ? (
        <p class="banner">
          The gateway runs version {seen.now} now, and this page is of {seen.first}. Unsaved text is
          kept. <Button onClick={() => location.reload()}>Load the page again</Button>
        </p>
      ) : null}
    </div>
  );
}

/**
 * Asks for the token above the page when the session has ended, so that nothing that is being written is lost. It stays: the page
 * behind it can do nothing.
 */
const SignInAgain = () =>
  signedOut.value ? (
    <TokenDialog title="Your session has ended" action="Sign in">
      What is on the page is kept. Sign in again to go on.
    </TokenDialog>
  ) : null;

const modules = import.meta.glob<{ Page: ComponentType }>("./pages/*/index.tsx");

/** Loads a page. Each is a chunk of its own. */
async function loadPage(name: string): Promise<ComponentType> {
  const load = modules[`./pages/${name}/index.tsx`];
  if (!load) throw new Error(`there is no folder pages/${name}`);
  return (await load()).Page;
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

/** `g` and then the letter of a page goes there. */
function useGoKeys(): void {
  useLayoutEffect(() => {
    let pending = 0;
    const listen = (event: KeyboardEvent): void => {
      if (isTyping(event) || isBehindDialog() || event.ctrlKey || event.metaKey || event.altKey)
        return;
      if (event.key === "g") pending = Date.now();
      else if (Date.now() - pending < 1000) {
        pending = 0;
        const page = PAGES.find(({ key }) => key === event.key);
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
      <a
        class="skip"
        href="#main"
        onClick={(event) => (event.preventDefault(), document.getElementById("main")?.focus())}
      >
        Skip to the content
      </a>
      <Rail onHelp={() => (helpOpen.value = true)} />
      <main id="main" tabIndex={-1}>
        <Banner />
        {entry ? (
          <Outlet key={entry.name} entry={entry} />
        ) : (
          <Failed
            error={{ code: "not_found", message: "There is no page at this address." }}
            gone={<a href={href("overview")}>Go to the overview</a>}
          />
        )}
      </main>
      <Toasts />
      <Questions />
      <TokenQuestion />
      <SignInAgain />
      {helpOpen.value ? <Help onClose={() => (helpOpen.value = false)} /> : null}
    </div>
  );
}
