#!/bin/sh
# Writes the digest of each image that is named here by a tag alone into the files, so that every start gets the same
# bytes: `postgres:17` becomes `postgres:17@sha256:…`. Run it again for newer ones. Needs docker with buildx.
#
#   sh deploy/pin-images.sh
set -eu
cd "$(dirname "$0")"

digest() {
  docker buildx imagetools inspect "$1" --format '{{.Manifest.Digest}}'
}

# The tag stays for people; the digest decides.
pin() {
  file=$1
  image=$2
  found=$(digest "$image")
  sed -i.bak -E "s#$image(@sha256:[0-9a-f]{64})?#$image@$found#" "$file"
  rm -f "$file.bak"
  echo "$file: $image@$found"
}

pin compose/compose.yaml postgres:17
pin compose/compose.yaml caddy:2
node=$(digest "node:24-bookworm-slim")
sed -i.bak -E "s#^ARG NODE=.*#ARG NODE=24-bookworm-slim@$node#" container/Dockerfile
rm -f container/Dockerfile.bak
echo "container/Dockerfile: node:24-bookworm-slim@$node"
