#include "qkv/kernels/cache_block_table.h"

#include "qkv/kernels/dispatch.h"

namespace qkv::kernels {
namespace {

size_t blocks_of(const Tensor& x) {
  return static_cast<size_t>((x.rows() + CacheBlockTable::kPositions - 1) / CacheBlockTable::kPositions);
}

}  // namespace

int32_t CacheBlockTable::append(const Tensor& blocks) {
  const size_t first = blocks_.size(), stride = bytes_of(blocks.dtype(), kPositions * blocks.cols());
  Tensor& own = tensors_.emplace_back(blocks);
  for (size_t i = 0; i < blocks_of(own); ++i)
    blocks_.emplace_back(static_cast<std::byte*>(address<void>(own)) + i * stride);
  return static_cast<int32_t>(first) * static_cast<int32_t>(kPositions);
}

void CacheBlockTable::drop(size_t tensors) {
  tensors_.erase(tensors_.begin(), tensors_.begin() + static_cast<std::ptrdiff_t>(tensors));
}

CacheBlockTable CacheBlockTable::share(size_t tensors) const {
  CacheBlockTable shared;
  size_t dropped = blocks_.size();
  for (const Tensor& own : tensors_) dropped -= blocks_of(own);
  size_t count = dropped;
  for (size_t i = 0; i < tensors; ++i) count += blocks_of(shared.tensors_.emplace_back(tensors_[i]));
  shared.blocks_.assign(blocks_.begin(), blocks_.begin() + static_cast<std::ptrdiff_t>(count));
  return shared;
}

size_t CacheBlockTable::bytes() const {
  size_t bytes = 0;
  for (const Tensor& own : tensors_) bytes += own.bytes();
  return bytes;
}

}  // namespace qkv::kernels
