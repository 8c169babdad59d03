// How the gradients of ranks are added: what a user can choose about it.
#pragma once

namespace kan::parallel {

/// Who adds: tree is our exchange between pairs of ranks (exchange.hpp), library the
/// message library's all-reduce; automatic: what the communicator prefers.
enum class Algorithm { automatic, library, tree };

/// flat: the whole gradient in one message. tensors: one message for each parameter
/// array, as most training programs send them; it is here to be compared with.
enum class MessageLayout { flat, tensors };

}  // namespace kan::parallel
