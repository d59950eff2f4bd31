#include "qkv/ops/recompute.h"

#include <string>
#include <utility>

#include "qkv/base/scope.h"

namespace qkv {

Variable recomputed(Tensor value, std::vector<Tape::Input> reads, std::function<Variable()> function) {
  if (!function) throw UsageError("recomputed: expected a function, found none");
  return Tape::record("recomputed", std::move(value), std::move(reads),
                      [function = std::move(function), where = NameScope::current()](const Tensor& dy) {
                        const Tape::Pause pause;
                        const NameScope scope(where);
                        Tape tape;
                        const Variable y = function();
                        if (y.requires_grad()) tape.backward(y, dy);  // not if everything is frozen
                      });
}

}  // namespace qkv
