#!/bin/sh
# Makes what compose.yaml needs in ./secrets, and leaves alone what is there already.
# Only you can look into the folder; the files themselves can be read by the containers' own users.
set -eu
cd "$(dirname "$0")"
mkdir -p secrets
chmod 0700 secrets
random() { od -An -N32 -tx1 /dev/urandom | tr -d ' \n'; }
put() {
  [ -s "secrets/$1" ] && return
  printf '%s\n' "$2" >"secrets/$1"
  chmod 0444 "secrets/$1"
}
put postgres_password "$(random)"
put store_url "postgres://rouse:$(cat secrets/postgres_password)@postgres:5432/rouse"
put hook_token "$(random)"
put gateway_token "$(random)"
