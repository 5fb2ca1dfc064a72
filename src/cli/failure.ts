import { renderIssue } from "../config/issues.ts";
import { RouseError, safeError, type Issue } from "../core/errors.ts";
import { describeFileError } from "../core/files.ts";
import { EXIT, type CliIo } from "./io.ts";
import { printable } from "./text.ts";

/** An error that says only what to do: a wrong option or argument. Exit code 2. */
export function usage(message: string): RouseError {
  return new RouseError({ code: "usage", message });
}

/** An error that says what is not there of what the line names. Exit code 1, as if the gateway had said so. */
export function noSuch(message: string): RouseError {
  return new RouseError({ code: "not_found", message });
}

/** An error that says why a file that the line names cannot be read. Exit code 1. */
export const unreadable = (file: string, error: unknown): RouseError =>
  noSuch(`${file} cannot be read: ${describeFileError(error)}`);

/**
 * The exit code for problems of the config: `config` only if a file of the config or a variable that is not set proves one
 * of them, since service managers then do not try again.
 */
export function configExitCode(issues: readonly Issue[] = []): number {
  return issues.length > 0 && issues.every((issue) => issue.transient) ? EXIT.failure : EXIT.config;
}

function toExitCode(error: RouseError): number {
  if (error.code === "usage") return EXIT.usage;
  return error.code === "config_invalid" ? configExitCode(error.issues) : EXIT.failure;
}

/** A system call's error names a file or an address and what went wrong, and quotes nothing else. */
function isSystemError(error: unknown): error is NodeJS.ErrnoException {
  return error instanceof Error && typeof (error as NodeJS.ErrnoException).syscall === "string";
}

/** An error of a file names the file; an error of the network has a message for people. */
const describeSystemError = (error: NodeJS.ErrnoException): string =>
  error.path === undefined
    ? error.message
    : `${error.path} cannot be used: ${describeFileError(error)}`;

/** Prints an error for people and says with which code to end. The stack comes only with `--verbose`. */
export function reportError(error: unknown, io: CliIo, verbose: boolean): number {
  if (error instanceof RouseError) {
    io.err(`rouse: ${printable(error.message).replaceAll("\n", "\n  ")}\n`);
    const single =
      error.issues?.length === 1 && error.message.includes(error.issues[0]?.message ?? "");
    for (const issue of single ? [] : (error.issues ?? []))
      io.err(`  ${printable(renderIssue(issue, io.cwd))}\n`);
  } else {
    const { name, code } = safeError(error);
    const message = isSystemError(error)
      ? describeSystemError(error)
      : `something failed unexpectedly (${code ?? name}); --verbose shows where`;
    io.err(`rouse: ${printable(message)}\n`);
  }
  if (verbose && error instanceof Error) io.err(`${printable(error.stack ?? "")}\n`);
  return error instanceof RouseError ? toExitCode(error) : EXIT.failure;
}
