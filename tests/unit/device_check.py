"""The device compile check judges reports of the compilers as it says: spills, stack frames,
emptied kernels, sources that its list lacks. The reports are excerpts of real ones.
"""
import importlib.machinery
import importlib.util
import pathlib
import sys
import tempfile
import unittest

loader = importlib.machinery.SourceFileLoader("device_check", sys.argv.pop(1))
check = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
loader.exec_module(check)

SYMBOL = "_ZN6Kokkos4Impl33cuda_parallel_launch_local_memoryIvEEvT_"
PTXAS = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '{0}' for 'sm_80'
ptxas info    : Function properties for {0}
    432 bytes stack frame, 884 bytes spill stores, 1532 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 440 bytes cumulative stack size, 16 bytes smem
ptxas info    : Compile time = 41.389 ms
ptxas info    : Compiling entry function 'other' for 'sm_80'
ptxas info    : Function properties for other
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 48 registers, used 0 barriers
""".format(SYMBOL)

KEYS = ["Function Name", "    SGPRs", "    VGPRs", "    AGPRs", "    ScratchSize [bytes/lane]",
        "    Occupancy [waves/SIMD]", "    SGPRs Spill", "    VGPRs Spill",
        "    LDS Size [bytes/block]"]


def clang(*values):
    where, tag = "/usr/a.hpp:83:1: remark: ", " [-Rpass-analysis=kernel-resource-usage]"
    return "".join(f"{where}{k}: {v}{tag}\n   83 | driver) {{\n" for k, v in zip(KEYS, values))


def kernel(**figures):
    return check.FIGURES | dict(name="TeamTile<float,3>", registers=100) | figures


class Reports(unittest.TestCase):
    def test_ptxas(self):
        spilled, good = check.parse_cuda(PTXAS)
        self.assertEqual(spilled, dict(symbol=SYMBOL, registers=32, stores=884, loads=1532,
                                       stack=440, shared=16))
        self.assertEqual(good, dict(symbol="other", registers=48, stores=0, loads=0, stack=0,
                                    shared=0))

    def test_clang(self):
        spilled, good = check.parse_hip(clang("k", 104, 126, 6, 44, 4, 207, 10, 72) +
                                        clang("other", 43, 18, 0, 0, 8, 0, 0, 0))
        self.assertEqual(spilled, dict(symbol="k", registers=134, stores=40, loads=40, stack=44,
                                       shared=72, lanes=207))
        self.assertEqual(good, dict(symbol="other", registers=18, stores=0, loads=0, stack=0,
                                    shared=0, lanes=0))

    def test_names(self):
        launch = "void Kokkos::Impl::cuda_parallel_launch_local_memory<Kokkos::Impl::ParallelFor<"
        rest = ", Kokkos::RangePolicy<Kokkos::Cuda>, Kokkos::Cuda> >(int)"
        for name, short in [
                ("kan::TeamTile<double, 3>", "TeamTile<double,3>"),
                ("kan::(anonymous namespace)::Apply<float, kan::(anonymous namespace)::Rule<4> >",
                 "Apply<float,Rule<4>>"),
                ("kan::add<float>(Kokkos::Cuda const&, float*, long)::{lambda(long)#1}",
                 "add<float>")]:
            self.assertEqual(check.short_name(launch + name + rest), short)
        self.assertIsNone(check.short_name(launch + "Kokkos::Impl::ViewCopy<kan::X>" + rest))

    def test_occupancy(self):
        self.assertEqual(check.warps("sm_90", 32), (64, 64))
        self.assertEqual(check.warps("sm_90", 128), (16, 64))
        self.assertEqual(check.warps("sm_80", 129), (12, 64))
        self.assertEqual(check.warps("gfx90a", 64), (32, 32))
        self.assertEqual(check.warps("gfx90a", 134), (12, 32))
        # 164 KiB hold 9 teams of 15752 + 1040 + 1024 bytes, 228 KiB 13, 64 KiB 3 without 1024.
        self.assertEqual(check.warps("sm_80", 48, 15752), (36, 64))
        self.assertEqual(check.warps("sm_90", 32, 15752), (52, 64))
        self.assertEqual(check.warps("gfx90a", 96, 15752), (6, 32))
        self.assertEqual(check.warps("sm_80", 128, 15752), (16, 64))

    def test_scratch(self):
        def at(name):
            return [check.scratch_of(name, shape) for shape in check.SHAPES]

        # tile of 16 rows, blocks of 8 inputs: 16*20 + 128*(13*4+4) + 8 + 32, 2*16*64*4 + 32
        self.assertEqual(at("TeamTile<float,3>"), [7528 + 8224] * 2)
        # 14 (G=10) and 9 (G=5) sums of 128 edges; 32 samples of 2*(5*4+4) + 64*4 bytes
        self.assertEqual(at("TeamGradient<float,3,false>"), [7168 + 9760, 4608 + 9760])
        # 8 rows, 16 inputs; 16 samples of 2*(5*8+4) + 64*8 bytes
        self.assertEqual(at("TeamTile<double,3>"), [160 + 128 * 108 + 40 + 8224] * 2)
        self.assertEqual(at("TeamGradient<double,3,false>"), [14336 + 9632, 9216 + 9632])
        for name in ("TeamGradient<float,3,true>", "TeamSums<float>", "FormTable<float>"):
            self.assertEqual(at(name), [None, None])


class Judgement(unittest.TestCase):
    def test_good(self):
        self.assertEqual(check.judge(kernel(registers=24, stack=128)), [])
        self.assertEqual(check.judge(kernel(name="Apply<float>", registers=10)), [])

    def test_bad(self):
        for figures in (dict(stores=4), dict(loads=4), dict(stack=129), dict(registers=23)):
            self.assertEqual(len(check.judge(kernel(**figures))), 1, figures)
        self.assertEqual(len(check.judge(kernel(name="Apply<float>", stores=8, stack=200))), 2)
        self.assertEqual(len(check.judge(kernel(name="TeamGradient<float,3,true>", registers=9))),
                         1)


class List(unittest.TestCase):
    def test_complete(self):
        self.assertEqual(check.list_errors(), [])
        self.assertIn(("src/kan/engine/team_order.cpp", list("012345")), check.kernel_sources())

    def test_missing(self):
        launch = 'Kokkos::parallel_for("a", Kokkos::RangePolicy<{}>(exec, 0, n), f);\n'
        files = {"cmake/device/kernels.txt": "# list\nsrc/kan/listed.cpp 1 2\nsrc/kan/gone.cpp\n",
                 "src/kan/listed.cpp": launch.format("Exec"),
                 "src/kan/new.cpp": launch.format("Exec"),
                 "src/io/reduced.cpp": "parallel_reduce(n, f, sum);\n",
                 "src/io/on_host.cpp": launch.format("HostExec"),
                 "src/kan/mixed.cpp": launch.format("HostExec") + launch.format("Exec"),
                 "src/kan/engine/host_form.cpp": launch.format("Exec"),
                 "src/kan/plain.cpp": "// no parallel_for(n) here\n"}
        with tempfile.TemporaryDirectory() as folder:
            top = pathlib.Path(folder)
            for name, text in files.items():
                (top / name).parent.mkdir(parents=True, exist_ok=True)
                (top / name).write_text(text)
            self.assertEqual([error.split()[:3] for error in check.list_errors(top)],
                             [["cmake/device/kernels.txt", "names", "src/kan/gone.cpp,"],
                              ["src/io/reduced.cpp", "launches", "kernels:"],
                              ["src/kan/mixed.cpp", "launches", "kernels:"],
                              ["src/kan/new.cpp", "launches", "kernels:"]])


if __name__ == "__main__":
    unittest.main()
