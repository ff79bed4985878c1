#pragma once
// Imports an image from a registry into the store, once for all jobs, with enroot.

#include <string>

#include "common/env.h"
#include "launcher/images/images.h"

namespace dlrun {

struct ImportedImage {
  StoredImage image;
  bool is_new = false;  ///< the image was fetched now; false: it was in the store already
};

/// Returns the image from the user's store, or fetches it into the store. Asks the registry for the
/// digest of the name, and fetches the image if the store has no file with this digest. Without an
/// answer, an image that the store has under this name counts as current. uri: as enroot_uri()
/// returns it. refresh: fetches the image even if the store has it. enroot's own messages go to the
/// standard streams. Fails with kNotFound if there is no enroot or if enroot cannot import the
/// image, with kUnavailable if the registry cannot be reached, with kInterrupted after a signal,
/// with kIo if the store cannot be written, and as ImageStore::of_user() does. A failure keeps no
/// part of the image.
[[nodiscard]] Result<ImportedImage> import_image(const Env& env, const std::string& uri,
                                                 bool refresh);

}  // namespace dlrun
