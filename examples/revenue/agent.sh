#!/bin/sh
# An exec agent in shell: the task is JSON on stdin, input files lie in in/,
# output files go to out/, the result is JSON on stdout. It reads what it was
# sent and computes. Where the contract grants a tool of the other owner's, it
# looks up the currency, and tries a file that it was not granted: "$1" is the
# program sealbridge, which a boxed agent calls tools with.
set -eu
cat >/dev/null # the task's words are data; this agent knows what it does
note=""
if [ -n "${SEALBRIDGE_MCP_URL:-}" ] && [ -n "${1:-}" ]; then
  case $("$1" call docs.read '{"path":"public/terms.txt"}') in *EUR*) note=", in EUR as the terms say" ;; esac
  "$1" call docs.read '{"path":"private/salaries.txt"}' --resource mcp://docs/public/terms.txt >/dev/null 2>&1 && exit 7
fi
awk -F, '
NR > 1 { cents[$2] += int($3 * 100 + 0.5) }
END {
  for (r in cents) printf "%d %s\n", cents[r], r
}' in/sales.csv | sort -rn | awk -v note="$note" '
BEGIN { print "region,total_eur" > "out/revenue.csv" }
{
  total = sprintf("%d.%02d", int($1 / 100), $1 % 100)
  print $2 "," total > "out/revenue.csv"
  totals = totals (NR > 1 ? "," : "") "\"" $2 "\":\"" total "\""
}
END {
  printf "{\"output\":{\"totals\":{%s}},\"evidence\":[{\"criterion\":\"ac_1\",\"text\":\"one row for each region, largest first%s\"}]}", totals, note
}'
