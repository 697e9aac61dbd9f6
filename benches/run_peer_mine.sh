#!/bin/sh
# This host as one of the servers that are compared: it listens on PORT, asks UPSTREAM, and runs FILTERS scripts
# that each change one field at inlet, at outlet and of each streamed event (HOOKS). All that an operator has on is on.
# VALVEHOUSE is the binary; PEERS where it keeps its PROJECT from one start to the next, its store included.
set -eu
here=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
PORT=${PORT:-9306}; UPSTREAM=${UPSTREAM:-http://127.0.0.1:9100}; FILTERS=${FILTERS:-0}
project=${PEERS:-${TMPDIR:-/tmp}/peers}/${PROJECT:-mine}-$FILTERS
mkdir -p "$project/filters" "$project/tools"
cat > "$project/valvehouse.toml" <<T
[[providers]]
name = "up"
kind = "openai"
base_url = "$UPSTREAM/v1"
models = "*"
T
i=0
while [ "$i" -lt "$FILTERS" ]; do
  i=$((i + 1))
  for hook in ${HOOKS:-inlet outlet stream}; do
    case $hook in
      inlet) echo 'fn inlet(body) { body.user = "u1"; }' ;;
      outlet) echo 'fn outlet(body) { body.seen = true; }' ;;
      stream) echo 'fn stream(event) { event.seen = true; }' ;;
    esac
  done > "$project/filters/field_$i.rhai"
done
exec "${VALVEHOUSE:-$here/target/dist/valvehouse}" serve --project "$project" --port "$PORT"
