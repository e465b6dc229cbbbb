# Sourced by ./hermes and ./test, which set $root: keeps the environment in $root/.venv current.
# Speaks on stderr only, because stdout belongs to the command that is about to run.

say() {
  printf '%s: %s\n' "$(basename -- "$0")" "$*" >&2
}

# stamp_of LOCK: what the environment depends on, in lines of checksum and path. The path counts
# because an environment that was moved or copied still points at its old place. Only the
# environment for tests contains the test tools.
stamp_of() {
  if [ "$1" = dev ]; then
    set -- "$1" "$root/testing/pyproject.toml"
  fi
  cksum "$root/pyproject.toml" "$root/requirements/$1.lock" ${2+"$2"}
}

# is_current LOCK STAMP: the environment was set up completely from exactly these inputs.
is_current() {
  [ -x "$root/.venv/bin/python" ] && [ ! -e "$root/.venv/incomplete" ] &&
    { IFS= read -r first && IFS= read -r second && { IFS= read -r third || :; }; } \
      <"$root/.venv/$1.stamp" &&
    [ "$first
$second${third:+
$third}" = "$2" ]
} 2>/dev/null

# usable_python: prints a Python that can make the environment, or fails.
usable_python() {
  for candidate in ${HERMES_PYTHON:+"$HERMES_PYTHON"} \
    python3 python3.13 python3.12 python3.11 python3.14 /usr/bin/python3 python; do
    # Version managers put names on PATH that do not run, so only running one tells.
    if "$candidate" -I -c '
import sys
if sys.version_info < (3, 11): sys.exit(1)
import ensurepip, venv
' >/dev/null 2>&1; then
      printf '%s' "$candidate"
      return 0
    fi
  done
  return 1
}

# apt_install PACKAGE...: quiet unless it fails.
apt_install() {
  if ! output=$(
    exec 2>&1
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq &&
      apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=300 \
        -o Dpkg::Options::=--force-confold "$@"
  ); then
    printf '%s\n' "$output" >&2
    say "could not install: $*"
    return 1
  fi
}

can_apt() {
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null
}

# ensure_environment LOCK...: sets the environment up from the last lock file named, which
# contains the others, unless it is current already.
ensure_environment() {
  current=yes
  for lock in "$@"; do
    is_current "$lock" "$(stamp_of "$lock")" || current=no
  done
  if [ $current = yes ]; then
    return 0
  fi
  if ! python=$(usable_python) && can_apt; then
    say "installing python3-venv"
    apt_install python3-venv || exit 1
  fi
  if ! python=$(usable_python); then
    say "needs Python 3.11 or later with the venv and ensurepip modules, and found none."
    say "On Debian or Ubuntu: sudo apt-get install python3-venv"
    say "If one is installed elsewhere: HERMES_PYTHON=/path/to/python3 $0"
    exit 1
  fi
  for lock in "$@"; do
    set -- "$@" "$lock=$(stamp_of "$lock")"
    shift
  done
  "$python" -I "$root/scripts/environment.py" "$lock" "$@" || exit
  ensure_engine_library
}

# ensure_engine_library: what the engine of the local model needs of the system, and a bare Debian
# lacks. Where it cannot be installed, everything works but that model, which says so itself.
ensure_engine_library() {
  if can_apt && ! ls /usr/lib/*/libgomp.so.1 >/dev/null 2>&1; then
    say "installing libgomp1"
    apt_install libgomp1 || :
  fi
}
