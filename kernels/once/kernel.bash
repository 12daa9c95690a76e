# SPDX-License-Identifier: Apache-2.0
# The kernel for languages whose cells stand alone (kernels/PROTOCOL.md): each is written to a directory of its own,
# compiled where the language wants it, run, and forgotten. The stub that starts it (src/kernels/kernels.c) evaluates
# this text and then $__cay_loop. No code of a cell runs in this shell; but a context's variables are put into its
# environment, so every name of ours begins with __cay_ and none of that kind is taken.
#
# 62 and 63 are the real streams, 1 and 2 lead nowhere: what bash says about a program that a signal has killed is how
# that is told from an exit code above 128 (but for SIGINT and SIGPIPE, which it does not mention).

__cay_language='' __cay_dir='' __cay_tool='' __cay_main='' __cay_code='' __cay_class='' __cay_interrupted=''
__cay_cell=0 __cay_count=0 __cay_length=0 __cay_type='' __cay_text='' __cay_json='' __cay_line=null
__cay_list=() __cay_env=() __cay_command=() __cay_traceback=()
__cay_lines_max=100 __cay_width_max=500

# -- the languages: file and tool (the first of these names that there is), how to build and how to run

__cay_choose() {
    case $1 in
    c) __cay_main=main.c __cay_text='gcc cc clang' ;;
    cpp) __cay_main=main.cpp __cay_text='g++ c++ clang++' ;;
    go) __cay_main=main.go __cay_text='go' ;;
    rust) __cay_main=main.rs __cay_text='rustc' ;;
    java) __cay_main=Main.java __cay_text='javac' ;;
    ruby) __cay_main=main.rb __cay_text='ruby' ;;
    php) __cay_main=main.php __cay_text='php' ;;
    perl) __cay_main=main.pl __cay_text='perl' ;;
    lua) __cay_main=main.lua __cay_text='lua5.4 lua lua5.3 luajit' ;;
    r) __cay_main=main.R __cay_text='Rscript' ;;
    *) return 1 ;;
    esac
}

# Runs in the cell's directory, so that messages name the file alone; $1 is the context's.
__cay_build() {
    case $__cay_language in
    c) "$__cay_tool" -std=gnu17 -O1 -g -pthread -I "$1" -o main main.c -lm ;;
    cpp) "$__cay_tool" -std=c++20 -O1 -g -pthread -I "$1" -o main main.cpp -lm ;;
    go)
        GO111MODULE=off GOTOOLCHAIN=local GOFLAGS='' GOCACHE=${GOCACHE:-${TMPDIR:-/tmp}/.cay-go} CGO_ENABLED=0 \
            "$__cay_tool" build -o main main.go
        ;;
    rust) "$__cay_tool" --edition 2021 -C opt-level=1 -C debuginfo=1 --color never -o main main.rs ;;
    java) "$__cay_tool" -encoding UTF-8 -d . "$__cay_main" ;;
    esac
}

__cay_is_compiled() {
    [[ $__cay_language == @(c|cpp|go|rust|java) ]]
}

# What to run, into __cay_command.
__cay_program() {
    local __cay_file=$__cay_dir/$__cay_main
    case $__cay_language in
    c | cpp | go | rust) __cay_command=("$__cay_dir/main") ;;
    java) __cay_command=(java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto -cp "$__cay_dir" "$__cay_class") ;;
    php) __cay_command=("$__cay_tool" -d display_errors=stderr -d log_errors=0 -d html_errors=0 "$__cay_file") ;;
    r) __cay_command=("$__cay_tool" --vanilla "$__cay_file") ;;
    *) __cay_command=("$__cay_tool" "$__cay_file") ;;
    esac
}

# Of a program that is not compiled and has failed: can it be read at all?
__cay_check() {
    case $__cay_language in
    ruby | perl) "$__cay_tool" -c "$__cay_main" ;;
    php) "$__cay_tool" -d display_errors=stderr -d log_errors=0 -d html_errors=0 -l "$__cay_main" ;;
    lua) "$__cay_tool" -e 'local ok, why = loadfile("main.lua"); if not ok then io.stderr:write(why, "\n"); os.exit(1) end' ;;
    r) "$__cay_tool" --vanilla -e 'invisible(parse("main.R"))' ;;
    esac
}

# A public class wants a file of its name; what runs is the class with main, or that one.
__cay_name_class() {
    local __cay_package='' __cay_before=${__cay_code%%static void main*} __cay_public=''
    [[ $__cay_code =~ (^|[;$'\n'])[[:space:]]*package[[:space:]]+([A-Za-z0-9_.]+) ]] && __cay_package=${BASH_REMATCH[2]}.
    __cay_class=Main
    while [[ $__cay_before =~ (class|enum|record|interface)[[:space:]]+([A-Za-z_][A-Za-z0-9_]*)(.*) ]]; do
        __cay_class=${BASH_REMATCH[2]} __cay_before=${BASH_REMATCH[3]}
        [[ $__cay_code =~ public[[:space:]]+((final|abstract|sealed|strictfp)[[:space:]]+)*(class|enum|record|interface)[[:space:]]+"$__cay_class"[^A-Za-z0-9_] ]] &&
            __cay_public=$__cay_class
    done
    __cay_class=${__cay_public:-$__cay_class}
    __cay_main=${__cay_public:-Main}.java
    __cay_class=$__cay_package$__cay_class
}

# -- frames

# TYPE CELL PAYLOAD
__cay_send() {
    local LC_ALL=C
    printf '%s %s %s\n%s' "$1" "$2" "${#3}" "$3" >&61 || exit 1
}

__cay_read_text() {
    __cay_code=''
    ((__cay_length == 0)) || LC_ALL=C TMOUT='' read -r -N "$__cay_length" -u 60 __cay_code
}

# The texts of the frame, each ended by NUL, into __cay_list.
__cay_read_list() {
    local LC_ALL=C __cay_left=$__cay_length
    __cay_list=()
    while ((__cay_left > 0)); do
        IFS='' TMOUT='' read -r -d '' -u 60 __cay_text || return 1
        __cay_left=$((__cay_left - ${#__cay_text} - 1))
        __cay_list+=("$__cay_text")
    done
}

# Into __cay_json: a JSON string of one line, which is cut, and made UTF-8 where it is not.
__cay_quote() {
    local __cay_part=${1:0:__cay_width_max} LC_ALL=C.UTF-8
    __cay_part=${__cay_part//[^[:print:]]/ }
    __cay_part=${__cay_part//\\/\\\\}
    __cay_json=\"${__cay_part//\"/\\\"}\"
}

__cay_export() {
    local __cay_pair
    for __cay_pair in "$@"; do
        [[ ${__cay_pair%%=*} =~ ^[A-Za-z_][A-Za-z_0-9]*$ && $__cay_pair != __cay_* ]] || continue
        declare -gx "${__cay_pair%%=*}=${__cay_pair#*=}" 2>/dev/null
    done
    return 0
}

# -- opening

__cay_find_tool() {
    local __cay_name IFS=' '
    for __cay_name in $__cay_text; do
        __cay_tool=$(type -P "$__cay_name") && return 0
    done
    return 1
}

# The message, and whether a program is missing.
__cay_refuse() {
    __cay_quote "$1"
    __cay_send failed 0 "{\"message\":$__cay_json${2:+,\"missing\":true}}"
}

__cay_open() {
    __cay_read_list || return 1
    __cay_export "${__cay_list[@]:2}"
    __cay_language=${__cay_list[0]}
    if ! CDPATH='' cd -- "${__cay_list[1]}"; then
        __cay_refuse "there is no directory '${__cay_list[1]}'"
    elif ! __cay_choose "$__cay_language"; then
        __cay_refuse "'$__cay_language' is no language of this kernel"
    elif ! __cay_find_tool; then
        __cay_refuse "there is no program ${__cay_text%% *}" missing
    else
        __cay_send opened 0 '{}'
    fi
}

# -- errors

# NAME MESSAGE
__cay_error() {
    local __cay_lines='' __cay_entry __cay_name=$1
    for __cay_entry in "${__cay_traceback[@]}"; do
        __cay_quote "$__cay_entry"
        __cay_lines+=${__cay_lines:+,}$__cay_json
    done
    __cay_quote "$2"
    __cay_send error "$__cay_cell" \
        "{\"name\":\"$__cay_name\",\"message\":$__cay_json,\"traceback\":[$__cay_lines],\"lineNumber\":$__cay_line}"
}

# What a compiler wrote: its first error is the message.
__cay_compile_error() {
    local __cay_entry __cay_said='' __cay_at='' __cay_place='([A-Za-z_0-9]+\.[A-Za-z]+)(:| line | on line )([0-9]+)'
    mapfile -t -n "$__cay_lines_max" __cay_traceback <"$__cay_dir/.said"
    for __cay_entry in "${__cay_traceback[@]}"; do
        if [[ -z $__cay_at && $__cay_entry =~ $__cay_place && ${BASH_REMATCH[1]} == "$__cay_main" ]]; then
            __cay_at=$__cay_entry __cay_line=$((10#${BASH_REMATCH[3]:0:9}))
        fi
        [[ -z $__cay_said && $__cay_entry == *@([Ee]rror|undefined reference)* ]] && __cay_said=$__cay_entry
    done
    __cay_said=${__cay_said:-${__cay_at:-${__cay_traceback[0]-it cannot be compiled}}}
    [[ $__cay_said =~ ^[^[:space:]]*"$__cay_main":[0-9:]+[[:space:]]*(.*) ]] && __cay_said=${BASH_REMATCH[1]}
    __cay_error CompileError "${__cay_said#error: }"
}

# Whether $1 is the status of a program that a signal has ended.
__cay_is_signal() {
    (($1 > 128 && $1 <= 192)) && [[ -s $__cay_dir/.notice || $1 == 130 || $1 == 141 ]]
}

__cay_run_error() {
    if __cay_is_signal "$1"; then
        __cay_error Signal "the program was ended by SIG$(kill -l "$(($1 - 128))")"
    elif ! __cay_is_compiled && ! (cd -- "$__cay_dir" && __cay_check </dev/null >.said 2>&1 60<&- 61>&-); then
        __cay_compile_error
    else
        __cay_error ExitStatus "the program ended with status $1"
    fi
}

# -- a cell

# What a kernel that was killed has left goes, too.
__cay_make_dir() {
    local __cay_old
    for __cay_old in "${TMPDIR:-/tmp}"/.cay-once.*; do
        __cay_text=${__cay_old##*.cay-once.}
        [[ ! -d $__cay_old || -d /proc/${__cay_text%%.*} ]] || rm -rf -- "$__cay_old"
    done
    __cay_dir=$(mktemp -d "${TMPDIR:-/tmp}/.cay-once.$$.XXXXXX")
}

__cay_write() {
    [[ $__cay_language == java ]] && __cay_name_class
    [[ $__cay_language == php && $__cay_code != *'<?'* ]] && __cay_code="<?php $__cay_code"
    printf '%s' "$__cay_code" >"$__cay_dir/$__cay_main"
}

# 0, or the compiler's status. Warnings are for the reader of stderr.
__cay_compile() {
    local __cay_here=$PWD
    __cay_is_compiled || return 0
    (__cay_export "${__cay_env[@]}" && cd -- "$__cay_dir" && __cay_build "$__cay_here") \
        </dev/null >"$__cay_dir/.said" 2>&1 60<&- 61>&- 62>&- 63>&- || return
    [[ ! -s $__cay_dir/.said ]] || cat -- "$__cay_dir/.said" >&63
}

__cay_execute() {
    __cay_program
    {
        (__cay_export "${__cay_env[@]}" && exec "${__cay_command[@]}" 1>&62 2>&63 60<&- 61>&- 62>&- 63>&-)
    } 2>"$__cay_dir/.notice"
}

__cay_steps() {
    local __cay_status
    if ! __cay_make_dir || ! __cay_write; then
        __cay_error CompileError "the code cannot be written into ${TMPDIR:-/tmp}"
    elif ! __cay_compile; then
        [[ $__cay_interrupted ]] || __cay_compile_error
    else
        __cay_execute
        __cay_status=$?
        [[ $__cay_interrupted || $__cay_status == 0 ]] || __cay_run_error "$__cay_status"
    fi
}

__cay_run() {
    __cay_read_text || return 1
    __cay_count=$((__cay_count + 1)) __cay_line=null __cay_traceback=() __cay_interrupted='' __cay_dir=''
    trap '__cay_interrupted=1' INT
    __cay_steps
    trap '' INT
    __cay_traceback=()
    [[ -z $__cay_interrupted ]] || __cay_error Interrupted 'the cell was interrupted'
    [[ -z $__cay_dir ]] || rm -rf -- "$__cay_dir"
    __cay_env=() __cay_code=''
    __cay_send 'done' "$__cay_cell" "{\"count\":$__cay_count}"
}

__cay_next() {
    IFS=' ' TMOUT='' read -r -u 60 __cay_type __cay_cell __cay_length || return 1
    case $__cay_type in
    run) __cay_run ;;
    env) __cay_read_list && __cay_env=("${__cay_list[@]}") ;;
    open) __cay_open ;;
    *) __cay_read_text ;;
    esac
}

__cay_loop='while __cay_next; do :; done'

unset -v n src
exec 62>&1 63>&2 1>/dev/null 2>/dev/null
trap '' INT
shopt -s extglob
__cay_send ready 0 "{\"language\":\"once\",\"version\":\"${BASH_VERSINFO[0]}.${BASH_VERSINFO[1]}.${BASH_VERSINFO[2]}\"}"
