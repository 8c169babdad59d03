"""The prediction for GPUs counts what the kernels do: against counts by hand at the reference
network, against the plan, and the table of docs/gpu-model.md is what the script prints.
Arguments: tests/bench/gpu_model.py, docs/gpu-model.md.
"""
import importlib.util
import pathlib
import sys
import unittest

DOCUMENT = pathlib.Path(sys.argv.pop(2))
spec = importlib.util.spec_from_file_location("gpu_model", sys.argv.pop(1))
model = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = model
spec.loader.exec_module(model)
tp = model.tp

REFERENCE = tp.network([2, 64, 1], 10)
A100 = model.DEVICES[0]
CHECK = model.load_check()


class Plan(unittest.TestCase):
    def test_sizes(self):
        self.assertEqual(tp.row_numbers(REFERENCE), 2 + 64 + 64 + 1)
        # (2*16 + 3)*64 + 2*64 = 2368 = 148*16; 64*16 + 3 + 64 = 1091, padded to 1104
        self.assertEqual(tp.table_numbers(REFERENCE), 2368 + 1104)
        self.assertEqual([tp.tile_of(REFERENCE, rows, 4).rows for rows in (512, 1024, 16384)],
                         [4, 8, 16])
        self.assertEqual([tp.device_leaves(REFERENCE, rows) for rows in (512, 1024, 16384, 40)],
                         [16, 32, 128, 1])
        self.assertEqual(tp.device_leaves(tp.network([2, 64, 1], 200), 16384), 32)  # 408 rows

    def test_cuts(self):
        wide, narrow = tp.cuts_of(REFERENCE, 4)
        self.assertEqual(wide, (2, 64, 1, 1, 32, False))
        self.assertEqual(narrow, (64, 1, 1, 1, 8, False))
        self.assertTrue(tp.cuts_of(tp.network([2, 64, 1], 200), 4)[0].in_table)


class Counts(unittest.TestCase):
    def test_basis(self):
        # interval 12; 6 for each of 1+2+3 steps of the recurrence; exp 23 and 4 more for SiLU
        self.assertEqual(model.basis_flops(3, 4, False), 12 + 36 + 27)
        self.assertEqual(model.basis_flops(3, 4, True), 12 + 36 + 27 + 7 + 4)

    def test_tile(self):
        k = model.tile_kernel(REFERENCE, 512, 16, 4, A100, CHECK)
        self.assertEqual(k.teams, 128)
        self.assertEqual(k.held, 4)
        # 66 points forward, 64 back; 192 edges of 5 products forward, 64 of 5 and one back
        self.assertEqual(k.flops, 512 * (66 * 75 + 192 * 10 + 64 * 86 + 64 * 11))
        self.assertEqual(k.far, 512 * 4 * 5 * (192 + 64))
        # a tile of 4 rows touches 16 intervals of 16, and the base, of each edge
        self.assertEqual(k.table, 128 * 4 * 17 * (128 + 64 + 64))
        self.assertEqual(k.stream, 512 * 4 * (66 + 65 + 128))

    def test_gradient(self):
        k = model.gradient_kernel(REFERENCE, 512, 16, 4, A100, CHECK)
        self.assertEqual(k.teams, 32)
        self.assertEqual(k.flops, 512 * (66 * 75 + 192 * 10))
        # an edge: 4 sums read and written, 5 basis values, dy and place; a point: 6 written
        self.assertEqual(k.near, 512 * 4 * (192 * 15 + 66 * 6))
        self.assertEqual(k.stream, 512 * 4 * 131 + 16 * 4 * 192 * 14)

    def test_small(self):
        names = [k.name for k in model.small_kernels(REFERENCE, 16, 4, A100)]
        self.assertEqual(names, ["add_leaves", "finish", "sum_up", "scale_and_square", "judge",
                                 "stamp", "update", "form"])
        tree = model.small_kernels(REFERENCE, 16, 4, A100)[0]
        self.assertEqual(tree.chain, 300 * (4 + 1))
        self.assertEqual(len(model.small_kernels(REFERENCE, 1, 4, A100)), 7)


class Prediction(unittest.TestCase):
    def test_bounds(self):
        k = model.Kernel("k", flops=19.5e12 * 0.6, near=128 * 108 * 1.41e9 * 0.7 / 2, chain=1.41e9,
                         table=4.0e12 * 0.7 / 4, teams=109 * 16, held=16)
        t = model.times(k, 4, A100, 0)
        for bound, seconds in dict(arithmetic=1, pipe=0.5, traffic=0.25, chain=2).items():
            self.assertAlmostEqual(t[bound], seconds)
        k = model.Kernel("k", stream=1.555e12 * 0.7)
        self.assertAlmostEqual(model.times(k, 4, A100, 41 << 20)["traffic"], 1)
        self.assertAlmostEqual(model.times(k, 4, A100, 39 << 20)["traffic"], 1.555 / 4)

    def test_step(self):
        p = model.predict([2, 64, 1], 10, 512, 4, A100, CHECK)
        self.assertEqual(p["launches"], 10)
        self.assertAlmostEqual(p["stream"] - p["graph"], 10 * 2.5e-6)
        self.assertAlmostEqual(p["busy"], sum(max(t.values()) for _, t in p["kernels"]))

    def test_document(self):
        self.assertIn(model.tables(CHECK), DOCUMENT.read_text())


if __name__ == "__main__":
    unittest.main()
