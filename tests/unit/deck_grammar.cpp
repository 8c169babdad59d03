// The grammar of decks and the conversion of values: what is accepted, and what each
// mistake is answered with.
#include <chrono>
#include <cstdio>
#include <fstream>

#include "unit/deck_helpers.hpp"

using namespace deck_test;

TEST_CASE("integers are whole tokens, with a hint, an overflow and a range") {
  const std::string head = kGood + "<run>\n";  // the added line is the tenth
  CHECK_ERROR(head + "steps = 1e6",
              "input.deck:10: run/steps = 1e6: an integer is expected (did you mean "
              "1000000?)");
  CHECK_ERROR(head + "steps = 5.0",
              "input.deck:10: run/steps = 5.0: an integer is expected (did you mean 5?)");
  CHECK_ERROR(head + "steps = 12abc",
              "input.deck:10: run/steps = 12abc: an integer is expected");
  CHECK_ERROR(head + "steps = 1.5",
              "input.deck:10: run/steps = 1.5: an integer is expected");
  CHECK_ERROR_AT(head + "seed = 99999999999999999999", "input.deck:10: run/seed",
                 "overflow");
  CHECK_ERROR_AT(head + "seed = -99999999999999999999", "input.deck:10: run/seed",
                 "overflow");
  CHECK_ERROR(kGood + "<optimizer>\nbatch = -1",
              "input.deck:10: optimizer/batch = -1: out of range: allowed is 1 to "
              "2147483647");
  CHECK_ERROR_AT(head + "seed = -", "input.deck:10: run/seed", "an integer is expected");
  CHECK(resolve(head + "seed = +7").get(key::run_seed) == 7);
  CHECK(resolve(head + "seed = 9223372036854775807").get(key::run_seed) ==
        9223372036854775807);
}

TEST_CASE("reals are whole, finite and in range") {
  const std::string head = kGood + "<optimizer>\nlearning_rate = ";
  CHECK(resolve(head + "1e-3").get(key::optimizer_learning_rate) == 1e-3);
  CHECK(resolve(head + ".5").get(key::optimizer_learning_rate) == 0.5);
  CHECK(resolve(head + "0.1000000000000000055511151231257827")
            .get(key::optimizer_learning_rate) == 0.1);
  for (const char* bad : {"abc", "1e-3x", "1 2", "0x10", "--1", "+1", "1,5"}) {
    INFO(bad);
    CHECK(contains(errors_of(head + bad), "input.deck:10: optimizer/learning_rate"));
  }
  CHECK_ERROR_AT(head + "nan", "input.deck:10:", "finite");
  CHECK_ERROR_AT(head + "inf", "input.deck:10:", "finite");
  CHECK_ERROR_AT(head + "1e999", "input.deck:10:", "out of the range of double");
  CHECK_ERROR_AT(head + "0", "input.deck:10:", "above 0");
  CHECK_ERROR_AT(kGood + "<optimizer>\ntype=sgd\nmomentum = 1",
                 "input.deck:11:", "0 to 1 (excluded)");
}

TEST_CASE("booleans, choices, durations and sizes") {
  const std::string head = kGood + "<data>\n";
  for (const char* word : {"Yes", "TRUE", "on", "1"})
    CHECK(resolve(head + "shuffle = " + word).get(key::data_shuffle));
  for (const char* word : {"no", "False", "OFF", "0"})
    CHECK_FALSE(resolve(head + "shuffle = " + word).get(key::data_shuffle));
  CHECK_ERROR(
      head + "shuffle = maybe",
      "input.deck:10: data/shuffle = maybe: accepted values are true, false, yes, "
      "no, on, off, 1, 0");
  CHECK_ERROR(kGood + "<optimizer>\ntype = adm",
              "input.deck:10: optimizer/type = adm: accepted values are adam, adamw, sgd "
              "(did you mean 'adam'?)");
  CHECK_ERROR_AT(kGood + "<run>\nmode = study", "input.deck:10: run/mode = study",
                 "accepted values are train, evaluate");

  const auto seconds = [](const std::string& text) {
    return resolve(kGood + "<run>\nwalltime = " + text).get(key::run_walltime);
  };
  CHECK(seconds("90") == 90);
  CHECK(seconds("1:30") == 90);
  CHECK(seconds("90:00") == 5400);
  CHECK(seconds("1:02:03") == 3723);
  CHECK(seconds("100:00:00") == 360000);
  for (const char* bad : {"1:60", "1:2:3:4", "1:", ":1", "1:-2", "1.5", "1h", "0",
                          "1:002", "99999999999999"}) {
    INFO(bad);
    CHECK(contains(errors_of(kGood + "<run>\nwalltime = " + bad),
                   "input.deck:10: run/walltime"));
  }

  const auto bytes = [](const std::string& text) {
    return resolve(kGood + "<data>\nreplicate_below = " + text)
        .get(key::data_replicate_below);
  };
  CHECK(bytes("1024") == 1024);
  CHECK(bytes("7 B") == 7);
  CHECK(bytes("3KiB") == 3072);
  CHECK(bytes("256 MiB") == 268435456);
  CHECK(bytes("2 GiB") == 2147483648);
  CHECK(resolve(kGood).get(key::data_replicate_below) == 268435456);
  for (const char* bad : {"1 MB", "-1", "1.5 GiB", "MiB", "1 mib", "9999999999 GiB"}) {
    INFO(bad);
    CHECK(contains(errors_of(kGood + "<data>\nreplicate_below = " + bad),
                   "input.deck:10: data/replicate_below"));
  }
}

TEST_CASE("text: comments, quotes, nothing, the empty string") {
  const auto name = [](const std::string& line) {
    return resolve(kGood + "<job>\n" + line).get(key::job_name);
  };
  CHECK(name("name = run #3") == "run");
  CHECK(name("name = \"run #3\"") == "run #3");
  CHECK(name("name = \"\"") == "");
  CHECK(name("name =   a  b\t# c") == "a  b");
  CHECK(name("name=a") == "a");
  CHECK(name("\tname\t=\ta") == "a");
  CHECK(name("name = \"a\\\"b\\\\c\"") == "a\"b\\c");
  CHECK(name("name = \"<a>, b = & # c\"") == "<a>, b = & # c");
  CHECK(name("name = gr\xc3\xb6\xc3\x9f"
             "e") ==
        "gr\xc3\xb6\xc3\x9f"
        "e");
  CHECK_ERROR(kGood + "<job>\nname =",
              "input.deck:10:7: 'name' has no value; empty text is \"\"");
  CHECK_ERROR(kGood + "<job>\nname = # a",
              "input.deck:10:7: 'name' has no value; empty text is \"\"");
  CHECK_ERROR_AT(kGood + "<job>\nname = a, b", "input.deck:10: job/name = a, b",
                 "a comma needs quotes");
  CHECK_ERROR_AT(kGood + "<job>\nname = a=b", "input.deck:10:9: ", "needs quotes");
  CHECK_ERROR_AT(kGood + "<job>\nname = a<b", "input.deck:10:9: ", "needs quotes");
  CHECK_ERROR_AT(kGood + "<job>\nname = a\"b\"", "input.deck:10:9: ", "needs quotes");
  CHECK_ERROR_AT(kGood + "<job>\nname = \"a\" b", "input.deck:10:12: ", "closing quote");
  CHECK_ERROR_AT(kGood + "<job>\nname = \"a\\x\"", "input.deck:10:10: ", "'\\'");
  // Columns count characters, not bytes.
  CHECK_ERROR_AT(kGood + "<job>\nname = \xc3\xb6=b", "input.deck:10:9: ", "needs quotes");
  // Without a default of its own, the name is that of the deck's file.
  CHECK(resolve(kGood).get(key::job_name) == "input");
}

TEST_CASE("lists and continued lines") {
  const auto widths = [](const std::string& text) {
    return resolve(
               "<run>\nsteps=1\n<data>\nsource=hdf5\nfile=a\ninputs=b\ntargets=c\n"
               "<network>\nwidths = " +
               text)
        .get(key::network_widths);
  };
  using List = std::vector<std::int64_t>;
  CHECK(widths("2, 5, & # hidden\n 1") == List{2, 5, 1});
  CHECK(widths("2,5,&\n1\n") == List{2, 5, 1});
  CHECK(widths("&\r\n2 &\r\n, 5\r\n") == List{2, 5});
  CHECK(widths("2, \"5\" ,1") == List{2, 5, 1});

  const std::string head = "<network>\nwidths = ";
  CHECK_ERROR_AT(head + "2, 5 &\n<run>\nsteps = 1",
                 "input.deck:2:15: ", "before a header");
  CHECK_ERROR_AT(head + "2, 5 &", "input.deck:2:15: ", "at the end");
  CHECK_ERROR_AT(head + "2, 5 &\n \n\n", "input.deck:2:15: ", "at the end");
  CHECK_ERROR_AT(head + "2 & 5\n1", "input.deck:2:12: ", "'&'");
  CHECK_ERROR_AT(head + "2,,5", "input.deck:2:12: ", "empty item");
  CHECK_ERROR_AT(head + "2,5,", "input.deck:2:14: ", "empty item");
  CHECK_ERROR_AT(head + ",2", "input.deck:2:10: ", "empty item");
  // The place is that of the physical line.
  CHECK_ERROR_AT(head + "2, &\n  5,, 1", "input.deck:3:5: ", "empty item");
  CHECK_ERROR_AT(head + "2, x5", "input.deck:2: network/widths", "'x5'");
  CHECK_ERROR_AT(head + "2 5", "input.deck:2: network/widths", "separated by commas");
}

TEST_CASE("headers, blocks, line ends and the byte order mark are read as written") {
  const std::string marked =
      "\xef\xbb\xbf\t<run>  # what to do\r\n\tepochs\t=\t3 # three\r\n\r\n <data>\r\n"
      "source = function\r\nrows=100\r\nexpressions = x\r\n"
      "<network> #\r\nwidths = 1, 1";
  const Deck deck = resolve(marked);
  CHECK(deck.get(key::run_epochs) == 3);
  CHECK(deck.get(key::network_widths) == std::vector<std::int64_t>{1, 1});

  // A block may be opened again; its keys stay unique across the parts.
  CHECK(resolve(kGood + "<run>\nseed = 2\n<data>\nseed = 3\n<run>\nndiag = 4\n")
            .get(key::run_ndiag) == 4);
  CHECK_ERROR(
      kGood + "<run>\nseed = 2\n<data>\nseed = 3\n<run>\nseed = 4\n",
      "input.deck:14: run/seed is already given on line 10; keep one (the command "
      "line may replace it)");
  CHECK(resolve(kGood, {"run/epochs=9"}).get(key::run_epochs) == 9);

  CHECK_ERROR_AT("<optimizer> lr = 1", "input.deck:1:13: ", "next line");
  CHECK_ERROR_AT("a = 1\n<run>", "input.deck:1:1: ", "before the first <block>");
  CHECK_ERROR_AT("<run>\n  epochs 3", "input.deck:2:10: ", "'=' is expected");
  CHECK_ERROR_AT("<run>\nepochs", "input.deck:2:7: ", "no '='");
  CHECK_ERROR_AT("<run>\nlearning-rate = 3",
                 "input.deck:2:9: ", "letters, digits and '_'");
  CHECK_ERROR_AT("<run>\n3d = 3", "input.deck:2:1: ", "<block> or key = value");
  CHECK_ERROR_AT(" <run\nepochs = 3", "input.deck:1:2: ", "not closed");
  CHECK_ERROR_AT("< run >\nepochs = 3", "input.deck:1:2: ", "without blanks");
  CHECK_ERROR_AT("<>\n", "input.deck:1:2: ", "a header is <block>");
  CHECK_ERROR_AT("<job>\nname = \"abc\n", "input.deck:2:8: ", "not closed");
  // Keys below a header that cannot be read are not judged.
  CHECK_FALSE(contains(errors_of("<ru n>\nepochz = 3\n" + kGood), "epochz"));
}

TEST_CASE("a comment block is free text up to the next line that begins with <") {
  const Deck deck = resolve("<comment>\nx = \"open, &\n# & \n= = =\n\n" + kGood +
                            "<comment>\nmore &\n  <job>\nname = a\n<comment>");
  CHECK(deck.get(key::job_name) == "a");
}

TEST_CASE("a file that is no deck gets one error with its place, at once") {
  const auto start = std::chrono::steady_clock::now();
  CHECK_ERROR(std::string("<run>\nseed = ") + '\0' + "2",
              "input.deck:2:8: NUL byte: this is not a text file");
  CHECK_ERROR(
      std::string(10'000'000, 'a'),
      "input.deck:1:65537: the line is longer than 65536 bytes; continue it on the "
      "next line with '&'");
  CHECK_ERROR_AT("\x89HDF\r\n\x1a\n", "input.deck:1:1: ", "HDF5 file");
  CHECK_ERROR_AT("<run>\n\xff\xfe", "input.deck:2:1: ", "not UTF-8");
  CHECK_ERROR_AT("<run>\nseed = \x1b[1m", "input.deck:2:8: ", "control character 27");
  CHECK_ERROR_AT("<run>\rseed = 1", "input.deck:1:6: ", "control character 13");
  std::string many;
  while (many.size() < 10'000'000)
    many += "# a comment line of a file that is too large\n";
  CHECK_ERROR_AT(many, "input.deck:93207:", "larger than 4 MiB");
  // Mistakes without number are counted, not listed.
  std::string wrong = "<run>\n";
  for (int i = 0; i < 100'000; ++i) wrong += "a" + std::to_string(i) + " = 1\n";
  const std::string found = errors_of(wrong);
  CHECK(count_lines(found) == 41);
  CHECK(contains(found, "and 99963 more errors"));
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  CHECK(spent.count() < 20);
}

TEST_CASE("a deck file is read whole, and what cannot be read is named") {
  const std::string path = "deck_grammar_test.deck";
  std::ofstream(path, std::ios::binary) << kGood;
  CHECK(read_deck(path) == kGood);
  std::remove(path.c_str());
  for (const std::string bad : {"no/such.deck", "."}) {
    INFO(bad);
    try {
      read_deck(bad);
      FAIL("no error");
    } catch (const kan::Error& error) {
      CHECK(error.code() == kan::Code::usage);
      CHECK(contains(error.what(), bad + ": the deck cannot be read: "));
    }
  }
}
