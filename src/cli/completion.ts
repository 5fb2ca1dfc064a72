import type { Command, Option } from "commander";
import { doing, type CommandSpec } from "./command.ts";
import { usage } from "./failure.ts";
import type { CliIo } from "./io.ts";
import { takesShared } from "./options.ts";

/** What may follow a command: its subcommands, else its options. */
interface Step {
  /** The words before, such as `events list`; empty for `rouse` itself. */
  path: string;
  words: { name: string; about: string }[];
  options: { flags: string[]; about: string }[];
}

function listSteps(command: Command, path: string, shared: readonly Option[]): Step[] {
  const words = command.commands.map((inner) => ({
    name: inner.name(),
    about: inner.summary() || inner.description(),
  }));
  const taken = shared.filter((option) => takesShared(command, option.attributeName()));
  const all = new Set([...command.options, ...taken]);
  const options = [...all].map(({ short, long, description }) => ({
    flags: [short, long].flatMap((flag) => flag ?? []),
    about: description,
  }));
  const own: Step = {
    path,
    words,
    options: [...options, { flags: ["-h", "--help"], about: "print this help" }],
  };
  return [
    own,
    ...command.commands.flatMap((inner) =>
      listSteps(inner, path === "" ? inner.name() : `${path} ${inner.name()}`, shared),
    ),
  ];
}

const candidates = ({ words, options }: Step): string =>
  [...words.map(({ name }) => name), ...options.flatMap(({ flags }) => flags)].join(" ");
const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

/** Follows the words of the line as far as they are commands, then offers what may come next. */
function cases(steps: readonly Step[], offer: (words: string) => string): string {
  const known = steps.filter(({ path }) => path !== "").map(({ path }) => `"${path}"`);
  return `  local word next key=""
  for word in "\${before[@]}"; do
    next="\${key:+$key }$word"
    case "$next" in
      ${known.join("|")}) key="$next" ;;
    esac
  done
  case "$key" in
${steps.map((step) => `    "${step.path}") ${offer(candidates(step))} ;;`).join("\n")}
  esac`;
}

function bash(steps: readonly Step[]): string {
  return `_rouse() {
  local before=("\${COMP_WORDS[@]:1:COMP_CWORD-1}")
${cases(steps, (words) => `COMPREPLY=($(compgen -W ${quoted(words)} -- "\${COMP_WORDS[COMP_CWORD]}"))`)}
}
complete -o default -F _rouse rouse
`;
}

function zsh(steps: readonly Step[]): string {
  return `#compdef rouse
_rouse() {
  local -a before=("\${(@)words[2,CURRENT-1]}")
${cases(steps, (words) => `compadd -- ${words} || _files`)}
}
if [ "$funcstack[1]" = _rouse ]; then _rouse "$@"; else compdef _rouse rouse; fi
`;
}

function fish(steps: readonly Step[]): string {
  const lines = steps.flatMap(({ path, words, options }) => {
    const parts = path === "" ? [] : path.split(" ");
    const seen = parts.map((part) => `__fish_seen_subcommand_from ${part}`);
    const names = words.map(({ name }) => name).join(" ");
    const open =
      path === ""
        ? "__fish_use_subcommand"
        : [...seen, `not __fish_seen_subcommand_from ${names}`].join("; and ");
    return [
      ...words.map(
        ({ name, about }) =>
          `complete -c rouse -f -n ${quoted(open)} -a ${name} -d ${quoted(about)}`,
      ),
      ...options.map(({ flags, about }) => {
        const given = flags
          .map((flag) => (flag.startsWith("--") ? `-l ${flag.slice(2)}` : `-s ${flag.slice(1)}`))
          .join(" ");
        return `complete -c rouse${seen.length === 0 ? "" : ` -n ${quoted(seen.join("; and "))}`} ${given} -d ${quoted(about)}`;
      }),
    ];
  });
  return `${lines.join("\n")}\n`;
}

const SHELLS: Record<string, (steps: readonly Step[]) => string> = { bash, zsh, fish };

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
      const program = await describe(io);
      io.out(render(listSteps(program, "", program.options)));
    },
  });
