#!/usr/bin/env bash
# Runs a bundle's ranks under torchrun, on one machine:
#   scripts/launch/torchrun.sh RANKS BUNDLE [options of autopar run]...
# On several, start it on each, RANKS being those of one machine and the first variable the same:
#   MASTER_ADDR=node0 NNODES=2 NODE_RANK=0 scripts/launch/torchrun.sh 2 BUNDLE ...
#   MASTER_ADDR=node0 NNODES=2 NODE_RANK=1 scripts/launch/torchrun.sh 2 BUNDLE ...
#
# torchrun itself listens at MASTER_PORT; the ranks meet at the next port.
set -euo pipefail
ranks=$1
bundle=$2
shift 2
exec torchrun --nproc-per-node "$ranks" --nnodes "${NNODES:-1}" --node-rank "${NODE_RANK:-0}" \
  --master-addr "${MASTER_ADDR:-127.0.0.1}" --master-port "${MASTER_PORT:-29500}" \
  --no-python autopar run --dir "$bundle" "$@"
