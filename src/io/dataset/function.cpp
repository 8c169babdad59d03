// Synthetic rows: inputs uniform in a box, targets from muParser expressions plus
// Gaussian noise. Row r, input i is low + (high - low) u with u = random_uniform(seed,
// (data_input, i), r); the noise of target t is random_normal(seed, (data_noise, t), r).
// So a row depends on the seed and its id alone, not on how many rows there are.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <muParser.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <type_traits>

#include "io/dataset/source.hpp"
#include "kan/error.hpp"
#include "kan/random.hpp"

namespace kan::io {

namespace {

static_assert(std::is_same_v<mu::string_type, std::string>, "muParser built for char");

constexpr const char* kShortNames[] = {"x", "y", "z"};

std::string variable_list(int inputs) {
  std::string text = inputs == 1 ? "x1" : fmt::format("x1 to x{}", inputs);
  for (int i = 0; i < std::min(inputs, 3); ++i)
    text += fmt::format(", {}", kShortNames[i]);
  return text;
}

[[noreturn]] void bad_expression(const std::string& expression, const std::string& why,
                                 int inputs) {
  throw Error(
      Code::usage,
      fmt::format("data/expressions: '{}': {}; the variables are {}, with pi and e, "
                  "and the usual functions (sin, exp, log, sqrt, abs, ...)",
                  expression, why, variable_list(inputs)));
}

/// muParser's reason with our position, which counts from 1 as editors do; its own counts
/// from 0.
std::string placed(const mu::ParserError& error) {
  std::string text = error.GetMsg();
  for (const char* words : {" found at position", " at position"}) {
    const std::size_t at = text.find(words);
    if (at != std::string::npos) text.erase(at);
  }
  return fmt::format("position {}: {}", error.GetPos() + 1, text);
}

/// Some builds of muParser throw for 1/0 and log(-1), others give infinity and NaN.
bool about_values(const mu::ParserError& error) {
  return error.GetCode() == mu::ecDIV_BY_ZERO || error.GetCode() == mu::ecDOMAIN_ERROR;
}

/// An expression bound to the values in `x`.
mu::Parser compile(const std::string& expression, std::vector<double>& x) {
  const int inputs = static_cast<int>(x.size());
  // muParser knows assignment, which would change the inputs of later expressions.
  for (std::size_t at = 0; at < expression.size(); ++at) {
    if (expression[at] != '=') continue;
    const bool before =
        at > 0 && std::string("<>!=").find(expression[at - 1]) != std::string::npos;
    const bool after = at + 1 < expression.size() && expression[at + 1] == '=';
    if (!before && !after) {
      bad_expression(
          expression,
          fmt::format("position {}: '=' assigns nothing here, == compares", at + 1),
          inputs);
    }
  }
  mu::Parser parser;
  try {
    for (int i = 0; i < inputs; ++i) {
      parser.DefineVar(fmt::format("x{}", i + 1), &x[static_cast<std::size_t>(i)]);
      if (i < 3) parser.DefineVar(kShortNames[i], &x[static_cast<std::size_t>(i)]);
    }
    parser.DefineConst("pi", std::numbers::pi);
    parser.DefineConst("e", std::numbers::e);
    parser.SetExpr(expression);
    int results = 0;
    parser.Eval(results);
    if (results != 1) {
      bad_expression(expression, fmt::format("gives {} values, one is needed", results),
                     inputs);
    }
  } catch (const mu::ParserError& error) {
    if (!about_values(error)) {
      bad_expression(expression, placed(error), inputs);
    }
  }
  return parser;
}

/// One value for all inputs, or one each.
std::vector<double> per_input(const std::vector<double>& values, int inputs,
                              const char* key) {
  if (values.size() == 1)
    return std::vector<double>(static_cast<std::size_t>(inputs), values[0]);
  if (values.size() == static_cast<std::size_t>(inputs)) return values;
  throw Error(Code::usage,
              fmt::format("data/{}: {} values for {} inputs; give one for all, or "
                          "one per input",
                          key, values.size(), inputs));
}

void check_function(const DataOptions& options, const DataShape& shape) {
  if (options.rows <= 0) {
    throw Error(Code::usage,
                fmt::format("data/rows: a function needs a positive number of rows, "
                            "not {}",
                            options.rows));
  }
  if (options.expressions.size() != static_cast<std::size_t>(shape.targets)) {
    throw Error(Code::usage,
                fmt::format("data/expressions: {} given for {} target{} of the "
                            "network; give one per target",
                            options.expressions.size(), shape.targets,
                            shape.targets == 1 ? "" : "s"));
  }
  if (!(options.noise >= 0) || !std::isfinite(options.noise)) {
    throw Error(Code::usage,
                fmt::format("data/noise: {} is not a standard deviation; 0 or more",
                            options.noise));
  }
  if (shape.classes > 0 && options.noise > 0) {
    throw Error(Code::usage, "data/noise: class labels cannot have noise; set it to 0");
  }
}

double input_value(std::uint64_t seed, std::uint64_t row, std::size_t input, double low,
                   double high) {
  const auto stream =
      random_stream(Purpose::data_input, static_cast<std::uint32_t>(input));
  // An explicit fma: the same bits whether or not a compiler would contract.
  return std::fma(high - low, random_uniform(seed, stream, row), low);
}

}  // namespace

SourceRows read_function(const DataOptions& options, const DataShape& shape,
                         const SourceRequest& request) {
  if (!request.key.empty()) {
    throw Error(
        Code::usage,
        fmt::format("data/{}: of a function it is a fraction of its rows, not a file",
                    request.key.substr(0, request.key.size() - 1)));
  }
  check_function(options, shape);
  check_bytes(fmt::format("{} rows of a function", options.rows), options.rows, shape,
              options);
  const std::vector<double> low = per_input(options.low, shape.inputs, "low");
  const std::vector<double> high = per_input(options.high, shape.inputs, "high");
  const auto inputs = static_cast<std::size_t>(shape.inputs);
  const auto targets = static_cast<std::size_t>(shape.targets);
  for (std::size_t i = 0; i < inputs; ++i) {
    if (low[i] < high[i] && std::isfinite(high[i] - low[i])) continue;
    throw Error(Code::usage,
                fmt::format("data/low, data/high: input {} has the range {} to {}; "
                            "low must be less than high",
                            i + 1, low[i], high[i]));
  }

  std::vector<double> point(low);
  std::vector<mu::Parser> parsers;
  for (const std::string& expression : options.expressions) {
    parsers.push_back(compile(expression, point));
  }

  SourceRows out;
  DataSet& set = out.set;
  set.rows = options.rows;
  set.inputs = shape.inputs;
  set.targets = shape.targets;
  for (int i = 0; i < shape.inputs; ++i) {
    set.input_names.push_back(shape.inputs <= 3 ? kShortNames[i]
                                                : fmt::format("x{}", i + 1));
  }
  set.target_names = options.expressions;
  const auto rows = static_cast<std::size_t>(options.rows);
  set.x.resize(rows * inputs);
  set.y.resize(rows * targets);
  set.row_id.resize(rows);
  for (std::size_t r = 0; r < rows; ++r) {
    set.row_id[r] = static_cast<std::int64_t>(r);
    for (std::size_t i = 0; i < inputs; ++i) {
      point[i] = input_value(options.seed, r, i, low[i], high[i]);
      set.x[r * inputs + i] = point[i];
    }
    for (std::size_t t = 0; t < targets; ++t) {
      double value = 0;
      try {
        value = parsers[t].Eval();
      } catch (const mu::ParserError& error) {
        if (!about_values(error)) {
          bad_expression(options.expressions[t],
                         fmt::format("row {}: {}", r, error.GetMsg()), shape.inputs);
        }
        value = std::numeric_limits<double>::quiet_NaN();
      }
      if (options.noise > 0) {
        const auto stream =
            random_stream(Purpose::data_noise, static_cast<std::uint32_t>(t));
        value = std::fma(options.noise, random_normal(options.seed, stream, r), value);
      }
      set.y[r * targets + t] = value;
    }
  }
  out.where = [names = set.input_names, expressions = options.expressions, low, high,
               seed = options.seed](std::int64_t row, int column) {
    const auto at = static_cast<std::size_t>(column);
    std::string text = at < names.size() ? fmt::format("input '{}'", names[at])
                                         : fmt::format("data/expressions: '{}'",
                                                       expressions[at - names.size()]);
    text += fmt::format(" in row {} (", row);
    for (std::size_t i = 0; i < names.size(); ++i) {
      const double value =
          input_value(seed, static_cast<std::uint64_t>(row), i, low[i], high[i]);
      text += fmt::format("{}{} = {}", i == 0 ? "" : ", ", names[i], value);
    }
    return text + ")";
  };
  return out;
}

}  // namespace kan::io
