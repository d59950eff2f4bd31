#include "qkv/ops/recompute.h"

#include <string>
#include <utility>

#include "qkv/ops/scope.h"

namespace qkv {

Variable recomputed(Tensor value, std::function<Variable()> function) {
  return Tape::record("recomputed", std::move(value),
                      [function = std::move(function), where = NameScope::current()](const Tensor& dy) {
                        const Tape::Pause pause;
                        const NameScope scope(where);
                        Tape tape;
                        const Variable y = function();
                        tape.backward(y, dy);
                      });
}

}  // namespace qkv
