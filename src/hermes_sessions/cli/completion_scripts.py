"""What shells run to complete a command line; each asks ``hermes completion`` for candidates."""

from __future__ import annotations

from typing import Final

_BASH: Final = r"""# Completion of hermes for bash. In ~/.bashrc: source <(hermes completion bash)
_hermes_completion() {
    local candidate quoted
    COMPREPLY=()
    while IFS= read -r candidate; do
        case ${COMP_WORDS[COMP_CWORD]} in
            # Bash keeps the quote that was typed, and what is special inside it differs.
            \'*) quoted=${candidate//\'/\'\\\'\'} ;;
            \"*) quoted=$(sed 's/[\\"$`]/\\&/g' <<<"$candidate") ;;
            *) quoted=$(printf %q "$candidate") ;;
        esac
        COMPREPLY+=("$quoted")
    done < <("${COMP_WORDS[0]}" completion bash -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _hermes_completion hermes hermes-sessions
"""

_ZSH: Final = r"""#compdef hermes hermes-sessions
# Completion of hermes for zsh. In ~/.zshrc, after compinit: source <(hermes completion zsh)
_hermes_completion() {
    # PREFIX begins behind a quote that is not closed yet.
    local -a values shown typed=("${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}")
    local value about
    while IFS=$'\t' read -r value about; do
        values+=("$value")
        shown+=("$value${about:+  -- $about}")
    done < <("${words[1]}" completion zsh -- "${(@)typed}" 2>/dev/null)
    if (( ${#values} )); then
        compadd -l -d shown -a values
    else
        _files
    fi
}
compdef _hermes_completion hermes hermes-sessions
"""

_FISH: Final = r"""# Completion of hermes for fish. Once:
#   hermes completion fish > ~/.config/fish/completions/hermes.fish
function __hermes_completion
    set -l before (commandline -opc)
    set -l current (commandline -ct | string unescape)
    test (count $current) -eq 0; and set current ''
    $before[1] completion fish -- $before[2..-1] $current 2>/dev/null
end
complete -c hermes -a '(__hermes_completion)'
complete -c hermes-sessions -a '(__hermes_completion)'
"""

SCRIPTS: Final = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
