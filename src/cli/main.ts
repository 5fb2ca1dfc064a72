import { processIo } from "./io.ts";
import { runCommandLine } from "./run.ts";

// `rouse events | head` closes the pipe early: that is no error.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code === "EPIPE") process.exit(0);
  throw error;
});

process.exitCode = await runCommandLine(process.argv.slice(2), processIo());
// A handle that a plugin left open must not keep the process; the timer is unref'd, so that it does not keep it either.
setTimeout(() => process.exit(), 500).unref();
