"""How many damaged photos are told: 200 cut short, 200 with 1 to 20 flipped bits, 200 with 4 KiB of zeros inside.

python benchmarks/image_damage.py [--photos FOLDER] [--count 200]

Once by the decoders alone, once with SHA256SUMS in the folder. `Silent` is a picture that came without a word and is
another than that of the whole file. Without --photos the photos are made up, of 512 pixels.
"""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from data.checksums import NAME, write_sums
from data.errors import InputError
from data.food_images import load_image
from data.images import decode

DECODERS: dict[str, Callable[[Path], Any]] = {
    "torchvision (`features.decoder=torchvision`, training photos)": lambda path: decode(path).numpy(),
    "Pillow (`decoder=pil`)": lambda path: decode(path, "pil").numpy(),
    "Pillow, smaller at once (photos of FoodieQA)": lambda path: np.asarray(load_image(path)),
}
DAMAGES = ("cut short", "1 to 20 bits flipped", "4 KiB of zeros")


def damaged(data: bytes, kind: str, dice: random.Random) -> bytes:
    """Like the measurement this repeats: a cut at 5 to 98 %, bits anywhere, zeros behind the header."""
    if kind == DAMAGES[0]:
        return data[: int(len(data) * dice.uniform(0.05, 0.98))]
    changed = bytearray(data)
    if kind == DAMAGES[1]:
        for _ in range(dice.randint(1, 20)):
            changed[dice.randrange(len(changed))] ^= 1 << dice.randrange(8)
    else:
        start = dice.randrange(min(1024, len(data) // 4), len(data) - 4096)
        changed[start : start + 4096] = bytes(4096)
    return bytes(changed)


def photos(folder: str | None, count: int) -> list[bytes]:
    """JPEG files of 512 pixels: of a folder's photos, cropped anew where they are fewer, or made up."""
    found = sorted(Path(folder).rglob("*.jpg")) if folder else []
    dice, made = np.random.default_rng(0), []
    for number in range(count):
        if found:
            with Image.open(found[number % len(found)]) as picture:
                whole = picture.convert("RGB")
            left, top = (int(dice.integers(0, max(1, side // 8))) for side in whole.size)
            image = whole.crop((left, top, whole.width, whole.height)).resize((512, 384), Image.Resampling.BICUBIC)
        else:
            coarse = Image.fromarray(dice.integers(0, 255, (24, 32, 3), np.uint8))
            fine = dice.normal(0, 12, (384, 512, 3)) + np.asarray(coarse.resize((512, 384), Image.Resampling.BICUBIC))
            image = Image.fromarray(fine.clip(0, 255).astype(np.uint8))
        with tempfile.SpooledTemporaryFile() as file:
            image.save(file, "JPEG", quality=90)
            file.seek(0)
            made.append(file.read())
    return made


def outcome(read: Callable[[Path], Any], path: Path, whole: Any) -> str:
    """told, harmless or silent; anything but InputError ends the script."""
    try:
        found = read(path)
    except InputError as error:
        return "told" if path.name in str(error) and "\n" not in str(error) else "told unclearly"
    return "harmless" if found.shape == whole.shape and np.array_equal(found, whole) else "silent"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--photos")
    parser.add_argument("--count", type=int, default=200)
    options = parser.parse_args()
    sources = photos(options.photos, options.count)
    print(f"| {3 * options.count} damaged JPEGs | damage | told | silent | harmless | told with {NAME} |")
    print("|---|---|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        for kind in DAMAGES:
            for listed in ("plain", "listed"):
                (root / kind / listed).mkdir(parents=True)
            dice = random.Random(0)
            for number, data in enumerate(sources):
                (root / kind / "listed" / f"{number}.jpg").write_bytes(data)
                (root / kind / "plain" / f"{number}.jpg").write_bytes(damaged(data, kind, dice))
            write_sums(root / kind / "listed")
            for path in (root / kind / "plain").iterdir():
                (root / kind / "listed" / path.name).write_bytes(path.read_bytes())
        for decoder, read in DECODERS.items():
            for kind in DAMAGES:
                count: dict[str, Counter[str]] = {"plain": Counter(), "listed": Counter()}
                for number, data in enumerate(tqdm(sources, f"{decoder[:12]} {kind}", leave=False)):
                    (root / "whole.jpg").write_bytes(data)
                    whole = read(root / "whole.jpg")
                    for listed, found in count.items():
                        found[outcome(read, root / kind / listed / f"{number}.jpg", whole)] += 1
                plain, with_list = count["plain"], count["listed"]
                row = [decoder, kind, plain["told"], plain["silent"], plain["harmless"], with_list["told"]]
                print("| " + " | ".join(map(str, row)) + " |", flush=True)
        paths = sorted((root / DAMAGES[0] / "listed").iterdir())[: options.count]
        for number, data in enumerate(sources):
            (root / DAMAGES[0] / "listed" / f"{number}.jpg").write_bytes(data)
            (root / DAMAGES[0] / "plain" / f"{number}.jpg").write_bytes(data)
        seconds = dict.fromkeys(("plain", "listed"), 0.0)
        for _ in range(3):
            for listed in seconds:
                start = time.process_time()
                for path in paths:
                    if path.suffix == ".jpg":
                        decode(root / DAMAGES[0] / listed / path.name)
                seconds[listed] += time.process_time() - start
    print(f"\ndecoding with the comparison / without, processor time: {seconds['listed'] / seconds['plain']:.3f}")


if __name__ == "__main__":
    main()
