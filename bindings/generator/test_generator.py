#!/usr/bin/env python3
"""The generator on changed headers: it must see a new function, another signature, and pointers that a row does not have."""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]


class Changed(unittest.TestCase):
    """A copy of the headers and the bindings with one text of a file replaced."""

    def run_generator(self, *edits):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            for part in ("include", "cmake", "bindings"):
                shutil.copytree(SOURCE / part, folder / part, ignore=shutil.ignore_patterns("target", "__pycache__"))
            for name, old, new in edits:
                text = (folder / name).read_text()
                self.assertIn(old, text)
                (folder / name).write_text(text.replace(old, new, 1))
            return subprocess.run([sys.executable, folder / "bindings/generator/generate.py"], capture_output=True, text=True)

    def test_the_bindings_are_those_of_the_headers(self):
        done = self.run_generator()
        self.assertEqual((done.returncode, done.stdout), (0, ""))

    def test_a_function_without_a_row_is_named(self):
        done = self.run_generator(("include/reprise/nn.h", "F(silu, (", "F(novel, (const float *x, int64_t n), (x, n)) F(silu, ("))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("no row for novel", done.stderr)

    def test_another_signature_shows(self):
        done = self.run_generator(("include/reprise/nn.h", "int64_t n, float factor)", "int64_t n, double factor)"))
        self.assertEqual(done.returncode, 1)
        for line in ("+pub fn scale(x: &[f32], y: &mut [f32], factor: f64)", "+func Scale(x, y []float32, factor float64) error {"):
            self.assertIn(line, done.stdout)

    def test_a_pointer_that_the_row_lacks_is_named(self):
        done = self.run_generator(("include/reprise/nn.h", "F(silu, (const float *x,", "F(silu, (const float *w, const float *x,"))
        self.assertIn("silu of reprise/nn.h has the pointers ['w', 'x', 'y'], its row ['x', 'y']", done.stderr)

    def test_a_new_member_shows(self):
        done = self.run_generator(("include/reprise/session.h", "    RpExecMode  mode;", "    RpExecMode  mode;\n    double more;"))
        self.assertIn("+    pub more: f64,", done.stdout)

    def test_every_form_of_row_has_code(self):
        parameters = ("(int32_t type, const void *W, const float *x, float *q, const uint64_t *seeds, float *y, int64_t batch, "
                      "int32_t rows, int32_t cols, int64_t stride, void *workspace, int64_t workspace_bytes)")
        row = ('"novel": "W[bytes(type,rows*cols)] x?[span(batch,stride,cols/2)] q![*rows] seeds[*batch] '
               '-> y?[batch,either(type,rows-1,cols+1)] | y=x",\n}')
        query = ("(int32_t rows, int64_t *bytes)", "RP_API int32_t rp_nn_cpu_novel_workspace")
        done = self.run_generator(
            ("include/reprise/nn.h", "F(silu, (", f"F(novel, {parameters}, (x, n)) F(silu, ("),
            ("include/reprise/nn.h", "/* RP_NN_ABI_VERSION of", f"{query[1]}{query[0]};\n/* RP_NN_ABI_VERSION of"),
            ("bindings/python/src/reprise/_nn/rules.py", "\n}", "\n    " + row))
        self.assertEqual((done.returncode, done.stderr), (1, ""))
        self.assertIn("rp_nn_cpu_novel_workspace(rows, &mut bytes)", done.stdout)


class Readme(unittest.TestCase):
    """The examples of docs/languages.md are lines of those in the README of the language, which are compiled."""

    def test_the_examples_are_those_of_the_bindings(self):
        for language in ("rust", "go"):
            def lines(path):
                found = re.search(r"```%s\S*\n(.*?)```" % language, (SOURCE / path).read_text(), re.S)
                return [line.strip() for line in found[1].splitlines()]
            compiled, shown = lines(f"bindings/{language}/README.md"), lines("docs/languages.md")
            self.assertEqual([line for line in shown if line not in compiled], [], language)


if __name__ == "__main__":
    unittest.main()
