#!/bin/sh
# This host as run_peer_mine.sh starts it, with scripts that have no stream hook: two calls a request and script.
set -eu
exec env HOOKS="inlet outlet" PROJECT=mine_bodies "$(dirname "$(readlink -f "$0")")/run_peer_mine.sh"
