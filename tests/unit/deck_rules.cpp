// Rules between values: names that are not declared, precedence and origins, restarts,
// what is missing, what contradicts, what is not used.
#include "unit/deck_helpers.hpp"

using namespace deck_test;

namespace {

DeckSources restart(const std::string& stored, std::vector<std::string> overrides = {}) {
  DeckSources result;
  result.restart = DeckText{"x.rst.h5", stored};
  result.overrides = std::move(overrides);
  return result;
}

const std::string kHdf5 =
    "<run>\nepochs = 3\n<data>\nsource = hdf5\nfile = a.h5\ninputs = x\ntargets = y\n"
    "<network>\nwidths = 2, 4, 1\n";
const std::string kCsv =
    "<run>\nepochs = 3\n<data>\nsource = csv\nfile = a.csv\ntargets = y\n"
    "<network>\nwidths = 2, 4, 1\n";

}  // namespace

TEST_CASE("names that are not declared are errors with the nearest name") {
  CHECK_ERROR(kGood + "\n\n\n\n<optimizer>\nlearnig_rate = 0.1",
              "input.deck:14: <optimizer> has no key 'learnig_rate' (did you mean "
              "'learning_rate'?)");
  CHECK_ERROR(
      kGood + "<optimizer>\nlr = 0.1",
      "input.deck:10: <optimizer> has no key 'lr' (did you mean 'learning_rate'?)");
  CHECK_ERROR(
      kGood + "<optimizer>\nepochs = 3",
      "input.deck:10: <optimizer> has no key 'epochs' (<run> has one of this name)");
  CHECK_ERROR(kGood + "<optimizer>\nquetzalcoatl = 3",
              "input.deck:10: <optimizer> has no key 'quetzalcoatl'");
  CHECK_ERROR(kGood + "<optimzer>\nbatch = 3\nfoo = 4",
              "input.deck:9: unknown block <optimzer> (did you mean 'optimizer'?)");
  CHECK_ERROR_AT(kGood + "<Optimizer>\n", "input.deck:9: unknown block <Optimizer>",
                 "'optimizer'");
  for (const std::string block : {"output", "output0", "output01", "output10000"}) {
    INFO(block);
    CHECK_ERROR_AT(kGood + "<" + block + ">\n", "input.deck:9: unknown block",
                   "numbered");
  }
  CHECK_ERROR_AT(kGood + "<outptu3>\n", "input.deck:9: unknown block", "'output3'");
  CHECK_ERROR_AT(kGood + "<run2>\n", "input.deck:9: unknown block", "'run'");
}

TEST_CASE("overrides: raw text, split at commas for lists only") {
  CHECK(
      resolve(kGood, {"optimizer/learning_rate=0.1"}).get(key::optimizer_learning_rate) ==
      0.1);
  CHECK(resolve(kGood, {"job/name=run #3, a = \"b\" & c"}).get(key::job_name) ==
        "run #3, a = \"b\" & c");
  CHECK(resolve(kGood, {"job/name="}).get(key::job_name) == "");
  CHECK(resolve(kGood, {"network/widths=2, 9,1"}).get(key::network_widths) ==
        std::vector<std::int64_t>{2, 9, 1});
  CHECK(resolve(kGood, {"data/expressions=x > 0 ? 1 : 0 # = &"})
            .get(key::data_expressions) ==
        std::vector<std::string>{"x > 0 ? 1 : 0 # = &"});
  CHECK(resolve(kGood, {"network/widths=2,1,2", "data/expressions=\"pow(x, 2)\", y"})
            .get(key::data_expressions) == std::vector<std::string>{"pow(x, 2)", "y"});

  const auto error = [](const std::string& text) { return errors_of(kGood, {text}); };
  CHECK(error("optimizer/lr=0.1") ==
        "command line: optimizer/lr=0.1: <optimizer> has no key 'lr' (did you mean "
        "'learning_rate'?)");
  CHECK(error("foo/bar=1") == "command line: foo/bar=1: unknown block 'foo'");
  CHECK(error("run/steps=1e6") ==
        "command line: run/steps=1e6: an integer is expected (did you mean 1000000?)");
  CHECK(contains(error("run/steps="), "an integer is expected"));
  CHECK(contains(error("network/widths="), "no value"));
  CHECK(contains(error("network/widths=2,,1"), "empty item"));
  CHECK(contains(error("data/expressions=\"x"), "not closed"));
  CHECK(contains(error("job/name=a\x01"), "control characters"));
  CHECK(contains(error("job/name=a\xff"), "UTF-8"));
  CHECK(contains(error("job/name=" + std::string(20000, 'a')), "longer than 16384"));
  for (const char* bad :
       {"", "/", "a/b", "run.steps=1", "run/=1", "/steps=1", "run/steps"}) {
    INFO(bad);
    CHECK(contains(error(bad), "is not block/key=value"));
  }

  const Deck twice = resolve(kGood, {"run/ndiag=5", "run/ndiag=6"});
  CHECK(twice.get(key::run_ndiag) == 6);
  REQUIRE(twice.notes().size() == 1);
  CHECK(twice.notes()[0].text() ==
        "command line: run/ndiag is given more than once: the last one holds");
}

TEST_CASE("the stronger source holds, and every value knows its origin") {
  DeckSources all =
      restart(kGood + "<optimizer>\nbatch = 1\naccumulate = 2\nbeta1 = 0.1");
  all.deck = DeckText{"input.deck", "<optimizer>\nbatch = 3\naccumulate = 4"};
  all.overrides = {"optimizer/batch=5"};
  const Deck deck = resolve_deck(all);
  CHECK(deck.get(key::optimizer_batch) == 5);
  CHECK(deck.get(key::optimizer_accumulate) == 4);
  CHECK(deck.get(key::optimizer_beta1) == 0.1);
  CHECK(deck.get(key::optimizer_beta2) == 0.999);
  CHECK(deck.origin(key::optimizer_batch).text() == "command line");
  CHECK(deck.origin(key::optimizer_accumulate).text() == "input.deck:3");
  CHECK(deck.origin(key::optimizer_beta1).text() == "restart x.rst.h5:12");
  CHECK(deck.origin(key::optimizer_beta2).text() == "default");
  CHECK(deck.where(key::optimizer_batch) == "command line: optimizer/batch");
  CHECK(deck.where(key::optimizer_accumulate) == "input.deck:3: optimizer/accumulate");
  CHECK(deck.where(key::optimizer_beta1) == "x.rst.h5:12: optimizer/beta1");
  CHECK(deck.where(key::optimizer_beta2) == "input.deck: optimizer/beta2");
}

TEST_CASE("a word takes back what a weaker source has set") {
  const std::string deck = kGood + "<run>\nsteps = 9\n<data>\nvalidation = 0.1\n";
  CHECK(resolve(deck).find(key::run_steps) == 9);
  const Deck back = resolve(deck, {"run/steps=none", "data/validation=none"});
  CHECK_FALSE(back.find(key::run_steps));
  CHECK_FALSE(back.find(key::data_validation));
  CHECK_FALSE(resolve(kGood).find(key::run_threads));
  CHECK_THROWS_AS(resolve(kGood).get(key::run_threads), kan::Error);
  // In quotes it is a name.
  CHECK(resolve(kHdf5 + "<data>\ntest = \"none\"").get(key::data_test).file == "none");
}

TEST_CASE("a fraction, or a file") {
  const auto part = [](const std::string& text) {
    return resolve(kHdf5 + "<data>\nvalidation = " + text).get(key::data_validation);
  };
  CHECK(part("0.25") == FractionOrFile{0.25, ""});
  CHECK(part("b.h5") == FractionOrFile{0, "b.h5"});
  CHECK(part("\"0.25\"") == FractionOrFile{0, "0.25"});
  CHECK_ERROR_AT(kHdf5 + "<data>\nvalidation = 1", "input.deck:11: ", "below 1");
  CHECK_ERROR_AT(kHdf5 + "<data>\nvalidation = -0.2", "input.deck:11: ", "above 0");
}

TEST_CASE("structural keys of a restart do not change, the others are free") {
  CHECK(errors_of(restart(kGood, {"network/widths=2,9,1"})) ==
        "command line: network/widths = 2, 9, 1 differs from 2, 4, 1 of x.rst.h5; a "
        "restart cannot change a structural key: leave it out, or start without -r");
  DeckSources both = restart(kGood);
  both.deck = DeckText{"input.deck", "<run>\nprecision = double\nseed = 1\nepochs = 9\n"};
  CHECK(contains(errors_of(both),
                 "input.deck:2: run/precision = double differs from float"));
  CHECK(count_lines(errors_of(both)) == 1);
  for (const char* fixed :
       {"run/seed=2", "data/shuffle=no", "data/scale_inputs=standard", "network/grid=6",
        "optimizer/type=adamw", "optimizer/loss=mae", "network/base=none"}) {
    INFO(fixed);
    CHECK(contains(errors_of(restart(kGood, {fixed})), "differs from"));
  }
  for (const char* free :
       {"run/steps=9", "run/mode=evaluate", "optimizer/learning_rate=1",
        "optimizer/batch=7", "data/rows=7", "data/seed=2", "network/kernels=host",
        "job/name=b", "parallel/reproducible=on", "network/widths=2,4,1",
        "network/grid=5,5"}) {
    INFO(free);
    CHECK(errors_of(restart(kGood, {free})).empty());
  }
  // Without moments of its own, momentum means nothing; with sgd it is part of the state.
  CHECK(errors_of(restart(kGood, {"optimizer/momentum=0.5"})).empty());
  CHECK(contains(
      errors_of(restart(kGood + "<optimizer>\ntype = sgd\n", {"optimizer/momentum=0.5"})),
      "differs from 0"));
  // The stored deck is the whole deck, its errors are named with the checkpoint.
  CHECK(contains(errors_of(restart(kGood + "<run>\nfoo = 1")), "x.rst.h5:10: <run>"));
}

TEST_CASE("a stronger cadence takes the place of a weaker one") {
  const std::string stored = kGood + "<output2>\ntype = history\ndstep = 10\n";
  const Deck deck = resolve_deck(restart(stored, {"output2/depoch=1"}));
  CHECK_FALSE(deck.find(key::output_dstep, 2));
  CHECK(deck.find(key::output_depoch, 2) == 1);
  CHECK(deck.numbers(key::output_type) == std::vector<int>{2});
  CHECK(contains(errors_of(stored + "depoch = 1"), "<output2> has 2 of dstep"));
}

TEST_CASE("what is missing is listed at once") {
  CHECK_ERROR("",
              "input.deck: data/source is missing (function, hdf5, csv)\n"
              "input.deck: network/widths is missing (a list of integers)\n"
              "input.deck: run/epochs or run/steps is missing (how long to train)");
  CHECK_ERROR(
      "<run>\nmode = evaluate\n<network>\nwidths=1,1\n<data>\nsource = function\n",
      "input.deck: data/rows is missing (an integer); it is needed with source = "
      "function\n"
      "input.deck: data/expressions is missing (a list of texts); it is needed with "
      "source = function");
  CHECK_ERROR(
      "<run>\nsteps=1\n<network>\nwidths=1,1\n<data>\nsource = hdf5\n",
      "input.deck: data/file is missing (text); it is needed with source = hdf5 or "
      "csv\n"
      "input.deck: data/targets is missing (a list of texts); it is needed with "
      "source = hdf5 or csv\n"
      "input.deck: data/inputs is missing (path of a dataset); it is needed with "
      "source = hdf5");
  CHECK_ERROR_AT(kGood + "<schedule>\ntype = step", "input.deck: schedule/step_size",
                 "missing");
  CHECK_ERROR_AT(kGood + "<output1>\ndstep = 1", "input.deck: output1/type",
                 "missing (history, restart, prediction, parameters)");
  CHECK(errors_of(DeckSources{}).substr(0, 13) == "command line:");
  // A bad value is one error, not a missing one too.
  CHECK_ERROR("<run>\nepochs = x\n<data>\nsource = sql\n<network>\nwidths =\n",
              "input.deck:2: run/epochs = x: an integer is expected\n"
              "input.deck:4: data/source = sql: accepted values are function, hdf5, csv\n"
              "input.deck:6:9: 'widths' has no value; empty text is \"\"");
}

TEST_CASE("values that contradict each other are errors") {
  const auto rule = [](const std::string& deck, const std::string& added,
                       const std::string& expected) {
    const std::string found = errors_of(deck + added);
    INFO(added << ": " << found);
    CHECK(count_lines(found) == 1);
    CHECK(contains(found, expected));
  };
  const std::string function = "<run>\nepochs = 3\n<data>\nsource = function\nrows = 9\n";
  rule(function, "expressions = x\n<network>\nwidths = 3", "at least two entries");
  rule(kGood, "<network>\ngrid = 5, 6, 7", "network/grid: 3 values for 2 layers");
  rule(kGood, "<network>\norder = 1, 2, 3", "network/order: 3 values");
  rule(kGood, "<network>\nbase = silu, none, none", "network/base: 3 values");
  rule(kGood, "<network>\ngrid = 513", "1 to 512");
  rule(kGood, "<network>\norder = 6", "1 to 5");
  rule(kGood, "<network>\ngrid_low = 1", "1 is not below network/grid_high = 1");
  rule(kGood, "<data>\ninputs = 3", "the number of variables, 2");
  rule(function, "expressions = x, y\n<network>\nwidths = 2, 1", "2 given, 1 expected");
  rule(kGood, "<data>\nlow = 0, 0, 0", "data/low: 3 values for 2 variables");
  rule(kGood, "<data>\nlow = 0, 1", "data/low: 1 is not below data/high = 1");
  rule(kGood, "<data>\nhigh = -1", "data/low: -1 is not below data/high = -1");
  rule(kGood, "<data>\nvalidation = a.h5", "a fraction, not a file");
  rule(kGood, "<data>\nvalidation = 0.6\ntest = 0.4", "no rows to train on");
  rule(kHdf5, "<data>\nrow_range = 5:2", "is not a range of rows");
  rule(kHdf5, "<data>\nvalidation = 0.2\nvalidation_inputs = v", "is a fraction");
  rule(kHdf5, "<data>\ntest_targets = v", "both data/test_inputs and data/test_targets");
  rule(kCsv, "<data>\ntest = 0.2\nsplit_column = t", "keep one of them");
  rule(kGood, "<optimizer>\nloss = cross_entropy",
       "at least 2; network/widths ends with 1");
  rule(function,
       "expressions = x, y\n<network>\nwidths = 2, 2\n<optimizer>\nloss = cross_entropy",
       "2 given, 1 expected with cross_entropy");
  rule(
      "<run>\nsteps = 3\n<data>\nsource=csv\nfile=a\ntargets=b\nscale_targets=standard\n"
      "<network>\nwidths = 2, 2\n",
      "<optimizer>\nloss = cross_entropy", "cannot be scaled");
  rule(kGood, "<run>\nsteps = 10\nwarmup_steps = 10", "10 is not below run/steps = 10");
  rule(kGood, "<run>\nsteps = 10\n<schedule>\nwarmup = 11", "11 is not below");
  rule(kGood, "<output1>\ntype = history", "<output1> has none of dstep");
  rule(kGood, "<output1>\ntype = history\ndstep = 1\ndwall = 5", "<output1> has 2 of");
  rule(kGood,
       "<output1>\ntype = restart\ndstep = 1\n<output4>\ntype = restart\ndwall = 5",
       "output4/type: <output1> writes the same files");
  rule(kGood, "<parallel>\nreproducible = yes\nalgorithm = library",
       "parallel/algorithm: library: the sums of a message library depend on");
  rule(kGood, "<parallel>\nreproducible = yes\nmessage = tensors",
       "parallel/message: tensors: reproducible sums have messages of their own");
  rule(kGood, "<job>\nname = a/b", "cannot begin the name of a file");
  CHECK(errors_of(kGood +
                  "<output1>\ntype = restart\ndstep = 1\n<output4>\ntype = restart\n"
                  "dwall = 5\nenabled = no")
            .empty());
  CHECK(errors_of(kHdf5 + "<data>\ntest_inputs = a\ntest_targets = b\nvalidation = c.h5\n"
                          "validation_inputs = d\nrow_range = 10:")
            .empty());
}

TEST_CASE("keys without a use are notes, and errors under -W") {
  const auto notes = [](const std::string& text,
                        std::vector<std::string> overrides = {}) {
    std::string result;
    const Deck deck = resolve(text, overrides);
    for (const Deck::Note& note : deck.notes())
      result += (result.empty() ? "" : "\n") + note.text();
    return result;
  };
  CHECK(notes(kGood + "<data>\nfile = a.h5") ==
        "input.deck:10: data/file is not used here; it goes with source = hdf5 or csv");
  CHECK(notes(kHdf5, {"data/noise=1", "data/has_header=yes"}) ==
        "command line: data/noise is not used here; it goes with source = function\n"
        "command line: data/has_header is not used here; it goes with source = csv");
  CHECK(notes(kGood + "<optimizer>\nmomentum = 0.5") ==
        "input.deck:10: optimizer/momentum is not used here; it goes with type = sgd");
  CHECK(notes(kGood + "<schedule>\nfactor = 0.5") ==
        "input.deck:10: schedule/factor is not used here; it goes with type = step");
  CHECK(notes(kGood + "<output1>\ntype = history\ndstep = 1\nkeep = 2") ==
        "input.deck:12: output1/keep is not used here; it goes with type = restart");
  CHECK(notes(kGood).empty());
  CHECK(notes(kGood, {"run/mode=evaluate"}).empty());

  DeckSources strict = sources(kGood + "<data>\nfile = a.h5");
  strict.warnings_are_errors = true;
  CHECK(
      errors_of(strict) ==
      "input.deck:10: data/file is not used here; it goes with source = hdf5 or csv (an "
      "error under -W)");
  // What the restart's deck had is not the user's doing now.
  DeckSources moved = restart(
      kGood, {"data/source=hdf5", "data/file=a", "data/inputs=b", "data/targets=c"});
  moved.warnings_are_errors = true;
  CHECK(errors_of(moved).empty());
}
