# For the tests under mpirun, which source this with QKV as $1. Exit status 77: skipped.
set -euo pipefail
qkv=$(realpath "$1")
skip() { echo "skipped: $1"; exit 77; }
command -v mpirun >/dev/null || skip "no mpirun (openmpi-bin)"
[ -e "$(dirname "$qkv")/libqkv_mpi.so" ] || skip "qkv was built without MPI (libopenmpi-dev)"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
folder=$(mktemp -d)
mpi=
trap '[ -z "$mpi" ] || kill $mpi 2>/dev/null; rm -rf "$folder"' EXIT
cd "$folder"
mkdir tmp
export TMPDIR=$folder/tmp # of the ranks' own folders

fail() { echo "failed: $1"; shift; [ $# -eq 0 ] || cat "$@"; exit 1; }
of_rank() { # the process of a rank of $mpi
  local file
  for file in /proc/[0-9]*/stat; do
    [ "$(cut -d' ' -f4 $file 2>/dev/null)" = $mpi ] || continue
    grep -qz "^OMPI_COMM_WORLD_RANK=$1$" ${file%stat}environ 2>/dev/null && basename ${file%/stat}
  done || true
}
newest_step() { # of the checkpoints of a run
  { ls "$1/checkpoints" 2>/dev/null || true; } | grep -o '^step-[0-9]*' | tail -1 | tr -dc 0-9 | sed 's/^0*//' | grep . || echo 0
}
for i in $(seq 40); do echo "the $((i % 7)) cats sat on $((i % 5)) mats and $((i * 7 % 11)) dogs dug"; done >text
tail -8 text >held-out
run="lm --train text --valid held-out --preset tiny --set model.d_model=16 --set model.d_ff=32 --context 16
  --vocab-size 270 --batch-tokens 64 --schedule constant --warmup-steps 2 --validate-every 2 --quiet --threads 1"
