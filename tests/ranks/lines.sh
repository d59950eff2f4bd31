#!/usr/bin/env bash
# lines.sh QKV MODEL: classifies the lines of a file under mpirun on this machine. Exit status 77: skipped.
set -euo pipefail
qkv=$(realpath "$1") model=$(realpath "$2")
skip() { echo "skipped: $1"; exit 77; }
command -v mpirun >/dev/null || skip "no mpirun (openmpi-bin)"
[ -e "$(dirname "$qkv")/libqkv_mpi.so" ] || skip "qkv was built without MPI (libopenmpi-dev)"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
folder=$(mktemp -d)
mpi=
trap '[ -z "$mpi" ] || kill $mpi 2>/dev/null; rm -rf "$folder"' EXIT
cd "$folder"
mkdir tmp
export TMPDIR=$folder/tmp

fail() { echo "failed: $1"; shift; [ $# -eq 0 ] || cat "$@"; exit 1; }
for i in $(seq 2400); do echo "a red dog $i"; done >in
printf 'bad \xff line\n' >>in
run=("$qkv" classify "$model" --json --threads 1)
"${run[@]}" <in >expected 2>/dev/null && fail "expected an error of the last line"
launch=(mpirun --bind-to none --oversubscribe)
lines=("${run[@]}" --input in --output out --chunk-lines 2)
parts() { ls out.parts 2>/dev/null | grep -c '^part-......$' || true; }
of_rank() { # the process of a rank of $mpi
  local file
  for file in /proc/[0-9]*/stat; do
    [ "$(cut -d' ' -f4 $file 2>/dev/null)" = $mpi ] || continue
    grep -qz "^OMPI_COMM_WORLD_RANK=$1$" ${file%stat}environ 2>/dev/null && basename ${file%/stat}
  done
}

# kill -9 of mpirun, of the root and of another rank; then all is done but what is there.
for killed in mpirun 0 1; do
  rm -rf out.parts
  "${launch[@]}" -n 2 "${lines[@]}" >log 2>&1 &
  mpi=$!
  until [ "$(parts)" -gt 20 ]; do kill -0 $mpi 2>/dev/null || fail "ended early" log; done
  kill -9 "$([ $killed = mpirun ] && echo $mpi || of_rank $killed)"
  wait $mpi 2>/dev/null && fail "expected a failure" log
  mpi=
  while pgrep -f "^$qkv classify .*--output out" >/dev/null; do sleep 0.1; done # the ranks of the killed mpirun
  [ ! -e out ] || fail "an output of a run that was killed"
done
there=$(parts)
"${launch[@]}" -n 3 "${lines[@]}" >log 2>&1 && fail "expected exit status 1 for the bad line" log
grep -q "out: $there of 1201 parts done" log || fail "expected $there parts" log
grep -q "^qkv: line 2401: expected UTF-8" log || fail "the bad line is not named" log
cmp out expected || fail "the output differs from that of one process"
"${lines[@]}" 2>log && fail "expected exit status 1 again" log
grep -q "out: is finished already" log || fail "computed again" log

# Another model on one rank.
cp -r "$model" other
echo >>other/config.json
"${launch[@]}" -n 1 "${run[@]}" --input in --output new : \
  -n 1 "$qkv" classify other --json --input in --output new >log 2>&1 && fail "expected an error of unequal ranks"
grep -q "model: expected .* as on rank 0 ($(hostname)), found .* on rank 1" log || fail "no message" log
echo passed
