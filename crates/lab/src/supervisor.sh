# Runs by /bin/sh as: plimsoll-supervisor ROOT SOCKETS LEAVE LIMIT
#
# Guards ROOT, the directory of one private server, and SOCKETS, its socket directory. Plimsoll holds the
# other end of stdin and writes one word a line; the end of stdin is Plimsoll's end, however it came.
#
#   start 'ARG' ...   runs a program, its output appended to ROOT/log; answers "started PID"
#   reap              waits for it and ends what it left running; answers "exited STATUS"
#   kill              ends it and everything below it at once; no answer
#
# At the end of stdin the program gets signal LEAVE; after LIMIT seconds everything that is still below is
# killed; and ROOT and SOCKETS are removed, but for what a sweep needs. This shell is in a session of its own, so that Ctrl-C does not reach
# it, and is the reaper of its orphaned descendants, so that "below" is found however they forked.
root=$1 sockets=$2 leave=$3 limit=$4
server=
trap '' HUP INT QUIT TERM PIPE

# Sets `below` to the living children of this shell. Only builtins: a forked reader would be one of them.
find_below() {
    below=
    # Not every kernel lists children; all processes are looked at then.
    children=/proc/[0-9]*
    if [ -e "/proc/$$/task/$$/children" ]; then
        children=
        read -r children <"/proc/$$/task/$$/children"
    fi
    for child in $children; do
        line=
        { read -r line <"/proc/${child#/proc/}/stat"; } 2>/dev/null
        case ${line##*) } in
        [ZX]*) ;;
        ?" $$ "*) below="$below ${child#/proc/}" ;;
        esac
    done
}

# Sets `now` to seconds since some moment.
look_at_clock() {
    read -r now rest </proc/uptime
    now=${now%.*}
}

# Waits until nothing is below, for at most $1 seconds, and less than one fewer; false when something still is.
wait_below() {
    look_at_clock
    until=$((now + $1))
    while find_below; [ -n "$below" ]; do
        [ "$now" -lt "$until" ] || return 1
        sleep 0.05
        look_at_clock
    done
}

# Kills everything below, one generation a round, because killing the parent makes its children ours.
# After 10 s only what not even SIGKILL ends is left; false then.
kill_below() {
    look_at_clock
    give_up=$((now + 10))
    while find_below; [ -n "$below" ]; do
        [ "$now" -lt "$give_up" ] || return 1
        kill -KILL $below 2>/dev/null
        sleep 0.02
        look_at_clock
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
    wait_below "$limit"
fi
# With somebody still writing there it is better left to the next sweep.
kill_below || exit
if [ -e "$root/data/postmaster.pid" ]; then
    # A PostgreSQL that was killed: its shared memory is found by this file and its directory. Plimsoll's own end
    # removes both, or the next sweep.
    for entry in "$root"/data/*; do
        [ "$entry" = "$root/data/postmaster.pid" ] || rm -rf -- "$entry"
    done
    rm -rf -- "$sockets" "$root/log"
else
    rm -rf -- "$sockets" "$root"
fi
