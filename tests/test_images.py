import json
import os
import pickle
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from data.errors import InputError
from data.images import (
    EfficientNetLite0,
    ReleasedFeatures,
    ResNet50,
    decode,
    image_vectors,
    resize_and_crop,
)
from data.records import PLACEHOLDER


def pixels(width=60, height=40, seed=0):
    draw = np.random.default_rng(seed)
    coarse = Image.fromarray(draw.integers(0, 255, (5, 7, 3), np.uint8))
    return coarse.resize((width, height), Image.Resampling.BICUBIC)


def save(path, picture, **more):
    picture.save(path, **more)
    return path


# ---- decoding --------------------------------------------------------------------------------------------------------


MODES = {"jpg": "RGB L CMYK", "png": "RGB L P RGBA 1", "webp": "RGB RGBA", "gif": "P L", "bmp": "RGB L P"}


@pytest.mark.parametrize("decoder", ["torchvision", "pil"])
@pytest.mark.parametrize("kind,mode", [(kind, mode) for kind, modes in MODES.items() for mode in modes.split()])
def test_every_mode_becomes_rgb(tmp_path, decoder, kind, mode):
    path = save(tmp_path / f"a.{kind}", pixels().convert(mode))
    got = decode(path, decoder)
    with Image.open(path) as picture:
        want = np.array(picture.convert("RGB"))
    assert got.dtype == torch.uint8 and got.shape == (3, 40, 60)
    assert np.abs(got.permute(1, 2, 0).numpy().astype(int) - want).max() <= 1


@pytest.mark.parametrize("decoder", ["torchvision", "pil"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation(tmp_path, decoder, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = save(tmp_path / "a.jpg", pixels(), exif=exif, quality=95)
    upright = save(tmp_path / "b.jpg", pixels(), quality=95)
    turns = {2: [Image.Transpose.FLIP_LEFT_RIGHT], 3: [Image.Transpose.ROTATE_180],
             4: [Image.Transpose.FLIP_TOP_BOTTOM], 5: [Image.Transpose.TRANSPOSE], 6: [Image.Transpose.ROTATE_270],
             7: [Image.Transpose.TRANSVERSE], 8: [Image.Transpose.ROTATE_90]}.get(orientation, [])  # fmt: skip
    with Image.open(upright) as picture:
        for turn in turns:
            picture = picture.transpose(turn)
        want = np.array(picture)
    got = decode(path, decoder).permute(1, 2, 0).numpy()
    assert got.shape == want.shape and np.abs(got.astype(int) - want).max() <= 2


def png_of(width, height):
    """A PNG that states a size and holds next to nothing."""

    def part(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", head) + part(b"IDAT", zlib.compress(b"\0")) + part(b"IEND", b"")


@pytest.mark.parametrize("decoder", ["torchvision", "pil"])
@pytest.mark.parametrize("size", [(8000, 8000), (13_500, 13_500), (60_000, 60_000), (50_000_001, 1)])
def test_too_many_pixels_are_refused_by_the_header(tmp_path, decoder, size, recwarn):
    (tmp_path / "bomb.png").write_bytes(png_of(*size))
    with pytest.raises(InputError, match=r"bomb\.png: the picture has more than 50 million pixels"):
        decode(tmp_path / "bomb.png", decoder)
    assert not recwarn.list


def test_limit_is_inclusive(tmp_path):
    path = save(tmp_path / "a.png", pixels(60, 40))
    decode(path, max_pixels=2400)
    with pytest.raises(InputError, match="pixels"):
        decode(path, max_pixels=2399)


@pytest.mark.parametrize("decoder", ["torchvision", "pil"])
@pytest.mark.parametrize("kind", ["jpg", "png", "webp", "gif"])
@pytest.mark.parametrize("keep", [0.3, 0.6, 0.9])
def test_truncated(tmp_path, decoder, kind, keep):
    path = save(tmp_path / f"a.{kind}", pixels(200, 160))
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * keep)])
    with pytest.raises(InputError, match=f"a.{kind}: ") as error:
        decode(path, decoder)
    assert "\n" not in str(error.value) and "replace the file" in str(error.value)


@pytest.mark.parametrize("decoder", ["torchvision", "pil"])
def test_no_picture(tmp_path, decoder):
    (tmp_path / "empty.jpg").write_bytes(b"")
    (tmp_path / "page.jpg").write_text("<html>404</html>")
    (tmp_path / "cut.jpg").write_bytes(b"\xff\xd8\xff")
    (tmp_path / "folder.jpg").mkdir()
    for name in ("empty.jpg", "page.jpg", "cut.jpg", "folder.jpg", "absent.jpg"):
        with pytest.raises(InputError, match=name) as error:
            decode(tmp_path / name, decoder)
        assert "\n" not in str(error.value)
    with pytest.raises(InputError, match="decoder"):
        decode(tmp_path / "empty.jpg", "cv2")


@pytest.mark.parametrize("width,height", [(300, 300), (400, 261), (97, 301), (1000, 50)])
def test_transform(width, height):
    picture = pixels(width, height)
    got = resize_and_crop(torch.from_numpy(np.array(picture)).permute(2, 0, 1))
    assert got.shape == (3, 224, 224)
    scale = 256 / min(width, height)
    size = (256, int(256 * height / width)) if width < height else (int(256 * width / height), 256)
    assert abs(size[0] - width * scale) < 1.5
    want = np.array(picture.resize(size, Image.Resampling.BILINEAR), int)
    top, left = round((size[1] - 224) / 2), round((size[0] - 224) / 2)
    want = want[top : top + 224, left : left + 224]
    assert np.abs(got.permute(1, 2, 0).numpy() - want).mean() < 1.5


# ---- networks --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lite0():
    return EfficientNetLite0(device="cpu")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("pictures")
    for i in range(7):
        save(root / f"{i}.png", pixels(50 + 13 * i, 61 - 3 * i, seed=i))
    return root


def test_lite0_is_the_published_network(lite0, folder):
    paths = [folder / f"{i}.png" for i in range(7)]
    got = lite0.extract(paths)
    network = lite0.classifier()
    with torch.inference_mode():
        x = torch.stack([resize_and_crop(decode(path)) for path in paths]).float() / 127 - 1
        want = network.extract_features(x).mean((2, 3)).numpy()
    assert got.shape == (7, 1280) and got.dtype == np.float32
    np.testing.assert_allclose(got, want, atol=1e-4)


def test_vectors_do_not_depend_on_their_batch(lite0, folder):
    paths = [folder / f"{i}.png" for i in range(7)]
    got = lite0.extract(paths, 3)
    for i in (0, 3, 6):
        np.testing.assert_array_equal(lite0.extract([paths[i]], 3)[0], got[i])
    np.testing.assert_array_equal(lite0.extract(paths[::-1], 3)[::-1], got)
    assert lite0.extract([]).shape == (0, 1280)


def test_lite0_recognises_food(lite0, shared):
    from torchvision.models._meta import _IMAGENET_CATEGORIES as names

    photos = shared / "data/recipeqa/images_prn_site"
    for photo, wanted in (("how-to-make-banana-golden-pillow_3_0.jpg", "banana"),
                          ("key-lime-buttered-green-beans_4_1.jpg", "meat loaf")):  # fmt: skip
        x = resize_and_crop(decode(photos / photo)).float()[None] / 127 - 1
        with torch.inference_mode():
            assert names[int(lite0.classifier()(x).argmax())] == wanted


@pytest.mark.parametrize("crop", [96, 160])
def test_smaller_crop(folder, crop):
    extractor = EfficientNetLite0(weights="random", resize=crop, crop=crop, device="cpu")
    assert np.isfinite(extractor.extract([folder / "1.png"])).all()
    with pytest.raises(InputError, match="multiples of 32"):
        EfficientNetLite0(crop=100)


def test_resnet50_pool5(folder, tmp_path):
    from torchvision.models import resnet50

    extractor = ResNet50(weights="random", device="cpu")
    got = extractor.extract([folder / "1.png", folder / "2.png"])
    torch.manual_seed(0)
    network = resnet50(weights=None)
    torch.save(network.state_dict(), tmp_path / "weights.pth")
    x = torch.stack([resize_and_crop(decode(folder / f"{i}.png")) for i in (1, 2)]).float() / 255
    x = (x - torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)) / torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)
    network.fc = torch.nn.Identity()
    with torch.inference_mode():
        want = network.eval()(x).numpy()
    assert got.shape == (2, 2048)
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4)
    local = ResNet50(weights=str(tmp_path / "weights.pth"), device="cpu")
    np.testing.assert_array_equal(local.extract([folder / "1.png", folder / "2.png"]), got)
    assert local.settings() != extractor.settings()


def test_missing_download_names_the_offline_option(monkeypatch):
    from torchvision.models import ResNet50_Weights

    def offline(*_, **__):
        raise OSError("no route to host")

    monkeypatch.setattr(ResNet50_Weights, "get_state_dict", offline)
    with pytest.raises(InputError, match="features=efficientnet_lite0"):
        ResNet50().extract([])
    assert ResNet50(device="cpu").settings()["weights"] == "resnet50-0676ba61.pth"


class Gadget:
    def __reduce__(self):
        return os.system, ("echo pwned > pwned",)


def test_wrong_weight_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save(Gadget(), tmp_path / "gadget.pth")
    torch.save([1, 2], tmp_path / "list.pth")
    torch.save({"conv1.weight": torch.zeros(3)}, tmp_path / "other.pth")
    (tmp_path / "empty.pth").write_bytes(b"")
    for name in ("gadget.pth", "list.pth", "other.pth", "empty.pth", "absent.pth"):
        for network in (ResNet50, EfficientNetLite0):
            with pytest.raises(InputError, match=name) as error:
                network(weights=str(tmp_path / name), device="cpu").extract([])
            assert "\n" not in str(error.value)
    assert not (tmp_path / "pwned").exists()


def test_settings_name_what_the_vectors_depend_on(lite0):
    settings = [lite0.settings()]
    for more in ({"decoder": "pil"}, {"resize": 240}, {"crop": 192}, {"weights": "random"}):
        settings.append(EfficientNetLite0(device="cpu", **more).settings())
    settings.append(ResNet50("random", device="cpu").settings())
    assert len({json.dumps(each, sort_keys=True) for each in settings}) == 6
    assert lite0.settings() == EfficientNetLite0(device="cpu", threads=1).settings()


# ---- released features -----------------------------------------------------------------------------------------------

FEATURES = {"a_1_0.jpg": [float(i) for i in range(6)], "b_0_2.jpg": [0.5] * 6}


def feature_file(tmp_path, kind):
    path = tmp_path / f"features.{kind}"
    if kind == "json":
        path.write_text(json.dumps({name: [[values]] for name, values in FEATURES.items()}))
    else:
        table = {name: np.array(values, "f4") for name, values in FEATURES.items()} if "numpy" in kind else FEATURES
        path.write_bytes(pickle.dumps(table, protocol=int(kind[-1])))
    return path


KINDS = ["json"] + [f"{kind}{protocol}" for kind in ("floats", "numpy") for protocol in range(6)]


@pytest.mark.parametrize("kind", KINDS)
def test_released_features(tmp_path, kind):
    extractor = ReleasedFeatures(feature_file(tmp_path, kind), size=6)
    got = extractor.extract([Path("b_0_2.jpg"), Path("somewhere/a_1_0.jpg")])
    np.testing.assert_array_equal(got, [FEATURES["b_0_2.jpg"], FEATURES["a_1_0.jpg"]])
    with pytest.raises(InputError, match=r"z\.jpg.*another set"):
        extractor.extract([Path("z.jpg")])


def test_released_features_of_numpy_1(tmp_path):
    data = pickle.dumps({"a": np.arange(6.0)}, protocol=2).replace(b"numpy._core", b"numpy.core")
    (tmp_path / "old.pkl").write_bytes(data)
    assert ReleasedFeatures(tmp_path / "old.pkl", 6).extract([Path("a")]).shape == (1, 6)


@pytest.mark.parametrize(
    "value", [[1.0] * 5, [[1.0] * 6] * 2, "text", None, [float("nan")] * 6, [float("inf")] * 6, [[1], [1, 2]]]
)
def test_wrong_features(tmp_path, value):
    (tmp_path / "f.pkl").write_bytes(pickle.dumps({"a.jpg": value}))
    with pytest.raises(InputError, match=r"f\.pkl: the features of a\.jpg"):
        ReleasedFeatures(tmp_path / "f.pkl", 6).extract([Path("a.jpg")])


def payloads():
    yield pickle.dumps({"a": Gadget()})
    for line in (b"cos\nsystem\n", b"cbuiltins\neval\n", b"cbuiltins\nexec\n", b"csubprocess\nPopen\n",
                 b"cposix\nsystem\n", b"cnumpy\nload\n", b"cnumpy.core.multiarray\nfromfile\n", b"ccodecs\nopen\n",
                 b"cbuiltins\ngetattr\n", b"coperator\nattrgetter\n", b"ctorch\nload\n", b"cnumpy\nf2py.os.system\n",
                 b"cnumpy.testing._private.utils\nrunstring\n", b"c_codecs\nencode.__self__\n"):  # fmt: skip
        yield line + b"(S'touch pwned'\ntR."
        yield (
            b"\x80\x04"
            + b"\x8c"
            + bytes([len(line.split(b"\n")[0]) - 1])
            + line.split(b"\n")[0][1:]
            + b"\x8c"
            + bytes([len(line.split(b"\n")[1])])
            + line.split(b"\n")[1]
            + b"\x93\x8c\x0btouch pwned\x85R."
        )


@pytest.mark.parametrize("payload", list(payloads()))
def test_hostile_pickles_are_refused(tmp_path, monkeypatch, payload):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f.pkl").write_bytes(payload)
    with pytest.raises(InputError, match=r"f\.pkl: is no plain feature file") as error:
        ReleasedFeatures("f.pkl").extract([Path("a")])
    assert "\n" not in str(error.value)
    assert os.listdir(tmp_path) == ["f.pkl"]


@pytest.mark.parametrize("data", [b"", b"{", b"{}", b"[1]", b"noise", pickle.dumps([1]), pickle.dumps(FEATURES)[:-9]])
def test_damaged_feature_files(tmp_path, data):
    (tmp_path / "f").write_bytes(data)
    with pytest.raises(InputError, match=r"/f: "):
        ReleasedFeatures(tmp_path / "f").extract([Path("a")])
    with pytest.raises(InputError, match="absent"):
        ReleasedFeatures(tmp_path / "g").settings()


# ---- names to vectors ------------------------------------------------------------------------------------------------


class Mean:
    """An extractor whose vectors are easily told: mean colour, and how often it was asked."""

    size, reads_files = 3, True

    def __init__(self):
        self.asked = []

    def settings(self):
        return {"extractor": "mean"}

    def extract(self, paths, batch_size=None):
        self.asked += [path.name for path in paths]
        return np.stack([decode(path).float().mean((1, 2)).numpy() for path in paths])


def test_image_vectors(folder, tmp_path):
    names = [f"{i}.png" for i in range(7)]
    mean = Mean()
    vectors = image_vectors(mean, [*names, "3.png", PLACEHOLDER], folder.joinpath, tmp_path)
    assert sorted(mean.asked) == names and vectors.bad == []
    want = np.stack([decode(folder / name).float().mean((1, 2)).numpy() for name in names])
    np.testing.assert_array_equal(vectors.vectors(names), want)
    assert not vectors.vectors([PLACEHOLDER]).any() and vectors.rows([PLACEHOLDER, "0.png"])[0] == -1
    with pytest.raises(InputError, match="another set"):
        vectors.rows(["8.png"])
    mean = Mean()
    image_vectors(mean, names[:5], folder.joinpath, tmp_path)
    assert mean.asked == []


def test_replaced_picture_is_seen(tmp_path):
    save(tmp_path / "a.png", pixels(seed=1))
    save(tmp_path / "b.png", pixels(seed=2))
    before = image_vectors(Mean(), ["a.png", "b.png"], tmp_path.joinpath, tmp_path / "cache").vectors(
        ["a.png", "b.png"]
    )
    status = (tmp_path / "a.png").stat()
    save(tmp_path / "a.png", pixels(seed=3))
    os.utime(tmp_path / "a.png", ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    mean = Mean()
    after = image_vectors(mean, ["a.png", "b.png"], tmp_path.joinpath, tmp_path / "cache").vectors(["a.png", "b.png"])
    assert mean.asked == ["a.png"]
    assert not np.array_equal(before[0], after[0]) and np.array_equal(before[1], after[1])


def test_bad_pictures_stop_or_are_listed(tmp_path):
    for i in range(5):
        save(tmp_path / f"{i}.png", pixels(seed=i))
    (tmp_path / "cut.png").write_bytes((tmp_path / "0.png").read_bytes()[:200])
    names = ["0.png", "cut.png", "absent.png", "3.png"]
    for _ in range(2):
        with pytest.raises(InputError, match=r"absent\.png"):
            image_vectors(Mean(), names, tmp_path.joinpath, tmp_path / "cache")
        skipped = image_vectors(Mean(), names, tmp_path.joinpath, tmp_path / "cache", on_bad="skip")
        assert [name for name, _ in skipped.bad] == ["absent.png", "cut.png"]
        assert all("png: " in reason for _, reason in skipped.bad)
        assert skipped.vectors(names).any(1).tolist() == [True, False, False, True]
        assert skipped.rows(["cut.png", "absent.png"]).tolist() == [-1, -1]
        # What was skipped once is not forgotten later.
        with pytest.raises(InputError, match=r"cut\.png"):
            image_vectors(Mean(), names[:2], tmp_path.joinpath, tmp_path / "cache")
    with pytest.raises(InputError, match="on_bad"):
        image_vectors(Mean(), names, tmp_path.joinpath, tmp_path / "cache", on_bad="ignore")


def test_released_features_need_no_pictures(tmp_path):
    extractor = ReleasedFeatures(feature_file(tmp_path, "numpy2"), size=6)
    vectors = image_vectors(extractor, list(FEATURES), lambda name: pytest.fail("looked for"), tmp_path / "cache")
    np.testing.assert_array_equal(vectors.vectors(list(FEATURES)), list(FEATURES.values()))
    skipped = image_vectors(extractor, ["a_1_0.jpg", "z.jpg"], Path, tmp_path / "cache", on_bad="skip")
    assert [name for name, _ in skipped.bad] == ["z.jpg"]


def test_scores_do_not_know_names(folder, tmp_path):
    """Renaming all pictures permutes rows and changes no vector."""
    for i in range(7):
        (tmp_path / f"x_{6 - i}_0.png").write_bytes((folder / f"{i}.png").read_bytes())
    first = image_vectors(Mean(), [f"{i}.png" for i in range(7)], folder.joinpath, tmp_path / "c")
    second = image_vectors(Mean(), [f"x_{i}_0.png" for i in range(7)], tmp_path.joinpath, tmp_path / "c")
    want = first.vectors([f"{i}.png" for i in range(7)])
    np.testing.assert_array_equal(second.vectors([f"x_{6 - i}_0.png" for i in range(7)]), want)


def test_a_feature_file_is_hashed_once_and_again_when_replaced(tmp_path, monkeypatch):
    hashed = []
    monkeypatch.setattr("data.images.file_digest", lambda path: hashed.append(path) or str(len(hashed)))
    path = feature_file(tmp_path, "numpy2")
    extractor = ReleasedFeatures(path, size=6)
    assert extractor.settings() == extractor.settings() and len(hashed) == 1
    path.write_bytes(path.read_bytes() + b"more")
    assert extractor.settings()["file"] == "2"
