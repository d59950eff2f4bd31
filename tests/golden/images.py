"""Writes small images and the results of Pillow and transformers on them.

    tests/data/golden/images      images of every kind, each with Pillow's pixels as <name>.rgb.png
    tests/models/golden/images    preprocessor_config.json files, and the outputs of transformers' processors
    tests/models/golden/<family>  for folders with labels: preprocessing, images.json (labels and vectors of images) and
                                  resized.safetensors (an image of another size than the model's)

Run from the repository root after families.py, with torch, transformers, safetensors and Pillow installed:

    python tests/golden/images.py
"""

import json
import shutil
import struct
import sys
import zlib
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps, PngImagePlugin
from safetensors.numpy import save_file
from transformers import (CLIPImageProcessorPil, CLIPVisionModel, CLIPVisionModelWithProjection, DeiTForImageClassification, DeiTForImageClassificationWithTeacher, DeiTImageProcessorPil,
                          SiglipImageProcessorPil, SiglipVisionModel, ViTForImageClassification, ViTImageProcessorPil, ViTModel)

sys.path.insert(0, str(Path(__file__).parent.parent / "interop"))
from random_families import outputs_of_images  # noqa: E402

IMAGES = Path("tests/data/golden/images")
MODELS = Path("tests/models/golden")

torch.set_num_threads(1)


def random_image(height, width, channels=3, seed=1):
    """Ramps, edges and a little noise, to exercise filters and decoders."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    levels = np.stack([255 * x / width, 255 * y / height, 128 + 120 * np.sin((x + 2 * y) / 5), 90 + 3 * x], axis=-1)
    levels[(x - width / 2) ** 2 + (y - height / 2) ** 2 < (min(height, width) / 4) ** 2] *= 0.3
    levels += random.integers(-6, 7, levels.shape)
    return np.clip(levels, 0, 255).astype(np.uint8)[:, :, :channels]


def keep(name, save):
    """Writes an image, and Pillow's upright RGB pixels of it."""
    path = IMAGES / name
    save(path)
    with Image.open(path) as image:
        ImageOps.exif_transpose(image).convert("RGB").save(IMAGES / f"{name}.rgb.png", optimize=True)


def png_of_16_bits(path, levels):
    """Pillow cannot write 16-bit RGB."""
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in levels)
    chunks = b"".join(struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
                      for kind, data in [(b"IHDR", struct.pack(">IIBBBBB", levels.shape[1], levels.shape[0], 16, 2, 0, 0, 0)),
                                         (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b"")])
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunks)


def write_images():
    shutil.rmtree(IMAGES, ignore_errors=True)
    IMAGES.mkdir(parents=True)
    rgb = Image.fromarray(random_image(29, 41))
    keep("rgb.png", lambda path: rgb.save(path, optimize=True))
    keep("rgba.png", lambda path: Image.fromarray(random_image(9, 14, 4)).save(path))
    keep("gray.png", lambda path: rgb.convert("L").resize((14, 9)).save(path))
    keep("gray_alpha.png", lambda path: Image.fromarray(random_image(9, 14, 2)).save(path))
    keep("one_bit.png", lambda path: rgb.convert("1").save(path))
    keep("palette.png", lambda path: rgb.quantize(7).save(path, bits=4, transparency=bytes([0, 90, 255])))
    random = np.random.default_rng(2)
    keep("rgb16.png", lambda path: png_of_16_bits(path, random.integers(0, 65536, (5, 7, 3))))
    keep("one_pixel.png", lambda path: Image.fromarray(random_image(1, 1) + 77).save(path))
    keep("whole.jpg", lambda path: rgb.save(path, quality=90, subsampling=0))
    keep("halved.jpg", lambda path: rgb.save(path, quality=85, subsampling=2))
    keep("halved_across.jpg", lambda path: rgb.save(path, quality=85, subsampling=1))
    keep("progressive.jpg", lambda path: rgb.save(path, quality=80, progressive=True, restart_marker_blocks=3))
    keep("gray.jpg", lambda path: rgb.convert("L").save(path, quality=90))
    keep("cmyk.jpg", lambda path: rgb.convert("CMYK").save(path, quality=92))
    small = Image.fromarray(random_image(10, 17))
    for orientation in range(2, 9):
        exif = Image.Exif()
        exif[0x0112] = orientation
        keep(f"turned_{orientation}.jpg", lambda path: small.save(path, quality=92, subsampling=0, exif=exif))
    packet = '<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:Description tiff:Orientation="{}"/></x:xmpmeta>'
    element = "<rdf:Description><tiff:Orientation>{}</tiff:Orientation></rdf:Description>"
    for orientation in (3, 6):
        exif = Image.Exif()
        exif[0x0112] = orientation
        keep(f"exif_{orientation}.png", lambda path: small.save(path, exif=exif))
        for name, text in ("attribute", packet), ("element", element):
            xmp = text.format(orientation)
            keep(f"xmp_{name}_{orientation}.jpg", lambda path: small.save(path, quality=92, subsampling=0, xmp=xmp.encode()))
            info = PngImagePlugin.PngInfo()
            info.add_itxt("XML:com.adobe.xmp", xmp, zip=name == "element")
            keep(f"xmp_{name}_{orientation}.png", lambda path: small.save(path, pnginfo=info))
        info = PngImagePlugin.PngInfo()
        data = exif.tobytes()
        info.add_text("Raw profile type exif", f"\nexif\n{len(data):8}\n{data.hex()}\n", zip=True)
        keep(f"profile_{orientation}.png", lambda path: small.save(path, pnginfo=info))
    upright = Image.Exif()
    upright[0x0112] = 1  # takes precedence
    keep("exif_before_xmp.jpg", lambda path: small.save(path, quality=92, subsampling=0, exif=upright,
                                                        xmp=packet.format(6).encode()))
    # Filter ("resample"), height and width.
    # Pillow resizes vertically first if that saves enough: sizes on both sides of the rule.
    tall = Image.fromarray(random_image(60, 23, seed=3))
    for height, width in [(20, 4), (20, 3), (20, 40), (58, 22), (57, 22), (59, 23), (61, 30), (30, 23)]:
        tall.resize((width, height), 2).save(IMAGES / f"resized_tall_{height}x{width}.png", optimize=True)
    tall.save(IMAGES / "resized_tall_60x23.png", optimize=True)
    for resample in range(6):
        for height, width in [(11, 15), (43, 17), (29, 50)]:
            if (resample, height) not in [(1, 29), (4, 29), (5, 29), (1, 43), (5, 43)]:
                rgb.resize((width, height), resample).save(IMAGES / f"resized_{resample}_{height}x{width}.png",
                                                           optimize=True)


PROCESSORS = {
    "defaults": (ViTImageProcessorPil, {"size": {"height": 12, "width": 12}}),
    "bicubic": (ViTImageProcessorPil, {"size": {"height": 10, "width": 13}, "resample": 3,
                                       "image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}),
    "shortest_edge": (DeiTImageProcessorPil, {"size": {"shortest_edge": 14}, "crop_size": {"height": 12, "width": 12},
                                              "image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}),
    "deit": (DeiTImageProcessorPil, {"size": {"height": 16, "width": 15}, "crop_size": {"height": 12, "width": 12}}),
    "crop_outside": (DeiTImageProcessorPil, {"size": {"height": 9, "width": 17}, "crop_size": {"height": 12, "width": 14},
                                             "resample": 2, "do_normalize": False}),
    "unscaled": (ViTImageProcessorPil, {"size": {"height": 8, "width": 8}, "resample": 0, "do_rescale": False,
                                        "image_mean": [120.0, 110.0, 100.0], "image_std": [50.0, 60.0, 70.0]}),
    "clip": (CLIPImageProcessorPil, {"size": {"shortest_edge": 14}, "crop_size": {"height": 12, "width": 12}}),
    "siglip": (SiglipImageProcessorPil, {"size": {"height": 12, "width": 10}}),
    "as_it_is": (ViTImageProcessorPil, {"do_resize": False, "do_normalize": False, "rescale_factor": 0.0078125}),
}


def write_processors():
    folder = MODELS / "images"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    image = Image.open(IMAGES / "rgb.png").convert("RGB")
    expected = {}
    for name, (kind, options) in PROCESSORS.items():
        processor = kind(**options)
        (folder / f"{name}.json").write_text(processor.to_json_string())
        expected[name] = processor(image, return_tensors="np")["pixel_values"]
    save_file(expected, folder / "expected.safetensors")


def write_models():
    names = ["rgb.png", "gray.png", "one_pixel.png", "palette.png", "turned_6.jpg"]
    images = [ImageOps.exif_transpose(Image.open(IMAGES / name)).convert("RGB") for name in names]
    for case, kind, processor in [
            ("vit_images", ViTForImageClassification, ViTImageProcessorPil(size={"height": 12, "width": 12})),
            ("deit_images", DeiTForImageClassification, DeiTImageProcessorPil(size={"shortest_edge": 14},
                                                                              crop_size={"height": 12, "width": 12})),
    ]:
        folder = MODELS / case
        processor.save_pretrained(folder)
        model = kind.from_pretrained(folder).eval()
        model.set_attn_implementation("eager")
        results = []
        for name, image in zip(names, images):
            pixels = processor(image, return_tensors="pt")["pixel_values"]
            with torch.no_grad():
                out = model(pixel_values=pixels, output_hidden_states=True)
            hidden = getattr(model, model.base_model_prefix).layernorm(out.hidden_states[-1])[0]
            probabilities = out.logits.softmax(-1)[0]
            mean = hidden.mean(0)
            results.append({
                "input": name,
                "labels": [{"label": model.config.id2label[i], "probability": probabilities[i].item()}
                           for i in probabilities.argsort(descending=True).tolist()],
                "mean": mean.tolist(), "cls": hidden[0].tolist(), "normalized": (mean / mean.norm()).tolist()})
        (folder / "images.json").write_text(json.dumps(results, indent=1) + "\n")

    for case, kind, shape in [("vit_images", ViTForImageClassification, (20, 16)), ("vit_base", ViTModel, (4, 28)),
                              ("deit_images", DeiTForImageClassification, (8, 24)),
                              ("deit_teacher", DeiTForImageClassificationWithTeacher, (20, 12)),
                              ("clip_vision_model", CLIPVisionModelWithProjection, (20, 16)),
                              ("clip_vision_model_plain", CLIPVisionModel, (8, 24)),
                              ("siglip_vision_model", SiglipVisionModel, (20, 16))]:
        model = kind.from_pretrained(MODELS / case).eval()
        model.set_attn_implementation("eager")
        pixels = torch.randn((1, model.config.num_channels, *shape), generator=torch.Generator().manual_seed(5))
        save_file(outputs_of_images(model, pixels, interpolate_pos_encoding=True), MODELS / case / "resized.safetensors")


write_images()
write_processors()
write_models()
