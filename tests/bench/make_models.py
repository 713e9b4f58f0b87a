#!/usr/bin/env python3
"""Full-size architectures with random weights as ONNX files, f32 and 8 bits: what whole-model numbers are told about.

    python3 -m venv build/torch && build/torch/bin/pip install torch==2.13.0 onnxscript onnx==1.23.2 onnxruntime==1.32.0
    build/torch/bin/python tests/bench/make_models.py build/models/made [NAME...]

Writes DIR/NAME.onnx (batch, and the length of text, are symbols) and DIR/NAME.int8.onnx: pictures by static
quantisation with QuantizeLinear and DequantizeLinear pairs, the others by dynamic quantisation of their products.
ResNet-50, MobileNetV2, MobileNetV3-large, BERT-base, GPT-2-small (the last position's logits) and DLRM (26 tables of
50,000 rows). About 2 GB. Weights come from a fixed seed; statistics of batch norms are made non-trivial.
"""

import argparse
import pathlib
import sys

import torch
from torch import nn
from torch.nn import functional


class ConvNorm(nn.Sequential):
    def __init__(self, inner, outer, kernel=3, stride=1, groups=1, activation=nn.ReLU):
        layers = [nn.Conv2d(inner, outer, kernel, stride, kernel // 2, groups=groups, bias=False)]
        layers += [nn.BatchNorm2d(outer)] + ([activation()] if activation else [])
        super().__init__(*layers)


class Bottleneck(nn.Module):
    def __init__(self, inner, planes, stride):
        super().__init__()
        outer = 4 * planes
        self.body = nn.Sequential(
            ConvNorm(inner, planes, 1), ConvNorm(planes, planes, 3, stride), ConvNorm(planes, outer, 1, activation=None)
        )
        same = stride == 1 and inner == outer
        self.shortcut = nn.Identity() if same else ConvNorm(inner, outer, 1, stride, activation=None)

    def forward(self, x):
        return functional.relu(self.body(x) + self.shortcut(x))


class ResNet50(nn.Module):
    def __init__(self):
        super().__init__()
        layers, inner = [ConvNorm(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)], 64
        for count, planes, stride in ((3, 64, 1), (4, 128, 2), (6, 256, 2), (3, 512, 2)):
            for i in range(count):
                layers.append(Bottleneck(inner, planes, stride if i == 0 else 1))
                inner = 4 * planes
        self.body, self.head = nn.Sequential(*layers), nn.Linear(inner, 1000)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


class SqueezeExcite(nn.Module):
    def __init__(self, channels):
        super().__init__()
        squeezed = max(8, (channels // 4 + 4) // 8 * 8)
        self.down, self.up = nn.Conv2d(channels, squeezed, 1), nn.Conv2d(squeezed, channels, 1)

    def forward(self, x):
        mean = x.mean((2, 3), keepdim=True)
        return x * functional.hardsigmoid(self.up(functional.relu(self.down(mean))))


class InvertedResidual(nn.Module):
    def __init__(self, inner, outer, stride, hidden, kernel=3, activation=nn.ReLU6, excite=False):
        super().__init__()
        layers = [ConvNorm(inner, hidden, 1, activation=activation)] if hidden != inner else []
        layers.append(ConvNorm(hidden, hidden, kernel, stride, hidden, activation))
        layers += [SqueezeExcite(hidden)] if excite else []
        self.body = nn.Sequential(*layers, ConvNorm(hidden, outer, 1, activation=None))
        self.residual = stride == 1 and inner == outer

    def forward(self, x):
        return x + self.body(x) if self.residual else self.body(x)


class MobileNetV2(nn.Module):
    STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))

    def __init__(self):
        super().__init__()
        layers, inner = [ConvNorm(3, 32, 3, 2, activation=nn.ReLU6)], 32
        for factor, outer, count, stride in self.STAGES:
            for i in range(count):
                layers.append(InvertedResidual(inner, outer, stride if i == 0 else 1, inner * factor))
                inner = outer
        layers.append(ConvNorm(320, 1280, 1, activation=nn.ReLU6))
        self.body, self.head = nn.Sequential(*layers), nn.Linear(1280, 1000)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


class MobileNetV3(nn.Module):
    # kernel, hidden, outer, squeeze and excite, hard swish, stride
    BLOCKS = (
        (3, 16, 16, 0, 0, 1), (3, 64, 24, 0, 0, 2), (3, 72, 24, 0, 0, 1), (5, 72, 40, 1, 0, 2),
        (5, 120, 40, 1, 0, 1), (5, 120, 40, 1, 0, 1), (3, 240, 80, 0, 1, 2), (3, 200, 80, 0, 1, 1),
        (3, 184, 80, 0, 1, 1), (3, 184, 80, 0, 1, 1), (3, 480, 112, 1, 1, 1), (3, 672, 112, 1, 1, 1),
        (5, 672, 160, 1, 1, 2), (5, 960, 160, 1, 1, 1), (5, 960, 160, 1, 1, 1),
    )  # fmt: skip

    def __init__(self):
        super().__init__()
        layers, inner = [ConvNorm(3, 16, 3, 2, activation=nn.Hardswish)], 16
        for kernel, hidden, outer, excite, swish, stride in self.BLOCKS:
            activation = nn.Hardswish if swish else nn.ReLU
            layers.append(InvertedResidual(inner, outer, stride, hidden, kernel, activation, bool(excite)))
            inner = outer
        layers.append(ConvNorm(160, 960, 1, activation=nn.Hardswish))
        self.body = nn.Sequential(*layers)
        self.head = nn.Sequential(nn.Linear(960, 1280), nn.Hardswish(), nn.Linear(1280, 1000))

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


def perceptron(*widths):
    pairs = zip(widths, widths[1:])
    return [layer for inner, outer in pairs for layer in (nn.Linear(inner, outer), nn.ReLU())]


class Dlrm(nn.Module):
    """13 dense features, 26 tables, all pairs of dot products between them."""

    def __init__(self, rows=50_000, width=64, tables=26):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(rows, width) for _ in range(tables))
        self.bottom = nn.Sequential(*perceptron(13, 512, 256, width))
        vectors = tables + 1
        self.top = nn.Sequential(*perceptron(width + vectors * (vectors - 1) // 2, 512, 256, 1)[:-1])
        pairs = torch.triu_indices(vectors, vectors, 1)
        self.register_buffer("pairs", pairs[0] * vectors + pairs[1])

    def forward(self, x, ids):
        """x [batch, 13], ids [batch, tables, ids a table]."""
        dense = self.bottom(x)
        sums = [table(ids[:, i]).sum(1) for i, table in enumerate(self.tables)]
        vectors = torch.stack([dense, *sums], 1)
        products = torch.bmm(vectors, vectors.transpose(1, 2)).flatten(1).index_select(1, self.pairs)
        return torch.sigmoid(self.top(torch.cat([dense, products], 1)))


def heads_of(x, heads):
    batch, length, width = x.shape
    return x.view(batch, length, heads, width // heads).transpose(1, 2)


class BertBlock(nn.Module):
    def __init__(self, width, heads, hidden):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.norm_1, self.norm_2 = nn.LayerNorm(width, 1e-12), nn.LayerNorm(width, 1e-12)
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x, mask):
        q, k, v = (heads_of(layer(x), self.heads) for layer in (self.q, self.k, self.v))
        attention = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = self.norm_1(x + self.out(attention.transpose(1, 2).reshape(x.shape)))
        return self.norm_2(x + self.down(functional.gelu(self.up(x))))


class Bert(nn.Module):
    """BERT-base with its padding mask, up to the pooled first token."""

    def __init__(self, width=768, layers=12, heads=12, vocabulary=30_522, positions=512):
        super().__init__()
        self.words, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(positions, width)
        self.kinds, self.norm = nn.Embedding(2, width), nn.LayerNorm(width, 1e-12)
        self.layers = nn.ModuleList(BertBlock(width, heads, 4 * width) for _ in range(layers))
        self.pool = nn.Linear(width, width)

    def forward(self, ids, mask):
        x = self.words(ids) + self.positions.weight[: ids.shape[1]] + self.kinds.weight[0]
        x, added = self.norm(x), (1.0 - mask[:, None, None, :].to(x.dtype)) * -10000.0
        for layer in self.layers:
            x = layer(x, added)
        return torch.tanh(self.pool(x[:, 0]))


class GptBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        q, k, v = (heads_of(part, self.heads) for part in self.qkv(self.norm_1(x)).split(x.shape[2], 2))
        attention = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attention.transpose(1, 2).reshape(x.shape))
        return x + self.down(functional.gelu(self.up(self.norm_2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    """GPT-2-small: prefill, the logits of the last position."""

    def __init__(self, width=768, layers=12, heads=12, vocabulary=50_257, positions=1024):
        super().__init__()
        self.words, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(positions, width)
        self.layers = nn.ModuleList(GptBlock(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, ids):
        x = self.words(ids) + self.positions.weight[: ids.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)[:, -1:] @ self.words.weight.t()


def pictures(batch):
    return {"x": torch.randn(batch, 3, 224, 224)}


def words_and_mask(batch):
    return {"ids": torch.randint(0, 30_000, (batch, 128)), "mask": torch.ones(batch, 128, dtype=torch.int64)}


ARCHITECTURES = {  # the module, example inputs for a batch, how many leading axes of each are symbols
    "resnet50": (ResNet50, pictures, 1),
    "mobilenetv2": (MobileNetV2, pictures, 1),
    "mobilenetv3": (MobileNetV3, pictures, 1),
    "bert": (Bert, words_and_mask, 2),
    "gpt2": (Gpt2, lambda batch: {"ids": torch.randint(0, 50_000, (batch, 128))}, 2),
    "dlrm": (
        Dlrm,
        lambda batch: {"x": torch.randn(batch, 13), "ids": torch.randint(0, 50_000, (batch, 26, 1))},
        1,
    ),
}


def build(name):
    torch.manual_seed(0)
    module = ARCHITECTURES[name][0]().eval()
    with torch.no_grad():
        for part in module.modules():
            if isinstance(part, nn.BatchNorm2d):  # as after training: neither 0 nor 1
                part.running_mean.normal_(0, 0.1)
                part.running_var.uniform_(0.5, 1.5)
                part.weight.uniform_(0.8, 1.2)
                part.bias.normal_(0, 0.1)
            elif isinstance(part, nn.Embedding):
                part.weight.normal_(0, 0.02)
    return module


def export(name, path):
    _, example, symbols = ARCHITECTURES[name]
    inputs = example(2)
    dynamic = tuple({axis: torch.export.Dim.DYNAMIC for axis in range(symbols)} for _ in inputs)
    program = torch.onnx.export(
        build(name), tuple(inputs.values()), dynamo=True, input_names=list(inputs), output_names=["y"],
        dynamic_shapes=dynamic, opset_version=18, external_data=False, optimize=True,
    )  # fmt: skip
    program.save(path)


def quantise(name, source, target):
    from onnxruntime import quantization
    from onnxruntime.quantization.shape_inference import quant_pre_process

    _, example, _ = ARCHITECTURES[name]
    if example is not pictures:
        quantization.quantize_dynamic(
            source, target, weight_type=quantization.QuantType.QInt8, per_channel=True,
            op_types_to_quantize=["MatMul", "Gemm"],
        )  # fmt: skip
        return

    class Calibration(quantization.CalibrationDataReader):
        left = 4

        def get_next(self):
            self.left -= 1
            return None if self.left < 0 else {key: value.numpy() for key, value in example(1).items()}

    torch.manual_seed(1)
    prepared = target.with_suffix(".prepared")
    quant_pre_process(source, prepared, skip_symbolic_shape=True)
    quantization.quantize_static(
        prepared, target, Calibration(), quant_format=quantization.QuantFormat.QDQ, per_channel=True,
        activation_type=quantization.QuantType.QUInt8, weight_type=quantization.QuantType.QInt8,
        extra_options={"ActivationSymmetric": False, "WeightSymmetric": True},
    )  # fmt: skip
    prepared.unlink()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(ARCHITECTURES)}; default: all")
    options = parser.parse_args()
    unknown = set(options.names) - set(ARCHITECTURES)
    if unknown:
        parser.error(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(ARCHITECTURES)}")
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.names or ARCHITECTURES:
        plain, quantised = options.folder / f"{name}.onnx", options.folder / f"{name}.int8.onnx"
        export(name, plain)
        quantise(name, plain, quantised)
        print(f"{plain} {plain.stat().st_size >> 20} MiB, {quantised} {quantised.stat().st_size >> 20} MiB", flush=True)


if __name__ == "__main__":
    sys.exit(main())
