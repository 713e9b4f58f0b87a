#!/usr/bin/env python3
"""Real tasks from end to end: drawn text is found and read, spoken words are heard; ONNX Runtime decides the same.

    tests/oracle/real_inputs.py --models DIR [--build build/release] [--only NAME]

DIR is that of tests/oracle/real_models.py. Text is drawn with Pillow's own font; a PP-OCR detector finds it and the
recogniser of the same package must read it exactly. Words are spoken by espeak-ng (a Debian package); silero_vad must
find speech in them and none in silence or noise.
"""

import argparse
import io
import pathlib
import subprocess
import sys
import wave

import diji_c
import model_list
import numpy
import onnxruntime
from PIL import Image, ImageDraw, ImageFont

TEXTS = ("Hello diji 2026", "one program for all sizes", "f32 = 1.5e-7")
SENTENCE = "The quick brown fox jumps over the lazy dog, and then it sleeps for a while under the old tree."
RATE = 16000
FRAME, CONTEXT = 512, 64  # samples of a call, and of the one before it that are given again


def engines(options, path):
    """{name: function of feeds}"""
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
    diji = diji_c.Model(path, 0, options.build)
    return {"diji": diji, "ONNX Runtime": lambda feeds: session.run(None, feeds)}, session


# ---- reading ----


def drawn(text):
    """A page, 160 x 640, with one line of text on it: RGB."""
    page = Image.new("RGB", (640, 160), "white")
    ImageDraw.Draw(page).text((60, 55), text, fill="black", font=ImageFont.load_default(size=40))
    return page


def as_input(picture):
    """[1, 3, height, width], -1 … 1, blue first as PP-OCR was trained."""
    pixels = numpy.asarray(picture, numpy.float32)[:, :, ::-1] / 127.5 - 1
    return numpy.ascontiguousarray(pixels.transpose(2, 0, 1)[None])


def found_line(probability, page):
    """The part of the page around all that is text. The detector's regions are shrunken: widened by as much."""
    rows, columns = numpy.nonzero(probability[0, 0] > 0.3)
    if rows.size == 0:
        return None
    left, top, right, bottom = columns.min(), rows.min(), columns.max() + 1, rows.max() + 1
    width, height = right - left, bottom - top
    margin = 1.6 * width * height / (2 * (width + height))  # the detector's training: 1.6 area / perimeter
    box = (left - margin, top - margin, right + margin, bottom + margin)
    return page.crop(tuple(round(float(edge)) for edge in box))


def read_line(line, recogniser, characters):
    """CTC: the best label of each step, repetitions once, blanks (label 0) left out."""
    width = max(48, round(48 * line.width / line.height))
    (scores,) = recogniser({"x": as_input(line.resize((width, 48), Image.Resampling.BILINEAR))})
    best = scores[0].argmax(1)
    kept = [label for i, label in enumerate(best) if label != 0 and (i == 0 or label != best[i - 1])]
    return "".join(characters[label] for label in kept)


def check_reading(options, folder, detector, recogniser):
    """How many answers were wrong, and how many there were."""
    detectors, _ = engines(options, options.models / folder / detector)
    recognisers, session = engines(options, options.models / folder / recogniser)
    letters = session.get_modelmeta().custom_metadata_map["character"].removesuffix("\n").split("\n")
    characters = ["", *letters, " "]
    wrong = 0
    for text in TEXTS:
        page, read = drawn(text), {}
        for name in detectors:
            (probability,) = detectors[name]({"x": as_input(page)})
            line = found_line(probability, page)
            read[name] = read_line(line, recognisers[name], characters) if line else None
        right = read["diji"] == text
        print(f"{'pass' if right else 'FAIL'} {recogniser}: {text!r} is read as {read}", flush=True)
        wrong += not right
    return wrong, len(TEXTS)


# ---- hearing ----


def spoken():
    """The sentence at 16 kHz, -1 … 1."""
    words = subprocess.run(["espeak-ng", "--stdout", SENTENCE], stdout=subprocess.PIPE, check=True).stdout
    with wave.open(io.BytesIO(words)) as file:
        rate, samples = file.getframerate(), numpy.frombuffer(file.readframes(1 << 24), "<i2") / 32768
    at = numpy.arange(int(len(samples) * RATE / rate)) * rate / RATE
    return numpy.interp(at, numpy.arange(len(samples)), samples)


def decisions(model, sound):
    """Whether each frame is speech. The state goes from call to call."""
    state, context, frames = numpy.zeros((2, 1, 128), numpy.float32), numpy.zeros(CONTEXT), []
    for start in range(0, len(sound) - FRAME + 1, FRAME):
        samples = sound[start : start + FRAME]
        feeds = {"input": numpy.concatenate([context, samples])[None].astype(numpy.float32), "state": state}
        probability, state = model(feeds | {"sr": numpy.array(RATE, numpy.int64)})
        frames.append(float(probability[0, 0]) > 0.5)
        context = samples[-CONTEXT:]
    return frames


def check_hearing(options, path):
    noise = numpy.random.default_rng(1).standard_normal(4 * RATE) * 0.01
    sounds = {"speech": (spoken(), 0.5, 1.0), "silence": (numpy.zeros(4 * RATE), 0, 0), "noise": (noise, 0, 0)}
    models, _ = engines(options, options.models / path)
    wrong = 0
    for name, (sound, least, most) in sounds.items():
        diji, other = (decisions(model, sound) for model in models.values())
        share = sum(diji) / len(diji)
        right = diji == other and least <= share <= most
        same = sum(a == b for a, b in zip(diji, other))
        print(
            f"{'pass' if right else 'FAIL'} {pathlib.Path(path).name}: {name}: {sum(diji)} of {len(diji)} frames are "
            f"speech, {same} decisions as ONNX Runtime's",
            flush=True,
        )
        wrong += not right
    return wrong, len(sounds)


TASKS = [
    (check_reading, model_list.PACKAGES["rapidocr"], "PP-OCRv6_det_small.onnx", "PP-OCRv6_rec_small.onnx"),
    (check_reading, model_list.PACKAGES["v4"], "ch_PP-OCRv4_det_infer.onnx", "ch_PP-OCRv4_rec_infer.onnx"),
    (check_hearing, model_list.PACKAGES["silero"] + "silero_vad.onnx"),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", required=True, type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--only", default="", help="the tasks whose model's path has this in it")
    options = parser.parse_args()
    model_list.fetch(options.models)
    chosen = [task for task in TASKS if options.only in "".join(task[1:])]
    results = [check(options, *arguments) for check, *arguments in chosen]
    wrong, total = sum(w for w, _ in results), sum(n for _, n in results)
    print(f"real inputs: {total - wrong} of {total} right")
    return 1 if wrong or not total else 0


if __name__ == "__main__":
    sys.exit(main())
