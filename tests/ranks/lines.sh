#!/usr/bin/env bash
# lines.sh QKV MODEL: classifies the lines of a file under mpirun on this machine. Exit status 77: skipped.
model=$(realpath "$2")
source "$(dirname "$0")/common.sh"
seq -f "a red dog %.0f" 24000 >in
printf 'bad \xff line\n' >>in
run=("$qkv" classify "$model" --json --threads 1)
"${run[@]}" <in >expected 2>/dev/null && fail "expected an error of the last line"
launch=(mpirun --bind-to none --oversubscribe)
lines=("${run[@]}" --input in --output out --chunk-lines 2)
parts() { ls out.parts 2>/dev/null | grep -c '^part-......$' || true; }

# kill -9 of mpirun, of the root and of another rank; then all is done but what is there.
for killed in mpirun 0 1; do
  rm -rf out.parts
  "${launch[@]}" -n 2 "${lines[@]}" >log 2>&1 &
  mpi=$! process=
  [ $killed != mpirun ] || process=$mpi
  while [ -z "$process" ]; do process=$(of_rank $killed); done
  until [ "$(parts)" -gt 20 ]; do kill -0 $mpi 2>/dev/null || fail "ended early" log; done
  kill -9 $process
  wait $mpi 2>/dev/null && fail "expected a failure" log
  mpi=
  while pgrep -f "^$qkv classify .*--output out" >/dev/null; do sleep 0.1; done # the ranks of the killed mpirun
  [ ! -e out ] || fail "an output of a run that was killed"
done
there=$(parts)
"${launch[@]}" -n 3 "${lines[@]}" >log 2>&1 && fail "expected exit status 1 for the bad line" log
grep -q "out: $there of 12001 parts done" log || fail "expected $there parts" log
grep -q "^qkv: line 24001: expected UTF-8" log || fail "the bad line is not named" log
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
