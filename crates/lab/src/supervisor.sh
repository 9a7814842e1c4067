# Runs by /bin/sh as: plimsoll-supervisor ROOT SOCKETS LEAVE LIMIT
#
# Guards ROOT, the directory of one private server, and SOCKETS, its socket directory. Plimsoll holds the
# other end of stdin and writes one word a line; the end of stdin is Plimsoll's end, however it came.
#
#   start 'ARG' ...   runs a program, its output appended to ROOT/log; answers "started PID"
#   reap              waits for it and ends what it left running; answers "exited STATUS"
#   kill              ends it and everything below it at once; no answer
#
# At the end of stdin the program gets signal LEAVE, LIMIT twentieths of a second later everything below is
# killed, and ROOT and SOCKETS are removed. This shell is in a session of its own, so that Ctrl-C does not reach
# it, and is the reaper of its orphaned descendants, so that "below" is found however they forked.
root=$1 sockets=$2 leave=$3 limit=$4
server=
trap '' HUP INT QUIT TERM PIPE

# Sets `below` to the living children of this shell. Only builtins: a forked reader would be one of them.
find_below() {
    below=
    for stat in /proc/[0-9]*/stat; do
        line=
        { read -r line <"$stat"; } 2>/dev/null
        case ${line##*) } in
        [ZX]*) ;;
        ?" $$ "*)
            pid=${stat#/proc/}
            below="$below ${pid%/stat}"
            ;;
        esac
    done
}

# Kills everything below, one generation a round, because killing the parent makes its children ours.
# After 10 s only what not even SIGKILL ends is left; false then.
kill_below() {
    rounds=0
    while find_below; [ -n "$below" ]; do
        [ "$rounds" -lt 200 ] || return 1
        rounds=$((rounds + 1))
        kill -KILL $below 2>/dev/null
        sleep 0.05
    done
}

while read -r word arguments; do
    case $word in
    start)
        eval "set -- $arguments"
        "$@" </dev/null >>"$root/log" 2>&1 &
        server=$!
        echo "started $server"
        ;;
    reap)
        wait "$server"
        status=$?
        server=
        kill_below
        echo "exited $status"
        ;;
    kill) kill_below ;;
    esac
done

if [ -n "$server" ]; then
    kill -s "$leave" "$server" 2>/dev/null
    rounds=0
    while find_below; [ -n "$below" ] && [ "$rounds" -lt "$limit" ]; do
        rounds=$((rounds + 1))
        sleep 0.05
    done
fi
# With somebody still writing there it is better left to the next sweep.
kill_below && rm -rf -- "$sockets" "$root"
