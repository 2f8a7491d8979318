"""`drobench completion`: what a shell needs to complete commands, runs, plugins and settings."""

import argparse
import shlex

from drobench.app.commands.parsing import AddCommand

_BASH = r"""_drobench() {
    local IFS=$'\n' line="${COMP_LINE:0:COMP_POINT}"
    local word="${line##*[[:space:]]}"
    COMPREPLY=($(drobench completion --query "$line" 2>/dev/null))
    # bash takes words apart at =, and what stands before it is typed already.
    if [[ $word == *=* && $COMP_WORDBREAKS == *=* ]]; then
        COMPREPLY=("${COMPREPLY[@]#"${word%%=*}="}")
    fi
    [[ ${#COMPREPLY[@]} -gt 0 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace
    return 0
}
complete -o default -F _drobench drobench
"""
_ZSH = r"""#compdef drobench
_drobench() {
    local -a found
    found=(${(f)"$(drobench completion --query "${(j: :)words[1,CURRENT-1]} $PREFIX" 2>/dev/null)"})
    (( $#found )) || { _files; return }
    compadd -S '' -- ${(M)found:#*=}
    compadd -- ${found:#*=}
}
compdef _drobench drobench
"""
_FISH = r"""complete -c drobench -a '(drobench completion --query (commandline -cp) 2>/dev/null)'
"""
SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def add_commands(add: AddCommand) -> None:
    """Add the command of this family."""
    parser = add(
        "completion",
        completion,
        "print what your shell needs to complete drobench",
        'eval "$(drobench completion bash)"',
    )
    parser.epilog = """examples, for the files that shells read when they start:
  eval "$(drobench completion bash)"        in ~/.bashrc
  eval "$(drobench completion zsh)"         in ~/.zshrc, after compinit
  drobench completion fish | source         in ~/.config/fish/config.fish
"""
    parser.add_argument("shell", nargs="?", choices=list(SCRIPTS), help="bash (default), zsh or fish")
    parser.add_argument("--query", metavar="LINE", help=argparse.SUPPRESS)


def completion(options: argparse.Namespace) -> int:
    """Print the script of a shell, or answer it."""
    if options.query is None:
        print(SCRIPTS[options.shell or "bash"], end="")
        return 0
    from drobench.app.cli import build_parser
    from drobench.app.completing import candidates

    words = _words(options.query)
    for word in candidates(words, build_parser()) if words else ():
        print(word)
    return 0


def _words(line: str) -> list[str]:
    """Return the words after the program, the last one as far as it is typed; none for a line that is no line yet."""
    try:
        words = shlex.split(line)
    except ValueError:
        return []  # within a quotation
    open_word = bool(line) and not line[-1].isspace()
    return words[1:] if open_word else [*words[1:], ""]
