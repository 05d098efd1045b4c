"""Photos as pixels: Pillow's own result on the reference path, near it on the fast one; odd and hostile files."""

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps

from data.errors import InputError
from data.photos import load_pixels, photo_batch

SIZES = [
    (300, 400),
    (400, 300),
    (256, 256),
    (257, 255),
    (100, 60),
    (1, 1),
    (640, 481),
    (224, 900),
    (37, 300),
    (900, 30),
]


def smooth(height: int, width: int, seed: int = 0) -> Image.Image:
    """A photo-like picture: a few random colours blown up."""
    small = np.random.default_rng(seed).integers(0, 256, (5, 6, 3), np.uint8)
    return Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)


def saved(path: Path, picture: Image.Image, **options) -> Path:
    picture.save(path, **({"quality": 95} if path.suffix == ".jpg" else {}), **options)
    return path


def by_pillow(path: Path, size: int = 224, resize: int = 256) -> np.ndarray:
    """Decode, resize, crop with Pillow alone."""
    with Image.open(path) as file:
        picture = ImageOps.exif_transpose(file).convert("RGB")
    w, h = picture.size
    if max(w, h) > 4 * min(w, h):
        long = 4 * min(w, h)
        left, top = round((w - min(w, long)) / 2), round((h - min(h, long)) / 2)
        picture = picture.crop((left, top, left + min(w, long), top + min(h, long)))
        w, h = picture.size
    w, h = (resize, int(resize * h / w)) if w < h else (int(resize * w / h), resize)
    picture = picture.resize((w, h), Image.Resampling.BILINEAR)
    left, top = round((w - size) / 2), round((h - size) / 2)
    return np.asarray(picture.crop((left, top, left + size, top + size)))


@pytest.mark.parametrize(("height", "width"), SIZES)
@pytest.mark.parametrize("kind", ["jpg", "png"])
def test_evaluation_equals_pillow(tmp_path, height, width, kind):
    path = saved(tmp_path / f"a.{kind}", smooth(height, width))
    wanted = by_pillow(path)
    exact = load_pixels(path, decoder="pil")
    assert exact.shape == (3, 224, 224) and exact.dtype == torch.uint8
    assert np.array_equal(exact.permute(1, 2, 0).numpy(), wanted)
    fast = load_pixels(path).permute(1, 2, 0).numpy().astype(int)
    assert fast.shape == wanted.shape and np.abs(fast - wanted).max() <= 2
    assert load_pixels(path, size=64, resize=80).shape == (3, 64, 64)


@pytest.mark.parametrize("decoder", ["torchvision", "pil"])
def test_training_crops_lie_in_the_middle_square_and_depend_on_the_seed_alone(tmp_path, decoder):
    # Of the short side 256 nothing is resampled, so each pixel can tell its row, its column and the picture's middle.
    rows, columns = np.meshgrid(np.arange(256), np.arange(420) - 82, indexing="ij")
    values = np.stack([rows, columns % 256, (columns >= 0) & (columns < 256)], axis=2).astype(np.uint8)
    path = saved(tmp_path / "a.png", Image.fromarray(values))
    square = load_pixels(path, size=256, resize=256, decoder=decoder)
    assert np.array_equal(square.permute(1, 2, 0).numpy(), values[:, 82:338])
    places = []
    for seed in range(120):
        pixels = load_pixels(path, train=True, seed=(7, 3, seed), decoder=decoder)
        assert torch.equal(pixels, load_pixels(path, train=True, seed=[7, 3, seed], decoder=decoder))
        top, left, right = int(pixels[0, 0, 0]), int(pixels[1, 0, 0]), int(pixels[1, 0, -1])
        flip = left > right
        left = min(left, right)
        crop = square[:, top : top + 224, left : left + 224]
        assert torch.equal(crop.flip(2) if flip else crop, pixels) and pixels.shape == (3, 224, 224)
        places.append((top, left, flip))
    tops, lefts, flips = map(np.array, zip(*places, strict=True))
    assert 35 <= flips.sum() <= 85 and tops.min() <= 2 and tops.max() >= 30 and lefts.min() <= 2 and lefts.max() >= 30
    assert abs(np.corrcoef(tops, lefts)[0, 1]) < 0.3


def test_one_number_is_a_seed_too(tmp_path):
    path = saved(tmp_path / "a.png", smooth(300, 420))
    one, two = (load_pixels(path, train=True, seed=seed) for seed in (5, 2**63 - 1))
    assert torch.equal(one, load_pixels(path, train=True, seed=5)) and not torch.equal(one, two)
    torch.manual_seed(1)
    np.random.seed(1)
    assert torch.equal(one, load_pixels(path, train=True, seed=5))  # no global state


def test_a_batch_is_its_photos(tmp_path):
    paths = [saved(tmp_path / f"{i}.jpg", smooth(*size, seed=i)) for i, size in enumerate(SIZES[:4])]
    batch = photo_batch(paths)
    assert batch.shape == (4, 3, 224, 224) and batch.dtype == torch.uint8
    assert batch.is_contiguous(memory_format=torch.channels_last)
    assert all(torch.equal(pixels, load_pixels(path)) for pixels, path in zip(batch, paths, strict=True))
    train = photo_batch(paths, train=True, seeds=[4, 5, 6, 7])
    assert torch.equal(train[2], load_pixels(paths[2], train=True, seed=6))
    assert torch.equal(photo_batch(paths[::-1], train=True, seeds=[7, 6, 5, 4]).flip(0), train)
    assert photo_batch([]).shape == (0, 3, 224, 224)
    with pytest.raises(ValueError, match="one seed for each photo"):
        photo_batch(paths, train=True)


@pytest.mark.parametrize("decoder", ["torchvision", "pil"])
@pytest.mark.parametrize("mode", ["L", "CMYK", "P", "RGBA", "LA", "1"])
def test_other_modes(tmp_path, decoder, mode):
    kind = "jpg" if mode in ("L", "CMYK") else "png"
    path = saved(tmp_path / f"a.{kind}", smooth(280, 300).convert(mode))
    pixels = load_pixels(path, decoder=decoder).permute(1, 2, 0).numpy().astype(int)
    assert np.abs(pixels - by_pillow(path)).max() <= 2
    if mode in ("L", "1"):
        assert (pixels[..., 0] == pixels[..., 2]).all()


@pytest.mark.parametrize("decoder", ["torchvision", "pil"])
def test_sixteen_bits_and_animations(tmp_path, decoder):
    values = np.linspace(0, 65535, 256 * 256).reshape(256, 256).astype(np.uint16)
    Image.fromarray(values).save(tmp_path / "deep.png")
    pixels = load_pixels(tmp_path / "deep.png", decoder=decoder)
    assert pixels.shape == (3, 224, 224) and torch.equal(pixels[0], pixels[2])
    frames = [Image.new("RGB", (300, 300), colour) for colour in ("red", "blue")]
    for name in ("a.gif", "a.webp"):
        frames[0].save(tmp_path / name, save_all=True, append_images=frames[1:])
        red, _, blue = load_pixels(tmp_path / name, decoder=decoder).float().mean((1, 2)).tolist()
        assert red > 240 and blue < 15  # the first frame


@pytest.mark.parametrize("decoder", ["torchvision", "pil"])
def test_a_rotated_photo_is_upright(tmp_path, decoder):
    turned = smooth(300, 400).transpose(Image.Transpose.ROTATE_90)
    exif = Image.Exif()
    exif[0x0112] = 6
    path = saved(tmp_path / "a.jpg", turned, exif=exif)
    got = load_pixels(path, decoder=decoder).permute(1, 2, 0).numpy().astype(int)
    assert np.abs(got - by_pillow(path)).max() <= 2


def bomb(width: int, height: int) -> bytes:
    """A PNG header that promises more than the file holds."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 100))


@pytest.mark.parametrize("decoder", ["torchvision", "pil"])
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("absent", "cannot be read"),
        ("empty", "is empty"),
        ("text", "no picture of a known kind"),
        ("truncated", "damaged"),
        ("bomb", "million pixels"),
        ("promise", "damaged"),
    ],
)
def test_bad_files_are_named_and_nothing_stands_in(tmp_path, decoder, name, message):
    path = tmp_path / "photo.jpg"
    good = saved(tmp_path / "good.jpg", smooth(300, 300)).read_bytes()
    contents = {
        "empty": b"",
        "text": b"<html>404</html>",
        "truncated": good[: len(good) // 2],
        "bomb": bomb(20_000, 20_000),
        "promise": bomb(500, 500),
    }
    if name in contents:
        path.write_bytes(contents[name])
    for train in (False, True):
        with pytest.raises(InputError, match=message) as error:
            load_pixels(path, train=train, decoder=decoder)
        assert str(path) in str(error.value) and "\n" not in str(error.value)
    with pytest.raises(InputError, match=message):
        photo_batch([tmp_path / "good.jpg", path], decoder=decoder)


def test_a_strip_does_not_grow(tmp_path):
    path = saved(tmp_path / "strip.png", smooth(2, 9000))  # by the rule alone 256 by 1,152,000
    assert load_pixels(path).shape == (3, 224, 224)
    assert load_pixels(path, train=True, seed=1).shape == (3, 224, 224)


def test_wrong_settings(tmp_path):
    path = saved(tmp_path / "a.jpg", smooth(300, 300))
    for settings in ({"size": 300}, {"size": 0}, {"decoder": "opencv"}):
        with pytest.raises(InputError):
            load_pixels(path, **settings)


def test_real_photos(shared: Path):
    paths = sorted((shared / "data/recipe1m/basedcooking/images").rglob("*.jpg"))[:6]
    for path in paths:
        wanted = by_pillow(path)
        assert np.array_equal(load_pixels(path, decoder="pil").permute(1, 2, 0).numpy(), wanted)
        assert np.abs(load_pixels(path).permute(1, 2, 0).numpy().astype(int) - wanted).mean() < 1


@pytest.mark.parametrize("width", [255, 256, 257, 259, 300, 341, 383, 384, 512, 700])
def test_a_part_is_resized_like_the_whole(tmp_path, width):
    """Only the pixels of the crop are computed; its grid must not move against that of the whole picture."""
    for height in (255, 300, 512):
        path = saved(tmp_path / f"{height}.png", smooth(height, width, seed=height))
        for seed in range(8):
            one, other = (load_pixels(path, True, seed, decoder=decoder) for decoder in ("torchvision", "pil"))
            assert (one.int() - other.int()).abs().max() <= 2
