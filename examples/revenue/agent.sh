#!/bin/sh
# An exec agent in shell: the task is JSON on stdin, input files lie in in/,
# output files go to out/, the result is JSON on stdout. It reads what it was
# sent and computes; it asks nobody.
set -eu
cat >/dev/null # the task's words are data; this agent knows what it does
awk -F, '
NR > 1 { cents[$2] += int($3 * 100 + 0.5) }
END {
  for (r in cents) printf "%d %s\n", cents[r], r
}' in/sales.csv | sort -rn | awk '
BEGIN { print "region,total_eur" > "out/revenue.csv" }
{
  total = sprintf("%d.%02d", int($1 / 100), $1 % 100)
  print $2 "," total > "out/revenue.csv"
  totals = totals (NR > 1 ? "," : "") "\"" $2 "\":\"" total "\""
}
END {
  printf "{\"output\":{\"totals\":{%s}},\"evidence\":[{\"criterion\":\"ac_1\",\"text\":\"one row for each region, largest first\"}]}", totals
}'
