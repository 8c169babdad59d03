// From the resolved deck to the typed options of the library. This is the only place
// where keys meet option structs; the library itself never sees a deck.
#pragma once

#include <vector>

#include "io/dataset/dataset.hpp"
#include "io/deck.hpp"
#include "io/output_options.hpp"
#include "kan/options.hpp"

namespace kan::io {

NetworkOptions network_options(const Deck& deck);
TrainOptions train_options(const Deck& deck);
DataOptions data_options(const Deck& deck);

/// What the network asks of the data: columns, classes, and the grid that minmax maps to.
DataShape data_shape(const Deck& deck);

/// The blocks <outputN>, ascending in N, disabled ones too.
std::vector<OutputOptions> output_options(const Deck& deck);

}  // namespace kan::io
