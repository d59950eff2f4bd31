// An image becomes a sequence: each patch is a token.
#include "lesson.h"
using namespace qkv;  // NOLINT(google-build-using-namespace)

int main() {
  // Every value is its own index, to be found again.
  Tensor image = Tensor::empty({3, 224, 224});  // [channels, height, width]
  for (int64_t i = 0; i < image.numel(); ++i) image.values()[i] = static_cast<float>(i);

  const Tensor patches = models::patchify(image, 4);
  std::cout << image.shape() << " -> " << patches.shape() << '\n';
  for (const int64_t value : {0, 1, 4, 16, 47}) {
    const auto index = static_cast<int64_t>(patches.at(2, 1, value));
    std::cout << "value " << value << " of the patch in row 2, column 1: channel " << index / (224 * 224)
              << ", row " << index / 224 % 224 << ", column " << index % 224 << '\n';
  }

  const Tensor vit = models::patchify(image, 16);  // ViT-B/16
  std::cout << image.shape() << " -> " << vit.shape() << ": " << vit.dim(0) * vit.dim(1) << " tokens of "
            << vit.dim(2) << " values\n";
}
