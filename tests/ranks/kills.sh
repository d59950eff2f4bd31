#!/usr/bin/env bash
# kills.sh QKV [SEED]: kills a rank of a run of 200 steps 20 times (SIGKILL), at drawn steps, and resumes it each time, on 2 or
# 3 ranks. Its files must be those of an undisturbed process. Exit status 77: skipped.
source "$(dirname "$0")/common.sh"
seed=${2:-$(date +%s)}
RANDOM=$seed
echo "seed $seed"
# Steps of some hundredths of a second, so that a kill meets the step that was drawn.
for i in $(seq 100); do cat text; done >long
run="${run/--validate-every 2/--validate-every 50} --accumulate 4 --checkpoint-every 2 --max-steps 200"
run="${run/--train text/--train long} --set model.d_model=64 --set model.d_ff=256"
run="${run/--set model.d_model=16 --set model.d_ff=32/}"
run="${run/--batch-tokens 64/--batch-tokens 1024}"
"$qkv" train $run --out whole

for kill in $(seq 20); do
  ranks=$((2 + RANDOM % 2)) at=$((9 * kill - RANDOM % 6)) victim=$((RANDOM % ranks)) process=
  mpirun --bind-to none --oversubscribe -n $ranks "$qkv" train $run --out killed --resume >out 2>&1 &
  mpi=$!
  while [ -z "$process" ]; do process=$(of_rank $victim); done
  until [ "$(newest_step killed)" -ge $at ]; do
    kill -0 $mpi 2>/dev/null || fail "kill $kill: the run ended at step $(newest_step killed), before step $at" out
    sleep 0.01
  done
  kill -KILL $process || fail "kill $kill: rank $victim ended before step $at" out
  wait $mpi && fail "kill $kill: expected an error of a run without rank $victim" out
  mpi=
  echo "kill $kill: rank $victim of $ranks, after step $(newest_step killed)"
done
mpirun --bind-to none --oversubscribe -n 3 "$qkv" train $run --out killed --resume >out 2>&1 || fail "the last part" out
for file in model.safetensors log.jsonl tokenizer.json; do
  cmp whole/$file killed/$file || fail "$file differs from that of an undisturbed run"
done
echo passed
