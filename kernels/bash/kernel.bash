# SPDX-License-Identifier: Apache-2.0
# The kernel behind a bash context (kernels/PROTOCOL.md): a shell that is given one cell after another, and keeps its
# variables, functions, options and directory. The stub that starts it (src/kernels/kernels.c) evaluates this text and
# then $__cay_loop, which is one line, so that bash's messages count a cell's lines from 1.
#
# It has to live with whatever a cell does to the shell:
# - A cell runs in the shell itself, not in a function: `declare` would be local there.
# - 62 and 63 are the real streams, which a cell has as 1 and 2. The loop's own are /dev/null, so that `set -x` does not
#   show it, and `exec >file` ends with the cell. 60 to 63 are closed in a cell and in what it starts.
# - What ends a shell without `exit` (`set -e`, `set -u`, ${x:?}, `break` out of the loop), and an interrupt, from
#   whatever depth: the EXIT trap executes another bash in the place of this one, which is told all state and goes on.
#   Jobs go on, too, but `wait` and `fg` do not know them any more. `exit` is told apart by a function of that name.
# - Functions may have any builtin's name, hence `builtin`; one that is named `builtin` ends the kernel.
# - `set -u`, IFS, TMOUT, options: nothing unset is used, everything is quoted.
# A cell's traps are its own affair: its EXIT trap takes the place of ours, so that `set -e` ends the context; one on
# INT lasts as long as the cell. `set -n` makes the shell deaf until it is killed.
#
# A cell's status is that of its last command; other than 0 is an error. Forks nothing but what a cell does, except
# after a cell that ended with 2 (is it a syntax error?) and for another shell.
#
# Names: c code, n cell, k count, s status, b busy with a cell, x the end is meant, i interrupted: the options before, u how to undo what
# the cell had for itself, e variables for the next cell, t l a header, v w what was
# read, j JSON, m message, o options, f where 60 to 63 are kept, d where a new shell reads its state.

__cay_c='' __cay_n=0 __cay_k=0 __cay_s=0 __cay_b='' __cay_x='' __cay_i='' __cay_u='' __cay_e=()
__cay_t='' __cay_l=0 __cay_j='' __cay_m='' __cay_o='' __cay_v='' __cay_w=() __cay_f=(60 61 62 63)
__cay_bash=$BASH

# -- frames

# TYPE CELL PAYLOAD
__cay_send() {
    local LC_ALL=C
    builtin printf '%s %s %s\n%s' "$1" "$2" "${#3}" "$3" >&61 || __cay_end_of_all
}

__cay_end_of_all() {
    __cay_x=1
    builtin exit 1
}

# As many bytes as the frame says, into __cay_c.
__cay_read_text() {
    __cay_c=''
    ((__cay_l == 0)) || LC_ALL=C TMOUT='' builtin read -r -N "$__cay_l" -u 60 __cay_c
}

# The texts of the frame, each ended by NUL, into __cay_w.
__cay_read_list() {
    local LC_ALL=C __cay_left=$__cay_l
    __cay_w=()
    while ((__cay_left > 0)); do
        IFS='' TMOUT='' builtin read -r -d '' -u 60 __cay_v || builtin return 1
        __cay_left=$((__cay_left - ${#__cay_v} - 1))
        __cay_w+=("$__cay_v")
    done
}

# Into __cay_j: a JSON string. Control characters become spaces.
__cay_quote() {
    local LC_ALL=C
    __cay_j=${1//\\/\\\\}
    __cay_j=${__cay_j//\"/\\\"}
    __cay_j=\"${__cay_j//[$'\x01'-$'\x1f\x7f']/ }\"
}

# -- the environment

__cay_is_name() {
    local LC_ALL=C
    [[ $1 =~ ^[A-Za-z_][A-Za-z_0-9]*$ && $1 != __cay_* ]]
}

__cay_export() {
    local __cay_p
    for __cay_p in "$@"; do
        __cay_is_name "${__cay_p%%=*}" || builtin continue
        builtin declare -gx "${__cay_p%%=*}=${__cay_p#*=}" 2>/dev/null
    done
    builtin return 0
}

# Notes how to undo it, and sets the variables of the next cell.
__cay_lend() {
    local __cay_p __cay_name __cay_q
    for __cay_p in "$@"; do
        __cay_name=${__cay_p%%=*}
        __cay_is_name "$__cay_name" || builtin continue
        if [[ ${!__cay_name+x} ]]; then
            builtin printf -v __cay_q '%s=%q;' "$__cay_name" "${!__cay_name}"
            __cay_p=${!__cay_name@a}
            [[ $__cay_p == *x* ]] || __cay_q+="builtin export -n $__cay_name;"
        else
            __cay_q="builtin unset -v $__cay_name;"
        fi
        __cay_u=$__cay_q$__cay_u
    done
    __cay_export "$@"
}

__cay_give_back() {
    local __cay_q=$__cay_u
    __cay_u=''
    [[ -z $__cay_q ]] || builtin eval "$__cay_q"
}

# `open`: language, directory, environment.
__cay_open() {
    __cay_read_list || builtin return 1
    __cay_export "${__cay_w[@]:2}"
    if CDPATH='' builtin cd -- "${__cay_w[1]}"; then
        __cay_send opened 0 '{}'
    else
        __cay_quote "there is no directory '${__cay_w[1]}'"
        __cay_send failed 0 "{\"message\":$__cay_j}"
    fi
}

# -- how a cell ended

# What bash says about a text that it reads without running it, in a child.
__cay_parse() {
    __cay_m=$(builtin eval "builtin set -n"$'\n'"$1" 2>&1 >/dev/null) || :
    __cay_m=${__cay_m%%$'\n'*}
}

# Whether the cell cannot be read at all. What bash counts lines from is told by a text whose first line is wrong.
__cay_is_syntax_error() {
    __cay_parse "$__cay_c"
    [[ $__cay_m == *'syntax error'* || $__cay_m == *'unexpected EOF'* ]] || builtin return 1
    if [[ $__cay_m =~ line\ ([0-9]+):\ (.*) ]]; then
        __cay_line=${BASH_REMATCH[1]} __cay_text=${BASH_REMATCH[2]}
        __cay_parse ')'
        [[ $__cay_m =~ line\ ([0-9]+): ]] && __cay_line=$((__cay_line - BASH_REMATCH[1] + 1))
    else
        __cay_text=${__cay_m#*: }
    fi
}

__cay_tell_error() {
    local __cay_name=ExitStatus __cay_line=null __cay_text="the cell ended with status $__cay_s"
    if [[ $__cay_i ]]; then
        __cay_name=Interrupted __cay_text='the cell was interrupted'
    elif ((__cay_s == 2)) && __cay_is_syntax_error; then
        __cay_name=SyntaxError
    fi
    __cay_quote "$__cay_text"
    __cay_send error "$__cay_n" \
        "{\"name\":\"$__cay_name\",\"message\":$__cay_j,\"traceback\":[],\"lineNumber\":$__cay_line}"
}

__cay_done() {
    builtin trap '' INT
    __cay_s=$1 __cay_b=''
    __cay_give_back
    [[ $__cay_s == 0 && -z $__cay_i ]] || __cay_tell_error
    __cay_i='' __cay_c=''
    __cay_send 'done' "$__cay_n" "{\"count\":$__cay_k}"
}

# -- the loop

# What the next cell sees as $?. With `set -e` it would be the end.
__cay_status() {
    [[ $- == *e* ]] || builtin return "$__cay_s"
}

# Where bash keeps 60 to 63 while a cell has them closed: in the lowest that are free from 10 on. Not all that ends a
# shell gives them back before its EXIT trap.
__cay_find_places() {
    local -i __cay_fd=9
    __cay_f=()
    while ((${#__cay_f[@]} < 4)); do
        __cay_fd+=1
        [[ -e /dev/fd/$__cay_fd ]] || __cay_f+=("$__cay_fd")
    done
}

__cay_begin() {
    __cay_read_text || builtin return 1
    __cay_k=$((__cay_k + 1)) __cay_b=1
    ((${#__cay_e[@]} == 0)) || __cay_lend "${__cay_e[@]}"
    __cay_e=()
    __cay_find_places
    builtin trap "$__cay_stop" INT
}

# Takes frames up to the next cell. Fails at the end of control in.
__cay_next() {
    [[ -z $__cay_b ]] || __cay_done "$1" # `continue` has left it open
    while IFS=' ' TMOUT='' builtin read -r -u 60 __cay_t __cay_n __cay_l; do
        case $__cay_t in
        run)
            __cay_begin || builtin break
            builtin return 0
            ;;
        env)
            __cay_read_list || builtin break
            __cay_e=("${__cay_w[@]}")
            ;;
        open) __cay_open || builtin break ;;
        ping) __cay_send pong "$__cay_n" '{}' ;;
        *) __cay_read_text || builtin break ;;
        esac
    done
    __cay_x=1
    builtin return 1
}

# -- the end, or another shell

exit() {
    __cay_s=$?
    [[ $BASHPID != "$$" ]] || __cay_x=1
    builtin exit "${@:-$__cay_s}"
}

# All that makes the shell what it is, as commands: functions and aliases, which may have any name, come last.
__cay_dump() {
    builtin printf 'exec {__cay_d}<&-\n' # all of this has been read by then
    builtin declare -p
    builtin umask -p
    builtin shopt -p
    builtin printf 'set --'
    (($# == 0)) || builtin printf ' %q' "$@"
    builtin printf '\n'
    builtin printf '%s\n' "$__cay_m"
    builtin set +o
    builtin declare -f
    [[ $__cay_o != *P* ]] || builtin printf 'builtin set -o posix\n' # in which no function may be named exit
    __cay_o=${__cay_o//[^euxvET]/}
    [[ -z $__cay_o ]] || builtin printf 'builtin set -%s\n' "$__cay_o"
    builtin alias -p
}

# The EXIT trap: status, traps (which neither functions nor other children know), arguments.
__cay_end() {
    __cay_s=$1 __cay_m=$2 __cay_o=${__cay_i:-$-}
    [[ -z $__cay_x && -n $__cay_b ]] || builtin return 0
    [[ ! -o posix ]] || __cay_o+=P
    builtin set +euxvET +o posix
    builtin trap - INT # what is ignored when a shell begins can never be trapped in it
    builtin shift 2
    builtin unset -v __cay_d # which the other one has before it is told the rest
    [[ ! -e /dev/fd/${__cay_f[0]} ]] || __cay_take_back
    BASH_ENV='' builtin exec -a bash "$__cay_bash" --norc --noprofile -c "$__cay_again" \
        bash <(__cay_dump "$@" 2>/dev/null) 1>/dev/null 2>/dev/null
}

# Bash still keeps 60 to 63. By way of 1: a copy of what is closed on execution is, too, unless it is one of the first
# three.
__cay_take_back() {
    builtin unset -f exec # a cell's; `builtin exec` would not do it for good
    exec 1<&"${__cay_f[0]}" 60<&1 1<&"${__cay_f[1]}" 61<&1 1<&"${__cay_f[2]}" 62<&1 1<&"${__cay_f[3]}" 63<&1
}

__cay_fail() {
    builtin return 130
}

# An interrupt: as if a command had failed under `set -e`, because that, unlike `exit`, takes functions' variables away
# first. bash complains about it.
__cay_stop='__cay_i=$-; exec 2>/dev/null; builtin set -e; __cay_fail'

# Each in one line, which bash reads as a whole before it runs any of it: no alias can change it.
__cay_loop='while __cay_next "$?"; do __cay_status; builtin eval "$__cay_c" 1>&62 2>&63 60<&- 61>&- 62>&- 63>&-; __cay_done "$?"; done'
__cay_again='trap "" INT; __cay_d=${1#/dev/fd/}; . "$1"; __cay_arm; __cay_done "$__cay_s"; '$__cay_loop

# Whoever wants it to end shall have it, with no shell after it.
__cay_arm() {
    builtin trap '__cay_end "$?" "$(builtin trap -p)" "$@"' EXIT
    builtin trap '__cay_x=1; builtin trap - TERM; builtin kill -TERM "$BASHPID"' TERM
    builtin trap '' INT
}

builtin unset -v n src
exec 62>&1 63>&2 1>/dev/null 2>/dev/null
__cay_arm
builtin shopt -s execfail
__cay_send ready 0 "{\"language\":\"bash\",\"version\":\"${BASH_VERSINFO[0]}.${BASH_VERSINFO[1]}.${BASH_VERSINFO[2]}\"}"
