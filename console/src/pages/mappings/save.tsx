import { useEffect, useMemo, useState } from "preact/hooks";
import { ask, AskError, isPassing, signIn } from "../../api.ts";
import { Button, copy } from "../../ui/basic.tsx";
import { Dialog } from "../../ui/dialog.tsx";
import { TextField } from "../../ui/fields.tsx";
import { visibleText } from "../../ui/format.ts";
import { Prose } from "../../ui/prose.tsx";
import { LateSkeleton } from "../../ui/states.tsx";
import { useAction, useTries } from "../../resource.ts";
import { useComparison } from "./live.ts";
import type { Change, Landed, LandingCheck } from "./types.ts";
import type { Workbench } from "./use-workbench.ts";
import { Difference } from "./what-if.tsx";

/** The agreement to a change. */
interface Agreement {
  base: string;
  confirm: readonly string[];
}

/** Asks what a change would do. What it changes of events is compared apart from that. */
const checkChange = async (change: Change, signal?: AbortSignal): Promise<LandingCheck> =>
  (
    await ask<{ check: LandingCheck }>("/changes/check", {
      method: "POST",
      body: { change, whatIf: false },
      ...(signal ? { signal } : {}),
    })
  ).check;

/** Makes a change. */
const landChange = async (change: Change, agreement: Agreement): Promise<Landed> =>
  (await ask<{ result: Landed }>("/changes", { method: "POST", body: { change, ...agreement } }))
    .result;

/** True if the gateway asks for its token before it changes a file. */
const needsToken = (error: unknown): boolean =>
  error instanceof AskError && error.code === "token_needed";

/** Gives a text to the browser as a file. */
function download(name: string, text: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

/** A unified diff, line by line. Signs mark added and removed lines, so that colour is not needed. */
export function Diff({ text }: { text: string }) {
  const toKind = (line: string): string =>
    /^(?:\+\+\+|---|diff )/.test(line)
      ? "quiet"
      : line.startsWith("+")
        ? "added"
        : line.startsWith("-")
          ? "removed"
          : line.startsWith("@")
            ? "quiet"
            : "";
  return (
    <pre class="mappings-diff" tabIndex={0} aria-label="Change of the file">
      {text.split("\n").map((line, index) => (
        <span key={index} class={toKind(line)}>
          {visibleText(line)}
          {"\n"}
        </span>
      ))}
    </pre>
  );
}

function Facts({ check, bench }: { check: LandingCheck; bench: Workbench }) {
  const { tests, problems, warnings } = check;
  const { stale, error } = bench.compared;
  return (
    <ul class="mappings-facts">
      {problems.map(({ path, message }) => (
        <li key={`${path}${message}`} class="bad">
          ✗ {path === "" ? "" : `${path}: `}
          {message}
        </li>
      ))}
      {problems.length === 0 ? (
        <li>{stale && error === null ? "Comparing …" : <Difference bench={bench} />}</li>
      ) : null}
      {tests ? (
        <li class={tests.failed.length > 0 ? "bad" : ""}>
          Tests: {tests.passed} of {tests.passed + tests.failed.length} pass
          {tests.failed.map(({ name, differences }) => (
            <div key={name}>
              ✗ {name}: {differences.map(({ field }) => field).join(", ")}
            </div>
          ))}
        </li>
      ) : null}
      {warnings.slice(0, 10).map(({ path, message }) => (
        <li key={`${path}${message}`} class="warn">
          ● {path}: {message}
        </li>
      ))}
    </ul>
  );
}

function Confirmations(props: {
  texts: Readonly<Record<string, string>>;
  given: readonly string[];
  onChange(given: string[]): void;
}) {
  const { texts, given, onChange } = props;
  return (
    <>
      {Object.entries(texts).map(([name, text]) => (
        <label key={name} class="mappings-confirm">
          <input
            type="checkbox"
            checked={given.includes(name)}
            onChange={(event) =>
              onChange(
                event.currentTarget.checked
                  ? [...given, name]
                  : given.filter((one) => one !== name),
              )
            }
          />
          <span>
            I have seen that this sets <b>{name}</b>: <Prose text={text} />
          </span>
        </label>
      ))}
    </>
  );
}

/** The error of saving, with the problems that it names. */
function Refusal({ error }: { error: Error }) {
  const issues = error instanceof AskError ? error.issues : [];
  return (
    <div class="mappings-refusal" role="alert">
      <p class="bad">{error.message}</p>
      {issues.map(({ path, message, detail }) => (
        <div key={`${path}${message}`}>
          <p>
            {path === "" ? "" : `${path}: `}
            {message}
          </p>
          {detail === undefined ? null : <Diff text={detail} />}
        </div>
      ))}
    </div>
  );
}

/** The effect of the change, and the confirmations that it needs. */
function Shown(props: {
  bench: Workbench;
  check: LandingCheck;
  confirm: readonly string[];
  onConfirm(given: string[]): void;
}) {
  const { bench, check, confirm, onConfirm } = props;
  return (
    <>
      <p class="quiet mono">{check.file}</p>
      {check.diff === "" ? <p>The file has this text already.</p> : <Diff text={check.diff} />}
      <Facts check={check} bench={bench} />
      {check.obstacle === null ? null : (
        <p class="warn">
          The file cannot be written here: {check.obstacle}. Take the change as a patch.
        </p>
      )}
      <Confirmations texts={check.confirmTexts} given={confirm} onChange={onConfirm} />
    </>
  );
}

interface SaveState {
  check: LandingCheck | null;
  error: Error | null;
  isTokenNeeded: boolean;
}

/** Checks a change, and makes it when the operator agrees. */
function useSave(change: Change, onSaved: (file: string) => void) {
  const [state, setState] = useState<SaveState>({ check: null, error: null, isTokenNeeded: false });
  const [confirm, setConfirm] = useState<string[]>([]);
  const [token, setToken] = useState("");
  const [patch, setPatch] = useState<string | null>(null);
  const [turn, setTurn] = useState(0);
  const tries = useTries(isPassing(state.error));
  const written = JSON.stringify(change);
  useEffect(() => {
    const abort = new AbortController();
    checkChange(change, abort.signal)
      .then((check) => setState({ check, error: null, isTokenNeeded: false }))
      .catch(
        (error: Error) => abort.signal.aborted || setState((before) => ({ ...before, error })),
      );
    return () => abort.abort();
  }, [written, turn, tries]);
  const [save, isSaving] = useAction(
    async () => {
      const { check } = state;
      if (!check) return;
      if (state.isTokenNeeded) {
        const refused = await signIn(token.trim());
        if (refused !== null) throw new AskError("token_needed", refused, 403);
      }
      const landed = await landChange(change, {
        base: check.base,
        confirm: check.confirm.filter((name) => confirm.includes(name)),
      });
      if (landed.landed) onSaved(landed.file);
      else {
        setPatch(landed.patch);
        setState((before) => ({
          ...before,
          error: new Error(`Nothing was written: ${landed.reason}`),
        }));
      }
    },
    (error) => setState((before) => ({ ...before, error, isTokenNeeded: needsToken(error) })),
  );
  const again = (): void => {
    setState({ check: null, error: null, isTokenNeeded: false });
    setTurn((before) => before + 1);
  };
  return { ...state, confirm, setConfirm, token, setToken, patch, save, isSaving, again };
}

/** True if a change can be made: it has no problem, changes something, and is confirmed by name. */
const isAgreed = (check: LandingCheck | null, confirm: readonly string[]): boolean =>
  check !== null &&
  check.problems.length === 0 &&
  check.diff !== "" &&
  check.confirm.every((name) => confirm.includes(name));

interface SaveProps {
  bench: Workbench;
  change: Change;
  canWrite: boolean;
  onClose(): void;
  onSaved(file: string): void;
  /** Called if someone else has changed the file meanwhile. */
  onOvertaken?(): void;
}

const isConflict = (error: Error | null): boolean =>
  error instanceof AskError && error.code === "conflict";

/** Shows what a change would do, asks for what has to be confirmed, and makes it. */
export function SaveDialog({ bench, change, canWrite, onClose, onSaved, onOvertaken }: SaveProps) {
  const saving = useSave(change, onSaved);
  const { check, error, isTokenNeeded, confirm, setConfirm, token, setToken, save, isSaving } =
    saving;
  const isOpen = isAgreed(check, confirm);
  const isStale = isConflict(error);
  // The text in the editor goes on there, beside what the file has now.
  const isText = "from" in change;
  useEffect(() => {
    if (isStale) onOvertaken?.();
  }, [isStale]);
  const patch = saving.patch ?? check?.diff ?? "";
  return (
    <Dialog title="Save" onClose={onClose} wide>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (isOpen && canWrite && !isStale) save();
        }}
      >
        <div class="body mappings-save">
          {check === null && error === null ? <LateSkeleton /> : null}
          {check ? <Shown {...{ bench, check, confirm }} onConfirm={setConfirm} /> : null}
          {canWrite ? null : (
            <p class="warn">
              This console may write no file (gateway.console). Take the change as a patch.
            </p>
          )}
          {isStale && isText ? (
            <p>Your text is kept: close this, and choose above it whose text goes on.</p>
          ) : null}
          {isTokenNeeded ? (
            <TextField
              label="Gateway token"
              type="password"
              value={token}
              onInput={setToken}
              error={error?.message ?? null}
              required
              autoFocus
            />
          ) : error ? (
            <Refusal error={error} />
          ) : null}
        </div>
        <footer>
          {isStale && !isText ? <Button onClick={saving.again}>Look at it again</Button> : null}
          <Button disabled={patch === ""} onClick={() => download("mapping.patch", patch)}>
            Patch
          </Button>
          <Button disabled={patch === ""} onClick={() => void copy(patch, "the patch")}>
            Copy the patch
          </Button>
          <Button kind="primary" submit busy={isSaving} disabled={!isOpen || !canWrite || isStale}>
            Save
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}

/** Makes a mapping live that is in shadow: shows what that would change of the events that came in lately. */
export function EnableDialog({ bench, ...props }: Omit<SaveProps, "change" | "onOvertaken">) {
  const change = useMemo((): Change => ({ kind: "enable", mapping: bench.id }), [bench.id]);
  const compared = useComparison(change, bench.last, bench.path);
  return <SaveDialog {...props} bench={{ ...bench, compared }} change={change} />;
}
