# How bench/apple.sh watches a stage: a limit of time, and what Metal's validation says. Sourced, also by bench/test_apple.sh.
# shellcheck shell=bash
# Nothing that bash 3.2 or the tools of a stock macOS lack: there is no `timeout`.

# The process group of what runs, if anything does.
running=

# limited SECONDS LOG SAMPLES COMMAND...: runs a command or a function for at most so many seconds, and writes what it says to LOG. What
# hangs is looked into, which leaves SAMPLES-PID.txt for each process, and ended with all that it started; that is 124.
limited() {
    local limit=$1 log=$2 samples=$3 begun=$SECONDS status
    shift 3
    # A job of its own is a process group of its own.
    set -m
    "$@" >"$log" 2>&1 </dev/null &
    running=$!
    set +m
    while kill -0 "$running" 2>/dev/null; do
        if [ $((SECONDS - begun)) -ge "$limit" ]; then
            printf '\nit has not ended after %d s, and is ended\n' "$limit" >>"$log"
            look_into "$running" "$samples" >>"$log" 2>&1
            end_group
            return 124
        fi
        sleep 1
    done
    wait "$running" 2>/dev/null
    status=$?
    running=
    return "$status"
}

# Where each thread of each process of a group is, as macOS's `sample` tells.
look_into() {
    local pid group name
    ps -A -o pid= -o pgid= -o comm= | while read -r pid group name; do
        [ "$group" = "$1" ] || continue
        case ${name##*/} in bash | sh | sleep | cargo | rustc) continue ;; esac
        printf 'process %s, %s: see %s-%s.txt\n' "$pid" "${name##*/}" "${2##*/}" "$pid"
        sample "$pid" 3 -mayDie -file "$2-$pid.txt" >/dev/null
    done
}

# Ends what runs, at first politely.
end_group() {
    local group=$running tries=5
    running=
    [ -n "$group" ] || return 0
    kill -TERM -- "-$group" 2>/dev/null
    while [ "$tries" -gt 0 ] && kill -0 -- "-$group" 2>/dev/null; do
        sleep 1
        tries=$((tries - 1))
    done
    kill -KILL -- "-$group" 2>/dev/null
    wait "$group" 2>/dev/null
    return 0
}

# Prints the lines of a log in which Metal's validation complains, or one of its assertions fails; there are none in a good log. The layer
# goes on after an error (MTL_DEBUG_LAYER_ERROR_MODE=nslog), and validation inside kernels only reports, so the exit code tells nothing.
complaints() {
    local of_calls='failed assertion|-\[_?(MTL|AGX|IOGPU)[A-Za-z0-9_]+ [A-Za-z0-9_:]+\]|^[A-Z][A-Za-z ]+ Validation$'
    local of_kernels='Invalid [a-z ]*(load|store|access|atomic)|executing ([a-z]+ )?(kernel|compute) function|[Ss]hader [Vv]alidation.*(error|failed)'
    grep -En "$of_calls|$of_kernels" "$1" | grep -Ev 'Metal (API|GPU|Shader) Validation Enabled'
}
