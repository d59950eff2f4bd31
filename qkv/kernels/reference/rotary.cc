#include "qkv/kernels/reference/rotary.h"

namespace qkv::kernels::reference {

Doubles rotated(const Rotary& a) {
  Doubles y;
  for (int64_t r = 0; r < a.rows; ++r) {
    for (int64_t h = 0; h < a.heads; ++h) {
      for (int64_t c = 0; c < a.d; ++c) {
        const Elements head = a.x + (r * a.x_stride + h * a.d);
        if (c >= a.rotated) {
          y.push_back(get(head, c));
          continue;
        }
        const int64_t half = a.rotated / 2, i = c % half, angle = a.positions[r] * half + i;
        const double cosine = a.cosines[angle];
        const double sine = a.direction == Turn::forward ? a.sines[angle] : -a.sines[angle];
        y.push_back(c < half ? get(head, i) * cosine - get(head, half + i) * sine
                             : get(head, half + i) * cosine + get(head, i) * sine);
      }
    }
  }
  return y;
}

void rotary(const Rotary& a) { store(rotated(a), a.heads * a.d, a.y, a.y_stride, a.accumulate); }

}  // namespace qkv::kernels::reference
