#include "qkv/kernels/reference/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "qkv/base/error.h"
#include "qkv/kernels/reference/stream.h"

namespace qkv::kernels::reference {
namespace {

// The mappings of the file, and its free blocks.
class Arena {
 public:
  // Address space is free; if it is limited, a smaller arena suffices.
  Arena() {
    for (bytes_ = size_t{1} << 36; bytes_ >= size_t{1} << 24; bytes_ /= 2) {
      if (map()) return;
    }
    throw std::bad_alloc();
  }

  std::byte* take(size_t bytes) {
    const std::lock_guard lock(mutex_);
    std::byte*& first = free_[class_of(bytes)];
    if (first) {
      std::byte* const block = first;
      std::memcpy(static_cast<void*>(&first), block + offset(), sizeof(first));
      return block;
    }
    if (bytes > bytes_ - used_) throw std::bad_alloc();
    std::byte* const block = guarded_ + used_;
    used_ += bytes;
    return block;
  }

  // Free blocks are linked through their own memory, because a destructor cannot report a failed allocation
  // of a list.
  void give(std::byte* block, size_t bytes) noexcept {
    const std::lock_guard lock(mutex_);
    std::byte*& first = free_[class_of(bytes)];
    std::memcpy(block + offset(), static_cast<const void*>(&first), sizeof(first));
    first = block;
  }

  std::ptrdiff_t offset() const { return open_ - guarded_; }
  bool holds(const void* address) const { return address >= guarded_ && address < guarded_ + bytes_; }

 private:
  // All sizes are powers of two.
  static size_t class_of(size_t bytes) { return static_cast<size_t>(std::countr_zero(bytes)); }

  bool map() {
    const int file = ::memfd_create("qkv reference device", MFD_CLOEXEC);
    if (file < 0) return false;
    void *guarded = MAP_FAILED, *open = MAP_FAILED;
    if (::ftruncate(file, static_cast<off_t>(bytes_)) == 0) {
      guarded = ::mmap(nullptr, bytes_, PROT_NONE, MAP_SHARED | MAP_NORESERVE, file, 0);
      open = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
    }
    ::close(file);
    if (guarded != MAP_FAILED && open != MAP_FAILED) {
      guarded_ = static_cast<std::byte*>(guarded);
      open_ = static_cast<std::byte*>(open);
      return true;
    }
    if (guarded != MAP_FAILED) ::munmap(guarded, bytes_);
    if (open != MAP_FAILED) ::munmap(open, bytes_);
    return false;
  }

  size_t bytes_ = 0, used_ = 0;
  std::byte *guarded_ = nullptr, *open_ = nullptr;
  std::mutex mutex_;
  std::array<std::byte*, 64> free_{};  // the first of each size
};

// Never destroyed: static tensors may be freed after main() has returned.
Arena& arena() {
  static auto* instance = new Arena;
  return *instance;
}

// Powers of two, so that freed blocks can be reused; at least a cache line.
size_t block_size(size_t bytes) { return std::bit_ceil(bytes < 64 ? size_t{64} : bytes); }

}  // namespace

namespace {

std::ptrdiff_t readable_offset(const void* address) {
  if (!arena().holds(address))
    throw UsageError("reference device: expected an address of this device, found another");
  return arena().offset();
}

}  // namespace

const void* readable(const void* address) {
  return address == nullptr ? nullptr : static_cast<const std::byte*>(address) + readable_offset(address);
}

void* readable(void* address) {
  return address == nullptr ? nullptr : static_cast<std::byte*>(address) + readable_offset(address);
}

Storage Memory::allocate(size_t bytes) {
  const size_t size = block_size(bytes);
  std::byte* const address = arena().take(size);
  std::memset(readable(address), 0xFF, size);
  return {
      address, [size](std::byte* block) {
        const auto give = [block, size] { arena().give(block, size); };
        try {
          stream().submit(give);
        } catch (const std::bad_alloc&) {  // a block that waits for nothing is better than one that is lost
          stream().synchronise();
          give();
        }
      }};
}

void Memory::copy(CopyDirection direction, const ConstByteRows& from, const ByteRows& to, size_t row_bytes,
                  size_t rows) {
  if (row_bytes == 0) return;
  ConstByteRows source = from;
  ByteRows target = to;
  std::vector<std::byte> staged;  // the host's rows may change before the copy runs
  if (direction == CopyDirection::to_device) {
    staged.resize(rows * row_bytes);
    for (size_t row = 0; row < rows; ++row)
      std::memcpy(staged.data() + row * row_bytes, from.data + row * from.stride, row_bytes);
  } else {
    source.data = readable(from.data);
  }
  if (direction != CopyDirection::to_host) target.data = readable(to.data);
  stream().submit([=, staged = std::move(staged)] {
    const ConstByteRows rows_from = staged.empty() ? source : ConstByteRows{staged.data(), row_bytes};
    for (size_t row = 0; row < rows; ++row)
      std::memcpy(target.data + row * target.stride, rows_from.data + row * rows_from.stride, row_bytes);
  });
  if (direction == CopyDirection::to_host) stream().synchronise();
}

void Memory::fill_zero(const ByteRows& to, size_t row_bytes, size_t rows) {
  stream().submit([=, target = readable(to.data)] {
    for (size_t row = 0; row < rows && row_bytes > 0; ++row)
      std::memset(target + row * to.stride, 0, row_bytes);
  });
}

Memory& memory() {
  static Memory instance;
  return instance;
}

}  // namespace qkv::kernels::reference
