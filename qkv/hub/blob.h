#pragma once
// One file on its way into the cache.

#include <filesystem>
#include <functional>

#include "qkv/hub/hub_client.h"

namespace qkv::hub {

// Bytes of a file that have arrived; fewer than before if it begins again.
using OnBytes = std::function<void(int64_t bytes)>;

// Makes the file's blob in the cache, unless it is there. The content arrives in CHECKSUM.incomplete, which a
// later call resumes after any failure, and gets its name once its checksum is right and it is on the disk.
// Other processes, huggingface_hub's too, wait by a lock. Throws Failure, IoError, DataError for a checksum
// that is wrong twice, and Stopped.
void fetch_blob(const HubContext& context, HubClient& client, const std::string& id,
                const std::string& commit, const HubFile& file, const OnBytes& on_bytes);

}  // namespace qkv::hub
