import type { Command } from "commander";
import { doing, type CommandSpec } from "./command.ts";
import { usage } from "./failure.ts";
import type { CliIo } from "./io.ts";
import { takesShared } from "./options.ts";

/** The words that may follow the path of a command, such as `events list`: its subcommands and options. The path of `rouse` is empty. */
type Step = readonly [path: string, words: string];

function listSteps(command: Command, path: readonly string[] = []): Step[] {
  let root = command;
  while (root.parent) root = root.parent;
  const shared = root.options.filter((option) => takesShared(command, option.attributeName()));
  const options = new Set([...command.options, ...shared]);
  const flags = [...options].flatMap(({ short, long }) => [short, long].filter(Boolean));
  const words = [...command.commands.map((inner) => inner.name()), ...flags, "-h", "--help"];
  const inner = command.commands.flatMap((one) => listSteps(one, [...path, one.name()]));
  return [[path.join(" "), words.join(" ")], ...inner];
}

/** Follows the words of the line as far as they are commands, then offers what may come next. */
function renderCases(steps: readonly Step[], offer: (words: string) => string): string {
  const known = steps.flatMap(([path]) => (path === "" ? [] : [`"${path}"`]));
  return `  local word next key=""
  for word in "\${before[@]}"; do
    next="\${key:+$key }$word"
    case "$next" in
      ${known.join("|")}) key="$next" ;;
    esac
  done
  case "$key" in
${steps.map(([path, words]) => `    "${path}") ${offer(words)} ;;`).join("\n")}
  esac`;
}

const SHELLS: Record<string, (steps: readonly Step[]) => string> = {
  bash: (steps) => `_rouse() {
  local before=("\${COMP_WORDS[@]:1:COMP_CWORD-1}")
${renderCases(steps, (words) => `COMPREPLY=($(compgen -W '${words}' -- "\${COMP_WORDS[COMP_CWORD]}"))`)}
}
complete -o default -F _rouse rouse
`,
  zsh: (steps) => `#compdef rouse
_rouse() {
  local -a before=("\${(@)words[2,CURRENT-1]}")
${renderCases(steps, (words) => `compadd -- ${words} || _files`)}
}
if [ "$funcstack[1]" = _rouse ]; then _rouse "$@"; else compdef _rouse rouse; fi
`,
  fish: (steps) => `function __rouse_words
  set -l key ""
  for word in (commandline -opc)[2..]
    set -l next (string trim "$key $word")
    switch "$next"
      case ${steps.map(([path]) => `"${path}"`).join(" ")}
        set key "$next"
    end
  end
  switch "$key"
${steps.map(([path, words]) => `    case "${path}"\n      string split " " -- "${words}"`).join("\n")}
  end
end
complete -c rouse -a "(__rouse_words)"
`,
};

/** `rouse completion`; `describe` makes the program with all of its commands. */
export const createCompletion = (describe: (io: CliIo) => Promise<Command>): CommandSpec =>
  doing({
    usage: "completion <shell>",
    about: "print the completion of commands for a shell: bash, zsh or fish",
    examples: [
      "rouse completion bash > ~/.local/share/bash-completion/completions/rouse",
      "rouse completion zsh > ~/.zfunc/_rouse",
      "rouse completion fish > ~/.config/fish/completions/rouse.fish",
    ],
    async run(io, _, shell) {
      const render = Object.hasOwn(SHELLS, shell) ? SHELLS[shell] : undefined;
      if (!render) throw usage(`"${shell}": write bash, zsh or fish`);
      io.out(render(listSteps(await describe(io))));
    },
  });
