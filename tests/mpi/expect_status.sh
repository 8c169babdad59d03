#!/bin/sh
# expect_status.sh STATUS COUNT PATTERN COMMAND...
# Runs COMMAND for at most 30 s: it must end with STATUS, and exactly COUNT lines of its
# output (both streams) must match the extended regular expression PATTERN.
status=$1 count=$2 pattern=$3
shift 3
output=$(timeout -k 5 30 "$@" 2>&1)
got=$?
printf '%s\n' "$output"
lines=$(printf '%s\n' "$output" | grep -cE "$pattern")
[ "$got" -eq "$status" ] || { echo "status $got, expected $status"; exit 1; }
[ "$lines" -eq "$count" ] || { echo "$lines lines match, expected $count"; exit 1; }
