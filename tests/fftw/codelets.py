"""
The error bound of every codelet of FFTW, from its source: the proof by computation behind lib/numerics/LEMMAS.md, N4.

    codelets.py SOURCE      SOURCE: an unpacked release of FFTW (3.3.10 was used)

A codelet is straight-line code. Each of its operations rounds once, and a constant that is not a double has been
rounded before. This program reads the code as data: every number is a linear form in the inputs, exact up to doubles,
and the rounding of an operation reaches each output through a linear form as well. So for each pair of an input
(complex, of any phase) and an output the largest error to first order is a finite maximum, over directions of both,
of a sum of absolute values. Multiplications by twiddle factors are treated separately: they keep the modulus, and
their error is sqrt 5 units of rounding and the factor's own error. Prints one line a codelet, and those that exceed
the table of lib/numerics/fft/fft_error.c; exits 1 if there are any.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import glob
import math
import os
import random
import re
import sys
from fractions import Fraction

import numpy

DIRECTIONS = 16  # in half a turn; a norm's maximum over them is within 1/cos(pi/32) of that over all
ANGLE = numpy.pi * numpy.arange(DIRECTIONS) / DIRECTIONS
COS, SIN = numpy.cos(ANGLE), numpy.sin(ANGLE)
SLACK = 1 / math.cos(math.pi / (2 * DIRECTIONS))
TABLE = 3.3  # a twiddle factor from a table, |computed - exact|
PRODUCT = math.sqrt(5)  # a complex product without fused operations, relative (Brent, Percival and Zimmermann 2007)


class Constant:
    """A number of the source, or a part of a twiddle factor that is a product of so many from tables."""
    def __init__(self, value, error=0.0, factors=0):
        self.value, self.error, self.factors = value, error, factors

    def __mul__(self, other):
        if isinstance(other, Constant):
            return Constant(self.value * other.value, 0, self.factors + other.factors)
        return other * self

    def __add__(self, other):
        return Constant(self.value + other.value, 0, max(self.factors, other.factors))

    def __sub__(self, other):
        return Constant(self.value - other.value, 0, max(self.factors, other.factors))


class Twiddle:
    """A complex twiddle factor of any angle."""
    def __init__(self, factors):
        self.factors = factors


class Real:
    def __init__(self, code, node, turned=False):
        self.code, self.node, self.turned = code, node, turned  # turned: half of a product with a twiddle factor

    def combine(self, other, sign):
        both = self.turned and other.turned
        return Real(self.code, self.code.add((self.node, 1.0), (other.node, sign), 0 if both else 1))

    def __add__(self, other):
        return self.combine(other, 1.0)

    def __sub__(self, other):
        return self.combine(other, -1.0)

    def __neg__(self):
        return Real(self.code, self.code.add((self.node, -1.0), None, 0), self.turned)

    def __mul__(self, constant):
        power_of_two = abs(math.frexp(constant.value)[0]) == 0.5
        exact = constant.factors > 0 or (constant.error == 0 and power_of_two)
        self.code.factors = max(self.code.factors, constant.factors)
        node = self.code.add((self.node, constant.value), None, 0 if exact else 1, 0 if exact else constant.error)
        return Real(self.code, node, constant.factors > 0)


class Complex:
    def __init__(self, re, im):
        self.re, self.im = re, im

    def __add__(self, other):
        return Complex(self.re + other.re, self.im + other.im)

    def __sub__(self, other):
        return Complex(self.re - other.re, self.im - other.im)


class Code:
    """The operations, and the bases in which values are linear: inputs, and products with twiddle factors."""
    def __init__(self):
        self.operations, self.rounding, self.bases, self.size, self.error, self.inputs = [], [], [], [], [], 0
        self.factors = 0

    def add(self, first, second, units, constant_error=0.0):
        self.operations.append((first, second))
        self.rounding.append((units, constant_error))
        return len(self.operations) - 1

    def base(self, parts=2):
        nodes = [self.add(None, None, 0) for _ in range(parts)]
        self.bases.append(nodes)
        self.size.append(None)
        self.error.append(None)
        return [Real(self, node) for node in nodes]

    def values(self):
        columns = {node: k for k, node in enumerate(node for base in self.bases for node in base)}
        forms = numpy.zeros((len(self.operations), len(columns)))
        for node, (first, second) in enumerate(self.operations):
            if first is None:
                forms[node, columns[node]] = 1
                continue
            forms[node] = first[1] * forms[first[0]]
            if second:
                forms[node] += second[1] * forms[second[0]]
        return forms, columns

    def reach(self, targets):
        nodes = [node for target in targets for node in target]
        out = numpy.zeros((len(self.operations), len(nodes)))
        for column, node in enumerate(nodes):
            out[node, column] += 1
        for node in range(len(self.operations) - 1, -1, -1):
            for parent in self.operations[node]:
                if parent:
                    out[parent[0]] += parent[1] * out[node]
        return out

    def bounds(self, targets):
        """For each target (its real nodes): the size of its value and of its error, by input."""
        forms, columns = self.values()
        reach = self.reach(targets)
        units = numpy.array([r[0] for r in self.rounding], float)[:, None]
        constant = numpy.array([r[1] for r in self.rounding])[:, None]
        parent = numpy.array([op[0][0] if op[0] else 0 for op in self.operations])
        noise = []
        for base in self.bases:
            part = forms[:, [columns[base[0]]]]
            if len(base) == 2:
                part = part * COS + forms[:, [columns[base[1]]]] * SIN
            part = numpy.abs(part)
            noise.append(units * part + constant * part[parent])
        out, column = [], 0
        for target in targets:
            way = reach[:, [column]]
            if len(target) == 2:
                way = way * COS + reach[:, [column + 1]] * SIN
            column += len(target)
            sizes, errors = numpy.zeros(self.inputs), numpy.zeros(self.inputs)
            for k, base in enumerate(self.bases):
                block = forms[numpy.ix_(target, [columns[node] for node in base])]
                size = numpy.linalg.norm(block, 2)
                error = (numpy.abs(way).T @ noise[k]).max() * SLACK**(len(target) + len(base) - 2)
                unit = numpy.eye(self.inputs)[k] if self.size[k] is None else self.size[k]
                sizes += size * unit
                errors += error * unit + (0 if self.size[k] is None else size * self.error[k])
            out.append((sizes, errors))
        return out

    def turn(self, factors, value):
        """The product with a twiddle factor: a base of its own."""
        (size, error), = self.bounds([[value.re.node, value.im.node]])
        re, im = self.base()
        self.size[-1], self.error[-1] = size, error + turning(factors) * size
        return Complex(re, im)


def turning(factors):
    return factors * TABLE + (factors - 1) * PRODUCT + PRODUCT


def times(factor, value):
    if isinstance(factor, Constant):
        return Complex(value.re * factor, value.im * factor)
    if isinstance(value, Twiddle):
        return Twiddle(factor.factors + value.factors)
    return value.re.code.turn(factor.factors, value)


def by_i(value):
    return Complex(-value.im, value.re)


def conj(value):
    return Complex(value.re, -value.im)


MACROS = {
    "FMA": lambda a, b, c: a * b + c, "FMS": lambda a, b, c: a * b - c, "FNMS": lambda a, b, c: c - a * b,
    "FNMA": lambda a, b, c: -(a * b) - c, "LDK": lambda k: k, "VBYI": by_i, "VCONJ": conj,
    "VADD": lambda a, b: a + b, "VSUB": lambda a, b: a - b, "VMUL": times,
    "VFMA": lambda a, b, c: times(a, b) + c, "VFMS": lambda a, b, c: times(a, b) - c,
    "VFNMS": lambda a, b, c: c - times(a, b), "VFMAI": lambda b, c: c + by_i(b), "VFNMSI": lambda b, c: c - by_i(b),
    "VFMACONJ": lambda b, c: conj(b) + c, "VFMSCONJ": lambda b, c: conj(b) - c, "VFNMSCONJ": lambda b, c: c - conj(b),
    "VZMUL": times, "VZMULJ": times, "VZMULI": times, "VZMULIJ": times,
    "LDW": lambda _: Twiddle(1), "BYTW": lambda _, x: times(Twiddle(1), x), "BYTWJ": lambda _, x: times(Twiddle(1), x),
    "WS": lambda _, index: index, "rs": 0, "is_": 0, "os": 0, "csr": 0, "csi": 0, "vs": 0,
}
NUMBER = r"WS\(\w+, (\d+)\)|(\d+)"


def read(path, fused):
    """The statements of one of the two versions that a file holds, and its constants."""
    text = open(path).read()
    if "#else" in text:
        text = text.split("#else", 1)[0 if fused else 1]
    text = text[text.index("static void"):].split("\nstatic const")[0]
    names = dict(MACROS)
    for name, digits in re.findall(r"DV?K\((KP\w+), \+([0-9.]+)\)", text):
        nearest = float(Fraction(digits))
        names[name] = Constant(nearest, 0.0 if Fraction(nearest) == Fraction(digits) else abs(nearest))
    statements = re.findall(r"(ST\(.*?\)|STM[24]\(.*?\)|^\s*[A-Za-z]\w*(?:\[[^=\n]*?\])? = [^;]*?);$", text,
                            re.M | re.S)
    statements = [re.sub(r"\s+", " ", s.strip()).replace("WS(is,", "WS(0,") for s in statements]
    return [s for s in statements if not re.match(r"(i|m|x|xi|xo) = ", s)], names


def vector(statements, names):
    """SIMD: values are complex numbers, loaded and stored by address."""
    code, memory, outputs = Code(), {}, {}
    for address in re.findall(r"\bLD\(&\((.*?\])\)", " ".join(statements)):
        if address not in memory:
            memory[address] = Complex(*code.base())
    code.inputs = len(memory)
    names["LD"] = lambda address: memory[address]
    for s in statements:
        s = re.sub(r"\bLD\(&\((.*?\])\), -?\w+, &\(.*?\]\)\)", r'LD("\1")', s)
        s = re.sub(r"(LDW|BYTWJ?)\(&\(W\[.*?\]\)", r"\1(0", s)
        store = re.match(r"STM?[24]?\(&\((.*?\])\), (.*), -?\w+, &\(.*\)\)$", s)
        name, value = store.groups() if store else s.split(" = ", 1)
        (outputs if store else names)[name] = eval(value, names)
    index = lambda address: re.sub(r"^\w+", "", address)
    return (code, [index(a) for a in memory], [index(a) for a in outputs],
            [[v.re.node, v.im.node] for v in outputs.values()])


# Which arrays hold the two parts of a number, on the way in and out; i: its index, r: the codelet's radix.
SAME, MIRROR = (lambda i, r: i), (lambda i, r: r - 1 - i)
SCALAR = {
    "n1": ([("ri", "ii", SAME)], [("ro", "io", SAME)]),
    "t1": ([("ri", "ii", SAME)],) * 2, "t2": ([("ri", "ii", SAME)],) * 2,
    "hf": ([("cr", "ci", SAME)], [("cr", "ci", MIRROR)]), "hb": ([("cr", "ci", MIRROR)], [("cr", "ci", SAME)]),
    "hc2cf": ([("Rp", "Rm", SAME), ("Ip", "Im", SAME)], [("Rp", "Ip", SAME), ("Rm", "Im", SAME)]),
    "hc2cb": ([("Rp", "Ip", SAME), ("Rm", "Im", SAME)], [("Rp", "Rm", SAME), ("Ip", "Im", SAME)]),
    "hc2cfdft": ([("Rp", "Ip", SAME), ("Rm", "Im", SAME)],) * 2,
    "hc2cbdft": ([("Rp", "Ip", SAME), ("Rm", "Im", SAME)],) * 2,
    "r2cf": ([("R0", None, SAME), ("R1", None, SAME)], [("Cr", "Ci", SAME)]),
    "r2cfII": ([("R0", None, SAME), ("R1", None, SAME)], [("Cr", "Ci", SAME)]),
    "r2cb": ([("Cr", "Ci", SAME)], [("R0", None, SAME), ("R1", None, SAME)]),
    "r2cbIII": ([("Cr", "Ci", SAME)], [("R0", None, SAME), ("R1", None, SAME)]),
}


def scalar(statements, names, kind, radix):
    shapes = SCALAR[kind if kind in SCALAR else kind[:-1]]
    rights = " ".join(s.split(" = ", 1)[1] for s in statements)
    seen = {(name, int(a or b)) for name, a, b in re.findall(r"\b([A-Za-z]\w*)\[(?:%s)\]" % NUMBER, rights)}
    code, memory, inputs, outputs = Code(), {}, [], {}
    for re_name, im_name, other in shapes[0]:
        for i in range(radix):
            parts = [p for p in ((re_name, i), (im_name, other(i, radix))) if p in seen]
            if parts:
                memory.update(zip(parts, code.base(len(parts))))
                inputs.append((i, len(parts)))
    code.inputs = len(inputs)
    angles = {}

    class Array:
        def __init__(self, name):
            self.name = name

        def __getitem__(self, i):
            if self.name != "W":
                return memory[self.name, i]
            angle = angles.setdefault(i // 2, random.uniform(0, 2 * math.pi))
            return Constant(math.sin(angle) if i % 2 else math.cos(angle), 0, 1)

    for name in ("W", "R0", "R1", "Cr", "Ci", "ri", "ii", "cr", "ci", "Rp", "Ip", "Rm", "Im"):
        names[name] = Array(name)
    for s in statements:
        left, right = s.split(" = ", 1)
        place = re.match(r"(\w+)\[(?:%s)\]$" % NUMBER, left)
        if place:
            outputs[place.group(1), int(place.group(2) or place.group(3))] = eval(right, names)
        else:
            names[left] = eval(right, names)
    targets, order = [], []
    for re_name, im_name, other in shapes[1]:
        for i in range(radix):
            parts = [p for p in ((re_name, i), (im_name, other(i, radix))) if p in outputs]
            if parts:
                targets.append([outputs[p].node for p in parts])
                order.append((i, len(parts)))
    return code, inputs, order, targets


def groups(labels, key):
    found = {}
    for column, label in enumerate(labels):
        found.setdefault(key(label), []).append(column)
    return list(found.values())


def analyse(path, fused):
    name = os.path.basename(path)[:-2]
    kind, radix = name.rsplit("_", 1)
    radix, simd = int(radix), os.sep + "simd" + os.sep in path
    statements, names = read(path, fused)
    code, inputs, outputs, targets = vector(statements, names) if simd else scalar(statements, names, kind, radix)
    bounds = code.bounds(targets)
    size, error = (numpy.array(rows) for rows in zip(*bounds))
    if code.factors:
        error = error + turning(code.factors) * size
    key = (lambda label: label) if simd else (lambda label: label[0])
    if kind.startswith("hc2cfdft"):  # two numbers of one transform come in: their errors add
        size, error = (numpy.array([m[:, g].sum(1) for g in groups(inputs, key)]).T for m in (size, error))
    if kind.startswith("hc2cbdft"):  # and go out; each input stands for two entries of the spectrum
        size, error = (numpy.array([m[g].sum(0) / 2 for g in groups(outputs, key)]) for m in (size, error))
    if kind.startswith("r2cb"):
        weight = numpy.array([1 / parts for _, parts in inputs])
        size, error = size * weight, error * weight
    return kind, radix, size.max(), error.max()


def table():
    """The bound in lib/numerics/fft/fft_error.c as a function of kind and radix; None where it has none."""
    text = open(os.path.join(os.path.dirname(__file__), "../../lib/numerics/fft_error.c")).read()
    once = {int(r): float(e) for r, e in re.findall(r"\{(\d+), ([\d.]+)\}", text)}
    turn = {name: float(value) for name, value in re.findall(r"#define (TWIDDLE\w*) ([\d.]+)", text)}
    turn["0"] = 0.0
    kinds = {name: (turn[t], twice == "true") for t, twice, words in
             re.findall(r'\{(\w+), (true|false), (?:true|false), "([^"]*)"\}', text) for name in words.split()}

    def assumed(kind, radix):
        if kind not in kinds or radix not in once:
            return None
        turned, twice = kinds[kind]
        return 2 * (once[radix] + turned) + 2 if twice else once[radix] + turned
    return assumed


def main(source):
    random.seed(1)
    assumed, over, met = table(), 0, 0
    folders = ["dft/simd/common/[nt]*_*.c", "rdft/simd/common/hc2*_*.c", "dft/scalar/codelets/[nt]*_*.c",
               "rdft/scalar/r2c[fb]/*_*.c"]
    for path in sorted(p for folder in folders for p in glob.glob(os.path.join(source, folder))):
        name = os.path.basename(path)[:-2]
        kind, radix = name.rsplit("_", 1)
        if assumed(kind, int(radix)) is None or kind in ("t1sv", "t2sv"):  # the scalar ones, several at a time
            continue
        for fused in (False, True):
            kind, radix, size, error = analyse(path, fused)
            wrong = error > assumed(kind, radix) or size > (2 if "dft" in kind else 1) + 1e-9
            over += wrong
            met += 1
            print(f"{name:14} {'fused' if fused else 'plain'}  gain {size:.4f}  error {error:7.3f}"
                  f"  assumed {assumed(kind, radix):6.2f}{'  OVER' if wrong else ''}")
    print(f"{met} codelets, {over} over")
    return 1 if over or not met else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]) if len(sys.argv) == 2 else __doc__)
