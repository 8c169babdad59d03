// The declared parameters: the one place where a key of the deck is made (see
// parameters.hpp for the columns). A key stands here once the code behind it works.
//
// Classes: structural is what fixes the shape of the state (network, precision, the
// moments an optimizer has) or what the numbers in it mean (scaling, loss, and the seed
// and shuffling that say which rows an epoch has already used). Where data come from,
// batch, learning rate, limits, outputs and kernels may change at a restart.
#pragma once

#include "io/parameters.hpp"

namespace kan::io {

inline constexpr Block kBlocks[] = {
    {"job", false, "Name of the run."},
    {"run", false, "What to do, for how long, with which numbers."},
    {"data", false, "Rows to learn from: a function, an HDF5 file or a CSV file."},
    {"network", false, "Shape and start of the network."},
    {"optimizer", false, "How one update is made."},
    {"schedule", false, "Learning rate over the updates."},
    {"stop", false, "Reasons to end early."},
    {"parallel", false, "Ranks and the order of sums."},
    {"output", true,
     "A file written at a cadence: exactly one of dstep, depoch, dwall. Setting one of "
     "them takes back another set by a weaker source (restart, deck)."},
};

inline constexpr When kFromFunction{"data", "source", "function"};
inline constexpr When kFromFile{"data", "source", "hdf5 csv"};
inline constexpr When kFromCsv{"data", "source", "csv"};
inline constexpr When kAdam{"optimizer", "type", "adam adamw"};

// clang-format off: a row is read as a row
inline constexpr Parameter kParameters[] = {
    {.block = "job", .name = "name", .type = Type::text,
     .doc = "Name of the run and of its files; the default is the deck's file name."},

    {.block = "run", .name = "mode", .type = Type::choice, .fallback = "train",
     .choices = "train evaluate",
     .doc = "train, or evaluate a checkpoint on the data."},
    {.block = "run", .name = "precision", .type = Type::choice, .fallback = "float",
     .choices = "float double", .cls = Class::structural,
     .doc = "Numbers of the network."},
    {.block = "run", .name = "epochs", .type = Type::integer, .off = "none",
     .range = {1, 1e9},
     .doc = "Passes over the training rows; to train, epochs or steps is needed, and "
            "the one that comes first ends the run."},
    {.block = "run", .name = "steps", .type = Type::integer, .off = "none",
     .range = {1, 1e15},
     .doc = "Updates, counted from the first start of the run."},
    {.block = "run", .name = "seed", .type = Type::integer, .fallback = "1",
     .range = at_least(0), .cls = Class::structural,
     .doc = "Seed of the initial values and of the order of rows. Fixed at a "
            "restart, as it says which rows of the epoch are used already."},
    {.block = "run", .name = "threads", .type = Type::integer, .off = "all",
     .range = {1, 65536},
     .doc = "Threads of a rank; all: as many as it is given."},
    {.block = "run", .name = "walltime", .type = Type::duration, .off = "none",
     .range = at_least(1),
     .doc = "Limit of a launch: stop while a last checkpoint still fits. The same as "
            "-t; given on the command line it does not hold for restarts."},
    {.block = "run", .name = "ndiag", .type = Type::integer, .fallback = "100",
     .range = {1, 1e15},
     .doc = "Steps between two lines on the screen."},
    {.block = "run", .name = "warmup_steps", .type = Type::integer, .fallback = "0",
     .range = {0, 1e15},
     .doc = "First steps left out of the steady rate."},
    {.block = "run", .name = "measure", .type = Type::boolean, .fallback = "false",
     .doc = "The run measures: parallel/backend = null is allowed, and what it leaves "
            "behind is marked as no training."},

    {.block = "data", .name = "source", .type = Type::choice, .required = true,
     .choices = "function hdf5 csv",
     .doc = "Where rows come from."},
    {.block = "data", .name = "seed", .type = Type::integer, .fallback = "1",
     .range = at_least(0),
     .doc = "Seed of row values, noise and the split."},
    {.block = "data", .name = "rows", .type = Type::integer, .required = true,
     .range = {1, 4294967295}, .when = kFromFunction,
     .doc = "Rows to make."},
    {.block = "data", .name = "inputs", .type = Type::texts,
     .doc = "function: number of variables (default: the first of network/widths); "
            "hdf5: paths of datasets, joined column by column; csv: columns by name "
            "or number from 1 (default: all that are not targets or split_column)."},
    {.block = "data", .name = "expressions", .type = Type::texts, .required = true,
     .when = kFromFunction,
     .doc = "One formula a target, in x1, x2, ... (x, y, z for the first three). For "
            "cross_entropy: one formula that gives the class, from 0."},
    {.block = "data", .name = "low", .type = Type::reals, .fallback = "-1",
     .when = kFromFunction,
     .doc = "Lower end of the variables: one value, or one each."},
    {.block = "data", .name = "high", .type = Type::reals, .fallback = "1",
     .when = kFromFunction,
     .doc = "Upper end of the variables: one value, or one each."},
    {.block = "data", .name = "noise", .type = Type::real, .fallback = "0",
     .range = at_least(0), .when = kFromFunction,
     .doc = "Standard deviation of the noise added to targets."},
    {.block = "data", .name = "file", .type = Type::text, .required = true,
     .when = kFromFile,
     .doc = "File of the rows; a name is relative to the deck (on the command line: to the "
            "current directory)."},
    {.block = "data", .name = "targets", .type = Type::texts, .required = true,
     .when = kFromFile,
     .doc = "hdf5: paths of datasets; csv: columns by name or number from 1. For "
            "cross_entropy: one column of class numbers, from 0."},
    {.block = "data", .name = "row_range", .type = Type::text, .off = "all",
     .when = kFromFile,
     .doc = "first:end, rows counted from 0, end not included; either may be left "
            "out."},
    {.block = "data", .name = "has_header", .type = Type::boolean, .off = "auto",
     .when = kFromCsv,
     .doc = "Whether the first line names the columns; auto: it does if none of its "
            "fields is a number."},
    {.block = "data", .name = "validation", .type = Type::fraction_or_file,
     .off = "none",
     .doc = "Rows to watch the training with: a fraction of the rows, or a file."},
    {.block = "data", .name = "test", .type = Type::fraction_or_file, .off = "none",
     .doc = "Rows for the figures at the end: a fraction of the rows, or a file."},
    {.block = "data", .name = "validation_inputs", .type = Type::texts, .off = "none",
     .when = kFromFile,
     .doc = "Datasets or columns; default: those of inputs. Without a file in "
            "validation they are those of data/file."},
    {.block = "data", .name = "validation_targets", .type = Type::texts, .off = "none",
     .when = kFromFile,
     .doc = "Datasets or columns; default: those of targets."},
    {.block = "data", .name = "test_inputs", .type = Type::texts, .off = "none",
     .when = kFromFile,
     .doc = "Datasets or columns; default: those of inputs. Without a file in test "
            "they are those of data/file."},
    {.block = "data", .name = "test_targets", .type = Type::texts, .off = "none",
     .when = kFromFile,
     .doc = "Datasets or columns; default: those of targets."},
    {.block = "data", .name = "split_column", .type = Type::text, .off = "none",
     .when = kFromCsv,
     .doc = "Column, by name or number, that holds 1 for test rows."},
    {.block = "data", .name = "scale_inputs", .type = Type::choice, .fallback = "none",
     .choices = "none standard minmax", .cls = Class::structural,
     .doc = "From the training rows: standard makes mean 0 and deviation 1, minmax "
            "maps to the grid, network/grid_low to grid_high."},
    {.block = "data", .name = "scale_targets", .type = Type::choice,
     .fallback = "none", .choices = "none standard minmax", .cls = Class::structural,
     .doc = "As scale_inputs; errors are reported in original units."},
    {.block = "data", .name = "nonfinite", .type = Type::choice, .fallback = "error",
     .choices = "error drop",
     .doc = "What a row that holds a value that is not finite does."},
    {.block = "data", .name = "shuffle", .type = Type::boolean, .fallback = "true",
     .cls = Class::structural,
     .doc = "A new order of rows every epoch. Fixed at a restart, as run/seed is."},
    {.block = "data", .name = "replicate_below", .type = Type::bytes,
     .fallback = "256 MiB",
     .doc = "Largest data set of which every rank keeps a copy; a larger HDF5 set is "
            "streamed in windows of about this size, others are refused."},

    {.block = "network", .name = "type", .type = Type::choice, .fallback = "kan",
     .choices = "kan", .cls = Class::structural,
     .doc = "Kind of network."},
    {.block = "network", .name = "widths", .type = Type::integers, .required = true,
     .range = {1, 1e6}, .cls = Class::structural,
     .doc = "Inputs, width of each hidden layer, outputs."},
    {.block = "network", .name = "grid", .type = Type::integers, .fallback = "5",
     .range = {1, 512}, .cls = Class::structural,
     .doc = "Intervals of the splines: one value, or one a layer."},
    {.block = "network", .name = "order", .type = Type::integers, .fallback = "3",
     .range = {1, 5}, .cls = Class::structural,
     .doc = "Degree of the splines: one value, or one a layer."},
    {.block = "network", .name = "base", .type = Type::choices, .fallback = "silu",
     .choices = "silu identity none", .cls = Class::structural,
     .doc = "Function beside the spline: one value, or one a layer."},
    {.block = "network", .name = "basis", .type = Type::choice, .fallback = "bspline",
     .choices = "bspline", .cls = Class::structural,
     .doc = "Basis functions."},
    {.block = "network", .name = "grid_low", .type = Type::real, .fallback = "-1",
     .cls = Class::structural,
     .doc = "Lower end of the grid."},
    {.block = "network", .name = "grid_high", .type = Type::real, .fallback = "1",
     .cls = Class::structural,
     .doc = "Upper end of the grid."},
    {.block = "network", .name = "spline_scale", .type = Type::choice,
     .fallback = "folded", .choices = "folded trained", .cls = Class::structural,
     .doc = "trained: a factor of its own on each spline, as PyKAN has it."},
    {.block = "network", .name = "initialization", .type = Type::choice,
     .fallback = "pykan", .choices = "pykan efficient_kan", .cls = Class::structural,
     .doc = "Initial values, those of the library named."},
    {.block = "network", .name = "engine", .type = Type::choice, .fallback = "auto",
     .choices = "auto tile layer",
     .doc = "How a batch runs through the layers: rows in tiles through all of them, or "
            "many rows through one after another, for layers that no cache holds. auto: "
            "by size, or measured at the start; a restart goes on with the one it was "
            "started with."},
    {.block = "network", .name = "kernels", .type = Type::choice, .fallback = "auto",
     .choices = "auto host team",
     .doc = "Form of the kernels: for CPUs, or for GPUs."},

    {.block = "optimizer", .name = "type", .type = Type::choice, .fallback = "adam",
     .choices = "adam adamw sgd", .cls = Class::structural,
     .doc = "Rule of an update."},
    {.block = "optimizer", .name = "learning_rate", .type = Type::real,
     .fallback = "1e-3", .range = above(0),
     .doc = "Size of an update."},
    {.block = "optimizer", .name = "batch", .type = Type::integer, .fallback = "512",
     .range = {1, 2147483647},
     .doc = "Rows of a batch over all ranks; a short last batch is kept."},
    {.block = "optimizer", .name = "accumulate", .type = Type::integer,
     .fallback = "1", .range = {1, 1e6},
     .doc = "Batches whose gradients make one update."},
    {.block = "optimizer", .name = "clip_norm", .type = Type::real, .off = "off",
     .range = above(0),
     .doc = "Largest norm of the gradient."},
    {.block = "optimizer", .name = "weight_decay", .type = Type::real, .fallback = "0",
     .range = at_least(0),
     .doc = "Pull to zero: decoupled for adamw, else in the gradient."},
    {.block = "optimizer", .name = "momentum", .type = Type::real, .fallback = "0",
     .range = {0, 1, false, true}, .when = {"optimizer", "type", "sgd"},
     .cls = Class::structural,
     .doc = "Momentum of sgd. Fixed at a restart, as a state is kept only where it "
            "is not 0."},
    {.block = "optimizer", .name = "beta1", .type = Type::real, .fallback = "0.9",
     .range = {0, 1, false, true}, .when = kAdam,
     .doc = "Decay of the first moment."},
    {.block = "optimizer", .name = "beta2", .type = Type::real, .fallback = "0.999",
     .range = {0, 1, false, true}, .when = kAdam,
     .doc = "Decay of the second moment."},
    {.block = "optimizer", .name = "epsilon", .type = Type::real, .fallback = "1e-8",
     .range = above(0), .when = kAdam,
     .doc = "Added to the root of the second moment."},
    {.block = "optimizer", .name = "loss", .type = Type::choice, .fallback = "mse",
     .choices = "mse mae cross_entropy", .cls = Class::structural,
     .doc = "What is made small. cross_entropy: one output a class, the target is "
            "the number of the class."},

    {.block = "schedule", .name = "type", .type = Type::choice, .fallback = "constant",
     .choices = "constant step cosine",
     .doc = "Learning rate: constant, times factor every step_size steps, or along a "
            "cosine to 0 at the end of the run."},
    {.block = "schedule", .name = "warmup", .type = Type::integer, .fallback = "0",
     .range = {0, 1e15},
     .doc = "First steps in which the rate grows to its value."},
    {.block = "schedule", .name = "step_size", .type = Type::integer, .required = true,
     .range = {1, 1e15}, .when = {"schedule", "type", "step"},
     .doc = "Steps between two changes."},
    {.block = "schedule", .name = "factor", .type = Type::real, .fallback = "0.1",
     .range = above(0), .when = {"schedule", "type", "step"},
     .doc = "Factor of a change."},

    {.block = "stop", .name = "target_loss", .type = Type::real, .off = "off",
     .range = above(0),
     .doc = "End when the validation loss (without validation rows: the training "
            "loss) of an epoch is not above this."},
    {.block = "stop", .name = "patience", .type = Type::integer, .off = "off",
     .range = {1, 1e9},
     .doc = "End after this many epochs without a better loss (the same loss)."},

    {.block = "parallel", .name = "backend", .type = Type::choice, .fallback = "auto",
     .choices = "auto serial mpi nccl null",
     .doc = "How ranks speak to each other. nccl sums gradients on GPUs through NCCL. "
            "null leaves out the sums of gradients, to measure what they cost; it needs "
            "run/measure = true."},
    {.block = "parallel", .name = "gpu_aware", .type = Type::choice, .fallback = "auto",
     .choices = "auto on off",
     .doc = "With mpi on GPUs: device memory goes to the MPI library as it is (auto: "
            "where the library says it can and a test at the start agrees)."},
    {.block = "parallel", .name = "algorithm", .type = Type::choice, .fallback = "auto",
     .choices = "auto library tree",
     .doc = "Who adds gradients over ranks: the message library's all-reduce, or our own "
            "exchange between pairs of ranks; auto: tree for messages in host memory."},
    {.block = "parallel", .name = "message", .type = Type::choice, .fallback = "flat",
     .choices = "flat tensors",
     .doc = "The gradient in one message, or in one for each array of parameters; the "
            "latter for comparison."},
    {.block = "parallel", .name = "reproducible", .type = Type::boolean,
     .fallback = "false",
     .doc = "Bit-equal results for every number of threads and ranks."},
    {.block = "parallel", .name = "shard_rows", .type = Type::integer,
     .fallback = "64", .range = {1, 2147483647},
     .doc = "Fewest rows of a leaf of the gradient sum."},
    {.block = "parallel", .name = "max_shards", .type = Type::integer,
     .fallback = "64", .range = {1, 65536},
     .doc = "Most leaves of the gradient sum; with reproducible also the most ranks."},
    {.block = "parallel", .name = "average_every", .type = Type::integer,
     .fallback = "1", .range = {1, 1e9},
     .doc = "Local SGD: updates of each rank on its own between two averages of the "
            "parameters; 1: every update is of all ranks. Averages also end an epoch."},
    {.block = "parallel", .name = "average_warmup", .type = Type::integer,
     .fallback = "0", .range = {0, 1e15},
     .doc = "First updates that are of all ranks whatever average_every is."},
    {.block = "parallel", .name = "moments", .type = Type::choice,
     .fallback = "average", .choices = "average reset",
     .doc = "What an average does with the moments of the optimizer."},
    {.block = "parallel", .name = "timeout", .type = Type::duration, .fallback = "120",
     .range = {1, 1e6},
     .doc = "Longest wait for other ranks, longer than any file takes to write; then "
            "the ranks that did not arrive are named and the job ends with code 6."},
    {.block = "parallel", .name = "digest_every", .type = Type::integer,
     .fallback = "1000", .range = {1, 1e15},
     .doc = "Updates between two checks that all ranks hold the same parameters."},
    {.block = "parallel", .name = "diagnose", .type = Type::boolean,
     .fallback = "false",
     .doc = "Wait for all ranks before each sum of gradients, so that waiting and "
            "transfer are timed apart; slower, not for timed runs."},
    {.block = "parallel", .name = "ranks", .type = Type::integer, .off = "all",
     .range = {1, 4096},
     .doc = "Ranks that work; the other ranks of the job sleep."},
    {.block = "parallel", .name = "placement", .type = Type::choice,
     .fallback = "packed", .choices = "packed spread",
     .doc = "Which ranks work: on as few nodes as possible, or spread evenly over as many "
            "as possible."},
    {.block = "parallel", .name = "ranks_per_node", .type = Type::integer,
     .off = "auto", .range = {1, 4096},
     .doc = "Takes every so many ranks for a node, to try placements on one machine; "
            "auto: the nodes there are."},

    {.block = "output", .name = "type", .type = Type::choice, .required = true,
     .choices = "history restart prediction parameters",
     .doc = "What is written."},
    {.block = "output", .name = "dstep", .type = Type::integer, .off = "none",
     .range = {1, 1e15}, .exclusive = true,
     .doc = "Steps between two writes."},
    {.block = "output", .name = "depoch", .type = Type::integer, .off = "none",
     .range = {1, 1e9}, .exclusive = true,
     .doc = "Epochs between two writes."},
    {.block = "output", .name = "dwall", .type = Type::duration, .off = "none",
     .range = at_least(1), .exclusive = true,
     .doc = "Time between two writes."},
    {.block = "output", .name = "keep", .type = Type::integer, .fallback = "3",
     .range = {1, 1e6}, .when = {"output", "type", "restart"},
     .doc = "Newest checkpoints kept, besides the best."},
    {.block = "output", .name = "enabled", .type = Type::boolean, .fallback = "true",
     .doc = "false: write nothing."},
};
// clang-format on

}  // namespace kan::io
