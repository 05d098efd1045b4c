import base64
import io
import os
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageOps

from data import food_images
from data.errors import InputError
from data.food_images import ByteCache, data_uri, encode_jpeg, load_image


def drawing(width: int, height: int) -> Image.Image:
    """A picture without symmetry: red grows to the right, green downwards."""
    y, x = np.mgrid[:height, :width]
    return Image.fromarray(np.stack([255 * x // width, 255 * y // height, 0 * x], -1).astype(np.uint8))


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["jpeg", "png", "webp"])
def test_photos_come_upright(tmp_path: Path, orientation: int, kind: str) -> None:
    image = drawing(96, 60)
    exif = Image.Exif()
    exif[0x0112] = orientation
    image.save(tmp_path / f"a.{kind}", exif=exif, **({"quality": 95} if kind != "png" else {}))
    wanted = ImageOps.exif_transpose(Image.open(tmp_path / f"a.{kind}")).convert("RGB")
    found = load_image(tmp_path / f"a.{kind}", 1024)
    assert found.mode == "RGB" and found.size == wanted.size
    assert np.array_equal(np.asarray(found), np.asarray(wanted))
    small = load_image(tmp_path / f"a.{kind}", 24)
    assert small.size == ((24, 15) if orientation < 5 else (15, 24))
    reference = wanted.resize(small.size, Image.Resampling.BICUBIC)
    assert np.abs(np.asarray(small, int) - np.asarray(reference, int)).max() < 12


def test_large_jpegs_are_decoded_small_but_alike(tmp_path: Path) -> None:
    drawing(3000, 2000).save(tmp_path / "a.jpg", quality=95)
    found = load_image(tmp_path / "a.jpg", 300)
    assert found.size == (300, 200)
    with Image.open(tmp_path / "a.jpg") as picture:
        reference = picture.convert("RGB").resize((300, 200), Image.Resampling.BICUBIC)
    assert np.abs(np.asarray(found, int) - np.asarray(reference, int)).mean() < 1


@pytest.mark.parametrize("mode", ["L", "P", "RGBA", "CMYK", "1", "LA"])
def test_every_mode_becomes_rgb(tmp_path: Path, mode: str) -> None:
    path = tmp_path / ("a.jpg" if mode == "CMYK" else "a.png")
    drawing(70, 20).convert(mode).save(path)
    found = load_image(path, 35)
    assert found.mode == "RGB" and found.size == (35, 10)
    assert np.asarray(found).std() > 20


def test_metadata_is_left_behind(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x010E] = "where and who"
    drawing(80, 80).save(tmp_path / "a.jpg", exif=exif)
    assert b"where and who" in (tmp_path / "a.jpg").read_bytes()
    assert b"where and who" not in encode_jpeg(load_image(tmp_path / "a.jpg"))


def test_addresses_hold_the_picture(tmp_path: Path) -> None:
    tile = drawing(28, 28)
    tile.save(tmp_path / "tile.png")
    kind, _, data = data_uri(tmp_path / "tile.png").partition(";base64,")
    assert kind == "data:image/png"
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(base64.b64decode(data)))), np.asarray(tile))
    drawing(400, 300).save(tmp_path / "photo.png")
    kind, _, data = data_uri(tmp_path / "photo.png", 200, 90).partition(";base64,")
    assert kind == "data:image/jpeg"
    assert Image.open(io.BytesIO(base64.b64decode(data))).size == (200, 150)
    assert len(data_uri(tmp_path / "photo.png", 200, 30)) < len(data_uri(tmp_path / "photo.png", 200, 90))


def test_a_photo_is_decoded_once_until_its_file_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = []
    decode = food_images._decode
    monkeypatch.setattr(food_images, "_decode", lambda *given: decoded.append(given) or decode(*given))
    drawing(90, 90).save(tmp_path / "a.png")
    assert load_image(tmp_path / "a.png", 50) is load_image(tmp_path / "a.png", 50)
    assert data_uri(tmp_path / "a.png", 50) == data_uri(tmp_path / "a.png", 50)
    assert len(decoded) == 2
    assert load_image(tmp_path / "a.png", 40).size == (40, 40) and len(decoded) == 3
    drawing(60, 30).save(tmp_path / "a.png")
    os.utime(tmp_path / "a.png", ns=(1, 1))
    assert load_image(tmp_path / "a.png", 50).size == (50, 25) and len(decoded) == 4


def test_the_cache_keeps_what_was_used_last_within_its_bytes() -> None:
    cache, made = ByteCache(10), []

    def get(key: str, size: int) -> None:
        cache.get(key, lambda: (made.append(key), size))

    for key in "abca":  # 4 + 4, then c drops a
        get(key, 4)
        assert cache.used <= 10
    assert made == ["a", "b", "c", "a"]
    get("c", 4)
    assert made == ["a", "b", "c", "a"]
    get("large", 11)
    get("c", 4)
    assert made[-1] == "large" and cache.used == 8
    cache.clear()
    get("c", 4)
    assert made[-1] == "c" and cache.used == 4


def png_header(width: int, height: int) -> bytes:
    """A PNG that ends where its pixels would begin."""
    file = b"\x89PNG\r\n\x1a\n"
    for kind, body in ((b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)), (b"IDAT", b"x")):
        file += struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    return file


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b"", "is empty", id="empty"),
        pytest.param(b"no picture at all", "no picture of a known kind", id="text"),
        pytest.param(png_header(60_000, 60_000), "more than 50 million pixels", id="bomb"),
        pytest.param(png_header(8_000, 7_000), "more than 50 million pixels", id="large"),
        pytest.param("half", "is damaged", id="truncated"),
        pytest.param(None, "cannot be read", id="absent"),
    ],
)
def test_bad_files_are_named_in_one_line(tmp_path: Path, content: bytes | str | None, message: str) -> None:
    path = tmp_path / "bad.jpg"
    if content == "half":
        drawing(300, 300).save(path)
        path.write_bytes(path.read_bytes()[:-1500])
    elif isinstance(content, bytes):
        path.write_bytes(content)
    for read in (load_image, data_uri):
        with pytest.raises(InputError, match=message) as caught:
            read(path)
        assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_folders_and_settings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is no file"):
        load_image(tmp_path)
    drawing(8, 8).save(tmp_path / "a.png")
    with pytest.raises(InputError, match="must be 1 pixel or more"):
        load_image(tmp_path / "a.png", 0)
    with pytest.raises(InputError, match="from 1 to 100"):
        data_uri(tmp_path / "a.png", quality=0)


@pytest.mark.filterwarnings("ignore:Corrupt EXIF")
def test_damaged_exif_does_not_lose_the_photo(tmp_path: Path) -> None:
    drawing(40, 20).save(tmp_path / "a.jpg", exif=b"Exif\x00\x00MM\x00*\xff\xff\xff\xff" + bytes(20))
    assert load_image(tmp_path / "a.jpg").size == (40, 20)
