"""Tests of tools/kan_history.py and tools/kan_plot.py on files that the library wrote:
python3 tools_history.py HISTORY_PROGRAM TOOLS. The program writes a run cut by a restart
into a directory given to it, and prints the rows that must be read."""
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

PROGRAM, TOOLS = sys.argv[1:3]
sys.path.insert(0, TOOLS)
import h5py  # noqa: E402
import kan_history  # noqa: E402


def write_run(directory, mode, name="run"):
    """Rows as the writer knows them: lists of words, steps and epochs."""
    out = subprocess.run([PROGRAM, directory, name, mode], check=True, capture_output=True,
                         text=True).stdout
    rows = [line.split() for line in out.splitlines()]
    return ([row[1:] for row in rows if row[0] == "step"],
            [row[1:] for row in rows if row[0] == "epoch"])


def tool(name, *arguments):
    return subprocess.run([sys.executable, f"{TOOLS}/{name}.py", *map(str, arguments)],
                          capture_output=True, text=True)


class Tools(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.scratch.name)

    def tearDown(self):
        self.scratch.cleanup()

    def check(self, history, rows):
        steps, epochs = rows
        self.assertEqual(list(map(int, history.step["step"])), [int(r[0]) for r in steps])
        self.assertEqual(list(history.step["loss"]), [float(r[1]) for r in steps])
        self.assertEqual(list(map(int, history.epoch["epoch"])), [int(r[0]) for r in epochs])
        self.assertEqual(list(history.epoch["train_loss"]), [float(r[1]) for r in epochs])
        self.assertEqual(list(history.epoch["layer1_outside"]), [float(r[2]) for r in epochs])

    def test_segments_and_joined_file_give_the_same_rows(self):
        for mode in ("segments", "joined"):
            rows = write_run(self.path / mode, mode)
            self.assertEqual(len(rows[0]), 40)
            self.check(kan_history.read(self.path / mode), rows)
        self.assertTrue((self.path / "joined" / "run.hst.h5").exists())
        self.assertGreater(len(list((self.path / "segments").glob("run.hst.0*.h5"))), 2)
        self.check(kan_history.read(self.path / "joined" / "run.hst.h5"), rows)

    def test_rows_past_a_restart_are_dropped(self):
        rows = write_run(self.path, "overlap")
        self.check(kan_history.read(self.path), rows)

    def test_checksums_and_labels(self):
        write_run(self.path, "joined")
        with h5py.File(self.path / "run.hst.h5") as file:
            for name in kan_history.STEP_COLUMNS:
                self.assertTrue(file[name].fletcher32)
                for label in ("units", "dims", "description"):
                    self.assertTrue(file[name].attrs[label])
            self.assertEqual(file["input"].attrs["deck"], "<job>\n")

    def test_command_line(self):
        rows = write_run(self.path, "segments")
        out = tool("kan_history", self.path)
        self.assertEqual(out.returncode, 0)
        self.assertEqual(len(out.stdout.splitlines()), 41)
        csv = self.path / "epochs.csv"
        out = tool("kan_history", self.path, "--epochs", "--csv", csv)
        self.assertEqual(out.returncode, 0)
        lines = csv.read_text().splitlines()
        self.assertIn("train_loss", lines[0].split(","))
        self.assertEqual(len(lines), 1 + len(rows[1]))

    def test_plots(self):
        write_run(self.path / "a", "segments")
        write_run(self.path / "b", "joined")
        for kind, head in (("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")):
            file = self.path / f"loss.{kind}"
            out = tool("kan_plot", self.path / "a", self.path / "b" / "run.hst.h5", "-o",
                       file)
            self.assertEqual(out.returncode, 0, out.stderr)
            self.assertTrue(file.read_bytes().startswith(head))
            self.assertGreater(file.stat().st_size, 5000)
        xml.etree.ElementTree.parse(self.path / "loss.svg")
        out = tool("kan_plot", self.path / "a", "--x", "elapsed", "-o", self.path / "e.png")
        self.assertEqual(out.returncode, 0, out.stderr)

    def test_errors_are_one_clear_line(self):
        write_run(self.path / "a", "segments")
        write_run(self.path / "two", "joined", "x")
        write_run(self.path / "two", "joined", "y")
        empty = self.path / "empty"
        empty.mkdir()
        text = self.path / "text.h5"
        text.write_text("not HDF5")
        other = self.path / "other.h5"
        h5py.File(other, "w").close()
        cut = sorted((self.path / "a").glob("run.hst.0*.h5"))[1]
        cut.write_bytes(cut.read_bytes()[:500])
        for path, words in ((self.path / "none", "no such file"),
                            (empty, "holds no history"),
                            (self.path / "two", "several runs (x, y)"),
                            (text, "damaged"), (other, "not a history file"),
                            (self.path / "a", cut.name)):
            for name in ("kan_history", "kan_plot"):
                arguments = ["-o", self.path / "x.png"] if name == "kan_plot" else []
                out = tool(name, path, *arguments)
                self.assertEqual(out.returncode, 3)
                self.assertIn(words, out.stderr)
                self.assertEqual(len(out.stderr.splitlines()), 1)
        self.assertEqual(tool("kan_history", self.path / "two", "--name", "y").returncode, 0)
        out = tool("kan_history", self.path / "a", "--skip-bad")
        self.assertEqual(out.returncode, 0)
        self.assertIn("skipped", out.stderr)
        out = tool("kan_plot", self.path / "two", "--name", "x", "-o",
                   self.path / "no" / "x.png")
        self.assertEqual(out.returncode, 4)
        self.assertIn("cannot write", out.stderr)
        self.assertEqual(tool("kan_plot", self.path / "two", "-o", "x.bmp").returncode, 2)

    def test_help(self):
        for name in ("kan_history", "kan_plot"):
            out = tool(name, "--help")
            self.assertEqual(out.returncode, 0)
            self.assertIn("usage", out.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
