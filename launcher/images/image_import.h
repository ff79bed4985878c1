#pragma once
// Imports an image from a registry into the store, once for all jobs, with enroot.

#include <string>

#include "common/env.h"
#include "launcher/images/images.h"

namespace dlrun {

struct ImportedImage {
  StoredImage image;
  bool is_new = false;  ///< true if it was fetched, false if it was in the store
};

/// Returns the image from the user's store, or fetches it into the store. uri: as enroot_uri()
/// returns it. refresh: fetches the image even if the store has it. enroot's own messages go to the
/// standard streams. Fails with kNotFound if enroot or the image does not exist, with kUnavailable
/// if the registry cannot be reached, and with kInterrupted after a signal. A failure keeps no part
/// of the image.
[[nodiscard]] Result<ImportedImage> import_image(const Env& env, const std::string& uri,
                                                 bool refresh);

}  // namespace dlrun
