#!/usr/bin/env bash
# mpirun.sh QKV: trains under mpirun on this machine. Exit status 77: skipped.
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
ranks=(mpirun --bind-to none --oversubscribe -n 2 "$qkv" train)
for i in $(seq 40); do echo "the $((i % 7)) cats sat on $((i % 5)) mats and $((i * 7 % 11)) dogs dug"; done >text
tail -8 text >held-out
run="lm --train text --valid held-out --preset tiny --set model.d_model=16 --set model.d_ff=32 --context 16
  --vocab-size 270 --batch-tokens 64 --schedule constant --warmup-steps 2 --validate-every 2 --quiet --threads 1"
three="--accumulate 3"

# The same files as one process.
"$qkv" train $run $three --max-steps 4 --out one
"${ranks[@]}" $run $three --max-steps 4 --out two >out 2>&1 || fail "two ranks" out
for file in model.safetensors config.json log.jsonl tokenizer.json; do
  cmp one/$file two/$file || fail "$file differs from that of one process"
done

# Ranks without a batch.
"${ranks[@]}" $run --accumulate 1 --max-steps 4 --out few >out 2>&1 && fail "expected an error of ranks without a batch"
grep -q -- "--accumulate: expected a batch in each step for each of 2 ranks, found 1" out || fail "no message" out

# SIGTERM on one saves all; one process continues to the same files.
"${ranks[@]}" $run $three --max-steps 100000 --out stopped >out 2>&1 &
mpi=$!
until [ -d stopped/checkpoints ] || ! kill -0 $mpi 2>/dev/null; do sleep 0.1; done
of_rank() {  # the process of a rank of $mpi
  local file
  for file in /proc/[0-9]*/stat; do
    [ "$(cut -d' ' -f4 $file 2>/dev/null)" = $mpi ] || continue
    grep -qz "^OMPI_COMM_WORLD_RANK=$1$" ${file%stat}environ 2>/dev/null && basename ${file%/stat}
  done
}
kill -TERM "$(of_rank 1)"
status=0; wait $mpi || status=$?
[ $status = 143 ] || fail "expected status 143 of a stopped run, found $status" out
mpi=
step=$(ls stopped/checkpoints | tail -1 | tr -dc 0-9 | sed 's/^0*//')
"$qkv" train --resume stopped --max-steps $((step + 2)) --quiet
"${ranks[@]}" $run $three --max-steps $((step + 2)) --out whole >out 2>&1 || fail "two ranks" out
for file in model.safetensors log.jsonl; do
  cmp stopped/$file whole/$file || fail "$file of a resumed run differs"
done

# A rank that hangs ends all, and is named. Five seconds, because a busy machine may not run a rank for one.
"${ranks[@]}" $run $three --max-steps 100000 --out lost --rank-timeout 5 >out 2>&1 &
mpi=$!
until [ -d lost/checkpoints ] || ! kill -0 $mpi 2>/dev/null; do sleep 0.1; done
kill -STOP "$(of_rank 1)"
wait $mpi && fail "expected an error of a lost rank"
mpi=
grep -q "rank 1 ($(hostname)) has not answered for 5 s" out || fail "the lost rank is not named" out
compgen -G "tmp/qkv-rank-*" >/dev/null && fail "a rank has left $(ls -d tmp/qkv-rank-*)"
echo passed
