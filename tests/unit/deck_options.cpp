// From decks to option structs, and the declared table itself: that the words of every
// choice are in the order of its enum, that every default is valid, that the manual is
// the table.
#include <fstream>
#include <set>
#include <sstream>

#include "io/options.hpp"
#include "support/source_file.hpp"
#include "unit/deck_helpers.hpp"

using namespace deck_test;

TEST_CASE("a deck that says only what it must gives the defaults of the library") {
  const Deck deck = resolve(kGood);
  const kan::NetworkOptions network = network_options(deck), plain_network;
  CHECK(network.widths == std::vector<int>{2, 4, 1});
  CHECK(network.grid == plain_network.grid);
  CHECK(network.order == plain_network.order);
  CHECK(network.base == plain_network.base);
  CHECK(network.grid_low == plain_network.grid_low);
  CHECK(network.grid_high == plain_network.grid_high);
  CHECK(network.spline_scale == plain_network.spline_scale);
  CHECK(network.initialization == plain_network.initialization);
  CHECK(network.kernels == plain_network.kernels);

  const kan::TrainOptions train = train_options(deck), plain;
  CHECK(train.epochs == 3);
  CHECK(train.steps == plain.steps);
  CHECK(train.loss == plain.loss);
  CHECK(train.batch == plain.batch);
  CHECK(train.accumulate == plain.accumulate);
  CHECK(train.warmup_steps == plain.warmup_steps);
  CHECK(train.seed == plain.seed);
  CHECK(train.shuffle == plain.shuffle);
  CHECK(train.algorithm == plain.algorithm);
  CHECK(train.message == plain.message);
  CHECK(train.reproducible == plain.reproducible);
  CHECK(train.shard_rows == plain.shard_rows);
  CHECK(train.max_shards == plain.max_shards);
  CHECK(train.target_loss == plain.target_loss);
  CHECK(train.patience == plain.patience);
  CHECK(train.optimizer.type == plain.optimizer.type);
  CHECK(train.optimizer.learning_rate == plain.optimizer.learning_rate);
  CHECK(train.optimizer.weight_decay == plain.optimizer.weight_decay);
  CHECK(train.optimizer.momentum == plain.optimizer.momentum);
  CHECK(train.optimizer.beta1 == plain.optimizer.beta1);
  CHECK(train.optimizer.beta2 == plain.optimizer.beta2);
  CHECK(train.optimizer.epsilon == plain.optimizer.epsilon);
  CHECK(train.optimizer.clip_norm == plain.optimizer.clip_norm);
  CHECK(train.schedule.type == plain.schedule.type);
  CHECK(train.schedule.warmup == plain.schedule.warmup);
  CHECK(train.schedule.factor == plain.schedule.factor);

  const DataOptions data = data_options(deck), plain_data;
  CHECK(data.source == "function");
  CHECK(data.rows == 100);
  CHECK(data.expressions == std::vector<std::string>{"x*y"});
  CHECK(data.low == plain_data.low);
  CHECK(data.high == plain_data.high);
  CHECK(data.noise == plain_data.noise);
  CHECK(data.seed == plain_data.seed);
  CHECK(data.row_range.begin == plain_data.row_range.begin);
  CHECK(data.row_range.end == plain_data.row_range.end);
  CHECK(data.has_header == plain_data.has_header);
  CHECK(data.nonfinite == plain_data.nonfinite);
  CHECK(data.scale_inputs == plain_data.scale_inputs);
  CHECK(data.replicate_below == plain_data.replicate_below);
  CHECK(output_options(deck).empty());
}

TEST_CASE("every value of a deck arrives in its option") {
  const Deck deck = resolve(
      "<run>\nsteps = 100\nseed = 3\nwarmup_steps = 4\n"
      "<data>\nsource = csv\nfile = a.csv\ninputs = b, 2\ntargets = c\nrow_range = 5:50\n"
      "has_header = no\nsplit_column = t\nvalidation = v.csv\nvalidation_inputs = d, e\n"
      "scale_inputs = standard\nnonfinite = drop\nshuffle = no\n"
      "replicate_below = 1 KiB\nseed = 9\n"
      "<network>\nwidths = 2, 3, 4\ngrid = 6, 7\norder = 2\nbase = identity, none\n"
      "grid_low = -2\ngrid_high = 3\nspline_scale = trained\n"
      "initialization = efficient_kan\nkernels = team\n"
      "<optimizer>\ntype = sgd\nlearning_rate = 0.5\nbatch = 10\naccumulate = 2\n"
      "clip_norm = 1.5\nweight_decay = 0.01\nmomentum = 0.9\nloss = cross_entropy\n"
      "<schedule>\ntype = step\nwarmup = 5\nstep_size = 6\nfactor = 0.25\n"
      "<stop>\ntarget_loss = 0.125\npatience = 8\n"
      "<parallel>\nalgorithm = tree\nmessage = flat\nreproducible = yes\nshard_rows = "
      "32\nmax_shards = 16\n"
      "<output1>\ntype = restart\ndwall = 1:00\nkeep = 5\n"
      "<output3>\ntype = prediction\ndepoch = 2\nenabled = no\n");
  CHECK(deck.notes().empty());
  const kan::NetworkOptions network = network_options(deck);
  CHECK(network.grid == std::vector<int>{6, 7});
  CHECK(network.order == std::vector<int>{2});
  CHECK(network.base == std::vector{kan::Base::identity, kan::Base::none});
  CHECK(network.grid_low == -2);
  CHECK(network.grid_high == 3);
  CHECK(network.spline_scale == kan::SplineScale::trained);
  CHECK(network.initialization == kan::Initialization::efficient_kan);
  CHECK(network.kernels == kan::Kernels::team);

  const kan::TrainOptions train = train_options(deck);
  CHECK(train.epochs == -1);
  CHECK(train.steps == 100);
  CHECK(train.seed == 3);
  CHECK(train.warmup_steps == 4);
  CHECK_FALSE(train.shuffle);
  CHECK(train.loss == kan::LossKind::cross_entropy);
  CHECK(train.batch == 10);
  CHECK(train.accumulate == 2);
  CHECK(train.algorithm == kan::parallel::Algorithm::tree);
  CHECK(train.message == kan::parallel::MessageLayout::flat);
  CHECK(train.reproducible);
  CHECK(train.shard_rows == 32);
  CHECK(train.max_shards == 16);
  CHECK(train.target_loss == 0.125);
  CHECK(train.patience == 8);
  CHECK(train.optimizer.type == kan::OptimizerKind::sgd);
  CHECK(train.optimizer.learning_rate == 0.5);
  CHECK(train.optimizer.clip_norm == 1.5);
  CHECK(train.optimizer.weight_decay == 0.01);
  CHECK(train.optimizer.momentum == 0.9);
  CHECK(train.schedule.type == kan::ScheduleKind::step);
  CHECK(train.schedule.warmup == 5);
  CHECK(train.schedule.step_size == 6);
  CHECK(train.schedule.factor == 0.25);

  const kan::TrainOptions compared =
      train_options(resolve(kGood, {"parallel/message=tensors"}));
  CHECK(compared.message == kan::parallel::MessageLayout::tensors);

  const DataOptions data = data_options(deck);
  CHECK(data.source == "csv");
  CHECK(data.seed == 9);
  CHECK(data.file == "a.csv");
  CHECK(data.inputs == std::vector<std::string>{"b", "2"});
  CHECK(data.targets == std::vector<std::string>{"c"});
  CHECK(data.row_range.begin == 5);
  CHECK(data.row_range.end == 50);
  CHECK(data.has_header == HasHeader::no);
  CHECK(data.split_column == "t");
  CHECK(data.validation.file == "v.csv");
  CHECK(data.validation.inputs == std::vector<std::string>{"d", "e"});
  CHECK(data.validation.fraction == 0);
  CHECK(data.test.file.empty());
  CHECK(data.scale_inputs == ScalingKind::standard);
  CHECK(data.scale_targets == ScalingKind::none);
  CHECK(data.nonfinite == Nonfinite::drop);
  CHECK_FALSE(data.shuffle);
  CHECK(data.replicate_below == 1024);
  const DataShape shape = data_shape(deck);
  CHECK(shape.inputs == 2);
  CHECK(shape.targets == 1);
  CHECK(shape.classes == 4);
  CHECK(shape.grid_low == -2);
  CHECK(shape.grid_high == 3);

  const auto outputs = output_options(deck);
  REQUIRE(outputs.size() == 2);
  CHECK(outputs[0].number == 1);
  CHECK(outputs[0].type == OutputType::restart);
  CHECK(outputs[0].dwall == 60);
  CHECK(outputs[0].dstep == 0);
  CHECK(outputs[0].keep == 5);
  CHECK(outputs[1].number == 3);
  CHECK(outputs[1].depoch == 2);
  CHECK_FALSE(outputs[1].enabled);
}

TEST_CASE("what a configuration does not use stays as the library presets it") {
  const Deck deck = resolve(
      kGood, {"data/file=a.h5", "data/split_column=t", "data/row_range=nonsense",
              "data/test_inputs=b", "optimizer/momentum=0.5", "schedule/factor=0.5"});
  CHECK(deck.notes().size() == 6);
  const DataOptions data = data_options(deck);
  CHECK(data.file.empty());
  CHECK(data.split_column.empty());
  CHECK(data.row_range.end == -1);
  CHECK(data.test.inputs.empty());
  CHECK(train_options(deck).optimizer.momentum == 0);
  CHECK(train_options(deck).schedule.factor == kan::ScheduleOptions{}.factor);
}

TEST_CASE("words of choices are in the order of their enums") {
  const auto word = [](const Parameter& parameter, auto value) {
    return std::string(words(parameter.choices).at(static_cast<std::size_t>(value)));
  };
  CHECK(word(key::run_mode.parameter(), Mode::evaluate) == "evaluate");
  CHECK(word(key::run_precision.parameter(), Precision::double_) == "double");
  CHECK(word(key::data_source.parameter(), DataSource::csv) == "csv");
  CHECK(word(key::data_scale_inputs.parameter(), ScalingKind::minmax) == "minmax");
  CHECK(word(key::data_scale_targets.parameter(), ScalingKind::standard) == "standard");
  CHECK(word(key::data_nonfinite.parameter(), Nonfinite::drop) == "drop");
  CHECK(word(key::network_base.parameter(), kan::Base::identity) == "identity");
  CHECK(word(key::network_base.parameter(), kan::Base::none) == "none");
  CHECK(word(key::network_spline_scale.parameter(), kan::SplineScale::trained) ==
        "trained");
  CHECK(word(key::network_initialization.parameter(),
             kan::Initialization::efficient_kan) == "efficient_kan");
  CHECK(word(key::network_engine.parameter(), kan::EngineKind::tile) == "tile");
  CHECK(word(key::network_kernels.parameter(), kan::Kernels::automatic) == "auto");
  CHECK(word(key::network_kernels.parameter(), kan::Kernels::team) == "team");
  CHECK(word(key::optimizer_type.parameter(), kan::OptimizerKind::adamw) == "adamw");
  CHECK(word(key::optimizer_type.parameter(), kan::OptimizerKind::sgd) == "sgd");
  CHECK(word(key::optimizer_loss.parameter(), kan::LossKind::mae) == "mae");
  CHECK(word(key::optimizer_loss.parameter(), kan::LossKind::cross_entropy) ==
        "cross_entropy");
  CHECK(word(key::schedule_type.parameter(), kan::ScheduleKind::cosine) == "cosine");
  CHECK(word(key::parallel_backend.parameter(), Backend::mpi) == "mpi");
  CHECK(word(key::parallel_backend.parameter(), Backend::nccl) == "nccl");
  CHECK(word(key::parallel_backend.parameter(), Backend::null) == "null");
  CHECK(word(key::parallel_gpu_aware.parameter(), kan::parallel::GpuAware::automatic) ==
        "auto");
  CHECK(word(key::parallel_gpu_aware.parameter(), kan::parallel::GpuAware::on) == "on");
  CHECK(word(key::parallel_gpu_aware.parameter(), kan::parallel::GpuAware::off) == "off");
  CHECK(word(key::parallel_algorithm.parameter(), kan::parallel::Algorithm::tree) ==
        "tree");
  CHECK(word(key::parallel_message.parameter(), kan::parallel::MessageLayout::tensors) ==
        "tensors");
  CHECK(word(key::output_type.parameter(), OutputType::prediction) == "prediction");
  CHECK(word(key::output_type.parameter(), OutputType::parameters) == "parameters");
}

TEST_CASE("the declared table is sound") {
  std::set<std::string> names;
  for (const Parameter& parameter : kParameters) {
    const std::string name =
        std::string(parameter.block) + "/" + std::string(parameter.name);
    INFO(name);
    CHECK(names.insert(name).second);
    const bool declared_block =
        std::any_of(std::begin(kBlocks), std::end(kBlocks),
                    [&](const Block& block) { return block.name == parameter.block; });
    CHECK(declared_block);
    CHECK_FALSE(parameter.doc.empty());
    CHECK(parameter.doc.find('|') == std::string_view::npos);
    const bool choice = parameter.type == Type::choice || parameter.type == Type::choices;
    CHECK(choice == !parameter.choices.empty());
    CHECK_FALSE((parameter.required && !parameter.fallback.empty()));
    CHECK_FALSE((!parameter.off.empty() && !parameter.fallback.empty()));
    if (!parameter.fallback.empty())
      CHECK_NOTHROW(parse_value(parameter, {{std::string(parameter.fallback), false}}));
    if (!parameter.when.key.empty()) {
      const int decides = find_parameter(parameter.when.block, parameter.when.key);
      REQUIRE(decides >= 0);
      CHECK(kParameters[decides].type == Type::choice);
      CHECK_FALSE(words(parameter.when.words).empty());
      for (std::string_view word : words(parameter.when.words))
        CHECK(word_index(kParameters[decides].choices, word) >= 0);
    }
  }
}

TEST_CASE("-p and the manual hold every parameter") {
  const std::string list = parameter_list(), reference = deck_reference();
  for (const Parameter& parameter : kParameters) {
    INFO(parameter.block << "/" << parameter.name);
    CHECK(contains(list, "\n  " + std::string(parameter.name)));
    CHECK(contains(reference, "| `" + std::string(parameter.name) + "` |"));
  }
  std::ifstream file(kan::test::source_file("docs/deck.md"));
  std::stringstream committed;
  committed << file.rdbuf();
  if (committed.str() != reference) std::ofstream("deck.md") << reference;
  INFO(
      "docs/deck.md is not the declared table; copy deck.md of the directory in which "
      "this "
      "test ran over it");
  CHECK((committed.str() == reference));
}

TEST_CASE("names of files are relative to the deck they stand in") {
  kan::io::DeckSources sources;
  sources.deck = kan::io::DeckText{"some/where.deck",
                                   "<run>\nepochs = 1\n<data>\nsource = csv\n"
                                   "file = rows.csv\ntargets = y\nvalidation = ../v.csv\n"
                                   "test = /abs/t.csv\n<network>\nwidths = 2, 1\n",
                                   "/home/me/some"};
  const kan::io::DataOptions from_deck = data_options(kan::io::resolve_deck(sources));
  CHECK(from_deck.file == "/home/me/some/rows.csv");
  CHECK(from_deck.validation.file == "/home/me/some/../v.csv");
  CHECK(from_deck.test.file == "/abs/t.csv");
  sources.overrides = {"data/file=other.csv", "data/test=0.5"};
  sources.directory = "/home/me";
  const kan::io::DataOptions overridden = data_options(kan::io::resolve_deck(sources));
  CHECK(overridden.file == "/home/me/other.csv");
  CHECK(overridden.test.fraction == 0.5);
  CHECK(overridden.test.file.empty());
}
