"""How near two answers of a model are: floats by the largest value, 8-bit models by quantisation steps and answers.

The quantisation step of an output is the scale of the QuantizeLinear that makes it, found by walking back from the
output over operators that only move values. Where there is none (products quantised at run time give floats), it is
the step that DynamicQuantizeLinear would choose for that output: (max(0, largest) - min(0, smallest)) / 255.
"""

import dataclasses

import numpy
import onnx
from onnx import numpy_helper

MOVES = {"DequantizeLinear", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"}


def scales_of(path):
    """{output: scale} for those outputs of the model that a QuantizeLinear makes."""
    graph = onnx.load(path, load_external_data=False).graph
    producers = {name: node for node in graph.node for name in node.output}
    constants = {tensor.name: tensor for tensor in graph.initializer}
    scales = {}
    for output in graph.output:
        node = producers.get(output.name)
        while node is not None and node.op_type in MOVES:
            node = producers.get(node.input[0])
        if node is not None and node.op_type == "QuantizeLinear" and node.input[1] in constants:
            scales[output.name] = float(numpy_helper.to_array(constants[node.input[1]]).min())
    return scales


def step_of(want, scale):
    return scale or max((max(0.0, float(want.max())) - min(0.0, float(want.min()))) / 255, 1e-30)


@dataclasses.dataclass
class Steps:
    """Two answers of an 8-bit model, and whether they name the same labels."""

    within: float  # share of the values within one step
    worst: float  # in steps
    mean: float  # in steps
    step: float
    rows: int = 0  # along the last axis, whose two best values lie more than one step apart
    same: int = 0  # of those: the best one is the same

    def __str__(self):
        labels = f", {self.same} of {self.rows} labels the same" if self.rows else ""
        steps = f"worst {self.worst:.2f}, mean {self.mean:.2g} steps"
        return f"{self.within:.2%} within a step of {self.step:.3g}, {steps}{labels}"


def in_steps(got, want, scale, labels):
    """Labels whose two best values lie within a step of each other are not decided by this model: left out."""
    step = step_of(want, scale)
    error = numpy.abs(got.astype(numpy.float64) - want) / step
    # A value may lie exactly one step away; its distance is a difference of two rounded products.
    result = Steps(float((error <= 1 + 1e-3).mean()), float(error.max()), float(error.mean()), step)
    if labels and want.shape[-1] > 1:
        rows, mine = want.reshape(-1, want.shape[-1]), got.reshape(-1, want.shape[-1])
        best = numpy.sort(rows, axis=1)
        decided = best[:, -1] - best[:, -2] > step
        result.rows = int(decided.sum())
        result.same = int((rows.argmax(1) == mine.argmax(1))[decided].sum())
    return result


def relative_error(got, want, floor=1e-30):
    """max|d| / max|want|; infinite where something is not finite in one of them only."""
    if want.size == 0:
        return 0.0
    error = float(numpy.abs(got.astype(numpy.float64) - want).max())
    return error / max(float(numpy.abs(want).max()), floor) if numpy.isfinite(error) else numpy.inf


def unlike(got, want):
    """What is wrong before any distance: shape, dtype, integers."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{list(got.shape)} instead of {want.dtype}{list(want.shape)}"
    if want.dtype.kind not in "f" and (wrong := int((got != want).sum())):
        return f"{wrong} of {want.size} integers differ"
    return None
